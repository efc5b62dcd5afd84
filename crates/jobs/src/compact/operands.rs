//! Merge operands of one key and interval, waiting for what lies below them.

use std::ops::Range;

use firn_format::key::{Entry, Kind, Sequence};

use super::Sink;
use crate::conservation::Tally;
use crate::error::Result;

/// More bytes than this are not held: the operands go out in parts.
const OPERAND_BYTES_MAX: usize = 64 << 20;

/// Copies of operands, newest first.
#[derive(Debug, Default)]
pub(super) struct Operands {
    bytes: Vec<u8>,
    items: Vec<Item>,
    interval: usize,
}

#[derive(Debug)]
struct Item {
    sequence: Sequence,
    value: Range<usize>,
    hash: u128,
}

impl Operands {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= OPERAND_BYTES_MAX
    }

    /// The interval of what waits.
    #[inline]
    pub(super) fn interval(&self) -> Option<usize> {
        (!self.items.is_empty()).then_some(self.interval)
    }

    /// Adds the next older operand.
    pub(super) fn push(&mut self, interval: usize, entry: &Entry<'_>, hash: u128) {
        self.interval = interval;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        self.items.push(Item { sequence: entry.sequence, value: start..self.bytes.len(), hash });
    }

    /// Sequence of the newest operand, and the interval.
    pub(super) fn newest(&self) -> (Sequence, usize) {
        (self.items.first().map_or(Sequence(0), |item| item.sequence), self.interval)
    }

    pub(super) fn oldest_first(&self) -> Vec<&[u8]> {
        self.items.iter().rev().map(|item| &self.bytes[item.value.clone()]).collect()
    }

    pub(super) fn tally(&self, key_bytes: usize) -> Tally {
        let mut tally = Tally::default();
        for item in &self.items {
            tally.add(key_bytes + item.value.len(), item.hash);
        }
        tally
    }

    /// Gives all of them to `sink` as they are.
    pub(super) fn write_all<S: Sink + ?Sized>(&self, key: &[u8], sink: &mut S) -> Result<()> {
        self.items.iter().try_for_each(|item| {
            let value = &self.bytes[item.value.clone()];
            sink.add(&Entry { key, sequence: item.sequence, kind: Kind::Merge, expires_at_ms: 0, value })
        })
    }

    /// Empty, with the memory.
    pub(super) fn cleared(mut self) -> Self {
        self.bytes.clear();
        self.items.clear();
        self
    }
}
