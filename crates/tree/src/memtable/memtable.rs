//! The memtable itself.

use super::cursor::MemtableCursor;
use super::entries::Entries;
use super::order::Order;
use super::points::Points;
use super::sample::Sample;
use super::tombstones::{RangeDeletes, Tombstones};
use crate::Records;
use crate::buffer::{RunEntry, prefix_word};
use crate::sync::{AtomicUsize, Ordering};
use firn_format::Position;
use firn_format::key::{Sequence, Trailer};
use firn_format::log::Record;
use firn_format::tombstone::FragmentList;
use std::fmt;
use std::sync::Arc;

/// What a memtable expects to hold if nobody says better.
const EXPECTED_ENTRIES: usize = if cfg!(loom) { 2 } else { 1 << 14 };

/// A mutable index over records of the log. Database by all writers and readers of a keyspace until it is drained.
///
/// Writers insert a record after copying it and before publishing it. Every reader names the sequence below
/// which it sees; that must not exceed the published watermark. `records` must find every published record.
/// 1. A reader at `before` finds exactly the inserted records with a sequence below `before`.
/// 2. Inserting never waits and moves nothing; it allocates once in a thousand times.
/// 3. It holds any number of entries (below 2^32); the expected number decides speed only.
pub(crate) struct Memtable {
    common_prefix: Arc<[u8]>,
    entries: Entries,
    record_bytes: AtomicUsize,
    points: Points,
    order: Order,
    tombstones: Tombstones,
    sample: Sample,
}

/// The entries of a frozen memtable, in the form that runs take.
pub(crate) struct SortedEntries {
    /// What the entries' words come after.
    pub(crate) prefix: Vec<u8>,
    /// By key up, of one key newest first.
    pub(crate) entries: Vec<RunEntry>,
    /// The filter hash of each entry's key.
    pub(crate) hashes: Vec<u32>,
}

impl Memtable {
    /// An empty memtable for keys most of which begin with `common_prefix`.
    pub(crate) fn new(common_prefix: &[u8]) -> Self {
        Self::with_expected_entries(common_prefix, EXPECTED_ENTRIES)
    }

    /// As [`new`](Self::new), with hash tables for about `expected_entries` (4 bytes each, allocated now).
    pub(crate) fn with_expected_entries(common_prefix: &[u8], expected_entries: usize) -> Self {
        Self {
            common_prefix: common_prefix.into(),
            entries: Entries::new(),
            record_bytes: AtomicUsize::new(0),
            points: Points::new(expected_entries),
            order: Order::new(),
            tombstones: Tombstones::new(),
            sample: Sample::new(),
        }
    }

    /// An empty memtable to follow this one: for keys that begin alike, and for as many.
    pub(crate) fn successor(&self) -> Self {
        Self::with_expected_entries(&self.common_prefix(), self.entries.taken() as usize)
    }

    /// Indexes a record of `key`, whose filter hash is `hash`. Not `DeleteRange`. Lock-free.
    ///
    /// Each sequence is inserted once.
    #[inline]
    pub(crate) fn insert(&self, hash: u32, key: &[u8], trailer: Trailer) {
        let prefix = prefix_word(key, &self.common_prefix);
        let (index, entry) = self.entries.push(prefix, hash, trailer);
        self.points.insert(&self.entries, index, entry);
        self.sample.offer(index, key);
    }

    /// Indexes a range delete; one with `start >= end` deletes nothing. Waits for other range deletes at most.
    pub(crate) fn insert_range_delete(&self, start: &[u8], end: &[u8], sequence: Sequence) {
        self.tombstones.insert(start, end, sequence);
    }

    /// Notes how many bytes of the log the inserted records take.
    #[inline]
    pub(crate) fn charge(&self, record_bytes: usize) {
        self.record_bytes.fetch_add(record_bytes, Ordering::Relaxed);
    }

    /// Bytes of the log that its records take: the sum of what was [charged](Self::charge).
    #[inline]
    pub(crate) fn record_bytes(&self) -> usize {
        self.record_bytes.load(Ordering::Relaxed)
    }

    /// Begins to load what a lookup of a key with this hash looks at first.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u32) {
        self.points.prefetch_bucket(hash);
    }

    /// Begins to load what such a lookup looks at next, once the first has arrived.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u32) {
        self.points.prefetch_entry(&self.entries, hash);
    }

    /// Where the record lies that such a lookup looks at last, if there is one.
    #[inline]
    pub(crate) fn likely_position(&self, hash: u32) -> Option<Position> {
        self.points.likely_position(&self.entries, hash)
    }

    /// The newest version of `key` with a sequence below `before`, whatever its kind. Wait-free, no allocation.
    #[inline]
    pub(crate) fn newest<'r, R: Records + ?Sized>(
        &self,
        hash: u32,
        key: &[u8],
        before: Sequence,
        records: &'r R,
    ) -> Option<(Trailer, Record<'r>)> {
        self.points.newest(&self.entries, hash, key, before, records)
    }

    /// The newest range delete below `before` that covers `key`. No lock; one load if there are none.
    #[inline]
    pub(crate) fn newest_covering_range_delete(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        self.tombstones.newest_covering(key, before)
    }

    /// A cursor over the entries below `before`. It keeps what it needs and sees nothing newer.
    ///
    /// Sorts what was inserted since the last cursor; may wait while another thread does. Never waits for a writer.
    pub(crate) fn cursor<R: Records + ?Sized>(&self, before: Sequence, records: Arc<R>) -> MemtableCursor<R> {
        let view = self.order.view(&self.entries, before, &*records);
        MemtableCursor::new(view, Arc::clone(&self.common_prefix), before, records)
    }

    /// The range deletes below `before` in one list. O(n log n): for freezing; scans take
    /// [`range_delete_lists`](Self::range_delete_lists).
    pub(crate) fn range_deletes(&self, before: Sequence) -> Arc<FragmentList> {
        self.tombstones.current().flatten(before)
    }

    /// Every range delete there is now, to be asked with a sequence. O(1).
    pub(crate) fn range_delete_lists(&self) -> Arc<RangeDeletes> {
        self.tombstones.current()
    }

    /// The greatest sequence of a range delete; `None` if there is none. One load then, O(1) else.
    pub(crate) fn newest_range_delete(&self) -> Option<Sequence> {
        self.tombstones.newest()
    }

    /// All entries in order, for the run that replaces this memtable. Every record is published and no writer is left.
    pub(crate) fn freeze_entries<R: Records + ?Sized>(&self, records: &R) -> SortedEntries {
        let sorted = self.order.sort_all(&self.entries, records);
        SortedEntries { prefix: self.common_prefix.to_vec(), entries: sorted.entries, hashes: sorted.hashes }
    }

    /// What most keys here begin with, for the next memtable of the keyspace. Any time; looks at a sample.
    pub(crate) fn common_prefix(&self) -> Vec<u8> {
        self.sample.common_prefix()
    }

    /// Entries and range deletes inserted, published or not.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.taken() as usize + self.tombstones.count()
    }

    /// Whether nothing was inserted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequences of each hash's versions as they are linked.
    #[cfg(any(test, loom))]
    pub(crate) fn groups(&self) -> Vec<(u32, Vec<Sequence>)> {
        self.points.groups(&self.entries)
    }

    /// Bytes of this index, without the records.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
            + self.points.memory_bytes()
            + self.order.memory_bytes()
            + self.tombstones.memory_bytes()
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("common_prefix", &self.common_prefix.escape_ascii().to_string())
            .field("entries", &self.entries.taken())
            .field("range_deletes", &self.tombstones.count())
            .finish_non_exhaustive()
    }
}
