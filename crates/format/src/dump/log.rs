//! Log segments as text.

use std::fmt;

use crate::blob::Reference;
use crate::bytes::Reader;
use crate::dump::{Dumped, Lines, Shown};
use crate::key::{Kind, Position};
use crate::log::{
    EndReason, FRAME_HEADER_BYTES, Frame, FrameKind, LARGE_BATCH_BYTES, Record, SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC, SegmentHeader, scan_frames,
};

/// Writes a log segment: its header field by field, a line for each frame and each record.
///
/// Frames are looked for with the base and generation that the header says, even if its checksum
/// does not match.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let header_error = SegmentHeader::decode(bytes).err();
    let Ok((base, generation)) = read_numbers(bytes) else {
        return Ok(header_error);
    };
    if !bytes.starts_with(&SEGMENT_MAGIC) {
        return Ok(header_error);
    }
    dump_header(bytes, lines)?;
    let frames_error = dump_frames(bytes, base, SEGMENT_HEADER_BYTES, generation, lines)?;
    Ok(header_error.or(frames_error))
}

fn read_numbers(bytes: &[u8]) -> crate::Result<(Position, u64)> {
    let mut fields = Reader::new(bytes, 0);
    fields.take(32)?;
    let (base, _previous_end) = (Position(fields.u64()?), fields.u64()?);
    let generation = fields.u64()?;
    fields.u64()?;
    Ok((base, generation))
}

/// Writes the header's fields as they stand, right or wrong. `bytes` has all of them.
fn dump_header(bytes: &[u8], lines: &mut Lines<'_>) -> fmt::Result {
    let mut fields = Reader::new(bytes, 0);
    let mut next = || fields.u64().unwrap_or_default();
    let (magic, version, low, high) = (next(), next(), next(), next());
    let (base, previous_end, generation, capacity) = (next(), next(), next(), next());
    let database = u128::from(high) << 64 | u128::from(low);
    lines.line(0, 8, "magic", format_args!("{}", Shown(&magic.to_le_bytes())))?;
    lines.line(8, 4, "version", format_args!("{}", version as u32))?;
    lines.line(12, 4, "checksum", format_args!("{:08x}", version >> 32))?;
    lines.line(16, 16, "database", format_args!("{database:032x}"))?;
    lines.line(32, 8, "base", format_args!("log position {base} ({base:#x})"))?;
    lines.line(40, 8, "previous_end", format_args!("log position {previous_end} ({previous_end:#x})"))?;
    lines.line(48, 8, "generation", format_args!("{generation}"))?;
    lines.line(56, 8, "capacity", format_args!("{capacity} bytes"))
}

/// Writes the frames in `segment` from `start_offset` on and says what ends them; arguments as
/// [`scan_frames`].
///
/// # Errors
/// If the lines cannot be written.
pub fn dump_frames(
    segment: &[u8],
    base: Position,
    start_offset: usize,
    generation: u64,
    lines: &mut Lines<'_>,
) -> Dumped {
    let mut scan = scan_frames(segment, base, start_offset, generation);
    for (offset, frame) in scan.by_ref() {
        let position = Position(base.0.saturating_add(offset as u64));
        if let Some(error) = dump_frame(&frame, offset, position, lines)? {
            return Ok(Some(error));
        }
    }
    let end = scan.into_end();
    let rest = segment.len().saturating_sub(end.offset);
    match end.reason {
        EndReason::Zero => {
            lines.line(end.offset, rest, "end", format_args!("a zero word: no frame was published here"))?;
        }
        EndReason::EndOfBytes => lines.line(end.offset, rest, "end", format_args!("of the bytes"))?,
        EndReason::Torn(error) => return Ok(Some(error)),
    }
    Ok(None)
}

fn dump_frame(frame: &Frame<'_>, offset: usize, position: Position, lines: &mut Lines<'_>) -> Dumped {
    let (kind, count) = (frame.kind, frame.record_count);
    let (checksum, durable) = (frame.checksum(), frame.durable_through);
    let meaning = format_args!(
        "{kind:?} at {position}, record count {count}, checksum {checksum:08x}, durable through {durable}"
    );
    lines.line(offset, frame.bytes(), "frame", meaning)?;
    if frame.kind == FrameKind::LargeBatch {
        return dump_large_batch(frame, offset, lines);
    }
    for (within, record) in frame.records() {
        let at = offset + within;
        match record {
            Ok(record) => {
                dump_record(&record, at, Position(position.0.saturating_add(within as u64)), lines)?
            }
            Err(error) => return Ok(Some(error.based(offset))),
        }
    }
    Ok(None)
}

fn dump_large_batch(frame: &Frame<'_>, offset: usize, lines: &mut Lines<'_>) -> Dumped {
    let at = offset + FRAME_HEADER_BYTES;
    match frame.large_batch() {
        Ok(large) => {
            let (base, bytes, checksum) = (large.base, large.bytes, large.checksum);
            let meaning =
                format_args!("{bytes} bytes, checksum {checksum:08x}, in the segment of base {base}");
            lines.line(at, LARGE_BATCH_BYTES, "large batch", meaning)?;
            Ok(None)
        }
        Err(error) => Ok(Some(error.based(offset))),
    }
}

fn dump_record(record: &Record<'_>, offset: usize, position: Position, lines: &mut Lines<'_>) -> fmt::Result {
    let Record { keyspace, kind, expires_at_ms, key, value } = *record;
    let sequence = position.sequence();
    let (field, second) = match kind {
        Kind::Put => ("put", "value"),
        Kind::Delete => ("delete", "value"),
        Kind::Merge => ("merge", "operand"),
        Kind::DeleteRange => ("delete range", "end"),
        Kind::PutReference => ("put reference", "reference"),
        Kind::Purge => ("purge", "end"),
    };
    let expiry = if expires_at_ms == 0 { String::new() } else { format!(", expires at {expires_at_ms} ms") };
    let key = Shown(key);
    let value = match kind {
        Kind::Delete if value.is_empty() => String::new(),
        Kind::PutReference if let Ok(reference) = Reference::decode(value) => format!(", {reference}"),
        _ => format!(", {second} of {} bytes {}", value.len(), Shown(value)),
    };
    lines.line(
        offset,
        record.bytes(),
        field,
        format_args!("sequence {sequence}, keyspace {keyspace}, key {key}{value}{expiry}"),
    )
}
