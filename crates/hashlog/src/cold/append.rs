//! Records on their way to the cold log: written together, then found.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use firn_engine::Result;
use firn_format::hybrid::Link;
use firn_format::hybrid::cold_run::{ColdEntry, ColdPlace};
use firn_format::hybrid::image::seal_record;

use super::Cold;
use crate::device::Contents;
use crate::log::{Content, Parts};

/// Bytes that are written together.
const WRITE_BYTES: usize = 1 << 20;

/// Records that are not written yet.
#[derive(Debug)]
pub(crate) struct Appender {
    /// Where they will lie: all in one segment.
    at: u64,
    bytes: Vec<u8>,
    entries: Vec<ColdEntry>,
    /// The newest of them of each order.
    newest: HashMap<u64, u64>,
    contents: Contents,
}

impl Appender {
    pub(crate) fn new(cold: &Cold) -> Self {
        Self {
            at: cold.end(),
            bytes: Vec::new(),
            entries: Vec::new(),
            newest: HashMap::new(),
            contents: Contents::default(),
        }
    }

    /// Whether a record of so many words is to wait until all before it are [written](Self::write).
    pub(crate) fn is_full(&self, cold: &Cold, words: u64) -> bool {
        let end = self.at + self.bytes.len() as u64 / 8;
        !self.bytes.is_empty()
            && (self.bytes.len() >= WRITE_BYTES || end + words > cold.device.end_of(self.at))
    }

    /// Whether there is one of this order.
    pub(crate) fn has(&self, order: u64) -> bool {
        self.newest.contains_key(&order)
    }

    /// Adds a record of a key with this order; those before it of the same order are older.
    pub(crate) fn push(&mut self, cold: &Cold, order: u64, parts: &Parts<'_>) {
        let words = parts.shape.words() as u64;
        if self.bytes.is_empty() {
            let end = cold.device.end_of(self.at);
            if self.at + words > end {
                // The rest of a segment is zeros, which are written with what comes next.
                self.at = end;
            }
        }
        let address = self.at + self.bytes.len() as u64 / 8;
        let previous = self.newest.insert(order, address);
        let previous = previous.or_else(|| cold.delta.get(order).map(ColdPlace::address));
        let first = self.bytes.len();
        encode(parts, previous.unwrap_or(0), &mut self.bytes);
        seal_record(address, &mut self.bytes[first..]);
        let is_tombstone = parts.shape.is_tombstone;
        let place = ColdPlace::new(address, if is_tombstone { 0 } else { words });
        self.entries.push(ColdEntry { order, place });
        let content = Content {
            is_tombstone,
            is_operand: false,
            is_reference: parts.shape.is_reference,
            expires_at_ms: parts.expires_at_ms,
            sequence: 0,
        };
        self.contents.add_record(parts.keyspace, content, words);
    }

    /// Writes all, and has lookups find them.
    ///
    /// # Errors
    /// Those of the storage; none of them is found then, and all are to be pushed again.
    pub(crate) fn write(&mut self, cold: &Cold) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let end = cold.end();
        if end < self.at {
            let rest = vec![0; 8 * (self.at - end) as usize];
            cold.device.write(end, &rest)?;
        }
        cold.device.write(self.at, &self.bytes)?;
        cold.device.count(self.at, &self.contents);
        let end = self.at + self.bytes.len() as u64 / 8;
        cold.end.store(end, Ordering::Release);
        self.entries.drain(..).for_each(|entry| cold.delta.insert(entry.order, entry.place));
        self.at = end;
        self.bytes.clear();
        self.newest.clear();
        self.contents = Contents::default();
        Ok(())
    }
}

/// Appends the words of a record as they lie in memory.
fn encode(parts: &Parts<'_>, previous: u64, out: &mut Vec<u8>) {
    let first = out.len();
    let (state, lengths) = parts.shape.encode(0);
    let expiry = parts.shape.has_expiry.then_some(parts.expires_at_ms);
    let keyspace = parts.shape.has_keyspace.then_some(u64::from(parts.keyspace));
    let head = [Some(Link::new(previous).0), Some(state.0), lengths, expiry, keyspace];
    head.into_iter().flatten().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    for bytes in [parts.key, parts.value] {
        out.extend_from_slice(bytes);
        out.resize(first + (out.len() - first).next_multiple_of(8), 0);
    }
    out.resize(first + 8 * parts.shape.words(), 0);
}
