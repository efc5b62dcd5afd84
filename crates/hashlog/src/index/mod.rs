//! The hash index: from a key's hash to the newest record of its chain.
//!
//! ```text
//!   hash ─► slot ─► directory: run of 2^k buckets ─► bucket ─► entry with the key's tag ─► address
//!                                                      └─ overflow bucket ─► …
//! ```
//! A bucket is a cache line: seven entries and a link. The index holds no keys: keys with the same
//! slot, bucket and tag share an entry, and their records are one chain. Each slot has a run of its
//! own, which grows by itself ([`grow`]).
//!
//! # Rules
//! 1. Every change of a chain is one compare-and-swap of its entry, from what was read before.
//! 2. Of two entries with one tag in one bucket, only one is ever seen by lookups ([`insert`]).
//! 3. A frozen entry never changes again; a lookup that meets one begins anew at the directory.
//!
//! All calls are for threads that are inside an epoch: runs are freed when no operation is left
//! that may hold their places.

mod entry;
mod hash;
mod slab;
mod insert;
mod grow;
mod shrink;
mod tops; // of chains, counted
mod ordered; // by tag, for scans

pub(crate) use entry::Entry;
pub(crate) use hash::{KeyHash, SLOTS};
pub(crate) use insert::Inserted;
pub(crate) use slab::{BUCKET_BYTES, Promise};

use std::fmt;
use std::io;
use std::sync::Arc;

use firn_arena::Words;

use crate::epoch::Epochs;
use crate::sync::{AtomicU64, Mutex, Ordering, Patience};
use crate::waits::Waits;
use slab::{BUCKET_WORDS, Slab};

/// Entries of a bucket; the last word is its link.
const ENTRIES: usize = BUCKET_WORDS - 1;

/// The hash index of one engine.
pub(crate) struct Index {
    /// The run of each slot: [`Run`] in a word.
    directory: Words,
    /// Entries of each slot that are in use.
    counts: Words,
    growth: grow::Growth,
    slab: Arc<Slab>,
    epochs: Arc<Epochs>,
    /// One slot at a time begins to grow.
    beginning: Mutex<()>,
    /// The first run of a slot has `1 << first_size` buckets.
    first_size: u32,
}

/// What the directory has of a slot: its first bucket, 36 bits, how many there are, as a power of
/// two, and whether some have not got their entries yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run(u64);

impl Run {
    const FIRST_BITS: u32 = 36;
    const GROWING: u64 = 1 << 63;

    fn new(first: u64, size: u32) -> Self {
        Self(u64::from(size) << Self::FIRST_BITS | first)
    }

    /// No key of the slot was ever written.
    fn is_none(self) -> bool {
        self.0 == 0
    }

    fn first(self) -> u64 {
        self.0 & ((1 << Self::FIRST_BITS) - 1)
    }

    /// The binary logarithm of the number of buckets.
    fn size(self) -> u32 {
        (self.0 >> Self::FIRST_BITS & 0x3f) as u32
    }

    fn is_growing(self) -> bool {
        self.0 & Self::GROWING != 0
    }
}

/// The last word of a bucket: the overflow bucket behind it, and in a run that grows how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link(u64);

impl Link {
    const BUCKET: u64 = (1 << Run::FIRST_BITS) - 1;
    /// A thread is filling the bucket.
    const CLAIMED: u64 = 1 << 60;
    /// The bucket has what it gets of the bucket that was split.
    const READY: u64 = 1 << 61;
    const FROZEN: u64 = 1 << 62;

    fn overflow(self) -> Option<u64> {
        Some(self.0 & Self::BUCKET).filter(|bucket| *bucket != 0)
    }

    fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    fn is_frozen(self) -> bool {
        self.0 & Self::FROZEN != 0
    }
}

/// Where an entry was found, to change it there. Holds within the operation that found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    word: usize,
}

/// What a walk along a bucket's chain came to.
enum Walk {
    Found(Place, Entry),
    /// No entry with the tag, but for one that is perhaps being inserted; the first free place, and
    /// the last bucket of the chain.
    Absent {
        free: Option<Place>,
        last: u64,
        is_being_inserted: bool,
    },
    /// The bucket is being split.
    Frozen,
}

impl Index {
    /// An empty index with room for `buckets`, which take memory as they are used. What operations
    /// wait for as it grows is counted in `waits`.
    pub(crate) fn new(buckets: usize, epochs: Arc<Epochs>, waits: Waits) -> io::Result<Self> {
        Ok(Self {
            directory: Words::zeroed(SLOTS)?,
            counts: Words::zeroed(SLOTS)?,
            growth: grow::Growth::new(waits)?,
            slab: Arc::new(Slab::new(buckets)?),
            epochs,
            beginning: Mutex::new(()),
            first_size: 0,
        })
    }

    /// The same for so many `keys`, evenly spread: few slots grow before there are more.
    pub(crate) fn sized_for(self, keys: u64) -> Self {
        Self { first_size: grow::size_for(keys.div_ceil(SLOTS as u64)), ..self }
    }

    /// The entry that leads to the chain of the key, if there is one.
    #[inline]
    pub(crate) fn find(&self, hash: KeyHash) -> Option<(Place, Entry)> {
        let mut patience = Patience::default();
        loop {
            let run = self.run(hash.slot());
            if run.is_none() {
                return None;
            }
            match self.walk(self.bucket(run, hash), hash.tag()) {
                Walk::Found(place, entry) => return Some((place, entry)),
                Walk::Absent { .. } => return None,
                Walk::Frozen => patience.wait(),
            }
        }
    }

    /// Has the entry at `place`, which is `old`, lead to `address` instead. `false` if it is not
    /// `old` any more: the caller begins anew.
    #[inline]
    pub(crate) fn lead_to(&self, place: Place, old: Entry, address: u64) -> bool {
        self.change(place, old, old.leading_to(address))
    }

    /// Has the entry at `place`, which is `old`, lead to the copy at `address` in the read cache.
    /// `false` if it is not `old` any more.
    pub(crate) fn lead_to_copy(&self, place: Place, old: Entry, address: u64) -> bool {
        self.change(place, old, old.leading_to_copy(address))
    }

    /// Frees the entry of a key, which is `old`: no record of its chain counts any more. `false` if
    /// it is not `old` any more.
    pub(crate) fn free_entry(&self, hash: KeyHash, place: Place, old: Entry) -> bool {
        let is_removed = self.change(place, old, Entry::FREE);
        if is_removed {
            self.counts.word(hash.slot()).fetch_sub(1, Ordering::Relaxed);
        }
        is_removed
    }

    /// Buckets for so many new entries, each of which may need one; `None` if there are not so
    /// many.
    pub(crate) fn promise(&self, count: u64) -> Option<Promise> {
        Slab::promise(&self.slab, count)
    }

    /// Loads the bucket of a key into the processor's cache, for a lookup that follows.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        let run = Run(self.directory.word(hash.slot()).load(Ordering::Relaxed));
        if !run.is_none() {
            let bucket = run.first() + hash.bucket(run.size());
            firn_storage::backend::prefetch(self.slab.words().word(bucket as usize * BUCKET_WORDS));
        }
    }

    /// How often slots grew.
    pub(crate) fn growths(&self) -> &grow::GrowthCounts {
        &self.growth.counts
    }

    /// Entries of all slots.
    pub(crate) fn entry_count(&self) -> u64 {
        (0..SLOTS).map(|slot| self.counts.word(slot).load(Ordering::Relaxed)).sum()
    }

    /// Leaves so many bytes of the memory that the index may take to what else finds records, three
    /// quarters of it at most.
    pub(crate) fn set_reserved(&self, bytes: u64) {
        self.slab.set_reserved(bytes);
    }

    /// What was [reserved](Self::set_reserved).
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.slab.reserved_bytes()
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.slab.bytes()
    }

    fn run(&self, slot: usize) -> Run {
        Run(self.directory.word(slot).load(Ordering::Acquire))
    }

    /// The bucket of the key, with its entries in it.
    #[inline]
    fn bucket(&self, run: Run, hash: KeyHash) -> u64 {
        let bucket = run.first() + hash.bucket(run.size());
        if run.is_growing() {
            self.split_before(run, hash.slot(), bucket);
        }
        bucket
    }

    #[inline]
    fn change(&self, place: Place, old: Entry, new: Entry) -> bool {
        let word = self.slab.words().word(place.word);
        word.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The words of `bucket`.
    #[inline]
    fn words(&self, bucket: u64) -> &[AtomicU64] {
        let first = bucket as usize * BUCKET_WORDS;
        self.slab.words().words(first..first + BUCKET_WORDS)
    }

    /// Looks for `tag` in the chain that begins with `bucket`.
    #[inline]
    fn walk(&self, bucket: u64, tag: u16) -> Walk {
        let (mut bucket, mut free, mut is_being_inserted) = (bucket, None, false);
        loop {
            let words = self.words(bucket);
            for (index, word) in words[..ENTRIES].iter().enumerate() {
                let entry = Entry(word.load(Ordering::Acquire));
                let place = Place { word: bucket as usize * BUCKET_WORDS + index };
                if entry.is_frozen() {
                    return Walk::Frozen;
                }
                if entry.is_free() {
                    free = free.or(Some(place));
                } else if entry.tag() == tag {
                    if !entry.is_tentative() {
                        return Walk::Found(place, entry);
                    }
                    is_being_inserted = true;
                }
            }
            let link = Link(words[ENTRIES].load(Ordering::Acquire));
            if link.is_frozen() {
                return Walk::Frozen;
            }
            match link.overflow() {
                Some(overflow) => bucket = overflow,
                None => return Walk::Absent { free, last: bucket, is_being_inserted },
            }
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
