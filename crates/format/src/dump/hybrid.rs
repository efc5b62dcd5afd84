//! Segments of hybrid and cold logs, redo logs, and runs of a cold log's index, as text.

use std::fmt;

pub use crate::hybrid::cold_run::RUN_MAGIC;
pub use crate::hybrid::redo::REDO_MAGIC;
pub use crate::hybrid::segment::SEGMENT_MAGIC;

use crate::dump::{Dumped, Lines, Shown};
use crate::error::Error;
use crate::hybrid::cold_run::{RUN_PAGE_BYTES, RunHeader, RunPage, RunTail};
use crate::hybrid::image::{open_record, shape_at};
use crate::hybrid::record::Shape;
use crate::hybrid::redo::{
    ENTRY_HEAD_BYTES, REDO_HEADER_BYTES, RedoFound, RedoHeader, entry_at, next_change,
};
use crate::hybrid::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};

/// Writes a segment: its header, a line for each record, with its key.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump_segment(bytes: &[u8], from: Option<u64>, lines: &mut Lines<'_>) -> Dumped {
    let header = match SegmentHeader::decode(bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Some(error)),
    };
    let SegmentHeader { database, base, words, generation } = header;
    lines.line(
        0,
        SEGMENT_HEADER_BYTES,
        "header",
        format_args!(
            "database {database:032x}, {words} words from address {base} on, generation {generation}"
        ),
    )?;
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= 8) {
        let address = from.unwrap_or(base) + (at - SEGMENT_HEADER_BYTES) as u64 / 8;
        let (link, shape) = match shape_at(rest) {
            Ok(None) => {
                at += 8;
                continue;
            }
            Ok(Some(found)) => found,
            Err(error) => return Ok(Some(error.based(at))),
        };
        let length = shape.words() * 8;
        let Some(record) = rest.get(..length) else {
            let expected = format!("a record of {length} bytes");
            return Ok(Some(Error::new(at, expected, format!("{} bytes", rest.len()))));
        };
        if let Err(error) = open_record(address, &mut record.to_vec()) {
            return Ok(Some(error.based(at)));
        }
        let key = record.get(shape.key_at() * 8..).and_then(|key| key.get(..shape.key_bytes));
        let (what, previous) = (What(shape), link.previous());
        let validity = if link.is_invalid() { "never in a chain, " } else { "" };
        let key = Shown(key.unwrap_or_default());
        lines.line(at, length, "record", format_args!("{validity}{what}, after {previous}, key {key}"))?;
        at += length;
    }
    Ok(None)
}

/// Writes a redo log: its header, a line for each change.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump_redo(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let RedoHeader { database, generation, index, boot } = match RedoHeader::decode(bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Some(error)),
    };
    let of = format_args!("database {database:032x}, generation {generation}, log {index}, boot {boot:032x}");
    lines.line(0, REDO_HEADER_BYTES, "header", of)?;
    let mut at = REDO_HEADER_BYTES;
    loop {
        let body = match entry_at(bytes.get(at..).unwrap_or_default(), generation, at as u64) {
            RedoFound::Entry(body) => body,
            RedoFound::End => return Ok(None),
            RedoFound::Torn => {
                return Ok(Some(Error::new(at, "an entry, or zeros", "an entry that is not whole")));
            }
        };
        let mut rest = body;
        let mut change_at = at + ENTRY_HEAD_BYTES;
        loop {
            let left = rest.len();
            match next_change(&mut rest) {
                Ok(None) => break,
                Ok(Some(change)) => {
                    let size = left - rest.len();
                    let (what, address, sequence) = (What(change.shape), change.address, change.sequence);
                    let key = Shown(change.key);
                    let meaning = format_args!("{what} at address {address}, sequence {sequence}, key {key}");
                    lines.line(change_at, size, "change", meaning)?;
                    change_at += size;
                }
                Err(error) => return Ok(Some(error.based(change_at))),
            }
        }
        at += ENTRY_HEAD_BYTES + body.len();
    }
}

/// A record's kind and length in words.
struct What(Shape);

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { value_bytes, is_tombstone, is_operand, is_reference, .. } = self.0;
        match (is_tombstone, is_operand, is_reference) {
            (true, ..) => f.write_str("tombstone"),
            (_, true, false) => write!(f, "operand of {value_bytes} bytes"),
            (_, true, true) => f.write_str("operand that lies alone"),
            (_, false, true) => f.write_str("value that lies alone"),
            _ => write!(f, "value of {value_bytes} bytes"),
        }
    }
}

/// Writes a run of a cold log's index: its header, a line for each entry, its tail.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump_run(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let header = match RunHeader::decode(bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Some(error)),
    };
    let RunHeader { database, number, entries, tail_bytes, .. } = header;
    lines.line(
        0,
        RUN_PAGE_BYTES,
        "header",
        format_args!("database {database:032x}, run {number} of {entries} entries"),
    )?;
    for page in 0..header.pages() {
        let at = (1 + page as usize) * RUN_PAGE_BYTES;
        let found = bytes.get(at..at + RUN_PAGE_BYTES).unwrap_or_default();
        let page = match RunPage::decode(page, found.to_vec()) {
            Ok(page) => page,
            Err(error) => return Ok(Some(error.based(at))),
        };
        lines.line(at, 8, "page", format_args!("{} entries", page.count()))?;
        for (index, entry) in page.entries().enumerate() {
            let (order, address, words) = (entry.order, entry.place.address(), entry.place.words());
            let at = at + 8 + 16 * index;
            lines.line(at, 16, "entry", format_args!("order {order:016x}, {words} words at {address}"))?;
        }
    }
    let at = header.tail_at() as usize;
    let tail = match RunTail::decode(&header, bytes.get(at..).unwrap_or_default()) {
        Ok(tail) => tail,
        Err(error) => return Ok(Some(error)),
    };
    let (fences, values, filter) = (tail.fences.len(), tail.values.len(), tail.filter.len());
    lines.line(
        at,
        tail_bytes as usize,
        "tail",
        format_args!("{fences} first orders, {values} values, a filter of {filter} bytes"),
    )?;
    Ok(None)
}
