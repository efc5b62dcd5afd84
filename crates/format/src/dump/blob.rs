//! Blob segments as text.

use std::fmt;

use crate::blob::record::BlobRecord;
use crate::blob::segment::{
    BLOB_FOOTER_BYTES, BLOB_FOOTER_MAGIC, BLOB_HEADER_BYTES, BlobFooter, BlobSegmentHeader, OrdinalTable,
};
use crate::blob::{Relocation, SegmentNumber};
use crate::dump::{Dumped, Lines, Shown};
use crate::error::{Error, Result};

/// Writes a blob segment: its header, each record, and if it is sealed what follows them.
///
/// Records of a segment that is not sealed are followed one after another, up to the first bytes
/// that are none.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let header = match BlobSegmentHeader::decode(bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Some(error)),
    };
    let BlobSegmentHeader { database, number, origin, generation } = header;
    let meaning =
        format_args!("number {number}, {origin:?}, log generation {generation}, database {database:032x}");
    lines.line(0, BLOB_HEADER_BYTES, "blob segment", meaning)?;
    let footer_at = bytes.len().saturating_sub(BLOB_FOOTER_BYTES);
    let footer_bytes = bytes.get(footer_at..).unwrap_or_default();
    if !footer_bytes.starts_with(&BLOB_FOOTER_MAGIC) {
        return dump_open(bytes, lines);
    }
    match BlobFooter::decode(footer_bytes, bytes.len() as u64) {
        Ok(footer) => dump_sealed(bytes, &footer, footer_at, lines),
        Err(error) => Ok(Some(error.based(footer_at))),
    }
}

/// The records of a segment that is written to, or was.
fn dump_open(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let mut at = BLOB_HEADER_BYTES;
    while at < bytes.len() {
        match dump_record(bytes, at, lines)? {
            Ok(record_bytes) => at += record_bytes,
            Err(error) => {
                let rest = bytes.len() - at;
                lines.line(at, rest, "end", format_args!("no record here ({error}); not sealed"))?;
                return Ok(None);
            }
        }
    }
    lines.line(at.min(bytes.len()), 0, "end", format_args!("of the bytes; not sealed"))?;
    Ok(None)
}

fn dump_sealed(bytes: &[u8], footer: &BlobFooter, footer_at: usize, lines: &mut Lines<'_>) -> Dumped {
    let (table_at, relocations_at) = (footer.records_end as usize, footer.relocations_start() as usize);
    let table_bytes = bytes.get(table_at..relocations_at).unwrap_or_default();
    let table_error = OrdinalTable::check(table_bytes, footer).err().map(|error| error.based(table_at));
    let table = OrdinalTable::trusted(table_bytes);
    let mut first_error = table_error;
    for ordinal in 0..table.len() {
        let Some(offset) = table.offset(ordinal) else { continue };
        let at = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        if let Err(error) = dump_record(bytes, at, lines)? {
            first_error.get_or_insert(error);
        }
    }
    let count = (0..table.len()).filter(|ordinal| table.offset(*ordinal).is_some()).count();
    let meaning = format_args!("{} ordinals, {count} of them with a value", table.len());
    lines.line(table_at, table_bytes.len(), "ordinal table", meaning)?;
    let mut at = relocations_at;
    for _ in 0..footer.relocations {
        match Relocation::decode(bytes.get(at..footer_at).unwrap_or_default()) {
            Ok((relocation, size)) => {
                dump_relocation(&relocation, at, size, lines)?;
                at += size;
            }
            Err(error) => {
                first_error.get_or_insert(error.based(at));
                break;
            }
        }
    }
    let BlobFooter { number, ordinals, relocations, value_bytes, table_checksum, .. } = footer;
    let meaning = format_args!(
        "number {number}, {ordinals} ordinals, values of {value_bytes} bytes, {relocations} relocations, table checksum \
         {table_checksum:016x}"
    );
    lines.line(footer_at, BLOB_FOOTER_BYTES, "footer", meaning)?;
    Ok(first_error)
}

/// A line for the record at `at`; how many bytes it has, or what is wrong with it.
fn dump_record(
    bytes: &[u8],
    at: usize,
    lines: &mut Lines<'_>,
) -> std::result::Result<Result<usize>, fmt::Error> {
    let rest = bytes.get(at..).unwrap_or_default();
    let record = match BlobRecord::decode(rest) {
        Ok(record) => record,
        Err(error) => return Ok(Err(error.based(at))),
    };
    let (head, key) = (record.head, Shown(record.key));
    let count = record.chunk_count();
    let wrong = (0..count).find_map(|index| {
        let span = record.chunk_span(index);
        let missing = || Error::new(span.start.min(rest.len()), "a chunk", "the end of the bytes");
        let checked = rest
            .get(span.clone())
            .ok_or_else(missing)
            .and_then(|stored| record.check_chunk(index, stored).map_err(|error| error.based(span.start)));
        checked.err()
    });
    let SegmentNumber(segment) = head.segment;
    let verdict = if wrong.is_some() { ", CHECKSUM DOES NOT MATCH" } else { "" };
    let meaning = format_args!(
        "{} of segment {segment}, {} bytes, {count} chunks, {:?}, keyspace {}, key {key}, checksum {:016x}{verdict}",
        head.ordinal, head.value_bytes, head.codec, head.keyspace, record.checksum
    );
    lines.line(at, record.bytes(), "value", meaning)?;
    Ok(wrong.map_or(Ok(record.bytes()), |error| Err(error.based(at))))
}

fn dump_relocation(relocation: &Relocation, at: usize, size: usize, lines: &mut Lines<'_>) -> fmt::Result {
    let Relocation { victim, segment, base, ordinals, .. } = relocation;
    let count = relocation.survivor_count();
    let meaning =
        format_args!("{count} of the {ordinals} values of segment {victim}, now in {segment} from {base} on");
    lines.line(at, size, "relocation", meaning)
}
