//! The memtable itself.

use super::cursor::MemtableCursor;
use super::entries::Entries;
use super::gaps::Gaps;
use super::order::Order;
use super::points::Points;
use super::sample::Sample;
use super::tombstones::{RangeDeletes, Tombstones};
use super::unsorted::{Range, Unsorted};
use crate::Records;
use crate::buffer::{RunEntry, prefix_word};
use crate::sync::{AtomicUsize, Ordering};
use firn_format::key::{Sequence, Trailer};
use firn_format::log::Record;
use firn_format::tombstone::FragmentList;
use firn_format::{Kind, Position};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// What a memtable expects to hold at most where nothing is known of its keyspace.
const EXPECTED_ENTRIES: usize = if cfg!(loom) { 2 } else { 1 << 14 };

/// Bytes of a record where nothing is known yet.
const EXPECTED_RECORD_BYTES: u64 = 1024;

/// A mutable index over records of the log. Shared by all writers and readers of a keyspace until
/// it is flushed.
///
/// Writers insert a record after copying it and before publishing it. Every reader names the
/// sequence below which it sees; that must not exceed the published watermark. `records` must find
/// every published record.
/// 1. A reader at `before` finds exactly the inserted records with a sequence below `before`.
/// 2. Inserting never waits and moves nothing; it allocates once in a thousand times, and more
///    often at first.
/// 3. It holds any number of entries (below 2^32); the expected number decides speed only.
/// 4. An empty memtable takes some hundred bytes: its index is made by the first insertion.
pub(crate) struct Memtable {
    common_prefix: Option<Arc<[u8]>>,
    expected_entries: u32,
    record_bytes: AtomicUsize,
    index: OnceLock<Box<Index>>,
    tombstones: OnceLock<Box<Tombstones>>,
    /// The gaps of the keyspace.
    gaps: Arc<Gaps>,
}

/// The entries, and what finds them.
struct Index {
    entries: Entries,
    points: Points,
    order: Order,
    sample: Sample,
}

impl Index {
    fn new(expected_entries: u32) -> Self {
        Self {
            entries: Entries::new(),
            points: Points::new(expected_entries as usize),
            order: Order::new(),
            sample: Sample::new(),
        }
    }
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
    #[cfg(any(test, loom))]
    pub(crate) fn new(common_prefix: &[u8]) -> Self {
        Self::with_expected_entries(common_prefix, EXPECTED_ENTRIES, Arc::default())
    }

    /// An empty memtable for keys most of which begin with `common_prefix`, of the keyspace with
    /// those `gaps`. Its hash tables are for about `expected_entries`: 4 bytes each, allocated by
    /// the first insertion.
    pub(crate) fn with_expected_entries(
        common_prefix: &[u8],
        expected_entries: usize,
        gaps: Arc<Gaps>,
    ) -> Self {
        let memtable = Self {
            common_prefix: (!common_prefix.is_empty()).then(|| common_prefix.into()),
            expected_entries: u32::try_from(expected_entries).unwrap_or(u32::MAX),
            record_bytes: AtomicUsize::new(0),
            index: OnceLock::new(),
            tombstones: OnceLock::new(),
            gaps,
        };
        // Loom does not see what `OnceLock` orders, so there everything is made at once.
        if cfg!(loom) {
            memtable.index_to_fill();
            memtable.tombstones.get_or_init(|| Box::new(Tombstones::new()));
        }
        memtable
    }

    /// An empty memtable of one of `keyspace_count` keyspaces that share `bytes` of records. Its
    /// first record takes no more memory than its part of them allows.
    pub(crate) fn with_part_of(bytes: u64, keyspace_count: usize, gaps: Arc<Gaps>) -> Self {
        let expected = bytes / EXPECTED_RECORD_BYTES / keyspace_count.max(1) as u64;
        let expected = usize::try_from(expected).map_or(EXPECTED_ENTRIES, |n| n.min(EXPECTED_ENTRIES));
        Self::with_expected_entries(&[], expected, gaps)
    }

    /// An empty memtable to follow this one: for keys that begin alike, and for as many.
    pub(crate) fn successor(&self) -> Self {
        let entries = self.index().map_or(self.expected_entries, |index| index.entries.taken());
        Self::with_expected_entries(&self.common_prefix(), entries as usize, Arc::clone(&self.gaps))
    }

    #[inline]
    fn index(&self) -> Option<&Index> {
        self.index.get().map(|index| &**index)
    }

    #[inline]
    fn index_to_fill(&self) -> &Index {
        self.index.get_or_init(|| Box::new(Index::new(self.expected_entries)))
    }

    #[inline]
    fn tombstones(&self) -> Option<&Tombstones> {
        self.tombstones.get().map(|tombstones| &**tombstones)
    }

    /// What the words of entries come after.
    #[inline]
    fn words_after(&self) -> &[u8] {
        self.common_prefix.as_deref().unwrap_or_default()
    }

    /// Indexes a record of `key`, whose filter hash is `hash`. Not `DeleteRange`. Lock-free, except
    /// that a record that can be live waits for changes of the [gap](Gaps) of the keyspace that it
    /// lies in.
    ///
    /// Each sequence is inserted once.
    #[inline]
    pub(crate) fn insert(&self, hash: u32, key: &[u8], trailer: Trailer) {
        let Index { entries, points, sample, .. } = self.index_to_fill();
        let prefix = prefix_word(key, self.words_after());
        let (index, entry) = entries.push(prefix, hash, trailer);
        points.insert(entries, index, entry);
        sample.offer(index, key);
        if trailer.kind() != Some(Kind::Delete) {
            self.gaps.note_write(key);
        }
    }

    /// The gaps of the keyspace, which its memtables share.
    #[inline]
    pub(crate) fn gaps(&self) -> &Arc<Gaps> {
        &self.gaps
    }

    /// Whether a record that can be live may have come into `range` that `cursor` does not see.
    /// Without a cursor, this concerns all records. Exact for what is published, which `records`
    /// finds and whose sequences lie below `published`. Any writer that is at work may be taken for
    /// one that writes there.
    pub(crate) fn may_have_live<R: Records + ?Sized>(
        &self,
        range: Range<'_>,
        cursor: Option<&MemtableCursor<R>>,
        (published, records): (Sequence, &R),
    ) -> bool {
        let unsorted = cursor.map_or_else(Unsorted::all, MemtableCursor::unsorted);
        // Made here if there is none: a writer and this call must look at the same count of
        // entries.
        let entries = &self.index_to_fill().entries;
        unsorted.may_have_live(entries, self.words_after(), range, (published, records))
    }

    /// Indexes a range delete; one with `start >= end` deletes nothing. Waits for other range
    /// deletes at most.
    pub(crate) fn insert_range_delete(&self, start: &[u8], end: &[u8], sequence: Sequence) {
        let tombstones = self.tombstones.get_or_init(|| Box::new(Tombstones::new()));
        tombstones.insert(start, end, sequence);
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
        if let Some(index) = self.index() {
            index.points.prefetch_bucket(hash);
        }
    }

    /// Begins to load what such a lookup looks at next, once the first has arrived.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u32) {
        if let Some(index) = self.index() {
            index.points.prefetch_entry(&index.entries, hash);
        }
    }

    /// Where the record lies that such a lookup looks at last, if there is one.
    #[inline]
    pub(crate) fn likely_position(&self, hash: u32) -> Option<Position> {
        let index = self.index()?;
        index.points.likely_position(&index.entries, hash)
    }

    /// The newest version of `key` with a sequence below `before`, whatever its kind. Wait-free, no
    /// allocation.
    #[inline]
    pub(crate) fn newest<'r, R: Records + ?Sized>(
        &self,
        hash: u32,
        key: &[u8],
        before: Sequence,
        records: &'r R,
    ) -> Option<(Trailer, Record<'r>)> {
        let index = self.index()?;
        index.points.newest(&index.entries, hash, key, before, records)
    }

    /// All versions of `key` with a sequence below `before`, newest first. Wait-free; linear in the
    /// versions there are, where as many calls of [`newest`](Self::newest) would be quadratic.
    pub(crate) fn versions<'v, R: Records + ?Sized>(
        &'v self,
        (hash, key): (u32, &'v [u8]),
        before: Sequence,
        records: &'v R,
    ) -> impl Iterator<Item = (Trailer, Record<'v>)> {
        let index = self.index();
        index
            .into_iter()
            .flat_map(move |index| index.points.versions(&index.entries, (hash, key), before, records))
    }

    /// The newest range delete below `before` that covers `key`. No lock; one load if there are
    /// none.
    #[inline]
    pub(crate) fn newest_covering_range_delete(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        self.tombstones()?.newest_covering(key, before)
    }

    /// A cursor over the entries below `before`. It keeps what it needs and sees nothing newer.
    ///
    /// Sorts what was inserted since the last cursor; may wait while another thread does. Never
    /// waits for a writer.
    pub(crate) fn cursor<R: Records + ?Sized>(&self, before: Sequence, records: Arc<R>) -> MemtableCursor<R> {
        let view = match self.index() {
            Some(index) => index.order.view(&index.entries, before, &*records),
            None => Arc::default(),
        };
        MemtableCursor::new(view, self.common_prefix.clone(), before, records)
    }

    /// Entries that [`cursor`](Self::cursor) has to sort before it can be used: 4 096 take about a
    /// millisecond.
    pub(crate) fn entries_to_sort(&self, before: Sequence) -> usize {
        self.index().map_or(0, |index| index.order.entries_to_sort(&index.entries, before))
    }

    /// The range deletes below `before` in one list. O(n log n): for freezing; scans take
    /// [`range_delete_lists`](Self::range_delete_lists).
    pub(crate) fn range_deletes(&self, before: Sequence) -> Arc<FragmentList> {
        self.tombstones().map_or_else(Arc::default, |tombstones| tombstones.current().flatten(before))
    }

    /// Every range delete there is now, to be asked with a sequence. O(1).
    pub(crate) fn range_delete_lists(&self) -> Arc<RangeDeletes> {
        self.tombstones().map_or_else(Arc::default, Tombstones::current)
    }

    /// The greatest sequence of a range delete; `None` if there is none. One load then, O(1) else.
    pub(crate) fn newest_range_delete(&self) -> Option<Sequence> {
        self.tombstones()?.newest()
    }

    /// All entries in order, for the run that replaces this memtable. Every record is published and
    /// no writer is left.
    pub(crate) fn freeze_entries<R: Records + ?Sized>(&self, records: &R) -> SortedEntries {
        let sorted = self.index().map(|index| index.order.sort_all(&index.entries, records));
        let sorted = sorted.unwrap_or_default();
        SortedEntries { prefix: self.words_after().to_vec(), entries: sorted.entries, hashes: sorted.hashes }
    }

    /// What most keys here begin with, for the next memtable of the keyspace. Any time; looks at a
    /// sample.
    pub(crate) fn common_prefix(&self) -> Vec<u8> {
        let known = self.words_after();
        self.index().map_or_else(|| known.to_vec(), |index| index.sample.common_prefix(known))
    }

    /// Positions and filter hashes of every `step`-th record, in no order, published or not.
    pub(crate) fn sample(&self, step: usize) -> impl Iterator<Item = (Position, u32)> {
        let entries = self.index().map(|index| &index.entries);
        let entries = entries
            .into_iter()
            .flat_map(move |entries| (0..entries.taken()).step_by(step).filter_map(|at| entries.get(at)));
        entries.filter_map(|entry| Some((entry.trailer_unless_hole()?.sequence().position(), entry.hash())))
    }

    /// Entries and range deletes inserted, published or not.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let entries = self.index().map_or(0, |index| index.entries.taken() as usize);
        entries + self.tombstones().map_or(0, Tombstones::count)
    }

    /// Whether nothing was inserted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequences of each hash's versions as they are linked.
    #[cfg(any(test, loom))]
    pub(crate) fn groups(&self) -> Vec<(u32, Vec<Sequence>)> {
        self.index().map(|index| index.points.groups(&index.entries)).unwrap_or_default()
    }

    /// Bytes of this index, without the records.
    pub(crate) fn memory_bytes(&self) -> usize {
        let index = self.index().map_or(0, |index| {
            size_of::<Index>()
                + index.entries.memory_bytes()
                + index.points.memory_bytes()
                + index.order.memory_bytes()
        });
        size_of::<Self>() + index + self.tombstones().map_or(0, Tombstones::memory_bytes)
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("common_prefix", &self.words_after().escape_ascii().to_string())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
