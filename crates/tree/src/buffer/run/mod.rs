//! A sorted, immutable index over records that lie in frozen log segments.
//!
//! ```text
//!            filter ── one line ──► no
//!   key ──►    │ maybe
//!            index (16-ary tree over prefixes) ──► entries: prefix | sequence, kind
//!                                                     │ prefix is equal  sorted: key, newest first
//!                                                  record in the log: key is equal ──► answer
//!            hashes: one a entry, so that merges make filters without a look at records
//! ```

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use firn_engine::PrefixExtractor;
use firn_format::filter::Filter;
use firn_format::key::{Trailer, key_prefix};
use firn_format::log::Record;
use firn_format::table::ReferenceSet;
use firn_format::tombstone::FragmentList;
use firn_format::{Position, Sequence};
use firn_storage::{Error, ErrorKind, Result};

use super::entry::RunEntry;
use super::index::PrefixIndex;
use crate::records::Records;

mod build;
mod cursor;
mod prefetch;

pub(crate) use build::Parts;
pub(super) use build::shared_prefix;
pub(crate) use build::{Filtering, FrozenEntries};
pub(crate) use cursor::RunCursor;

/// Entries of one prefix up to which a search walks them by their hashes instead of halving by
/// their keys.
const WALK_MAX: usize = 32;

/// A sorted, immutable index over the records of one keyspace in a stretch of the log. Shared by
/// versions and cursors. A holder also keeps the segments of its span alive. What always holds:
///
/// 1. Entries are sorted by (key, newest first), and no two have one sequence.
/// 2. All keys begin with `common`; an entry's prefix is `key_prefix(key, common.len())`.
/// 3. `hashes[i]` is the filter hash of the key of `entries[i]`, and is in the filter.
/// 4. No entry is a range tombstone: those are in `range_deletes` alone.
/// 5. Every sequence of its entries and tombstones lies in `span`.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) common: Vec<u8>,
    pub(super) entries: Vec<RunEntry>,
    pub(super) hashes: Vec<u32>,
    index: PrefixIndex,
    filter: Filter,
    pub(super) prefixes: PrefixSet,
    range_deletes: RangeDeletes,
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
    pub(super) span: Range<Position>,
    level: u32,
    #[cfg(test)]
    sequence_range: Option<(Sequence, Sequence)>,
    pub(super) live_bytes: u64,
    pub(super) dropped: Dropped,
    superseding: Superseding,
}

/// The range tombstones of a run, and the greatest of their sequences.
#[derive(Debug)]
struct RangeDeletes {
    list: Arc<FragmentList>,
    newest: Option<Sequence>,
}

impl RangeDeletes {
    fn new(list: Arc<FragmentList>) -> Self {
        let newest = list.sequence_range().map(|(_, newest)| newest);
        Self { list, newest }
    }

    #[inline]
    fn newest_covering(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        if self.list.is_empty() {
            return None;
        }
        self.list.newest_covering(key, before)
    }
}

/// What a run makes superfluous in older runs and tables, estimated; all 0 where it was not.
#[derive(Debug, Default)]
struct Superseding {
    /// Share of the run's keys that they hold too.
    overwrites: f64,
    /// Bytes of tables.
    hidden_bytes: u64,
}

/// What merges left out on the way to a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Dropped {
    /// How many entries.
    pub(crate) count: u64,
    /// Bytes of their records in the log.
    pub(crate) record_bytes: u64,
    /// Greatest sequence of a record that made a dropped one superfluous; 0 without drops.
    pub(crate) relied_on: Sequence,
    /// Separated values that they refer to.
    pub(crate) references: ReferenceSet,
}

/// The extracted prefixes of a run's keys.
#[derive(Debug, Default)]
pub(crate) struct PrefixSet {
    /// Their filter hashes, sorted, each once; empty without an extractor.
    pub(super) hashes: Vec<u32>,
    filter: Filter,
    /// Whether there is an extractor, so that a look at the filter means something.
    extracted: bool,
}

impl Run {
    /// The newest version of `key` below `before`, whatever its kind (never a range tombstone).
    ///
    /// `hash` is the key's [`filter_hash`](firn_format::filter::filter_hash). Blocks for nothing
    /// but memory.
    ///
    /// # Panics
    /// If `records` has lost a record of this run's span: a bug in the run's holder.
    #[inline]
    pub(crate) fn newest<'r, R: Records + ?Sized>(
        &self,
        hash: u32,
        key: &[u8],
        before: Sequence,
        records: &'r R,
    ) -> Option<(Trailer, Record<'r>)> {
        if !self.filter.contains(hash) {
            return None;
        }
        let prefix = key_prefix(key.strip_prefix(self.common.as_slice())?, 0);
        let first = self.index.lower_bound(&self.entries, prefix);
        let tail = self.entries.get(first..)?;
        let entry = tail.first().filter(|entry| entry.prefix == prefix)?;
        if tail.get(1).is_some_and(|second| second.prefix == prefix) {
            return self.newest_of_many(first, hash, key, before, records);
        }
        if entry.trailer.sequence() >= before {
            return None;
        }
        let record = present(*entry, records);
        (record.key == key).then_some((entry.trailer, record))
    }

    /// The same among the entries from `first` on that share its prefix.
    fn newest_of_many<'r, R: Records + ?Sized>(
        &self,
        first: usize,
        hash: u32,
        key: &[u8],
        before: Sequence,
        records: &'r R,
    ) -> Option<(Trailer, Record<'r>)> {
        let end = self.prefix_end(first);
        if end - first <= WALK_MAX {
            let entries = self.entries[first..end].iter().zip(&self.hashes[first..end]);
            let candidates = entries.filter(|(entry, at)| **at == hash && entry.trailer.sequence() < before);
            return candidates
                .map(|(entry, _)| (entry.trailer, present(*entry, records)))
                .find(|(_, record)| record.key == key);
        }
        let group = &self.entries[first..end];
        let wanted = group.partition_point(|entry| {
            let at = present(*entry, records).key.cmp(key);
            at == Ordering::Less || at == Ordering::Equal && entry.trailer.sequence() >= before
        });
        let entry = group.get(wanted)?;
        let record = present(*entry, records);
        (record.key == key).then_some((entry.trailer, record))
    }

    /// All versions of `key` below `before`, newest first. One search, then a walk over the key's
    /// versions.
    ///
    /// # Errors
    /// `Corrupt` if `records` has no record for an entry that the search asks for.
    ///
    /// # Panics
    /// As [`newest`](Self::newest).
    pub(crate) fn versions<'v, R: Records + ?Sized>(
        &'v self,
        key: &'v [u8],
        before: Sequence,
        records: &'v R,
    ) -> Result<impl Iterator<Item = (Trailer, Record<'v>)>> {
        let first = self.lower_bound(key, records)?;
        let from_key = self.entries.get(first..).unwrap_or_default().iter();
        let of_key = from_key.map(move |entry| (entry.trailer, present(*entry, records)));
        let of_key = of_key.take_while(move |(_, record)| record.key == key);
        Ok(of_key.filter(move |(trailer, _)| trailer.sequence() < before))
    }

    /// Whether a key of this hash may have a version here; `false` is certain. Range tombstones do
    /// not count.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u32) -> bool {
        !self.entries.is_empty() && self.filter.contains(hash)
    }

    /// Whether a key with an extracted prefix of this hash may have a version here; `false` is
    /// certain. `true` if the run was built without an extractor.
    #[inline]
    pub(crate) fn may_contain_prefix(&self, hash: u32) -> bool {
        if !self.prefixes.extracted {
            return !self.entries.is_empty();
        }
        !self.prefixes.hashes.is_empty() && self.prefixes.filter.contains(hash)
    }

    /// The newest range tombstone below `before` that covers `key`.
    #[inline]
    pub(crate) fn newest_covering_range_delete(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        self.range_deletes.newest_covering(key, before)
    }

    /// A cursor over its versions below `before`; `records` is anything that leads to them
    /// (`Arc<…>`, `&…`).
    pub(crate) fn cursor<P>(self: &Arc<Self>, before: Sequence, records: P) -> RunCursor<P> {
        RunCursor::new(Arc::clone(self), before, records)
    }

    /// Its range tombstones.
    pub(crate) fn range_tombstones(&self) -> &Arc<FragmentList> {
        &self.range_deletes.list
    }

    /// The greatest sequence of its range tombstones; `None` if it has none. O(1).
    pub(crate) fn newest_range_delete(&self) -> Option<Sequence> {
        self.range_deletes.newest
    }

    /// Smallest and greatest key with a version here; `None` if it holds range tombstones only, or
    /// nothing.
    pub(crate) fn keys(&self) -> Option<(&[u8], &[u8])> {
        (!self.entries.is_empty()).then_some((self.smallest.as_slice(), self.largest.as_slice()))
    }

    /// Of every `step`-th entry the position, the filter hash, and whether it is the newest of its
    /// key.
    pub(crate) fn sample_newest(&self, step: usize) -> impl Iterator<Item = (Position, u32, bool)> {
        // Two neighbours with one hash nearly always have one key.
        let is_newest = |at: usize| at == 0 || self.hashes[at - 1] != self.hashes[at];
        let each = (0..self.entries.len()).step_by(step);
        each.map(move |at| (self.entries[at].position(), self.hashes[at], is_newest(at)))
    }

    /// Positions and filter hashes of every `step`-th entry.
    pub(crate) fn sample(&self, step: usize) -> impl Iterator<Item = (Position, u32)> {
        self.entries.iter().zip(&self.hashes).step_by(step).map(|(entry, hash)| (entry.position(), *hash))
    }

    /// How many versions.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds neither versions nor range tombstones.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.range_deletes.list.is_empty()
    }

    /// The stretch of the log whose records of the keyspace it stands for, dropped ones included.
    pub(crate) fn span(&self) -> Range<Position> {
        self.span.clone()
    }

    /// Its level in the buffer: 0 = a frozen memtable.
    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    /// Smallest and greatest sequence of its versions and range tombstones.
    #[cfg(test)]
    pub(crate) fn sequence_range(&self) -> Option<(Sequence, Sequence)> {
        self.sequence_range
    }

    /// Bytes in the log of the records it refers to, range tombstones included.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// What merges left out on the way to this run; the record bytes are garbage in its span.
    pub(crate) fn dropped(&self) -> &Dropped {
        &self.dropped
    }

    /// Estimated share of its keys that older tables hold too; 0 where it was not estimated.
    pub(crate) fn overwrites(&self) -> f64 {
        self.superseding.overwrites
    }

    /// Bytes of tables that it hides, about.
    pub(crate) fn hidden_bytes(&self) -> u64 {
        self.superseding.hidden_bytes
    }

    /// Sets about how many of its keys older runs and tables hold too, and how many bytes of tables
    /// it hides.
    pub(crate) fn set_superseding(&mut self, overwrites: f64, hidden_bytes: u64) {
        self.superseding = Superseding { overwrites, hidden_bytes };
    }

    /// Bytes of memory the run takes, records not included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entries = self.entries.capacity() * size_of::<RunEntry>();
        let hashes = (self.hashes.capacity() + self.prefixes.hashes.capacity()) * size_of::<u32>();
        let filters = self.filter.memory_bytes() + self.prefixes.filter.memory_bytes();
        let keys = self.common.capacity() + self.smallest.capacity() + self.largest.capacity();
        let indexes = self.index.memory_bytes() + self.range_deletes.list.memory_bytes();
        (size_of::<Self>() + entries + hashes + filters + keys + indexes) as u64
    }

    /// Index of the first entry whose key is `key` or greater.
    fn lower_bound<R: Records + ?Sized>(&self, key: &[u8], records: &R) -> Result<usize> {
        let Some(rest) = key.strip_prefix(self.common.as_slice()) else {
            return Ok(if key < self.common.as_slice() { 0 } else { self.entries.len() });
        };
        let prefix = key_prefix(rest, 0);
        let mut low = self.index.lower_bound(&self.entries, prefix);
        if self.entries.get(low).is_none_or(|entry| entry.prefix != prefix) {
            return Ok(low);
        }
        let mut high = self.prefix_end(low);
        while low < high {
            let middle = low + (high - low) / 2;
            if find(self.entries[middle], records)?.key < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The end of the entries from `first` on that share its prefix.
    fn prefix_end(&self, first: usize) -> usize {
        let tail = &self.entries[first..];
        let Some(prefix) = tail.first().map(|entry| entry.prefix) else { return first };
        if let Some(length) = tail.iter().take(WALK_MAX + 1).position(|entry| entry.prefix != prefix) {
            return first + length;
        }
        match prefix.checked_add(1) {
            Some(next) => self.index.lower_bound(&self.entries, next),
            None => self.entries.len(),
        }
    }
}

/// The record of `entry`.
///
/// # Errors
/// `Corrupt` if `records` has none there.
#[inline]
pub(super) fn find<'r, R: Records + ?Sized>(entry: RunEntry, records: &'r R) -> Result<Record<'r>> {
    records.record(entry.position()).ok_or_else(|| lost(entry))
}

/// The record of `entry`, which must be there.
#[inline]
fn present<'r, R: Records + ?Sized>(entry: RunEntry, records: &'r R) -> Record<'r> {
    match records.record(entry.position()) {
        Some(record) => record,
        None => missing(entry),
    }
}

#[cold]
fn lost(entry: RunEntry) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "",
        format!("a run refers to log position {}, where no record is", entry.position()),
    )
}

#[cold]
#[inline(never)]
fn missing(entry: RunEntry) -> ! {
    panic!("{}", lost(entry))
}

#[cfg(test)]
pub(super) mod tests;
