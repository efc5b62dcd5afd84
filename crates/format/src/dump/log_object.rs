//! Log objects as text.

use std::fmt;

use crate::bytes::Reader;
use crate::dump::{Dumped, Lines, Shown};
use crate::log_object::{LOG_OBJECT_HEADER_BYTES, LogObject, Piece, PieceOf};

/// Writes a log object: its header field by field, a line for each piece.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let object = LogObject::decode(bytes);
    dump_header(bytes, lines)?;
    let mut offset = LOG_OBJECT_HEADER_BYTES;
    for piece in object.iter().flat_map(|object| &object.pieces) {
        dump_piece(piece, offset, lines)?;
        offset += 80 + piece.bytes.len();
    }
    Ok(object.err())
}

/// Writes the header's fields as they stand, right or wrong.
fn dump_header(bytes: &[u8], lines: &mut Lines<'_>) -> fmt::Result {
    let Some(header) = bytes.get(..LOG_OBJECT_HEADER_BYTES) else { return Ok(()) };
    let mut fields = Reader::new(header, 0);
    let mut next = || fields.u64().unwrap_or_default();
    let (magic, version_kind, low, high) = (next(), next(), next(), next());
    let (generation, number, length, checksum) = (next(), next(), next(), next());
    let kind = match version_kind >> 32 {
        1 => "1: pieces",
        2 => "2: no log object of this generation follows",
        3 => "3: pieces, in part",
        _ => "unknown",
    };
    let database = u128::from(high) << 64 | u128::from(low);
    lines.line(0, 8, "magic", format_args!("{}", Shown(&magic.to_le_bytes())))?;
    lines.line(8, 4, "version", format_args!("{}", version_kind as u32))?;
    lines.line(12, 4, "kind", format_args!("{kind}"))?;
    lines.line(16, 16, "database", format_args!("{database:032x}"))?;
    lines.line(32, 8, "generation", format_args!("{generation}"))?;
    lines.line(40, 8, "number", format_args!("{number}"))?;
    lines.line(48, 8, "bytes", format_args!("{length} bytes of pieces"))?;
    lines.line(56, 8, "checksum", format_args!("{checksum:016x}"))
}

fn dump_piece(piece: &Piece<'_>, at: usize, lines: &mut Lines<'_>) -> fmt::Result {
    let (offset, bytes) = (piece.offset, piece.bytes.len());
    let size = 80 + bytes;
    match piece.segment {
        PieceOf::Log(header) => {
            let from = header.base.0 + offset;
            let end = from + bytes as u64;
            let of = format_args!(
                "log positions {from:#x} to {end:#x}, of the segment with base {:#x}, generation {}",
                header.base.0, header.generation
            );
            lines.line(at, size, "log", of)
        }
        PieceOf::Values(header) => {
            let of = format_args!("{bytes} bytes at offset {offset:#x} of blob segment {}", header.number);
            lines.line(at, size, "values", of)
        }
    }
}
