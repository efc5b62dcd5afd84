//! The entries: an array that only grows, in chunks that never move.
//!
//! The first chunks are small and double, so that a memtable of few records takes little memory.
//! From [`CHUNK_ENTRIES`] entries on all are alike.
//!
//! An entry is born when a writer takes the next index. It is a *hole* until that writer has stored
//! its trailer, last and with release. Prefix, trailer and hash never change afterwards; the links
//! belong to `points`.

use super::points::Link;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use firn_format::key::{Sequence, Trailer};
use std::sync::OnceLock;

/// Entries in a chunk.
const CHUNK_ENTRIES: u32 = if cfg!(loom) { 4 } else { 1024 };

/// Entries in the first chunk; each further chunk holds as many as all before it, up to
/// [`CHUNK_ENTRIES`] together.
const FIRST_ENTRIES: u32 = if cfg!(loom) { 4 } else { 16 };

/// Chunks before the first of [`CHUNK_ENTRIES`].
const SMALL_CHUNKS: usize = (CHUNK_ENTRIES.ilog2() - FIRST_ENTRIES.ilog2() + 1) as usize;

/// Chunks named by the first shelf; each further shelf names twice as many.
const SHELF_CHUNKS: u32 = 64;

/// Enough shelves to name every chunk of 2^32 entries.
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
    /// Of the first [`CHUNK_ENTRIES`] entries.
    small: [OnceLock<Chunk>; SMALL_CHUNKS],
    /// Of the others, by their index in units of [`CHUNK_ENTRIES`], less one.
    shelves: [OnceLock<Shelf>; SHELVES],
}

impl Entries {
    /// No entry; the first chunk is there.
    pub(super) fn new() -> Self {
        let entries = Self {
            taken: AtomicU32::new(0),
            small: [const { OnceLock::new() }; SMALL_CHUNKS],
            shelves: [const { OnceLock::new() }; SHELVES],
        };
        entries.chunk(ChunkPlace::of(0));
        entries
    }

    /// Indices taken so far. A thread that has seen a record published finds its entry among them.
    #[inline]
    pub(super) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Fills the next entry and returns its index.
    ///
    /// Allocates when a chunk is half full, the next one, so that no writer waits for it.
    #[inline]
    pub(super) fn push(&self, prefix: u64, hash: u32, trailer: Trailer) -> (u32, &Entry) {
        // In one order with the count of gaps (see `gaps`).
        let index = self.taken.fetch_add(1, Ordering::SeqCst);
        assert!(index < u32::MAX - 1, "a memtable of 2^32 entries");
        let place = ChunkPlace::of(index);
        let chunk = self.chunk(place);
        if place.offset as usize == chunk.len() / 2 {
            self.chunk(ChunkPlace::of(index - place.offset + chunk.len() as u32));
        }
        let entry = &chunk[place.offset as usize];
        entry.prefix.store(prefix, Ordering::Relaxed);
        entry.hash.store(hash, Ordering::Relaxed);
        entry.trailer.store(trailer.0, Ordering::Release);
        (index, entry)
    }

    /// The entry at `index`; `None` if its chunk is not there yet (then it is a hole).
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        let place = ChunkPlace::of(index);
        let chunk = match place.chunk {
            ChunkName::Small(number) => self.small[number].get()?,
            ChunkName::Large { shelf, number } => self.shelves[shelf].get()?[number].get()?,
        };
        chunk.get(place.offset as usize)
    }

    /// The entry that a link names.
    ///
    /// # Panics
    /// If its chunk is not there.
    #[inline]
    pub(super) fn linked(&self, index: u32) -> &Entry {
        match self.get(index) {
            Some(entry) => entry,
            None => unreachable!("a link to entry {index}, which was never filled"),
        }
    }

    #[inline]
    fn chunk(&self, place: ChunkPlace) -> &Chunk {
        match place.chunk {
            ChunkName::Small(number) => self.small[number].get_or_init(|| holes(small_entries(number))),
            ChunkName::Large { shelf, number } => {
                let shelf = self.shelves[shelf]
                    .get_or_init(|| (0..(SHELF_CHUNKS as usize) << shelf).map(|_| OnceLock::new()).collect());
                shelf[number].get_or_init(|| holes(CHUNK_ENTRIES))
            }
        }
    }

    /// Bytes of the chunks in use.
    pub(super) fn memory_bytes(&self) -> usize {
        let taken = self.taken();
        let entries = match taken < CHUNK_ENTRIES {
            true => (taken + 1).next_power_of_two().max(FIRST_ENTRIES),
            false => taken.next_multiple_of(CHUNK_ENTRIES),
        };
        entries as usize * size_of::<Entry>()
    }
}

fn holes(count: u32) -> Chunk {
    (0..count).map(|_| Entry::hole()).collect()
}

/// Entries of small chunk `number`.
fn small_entries(number: usize) -> u32 {
    FIRST_ENTRIES << number.saturating_sub(1)
}

/// Where an entry lies: its chunk, and its place there.
#[derive(Clone, Copy)]
struct ChunkPlace {
    chunk: ChunkName,
    offset: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ChunkName {
    Small(usize),
    Large { shelf: usize, number: usize },
}

impl ChunkPlace {
    /// Of entry `index`.
    #[inline]
    fn of(index: u32) -> Self {
        if index >= CHUNK_ENTRIES {
            let (shelf, number) = place_of(index / CHUNK_ENTRIES - 1);
            return Self { chunk: ChunkName::Large { shelf, number }, offset: index % CHUNK_ENTRIES };
        }
        if index < FIRST_ENTRIES {
            return Self { chunk: ChunkName::Small(0), offset: index };
        }
        let bits = index.ilog2();
        let number = (bits - FIRST_ENTRIES.ilog2() + 1) as usize;
        Self { chunk: ChunkName::Small(number), offset: index - (1 << bits) }
    }
}

/// Shelf and place on it of large chunk `number`.
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
    fn every_entry_has_a_place_of_its_own() {
        let mut expected = (ChunkName::Small(0), 0);
        for index in 0..3 * CHUNK_ENTRIES {
            let place = ChunkPlace::of(index);
            if expected != (place.chunk, place.offset) {
                assert_eq!(place.offset, 0, "a chunk begins");
                let before = ChunkPlace::of(index - 1);
                let entries = match before.chunk {
                    ChunkName::Small(number) => small_entries(number),
                    ChunkName::Large { .. } => CHUNK_ENTRIES,
                };
                assert_eq!(before.offset + 1, entries, "after a full one");
            }
            expected = (place.chunk, place.offset + 1);
        }
        assert_eq!(ChunkPlace::of(CHUNK_ENTRIES).chunk, ChunkName::Large { shelf: 0, number: 0 });
    }

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
