//! Combiners as text.

use std::fmt;

use crate::bytes::Reader;
use crate::combiner::{DATA_START, SLOTS, SlotHead, decode_header, pieces, slot_range};
use crate::dump::{Dumped, Lines, Shown};

/// Writes a combiner: its header field by field, and for each slot that holds something a line, and
/// one for each of its pieces.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    dump_header(bytes, lines)?;
    for range in (0..SLOTS).map(slot_range) {
        let start = range.start;
        let Some(slot) = bytes.get(range) else { continue };
        let Some(head) = SlotHead::read(slot) else { continue };
        lines.line(start, slot.len(), "slot", format_args!("of {}, salt {:016x}", head.name, head.salt))?;
        for (piece, found) in pieces(slot, &head) {
            let at = start + DATA_START + piece.at as usize;
            lines.line(
                at,
                found.len(),
                "piece",
                format_args!("to offset {}: {}", piece.offset, Shown(found)),
            )?;
        }
    }
    Ok(decode_header(bytes).err())
}

/// Writes the header's fields as they stand, right or wrong.
fn dump_header(bytes: &[u8], lines: &mut Lines<'_>) -> fmt::Result {
    let Some(header) = bytes.get(..32) else { return Ok(()) };
    let mut fields = Reader::new(header, 0);
    let mut next = || fields.u64().unwrap_or_default();
    let (magic, version_slots, slot_bytes, checksum) = (next(), next(), next(), next());
    lines.line(0, 8, "magic", format_args!("{}", Shown(&magic.to_le_bytes())))?;
    lines.line(8, 4, "version", format_args!("{}", version_slots as u32))?;
    lines.line(12, 4, "slots", format_args!("{}", version_slots >> 32))?;
    lines.line(16, 4, "slot bytes", format_args!("{}", slot_bytes as u32))?;
    lines.line(20, 4, "reserved", format_args!("{}", slot_bytes >> 32))?;
    lines.line(24, 8, "checksum", format_args!("{checksum:016x}"))
}
