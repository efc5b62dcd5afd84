//! A list as bytes.
//!
//! ```text
//! bound_count  varint
//! bounds       bound_count times: varint bytes, the key          strictly increasing
//! span_count   varint
//! spans        span_count times:
//!   varint  index of the start bound, less the previous span's
//!   varint  index of the end bound, less the start's             at least 1
//!   varint  sequence                                             of one start: falling
//! ```
//! Canonical: every bound is the start or end of a span, spans of one sequence do not touch. Since:
//! FormatVersion::V1. No checksum of its own: it travels inside checked blocks. Bounds are whole
//! keys, so that a decoded list is never much larger than its bytes.

use super::list::{FragmentList, SpanIndex};
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::varint;

impl FragmentList {
    /// Appends the list's bytes to `out`. Equal lists have equal bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bounds = self.bounds();
        varint::encode(bounds.len() as u64, out);
        for bound in bounds {
            varint::encode(bound.len() as u64, out);
            out.extend_from_slice(bound);
        }
        varint::encode(self.indexes().len() as u64, out);
        let mut previous = 0;
        for span in self.indexes() {
            varint::encode(u64::from(span.start - previous), out);
            varint::encode(u64::from(span.end - span.start), out);
            varint::encode(span.sequence.0, out);
            previous = span.start;
        }
    }

    /// The list whose bytes are exactly `bytes`.
    ///
    /// # Errors
    /// Anything [`encode`](Self::encode) does not produce.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let (keys, key_ends) = decode_bounds(&mut input, bytes.len())?;
        let spans = decode_spans(&mut input, bytes.len(), key_ends.len())?;
        if !input.is_empty() {
            return Err(Error::new(input.offset(), "the end of the tombstones", "more bytes"));
        }
        check_canonical(&spans, key_ends.len())?;
        Ok(Self::from_indexes(keys, key_ends, spans))
    }
}

/// A count of things that take at least `bytes_min` of what is left each.
fn read_count(input: &mut Reader<'_>, total: usize, bytes_min: usize, what: &str) -> Result<usize> {
    let at = input.offset();
    let count = input.number()?;
    let limit = total.saturating_sub(input.offset()) / bytes_min;
    usize::try_from(count)
        .ok()
        .filter(|count| *count <= limit)
        .ok_or_else(|| Error::new(at, format!("at most {limit} {what}"), format!("{count}")))
}

fn decode_bounds(input: &mut Reader<'_>, total: usize) -> Result<(Vec<u8>, Vec<u32>)> {
    let count = read_count(input, total, 1, "tombstone bounds")?;
    let mut keys = Vec::new();
    let mut ends = Vec::with_capacity(count);
    let mut previous: Option<&[u8]> = None;
    for _ in 0..count {
        let at = input.offset();
        let key = input.bytes()?;
        if previous.is_some_and(|previous| previous >= key) {
            return Err(Error::new(at, "a key after the one before it", key.escape_ascii().to_string()));
        }
        keys.extend_from_slice(key);
        let end = u32::try_from(keys.len());
        ends.push(end.map_err(|_| Error::new(at, "at most 4 GiB of bounds", "more"))?);
        previous = Some(key);
    }
    Ok((keys, ends))
}

fn decode_spans(input: &mut Reader<'_>, total: usize, bound_count: usize) -> Result<Vec<SpanIndex>> {
    let count = read_count(input, total, 3, "tombstones")?;
    let depth = 2 * (usize::BITS - bound_count.leading_zeros()) as usize;
    if count.saturating_mul(depth) > u32::MAX as usize {
        let expected = "tombstones whose tree has at most 2^32 places";
        return Err(Error::new(input.offset(), expected, format!("{count}")));
    }
    let mut spans: Vec<SpanIndex> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = input.offset();
        let base = spans.last().map_or(0, |span| u64::from(span.start));
        let start = base.saturating_add(input.number()?);
        let length = input.number()?;
        let end = start.saturating_add(length);
        let sequence = Sequence(input.number()?);
        if length == 0 || end >= bound_count as u64 || sequence > Sequence::MAX {
            let found = format!("bounds {start}..{end}, sequence {sequence}");
            return Err(Error::new(at, format!("a tombstone between {bound_count} bounds"), found));
        }
        let falls = |last: &SpanIndex| u64::from(last.start) != start || last.sequence > sequence;
        if !spans.last().is_none_or(falls) {
            return Err(Error::new(at, "an older tombstone", format!("sequence {sequence}")));
        }
        spans.push(SpanIndex { start: start as u32, end: end as u32, sequence });
    }
    Ok(spans)
}

fn check_canonical(spans: &[SpanIndex], bound_count: usize) -> Result<()> {
    let mut used = vec![false; bound_count];
    for index in spans.iter().flat_map(|span| [span.start, span.end]) {
        if let Some(used) = used.get_mut(index as usize) {
            *used = true;
        }
    }
    if let Some(index) = used.iter().position(|used| !used) {
        return Err(Error::new(0, "a tombstone at every bound", format!("none at bound {index}")));
    }
    let mut by_sequence: Vec<&SpanIndex> = spans.iter().collect();
    by_sequence.sort_unstable_by_key(|span| (span.sequence, span.start));
    let touching = by_sequence.windows(2).find_map(|pair| match pair {
        [a, b] if a.sequence == b.sequence && a.end >= b.start => Some(a.sequence),
        _ => None,
    });
    match touching {
        Some(sequence) => Err(Error::new(
            0,
            "tombstones of one sequence apart",
            format!("two of sequence {sequence} touch"),
        )),
        None => Ok(()),
    }
}
