//! A value out of the bytes of its segment.

use std::borrow::Cow;
use std::ops::Range;

use firn_format::blob::Reference;
use firn_format::blob::record::{BlobRecord, CHUNK_BYTES, long_head_bytes};

use super::corrupt;
use crate::{Error, Result};

/// Which value, and which part of it.
#[derive(Clone, Debug)]
pub struct Wanted<'r> {
    /// The value.
    pub reference: &'r Reference,
    /// Length of the key that it was written for; a wrong one costs a second read.
    pub key_bytes: usize,
    /// The part; what lies beyond the value's end is left out.
    pub range: Range<usize>,
}

impl Wanted<'_> {
    /// The part that there is.
    fn part(&self) -> Range<usize> {
        let end = self.range.end.min(self.reference.value_bytes as usize);
        self.range.start.min(end)..end
    }
}

/// The bytes of a segment, as far as they are written.
pub(super) trait Bytes {
    /// The segment's name.
    fn name(&self) -> &str;

    /// Where its records end.
    fn end(&self) -> u64;

    /// `bytes` bytes at `offset`, or fewer where the records end.
    fn fetch(&self, offset: u64, bytes: usize) -> Result<Cow<'_, [u8]>>;
}

/// Appends the wanted part of the value whose record lies at `offset` to `out`.
///
/// # Errors
/// `Corrupt` with file and offset if something else lies there; what reading says. `out` may have a
/// part of it then.
pub(super) fn read_value<B: Bytes + ?Sized>(
    bytes: &B,
    offset: u64,
    wanted: &Wanted<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let value_bytes = wanted.reference.value_bytes as usize;
    let part = wanted.part();
    // As long as the head may be: few bytes more.
    let front = long_head_bytes(value_bytes, true) + wanted.key_bytes;
    // Small values come with their head, by one read; of others the head tells where the chunks
    // are.
    let is_small = value_bytes <= CHUNK_BYTES;
    let mut stored = fetch(bytes, offset, front + if is_small { value_bytes } else { 0 })?;
    let mut decoded = BlobRecord::decode(&stored);
    if decoded.is_err() {
        // The key is longer than it was said to be.
        let longer = long_head_bytes(value_bytes, true) + usize::from(u16::MAX);
        stored = fetch(bytes, offset, longer + if is_small { value_bytes } else { 0 })?;
        decoded = BlobRecord::decode(&stored);
    }
    let wrong = |error: &firn_format::Error| corrupt(bytes.name(), offset, error);
    let record = decoded.map_err(|error| wrong(&error))?;
    record.check(wanted.reference).map_err(|error| wrong(&error))?;
    out.reserve(part.len());
    // Of an empty part one chunk is checked all the same.
    let first = (part.start / CHUNK_BYTES).min(record.chunk_count() - 1);
    for index in first..part.end.div_ceil(CHUNK_BYTES).max(first + 1) {
        let span = record.chunk_span(index);
        let wrong = |error: &firn_format::Error| corrupt(bytes.name(), offset + span.start as u64, error);
        let chunk = match stored.get(span.clone()) {
            Some(chunk) => Cow::Borrowed(chunk),
            None => fetch(bytes, offset + span.start as u64, span.len())?,
        };
        let first = index * CHUNK_BYTES;
        let inside = part.start.max(first) - first..part.end.min(first + CHUNK_BYTES).max(first) - first;
        let is_plain = record.chunk(index).stored_bytes as usize == (value_bytes - first).min(CHUNK_BYTES);
        if is_plain {
            record.check_chunk(index, &chunk).map_err(|error| wrong(&error))?;
            out.extend_from_slice(chunk.get(inside).unwrap_or_default());
        } else {
            let start = out.len();
            record.decode_chunk(index, &chunk, out).map_err(|error| wrong(&error))?;
            out.truncate(start + inside.end);
            out.drain(start..start + inside.start);
        }
    }
    Ok(())
}

/// Appends the record at `reference`'s offset, as it lies there, padding included; chunks are not
/// checked.
///
/// # Errors
/// As [`read_value`].
pub(super) fn read_record<B: Bytes + ?Sized>(
    bytes: &B,
    reference: &Reference,
    key_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let offset = reference.offset;
    let front = long_head_bytes(reference.value_bytes as usize, true) + key_bytes;
    let stored = fetch(bytes, offset, front + reference.value_bytes as usize + PADDING_BYTES_MAX)?;
    let wrong = |error: &firn_format::Error| corrupt(bytes.name(), offset, error);
    let record = BlobRecord::decode(&stored).map_err(|error| wrong(&error))?;
    record.check(reference).map_err(|error| wrong(&error))?;
    match stored.get(..record.bytes()) {
        Some(record) => out.extend_from_slice(record),
        None => {
            let message = format!("expected {} bytes of {reference}, found {}", record.bytes(), stored.len());
            return Err(Error::corrupt(bytes.name(), offset, message));
        }
    }
    Ok(())
}

/// Bytes that a record has at most behind its last chunk.
const PADDING_BYTES_MAX: usize = 7;

fn fetch<B: Bytes + ?Sized>(bytes: &B, offset: u64, wanted: usize) -> Result<Cow<'_, [u8]>> {
    if offset >= bytes.end() {
        let message = format!("expected a value, but the segment's values end at {}", bytes.end());
        return Err(Error::corrupt(bytes.name(), offset, message));
    }
    bytes.fetch(offset, wanted.min(usize::try_from(bytes.end() - offset).unwrap_or(usize::MAX)))
}
