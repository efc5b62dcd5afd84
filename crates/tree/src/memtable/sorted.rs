//! Entries in the order of keys: how they get there and how two such arrays become one.
//!
//! Words decide most comparisons. Where words are equal the keys themselves are read from the log,
//! once a key and not once a version. `repeats` remembers which entries were found to have the key
//! of the entry before.

use super::record_of;
use crate::Records;
use crate::buffer::RunEntry;
use firn_format::key::{Sequence, Trailer};
use std::cmp::{Ordering, Reverse};
use std::ops::Range;

/// An entry before it is sorted.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) prefix: u64,
    pub(super) trailer: Trailer,
    pub(super) hash: u32,
}

/// Entries by key up, and of one key newest first; with the hash of each, and whether its key
/// repeats.
#[derive(Default)]
pub(super) struct Sorted {
    pub(super) entries: Vec<RunEntry>,
    pub(super) hashes: Vec<u32>,
    repeats: Vec<bool>,
}

impl Sorted {
    fn with_capacity(count: usize) -> Self {
        Self {
            entries: Vec::with_capacity(count),
            hashes: Vec::with_capacity(count),
            repeats: Vec::with_capacity(count),
        }
    }

    /// Sorts `items`, whose records are all published.
    pub(super) fn from_items<R: Records + ?Sized>(mut items: Vec<Item>, records: &R) -> Self {
        items.sort_unstable_by_key(|item| item.prefix);
        let mut sorted = Self::with_capacity(items.len());
        for block in items.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if block.len() > 1 {
                sorted.push_block(block, records);
            } else {
                block.iter().for_each(|item| sorted.push_item(*item, false));
            }
        }
        sorted
    }

    /// Sorts and appends entries with one word in common.
    fn push_block<R: Records + ?Sized>(&mut self, block: &mut [Item], records: &R) {
        block.sort_unstable_by_key(|item| (item.hash, Reverse(item.trailer)));
        let mut keyed: Vec<(&[u8], Item)> =
            block.iter().map(|item| (record_of(records, item.trailer).key, *item)).collect();
        let first = keyed[0].0;
        // Of one hash they are in order already: newest first.
        if !keyed.iter().all(|(key, _)| *key == first) {
            keyed.sort_unstable_by_key(|(key, item)| (*key, Reverse(item.trailer)));
        }
        let mut before = None;
        for (key, item) in keyed {
            self.push_item(item, before == Some(key));
            before = Some(key);
        }
    }

    fn push_item(&mut self, item: Item, repeats: bool) {
        self.entries.push(RunEntry { prefix: item.prefix, trailer: item.trailer });
        self.hashes.push(item.hash);
        self.repeats.push(repeats);
    }

    fn push_from(&mut self, source: &Self, range: Range<usize>) {
        self.entries.extend_from_slice(&source.entries[range.clone()]);
        self.hashes.extend_from_slice(&source.hashes[range.clone()]);
        self.repeats.extend_from_slice(&source.repeats[range]);
    }

    /// Both in one.
    pub(super) fn merge<R: Records + ?Sized>(a: &Self, b: &Self, records: &R) -> Self {
        let mut merged = Self::with_capacity(a.len() + b.len());
        let (mut i, mut j) = (0, 0);
        while i < a.len() && j < b.len() {
            let (word_a, word_b) = (a.entries[i].prefix, b.entries[j].prefix);
            match word_a.cmp(&word_b) {
                Ordering::Less => {
                    let end = a.run_below(i, word_b);
                    merged.push_from(a, i..end);
                    i = end;
                }
                Ordering::Greater => {
                    let end = b.run_below(j, word_a);
                    merged.push_from(b, j..end);
                    j = end;
                }
                Ordering::Equal => {
                    let (end_a, end_b) = (a.block_end(i), b.block_end(j));
                    merged.push_merged_block((a, i..end_a), (b, j..end_b), records);
                    (i, j) = (end_a, end_b);
                }
            }
        }
        merged.push_from(a, i..a.len());
        merged.push_from(b, j..b.len());
        merged
    }

    /// Merges two blocks with one word in common: key by key, and versions of one key by sequence.
    fn push_merged_block<R: Records + ?Sized>(
        &mut self,
        (a, range_a): (&Self, Range<usize>),
        (b, range_b): (&Self, Range<usize>),
        records: &R,
    ) {
        let (mut i, mut j) = (range_a.start, range_b.start);
        while i < range_a.end && j < range_b.end {
            let (end_a, end_b) = (a.group_end(i, range_a.end), b.group_end(j, range_b.end));
            match a.key(i, records).cmp(b.key(j, records)) {
                Ordering::Less => {
                    self.push_from(a, i..end_a);
                    i = end_a;
                }
                Ordering::Greater => {
                    self.push_from(b, j..end_b);
                    j = end_b;
                }
                Ordering::Equal => {
                    let start = self.len();
                    while i < end_a || j < end_b {
                        let from_a = j == end_b || i < end_a && a.entries[i].trailer > b.entries[j].trailer;
                        let (source, at) = if from_a { (a, &mut i) } else { (b, &mut j) };
                        self.push_from(source, *at..*at + 1);
                        *at += 1;
                        let last = self.len() - 1;
                        self.repeats[last] = last > start;
                    }
                }
            }
        }
        self.push_from(a, i..range_a.end);
        self.push_from(b, j..range_b.end);
    }

    /// The end of the entries from `from` on with words below `word`. Strides double, so a long
    /// stretch costs little.
    fn run_below(&self, from: usize, word: u64) -> usize {
        let (mut from, mut stride) = (from, 1);
        while self.entries.get(from + stride).is_some_and(|entry| entry.prefix < word) {
            from += stride;
            stride *= 2;
        }
        let end = self.len().min(from + stride);
        from + self.entries[from..end].partition_point(|entry| entry.prefix < word)
    }

    fn block_end(&self, from: usize) -> usize {
        let word = self.entries[from].prefix;
        from + self.entries[from..].iter().take_while(|entry| entry.prefix == word).count()
    }

    fn group_end(&self, from: usize, end: usize) -> usize {
        from + 1 + self.repeats[from + 1..end].iter().take_while(|&&repeats| repeats).count()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn key<'r, R: Records + ?Sized>(&self, index: usize, records: &'r R) -> &'r [u8] {
        record_of(records, self.entries[index].trailer).key
    }

    /// First entry at or after (`key`, `sequence`), whose word is `word`, of the entries below
    /// `seen`: others may lie before it. One record is read a comparison only where words are
    /// equal.
    ///
    /// Of entries at or above `seen` no record is read: their segments may have begun after
    /// `records` was taken.
    pub(super) fn lower_bound<R: Records + ?Sized>(
        &self,
        word: u64,
        (key, sequence): (&[u8], Sequence),
        seen: Sequence,
        records: &R,
    ) -> usize {
        let mut low = self.entries.partition_point(|entry| entry.prefix < word);
        let is_before = |entry: &RunEntry| {
            entry.prefix == word
                && match record_of(records, entry.trailer).key.cmp(key) {
                    Ordering::Less => true,
                    Ordering::Equal => entry.sequence() > sequence,
                    Ordering::Greater => false,
                }
        };
        // Words often decide alone.
        let first = self.entries.get(low).filter(|first| first.prefix == word);
        if first.is_none_or(|first| first.sequence() < seen && !is_before(first)) {
            return low;
        }
        let mut high = self.entries.len();
        while low < high {
            let middle = low + (high - low) / 2;
            let is_seen = |entry: &RunEntry| entry.prefix != word || entry.sequence() < seen;
            // Entries between the middle and that place concern no reader below `seen`.
            let place = self.entries[middle..high].iter().position(is_seen).map(|ahead| middle + ahead);
            match place {
                Some(place) if is_before(&self.entries[place]) => low = place + 1,
                _ => high = middle,
            }
        }
        low
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<RunEntry>()
            + self.hashes.capacity() * size_of::<u32>()
            + self.repeats.capacity()
    }
}
