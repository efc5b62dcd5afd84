//! The entries: an array that only grows, in chunks that never move.
//!
//! An entry is born when a writer takes the next index, and is a *hole* until that writer has stored its trailer,
//! last and with release. Prefix, trailer and hash never change afterwards; the links belong to `points`.

use super::points::Link;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use firn_format::key::{Sequence, Trailer};
use std::sync::OnceLock;

/// Entries in a chunk.
const CHUNK_ENTRIES: u32 = if cfg!(loom) { 4 } else { 1024 };

/// Chunks named by the first shelf; each further shelf names twice as many.
const SHELF_CHUNKS: u32 = 64;

/// As many as it takes to name every chunk of 2^32 entries.
const SHELVES: usize = 17;

/// What the memtable knows of one record; half a cache line.
#[repr(align(32))]
pub(super) struct Entry {
    prefix: AtomicU64,
    /// Zero while the entry is a hole: no trailer is zero, because no kind is.
    trailer: AtomicU64,
    hash: AtomicU32,
    /// Next group in the bucket.
    pub(super) chain: Link,
    /// Newest entry of the group that this entry leads.
    pub(super) newest: Link,
    /// Next older entry of the same group.
    pub(super) older: Link,
}

const _: () = assert!(cfg!(loom) || size_of::<Entry>() == 32);

impl Entry {
    fn hole() -> Self {
        Self {
            prefix: AtomicU64::new(0),
            trailer: AtomicU64::new(0),
            hash: AtomicU32::new(0),
            chain: Link::none(),
            newest: Link::none(),
            older: Link::none(),
        }
    }

    #[inline]
    pub(super) fn prefix(&self) -> u64 {
        self.prefix.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn hash(&self) -> u32 {
        self.hash.load(Ordering::Relaxed)
    }

    /// The trailer of an entry that was reached by a link, and so is no hole.
    #[inline]
    pub(super) fn trailer(&self) -> Trailer {
        Trailer(self.trailer.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn sequence(&self) -> Sequence {
        self.trailer().sequence()
    }

    /// The trailer; `None` for a hole. With it, prefix and hash are there to be read.
    #[inline]
    pub(super) fn trailer_unless_hole(&self) -> Option<Trailer> {
        let trailer = self.trailer.load(Ordering::Acquire);
        (trailer != 0).then_some(Trailer(trailer))
    }
}

type Chunk = Box<[Entry]>;
type Shelf = Box<[OnceLock<Chunk>]>;

/// All entries of a memtable, holes included.
pub(super) struct Entries {
    taken: AtomicU32,
    shelves: [OnceLock<Shelf>; SHELVES],
}

impl Entries {
    /// No entry; the first chunk is there.
    pub(super) fn new() -> Self {
        let entries = Self { taken: AtomicU32::new(0), shelves: [const { OnceLock::new() }; SHELVES] };
        entries.chunk(0);
        entries
    }

    /// Indices taken so far. Whoever has seen a record published finds its entry among them.
    #[inline]
    pub(super) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Fills the next entry and returns its index.
    ///
    /// Allocates one time in [`CHUNK_ENTRIES`], half a chunk before the new chunk is needed, so that nobody waits.
    #[inline]
    pub(super) fn push(&self, prefix: u64, hash: u32, trailer: Trailer) -> (u32, &Entry) {
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(index < u32::MAX - 1, "a memtable of 2^32 entries");
        if index % CHUNK_ENTRIES == CHUNK_ENTRIES / 2 {
            self.chunk(index / CHUNK_ENTRIES + 1);
        }
        let entry = &self.chunk(index / CHUNK_ENTRIES)[(index % CHUNK_ENTRIES) as usize];
        entry.prefix.store(prefix, Ordering::Relaxed);
        entry.hash.store(hash, Ordering::Relaxed);
        entry.trailer.store(trailer.0, Ordering::Release);
        (index, entry)
    }

    /// The entry at `index`; `None` if its chunk is not there yet (then it is a hole).
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        let (shelf, place) = place_of(index / CHUNK_ENTRIES);
        let chunk = self.shelves[shelf].get()?[place].get()?;
        chunk.get((index % CHUNK_ENTRIES) as usize)
    }

    /// The entry that a link names.
    ///
    /// # Panics
    /// If nobody has filled it.
    #[inline]
    pub(super) fn linked(&self, index: u32) -> &Entry {
        match self.get(index) {
            Some(entry) => entry,
            None => unreachable!("a link to entry {index}, which was never filled"),
        }
    }

    #[inline]
    fn chunk(&self, number: u32) -> &Chunk {
        let (shelf, place) = place_of(number);
        let shelf = self.shelves[shelf]
            .get_or_init(|| (0..(SHELF_CHUNKS as usize) << shelf).map(|_| OnceLock::new()).collect());
        shelf[place].get_or_init(|| (0..CHUNK_ENTRIES).map(|_| Entry::hole()).collect())
    }

    /// Bytes of the chunks in use.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.taken().div_ceil(CHUNK_ENTRIES).max(1) as usize;
        chunks * CHUNK_ENTRIES as usize * size_of::<Entry>()
    }
}

/// Shelf and place on it of chunk `number`.
#[inline]
fn place_of(number: u32) -> (usize, usize) {
    let shifted = u64::from(number) + u64::from(SHELF_CHUNKS);
    let shelf = shifted.ilog2() - SHELF_CHUNKS.ilog2();
    (shelf as usize, (shifted - (u64::from(SHELF_CHUNKS) << shelf)) as usize)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for number in 0..100_000 {
            assert_eq!(place_of(number), expected);
            expected.1 += 1;
            if expected.1 == (SHELF_CHUNKS as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place_of(u32::MAX / CHUNK_ENTRIES).0, SHELVES - 1);
    }
}
