//! Finding the newest version of a key: hash tables over the entries.
//!
//! # Protocol
//!
//! ```text
//!   table 0 ─ bucket ─► leader ──chain──► leader ──chain──► ∅      one leader a hash: a *group*
//!   (1x)                  │ newest           │ newest
//!   table 1               ▼                  ▼
//!   (8x) …              entry 90           entry 12                 of one group: newest first
//!                         │ older             │ older
//!                         ▼                   ▼
//!                       entry 71             ∅
//! ```
//! - A [`Link`] is the index of an entry, or none. Links change by compare-and-swap with release
//!   and are read with acquire, so a thread that follows one finds the entry filled.
//! - A *group* is all entries of one table with one hash: mostly the versions of one key. It exists
//!   from the moment its first entry, the *leader*, is linked into the bucket. Leaders are pushed
//!   at the bucket's head. A writer that loses the race looks at the newer leaders before trying
//!   again, so no hash has two leaders.
//! - A group's entries are linked by falling sequence, from the leader's `newest`. A writer walks
//!   to the first entry older than its own (nearly always the first of all) and swaps its entry in
//!   before that. Entries are never unlinked, so after a lost race a writer resumes where it was.
//! - Only [`Points::newest`] and [`Points::versions`] look at the bytes of a record here, and only
//!   at records that their caller may see. Insertion compares hashes and sequences.
//! - **Reads are complete**: a record is published after its entry is linked, and an entry that was
//!   linked stays reachable from its bucket. New entries go in before or behind a reader, never
//!   instead of an entry.
//!
//! Tables: entry `i` belongs to table 0 while `i` is below its bucket count, then to table 1, eight
//! times as large, and so on. So nothing is rehashed, and chains stay short whatever the memtable
//! grows to. Where the expected count was right there is one table. A read asks every table, since
//! neighbours in time may lie in two.

use super::entries::{Entries, Entry};
use crate::Records;
use crate::sync::{AtomicU32, Ordering};
use firn_format::Position;
use firn_format::key::{Sequence, Trailer};
use firn_format::log::Record;
use firn_storage::backend::prefetch;
use std::sync::OnceLock;

/// log2 of the ratio between one table and the next.
const GROWTH_SHIFT: u32 = 3;

/// Enough for 2^32 entries from the smallest first table.
const TABLES: usize = 11;

/// Buckets of the first table: limits for what is expected.
const BUCKETS_MIN: usize = if cfg!(loom) { 1 } else { 16 };
const BUCKETS_MAX: usize = 1 << 24;

/// The index of an entry, or none.
pub(super) struct Link(AtomicU32);

impl Link {
    pub(super) fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    fn load(&self) -> Option<u32> {
        self.0.load(Ordering::Acquire).checked_sub(1)
    }

    /// For an entry that no link leads to yet: the swap that links it releases this.
    #[inline]
    fn set(&self, to: Option<u32>) {
        self.0.store(to.map_or(0, |index| index + 1), Ordering::Relaxed);
    }

    /// Makes the link point to `new` if it still is `current`.
    #[inline]
    fn swap(&self, current: Option<u32>, new: u32) -> bool {
        let current = current.map_or(0, |index| index + 1);
        self.0.compare_exchange(current, new + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

type Table = Box<[Link]>;

/// The hash tables of a memtable.
pub(super) struct Points {
    first_buckets: usize,
    tables: [OnceLock<Table>; TABLES],
}

impl Points {
    /// For about `expected_entries` entries; more make further tables.
    pub(super) fn new(expected_entries: usize) -> Self {
        let with_room = expected_entries + expected_entries / 8;
        let first_buckets = with_room.clamp(BUCKETS_MIN, BUCKETS_MAX).next_power_of_two();
        let points = Self { first_buckets, tables: [const { OnceLock::new() }; TABLES] };
        // Loom does not see what `OnceLock` orders, so there the tables that tests reach are made
        // at once.
        (0..if cfg!(loom) { 2 } else { 1 }).for_each(|number| {
            points.table(number);
        });
        points
    }

    /// The table that entry `index` belongs to. One writer makes the next table shortly before it
    /// is needed, so that the others need not wait.
    #[inline]
    fn table_of(&self, index: u32) -> &Table {
        let (mut number, mut buckets, mut index) = (0, self.first_buckets, index as usize);
        while index >= buckets {
            index -= buckets;
            buckets <<= GROWTH_SHIFT;
            number += 1;
        }
        if index == buckets - 1 - buckets / 16 && number + 1 < TABLES {
            self.table(number + 1);
        }
        self.table(number)
    }

    #[inline]
    fn table(&self, number: usize) -> &Table {
        self.tables[number].get_or_init(|| {
            let buckets = self.first_buckets << (GROWTH_SHIFT as usize * number);
            (0..buckets).map(|_| Link::none()).collect()
        })
    }

    /// Links a filled entry. Lock-free.
    #[inline]
    pub(super) fn insert(&self, entries: &Entries, index: u32, entry: &Entry) {
        let hash = entry.hash();
        let table = self.table_of(index);
        let bucket = &table[hash as usize & (table.len() - 1)];
        let mut seen_leader = None;
        loop {
            let first = bucket.load();
            let mut next = first;
            while next != seen_leader {
                let Some(leader) = next else { break };
                let leader = entries.linked(leader);
                if leader.hash() == hash {
                    return insert_into_group(entries, &leader.newest, index, entry);
                }
                next = leader.chain.load();
            }
            entry.newest.set(Some(index));
            entry.chain.set(first);
            if bucket.swap(first, index) {
                return;
            }
            seen_leader = first;
        }
    }

    /// The newest entry of `key` with a sequence below `before`, and its record. Wait-free.
    #[inline]
    pub(super) fn newest<'r, R: Records + ?Sized>(
        &self,
        entries: &Entries,
        hash: u32,
        key: &[u8],
        before: Sequence,
        records: &'r R,
    ) -> Option<(Trailer, Record<'r>)> {
        let mut newest: Option<(Trailer, Record<'r>)> = None;
        for table in &self.tables {
            let Some(table) = table.get() else { break };
            let mut next = table[hash as usize & (table.len() - 1)].load();
            while let Some(leader) = next {
                let leader = entries.linked(leader);
                if leader.hash() == hash {
                    let floor = newest.as_ref().map(|(trailer, _)| *trailer);
                    if let Some(found) = newest_of_group(entries, leader, key, before, floor, records) {
                        newest = Some(found);
                    }
                    break;
                }
                next = leader.chain.load();
            }
        }
        newest
    }

    /// All versions of `key` with a sequence below `before`, newest first. Wait-free, no
    /// allocation; each entry of the key's groups is passed once.
    pub(super) fn versions<'v, R: Records + ?Sized>(
        &'v self,
        entries: &'v Entries,
        (hash, key): (u32, &'v [u8]),
        before: Sequence,
        records: &'v R,
    ) -> Versions<'v, R> {
        let mut next = [None; TABLES];
        for (bucket, next) in self.buckets(hash).zip(&mut next) {
            let mut leader = bucket.load().map(|leader| entries.linked(leader));
            while let Some(other) = leader.filter(|leader| leader.hash() != hash) {
                leader = other.chain.load().map(|leader| entries.linked(leader));
            }
            *next = leader.and_then(|leader| leader.newest.load()).map(|newest| entries.linked(newest));
        }
        Versions { entries, records, key, before, next }
    }

    /// See [`Memtable::prefetch_bucket`](super::Memtable::prefetch_bucket).
    #[inline]
    pub(super) fn prefetch_bucket(&self, hash: u32) {
        self.buckets(hash).for_each(prefetch);
    }

    /// See [`Memtable::prefetch_entry`](super::Memtable::prefetch_entry).
    #[inline]
    pub(super) fn prefetch_entry(&self, entries: &Entries, hash: u32) {
        self.buckets(hash).filter_map(Link::load).for_each(|leader| prefetch(entries.linked(leader)));
    }

    /// See [`Memtable::likely_position`](super::Memtable::likely_position).
    #[inline]
    pub(super) fn likely_position(&self, entries: &Entries, hash: u32) -> Option<Position> {
        self.buckets(hash).find_map(|bucket| {
            let mut next = bucket.load();
            while let Some(leader) = next {
                let leader = entries.linked(leader);
                if leader.hash() == hash {
                    let newest = entries.linked(leader.newest.load()?);
                    return Some(newest.sequence().position());
                }
                next = leader.chain.load();
            }
            None
        })
    }

    /// The bucket of a hash in each table.
    #[inline]
    fn buckets(&self, hash: u32) -> impl Iterator<Item = &Link> {
        let tables = self.tables.iter().map_while(OnceLock::get);
        tables.map(move |table| &table[hash as usize & (table.len() - 1)])
    }

    /// Bytes of the tables in use.
    pub(super) fn memory_bytes(&self) -> usize {
        self.tables.iter().filter_map(OnceLock::get).map(|table| table.len() * size_of::<Link>()).sum()
    }

    /// Every entry in the order of the links, for tests: leaders by bucket, each with its group.
    #[cfg(any(test, loom))]
    pub(super) fn groups(&self, entries: &Entries) -> Vec<(u32, Vec<Sequence>)> {
        let mut groups = Vec::new();
        for bucket in self.tables.iter().filter_map(OnceLock::get).flatten() {
            let mut next = bucket.load();
            while let Some(leader) = next {
                let leader = entries.linked(leader);
                let (mut sequences, mut member) = (Vec::new(), leader.newest.load());
                while let Some(index) = member {
                    sequences.push(entries.linked(index).sequence());
                    member = entries.linked(index).older.load();
                }
                groups.push((leader.hash(), sequences));
                next = leader.chain.load();
            }
        }
        groups
    }
}

/// Versions of one key, newest first: the groups of all tables, merged by sequence.
///
/// Complete for its reader as a lookup is: what comes into a group later is not below `before`.
pub(super) struct Versions<'v, R: ?Sized> {
    entries: &'v Entries,
    records: &'v R,
    key: &'v [u8],
    before: Sequence,
    /// The entry that each table's group goes on with.
    next: [Option<&'v Entry>; TABLES],
}

impl<'v, R: Records + ?Sized> Iterator for Versions<'v, R> {
    type Item = (Trailer, Record<'v>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let newest = self.next.iter_mut().max_by_key(|next| next.map(Entry::sequence))?;
            let entry = (*newest)?;
            *newest = entry.older.load().map(|older| self.entries.linked(older));
            let trailer = entry.trailer();
            if trailer.sequence() < self.before {
                let record = super::record_of(self.records, trailer);
                if record.key == self.key {
                    return Some((trailer, record));
                }
            }
        }
    }
}

/// Swaps the entry in before the first older one, from `link` on.
#[inline]
fn insert_into_group<'e>(entries: &'e Entries, mut link: &'e Link, index: u32, entry: &Entry) {
    let sequence = entry.sequence();
    loop {
        let next = link.load();
        if let Some(newer) = next.map(|next| entries.linked(next)).filter(|next| next.sequence() > sequence) {
            link = &newer.older;
            continue;
        }
        entry.older.set(next);
        if link.swap(next, index) {
            return;
        }
    }
}

#[inline]
fn newest_of_group<'r, R: Records + ?Sized>(
    entries: &Entries,
    leader: &Entry,
    key: &[u8],
    before: Sequence,
    floor: Option<Trailer>,
    records: &'r R,
) -> Option<(Trailer, Record<'r>)> {
    let mut next = leader.newest.load();
    while let Some(index) = next {
        let entry = entries.linked(index);
        let trailer = entry.trailer();
        if floor.is_some_and(|floor| trailer < floor) {
            return None;
        }
        if trailer.sequence() < before {
            let record = super::record_of(records, trailer);
            if record.key == key {
                return Some((trailer, record));
            }
        }
        next = entry.older.load();
    }
    None
}
