//! A slot's run doubles, bucket by bucket, while it is used.
//!
//! ```text
//!   begin: a new run of twice the size in the directory, marked as growing; its buckets are not ready
//!   an operation that comes to a bucket that is not ready splits the old one for it:
//!     freeze every word of the old bucket's chain ─► divide its entries by one bit of the tag
//!     ─► store them in the two new buckets ─► both are ready
//!   each insertion splits one more; the last one ends the growth, and the old run is freed
//! ```
//! A thread that found a place in the old bucket before it was frozen fails when it changes it, and
//! begins anew. So no thread waits for a growth as a whole: at most for another one that splits the
//! very bucket.

use std::io;
use std::sync::Arc;

use firn_arena::Words;

use super::entry::{Entry, freeze};
use super::hash::TAG_BITS;
use super::slab::{BUCKET_WORDS, Slab, Source};
use super::{ENTRIES, Index, Link, Run, SLOTS};
use crate::sync::{AtomicU64, Ordering, Patience, lock};
use crate::waits::Waits;

/// Entries for each bucket from which on a slot grows.
const ENTRIES_PER_BUCKET: u64 = 6;

/// A run of more buckets would have to read records to grow.
const SIZE_MAX: u32 = TAG_BITS;

/// Growths in progress, by slot.
pub(super) struct Growth {
    words: Words,
    pub(super) counts: GrowthCounts,
}

/// How often slots grew. Of the standard library, since no thread decides anything by them.
#[derive(Debug)]
pub(crate) struct GrowthCounts {
    /// Growths that began.
    pub(crate) begun: std::sync::atomic::AtomicU64,
    /// Waits for the memory of a run, or for another thread to split a bucket.
    pub(crate) waits: Waits,
}

/// Words for each slot: the old run, a [`Turn`], and how many of its buckets are split.
const WORDS: usize = 3;

/// The next bucket of the old run to split, and the run that grows, by its first bucket: a thread
/// that a growth has left behind takes no turn of the one after it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Turn(u64);

impl Turn {
    /// Bits of the number of a bucket of the old run, or of their count.
    const BITS: u32 = SIZE_MAX;

    fn new(run: Run, index: u64) -> Self {
        Self(run.first() << Self::BITS | index)
    }

    /// The bucket to split next, while `run` is what grows and has one.
    fn of(self, run: Run) -> Option<u64> {
        let index = self.0 & ((1 << Self::BITS) - 1);
        (self == Self::new(run, index) && index < 1 << (run.size() - 1)).then_some(index)
    }
}

impl Growth {
    pub(super) fn new(waits: Waits) -> io::Result<Self> {
        let counts = GrowthCounts { begun: 0.into(), waits };
        Ok(Self { words: Words::zeroed(SLOTS * WORDS)?, counts })
    }

    fn old(&self, slot: usize) -> &AtomicU64 {
        self.words.word(slot * WORDS)
    }

    fn next(&self, slot: usize) -> &AtomicU64 {
        self.words.word(slot * WORDS + 1)
    }

    fn split(&self, slot: usize) -> &AtomicU64 {
        self.words.word(slot * WORDS + 2)
    }
}

impl Index {
    /// Begins to grow the slot if `entries` are too many for `run`, as far as there are `buckets`,
    /// or goes on with it.
    pub(super) fn grow_if_full(&self, slot: usize, run: Run, entries: u64, buckets: &Source<'_>) {
        if run.is_growing() {
            let _has_split = self.split_next(slot, run);
        } else if entries > entries_max(slot, run.size()) && run.size() < SIZE_MAX {
            self.growth.counts.waits.during(|| self.begin_growth(slot, run, buckets));
        }
    }

    /// Ends a growth of the slot now: one bucket after another costs a fraction of what it costs to
    /// come to each by itself. For an opening, where no operation waits.
    pub(crate) fn finish_growth(&self, slot: usize) {
        let run = self.run(slot);
        if run.is_growing() {
            while self.split_next(slot, run) {}
        }
    }

    /// Splits what `bucket` of the growing `run` gets its entries from, unless that is done.
    #[inline]
    pub(super) fn split_before(&self, run: Run, slot: usize, bucket: u64) {
        if !Link(self.words(bucket)[ENTRIES].load(Ordering::Acquire)).is_ready() {
            self.split(slot, run, (bucket - run.first()) / 2);
        }
    }

    fn begin_growth(&self, slot: usize, run: Run, buckets: &Source<'_>) {
        let _turn = lock(&self.beginning);
        // Without room the slot stays as it is: its chains get longer.
        if self.run(slot) != run {
            return;
        }
        let Some(first) = buckets.take_run(run.size() + 1) else { return };
        self.growth.old(slot).store(run.0, Ordering::Relaxed);
        self.growth.next(slot).store(Turn::new(Run::new(first, run.size() + 1), 0).0, Ordering::Relaxed);
        self.growth.split(slot).store(0, Ordering::Relaxed);
        let grown = Run::new(first, run.size() + 1).0 | Run::GROWING;
        self.directory.word(slot).store(grown, Ordering::Release);
        self.growth.counts.begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Splits one bucket that no operation has come to yet; `false` if none is left.
    pub(super) fn split_next(&self, slot: usize, run: Run) -> bool {
        let next = self.growth.next(slot);
        let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            Turn(word).of(run).map(|index| Turn::new(run, index + 1).0)
        });
        let index = taken.ok().and_then(|word| Turn(word).of(run));
        if let Some(index) = index {
            self.split(slot, run, index);
        }
        index.is_some()
    }

    /// Splits bucket `index` of the old run, or waits until another thread has.
    #[cold]
    fn split(&self, slot: usize, run: Run, index: u64) {
        let old = Run(self.growth.old(slot).load(Ordering::Relaxed));
        let halves = [run.first() + 2 * index, run.first() + 2 * index + 1];
        let first_link = &self.words(halves[0])[ENTRIES];
        let claimed = first_link.compare_exchange(0, Link::CLAIMED, Ordering::AcqRel, Ordering::Acquire);
        if claimed.is_err() {
            if !self.are_ready(halves) {
                self.growth.counts.waits.during(|| self.wait_for(halves));
            }
            return;
        }
        let mut sides = halves.map(Side::new);
        self.freeze_chain(old.first() + index, |entry| {
            let side = usize::from(entry.tag() >> (TAG_BITS - 1 - old.size()) & 1);
            sides[side].push(self, entry);
        });
        for (half, side) in halves.iter().zip(&sides) {
            self.words(*half)[ENTRIES].store(side.overflow() | Link::READY, Ordering::Release);
        }
        if self.growth.split(slot).fetch_add(1, Ordering::AcqRel) + 1 == 1 << old.size() {
            self.end_growth(slot, run, old);
        }
    }

    fn are_ready(&self, halves: [u64; 2]) -> bool {
        halves.iter().all(|half| Link(self.words(*half)[ENTRIES].load(Ordering::Acquire)).is_ready())
    }

    /// Waits until another thread has filled both.
    fn wait_for(&self, halves: [u64; 2]) {
        let mut patience = Patience::default();
        while !self.are_ready(halves) {
            patience.wait();
        }
    }

    /// Freezes all of a bucket's chain, and hands on what is in it.
    fn freeze_chain(&self, bucket: u64, mut take: impl FnMut(Entry)) {
        let mut next = Some(bucket);
        while let Some(bucket) = next {
            let words = self.words(bucket);
            for word in &words[..ENTRIES] {
                let entry = freeze(word);
                if !entry.is_free() && !entry.is_tentative() {
                    take(entry);
                }
            }
            next = Link(words[ENTRIES].fetch_or(Link::FROZEN, Ordering::AcqRel)).overflow();
        }
    }

    fn end_growth(&self, slot: usize, run: Run, old: Run) {
        let whole = Run::new(run.first(), run.size());
        self.directory.word(slot).store(whole.0, Ordering::Release);
        let slab = Arc::clone(&self.slab);
        self.epochs.bump(move || free_run(&slab, old));
    }
}

/// Entries of a slot from which on it grows: a quarter more or less, so that the slots of evenly
/// spread keys do not all grow at once.
fn entries_max(slot: usize, size: u32) -> u64 {
    let buckets = 1_u64 << size;
    let even = ENTRIES_PER_BUCKET * buckets;
    // Between 0 and 63, the same for a slot at all times.
    let jitter = (slot as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    even - even / 8 + even * jitter / 256
}

/// The size of a run that has room for so many entries, and some more.
pub(super) fn size_for(entries: u64) -> u32 {
    (0..SIZE_MAX).find(|size| entries <= (ENTRIES_PER_BUCKET - 1) << size).unwrap_or(SIZE_MAX)
}

/// Gives back a run, with its overflow buckets.
pub(super) fn free_run(slab: &Slab, run: Run) {
    for bucket in run.first()..run.first() + (1 << run.size()) {
        let link = |bucket: u64| {
            let link = slab.words().word(bucket as usize * BUCKET_WORDS + ENTRIES);
            Link(link.load(Ordering::Acquire)).overflow()
        };
        let mut next = link(bucket);
        while let Some(overflow) = next {
            next = link(overflow);
            slab.give_back(overflow, 0);
        }
    }
    slab.give_back(run.first(), run.size());
}

/// A bucket that is being filled, and what is behind it: no other thread reads it yet.
pub(super) struct Side {
    /// The bucket that is being filled.
    bucket: u64,
    used: usize,
    overflow: Vec<u64>,
}

impl Side {
    pub(super) fn new(bucket: u64) -> Self {
        Self { bucket, used: 0, overflow: Vec::new() }
    }

    /// The first bucket behind this one, or 0.
    pub(super) fn overflow(&self) -> u64 {
        self.overflow.first().copied().unwrap_or_default()
    }

    pub(super) fn push(&mut self, index: &Index, entry: Entry) {
        if self.used == ENTRIES {
            // Both halves of a split together need no more buckets than the old chain had and one:
            // the slab has room for the old run as well as for the new one.
            let bucket = index.slab.take_instead(0).expect("addresses for two indexes");
            if let Some(last) = self.overflow.last() {
                index.words(*last)[ENTRIES].store(bucket, Ordering::Relaxed);
            }
            self.overflow.push(bucket);
            (self.bucket, self.used) = (bucket, 0);
        }
        index.words(self.bucket)[self.used].store(entry.0, Ordering::Relaxed);
        self.used += 1;
    }
}
