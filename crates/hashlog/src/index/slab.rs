//! Memory for buckets.
//!
//! ```text
//!   run of 2^k buckets: its number is a multiple of 2^k, and its *buddy* is the one beside it
//!   with which it makes a run of 2^(k+1)
//! ```
//! A run that comes back is put together with its buddy if that is free, and so on. Pages of which
//! all is free take no memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_arena::Words;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Words of a bucket: seven entries and a link, one cache line.
pub(super) const BUCKET_WORDS: usize = 8;

/// Bytes of a bucket.
pub(crate) const BUCKET_BYTES: u64 = 8 * BUCKET_WORDS as u64;

/// Sizes of runs that there may be: up to `1 << (SIZES - 1)` buckets.
const SIZES: usize = 28;

/// Buckets of a page of memory, as a power of two.
const PAGE_SIZE: u32 = 6;

/// Of the buckets that may be taken one of so many is only for chains: a slot that does not grow
/// for want of room takes new entries for a while.
const CHAINS_PART: u64 = 8;

/// Of the buckets that may be taken this part is not for what the index need not have.
const SPARE_PART: u64 = 4;

/// Runs of 1, 2, 4, … zeroed buckets, by the number of their first one. Bucket 0 is never given.
///
/// What may be taken, of `taken_max`: runs, up to seven eighths; single buckets, which make chains
/// longer, all that is not promised; by splits of chains and by slots that shrink more than that,
/// since they give back as many.
#[derive(Debug)]
pub(super) struct Slab {
    words: Words,
    taken_max: u64,
    /// Of which so many may not be taken.
    reserved: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Runs that are free, by size; zeroed. None is its buddy's neighbour.
    free: [BTreeSet<u64>; SIZES],
    taken: u64,
    /// Single buckets that are taken later, whatever others take.
    promised: u64,
}

impl State {
    /// All buckets from 1 to `end`.
    fn new(end: u64) -> Self {
        let mut free: [BTreeSet<u64>; SIZES] = Default::default();
        let mut run = 1;
        while run < end {
            let size = run.trailing_zeros().min((end - run).ilog2()).min(SIZES as u32 - 1);
            free[size as usize].insert(run);
            run += 1 << size;
        }
        Self { free, taken: 0, promised: 0 }
    }

    /// A run of `1 << size` buckets: the first part of the shortest free one that is long enough.
    fn take(&mut self, size: u32) -> Option<u64> {
        let from = (size as usize..SIZES).find(|longer| !self.free[*longer].is_empty())?;
        let run = self.free[from].pop_first()?;
        for rest in size as usize..from {
            self.free[rest].insert(run + (1 << rest));
        }
        self.taken += 1 << size;
        Some(run)
    }

    /// Takes back a run. Answers the free one that it is a part of now, and its size.
    fn give_back(&mut self, run: u64, size: u32) -> (u64, u32) {
        self.taken -= 1 << size;
        let (mut run, mut size) = (run, size);
        while size as usize + 1 < SIZES && self.free[size as usize].remove(&(run ^ 1 << size)) {
            run &= !(1 << size);
            size += 1;
        }
        self.free[size as usize].insert(run);
        (run, size)
    }
}

impl Slab {
    /// Room for `buckets`, which take memory as they are taken.
    pub(super) fn new(buckets: usize) -> std::io::Result<Self> {
        // Addresses for those that splits take beyond.
        let words = Words::zeroed((2 * buckets).saturating_add(1).saturating_mul(BUCKET_WORDS))?;
        let state = Mutex::new(State::new((words.count() / BUCKET_WORDS) as u64));
        Ok(Self { words, taken_max: buckets as u64, reserved: AtomicU64::new(0), state })
    }

    /// The words of all buckets.
    #[inline]
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// Buckets that may be taken.
    fn taken_max(&self) -> u64 {
        self.taken_max.saturating_sub(self.reserved.load(Ordering::Relaxed))
    }

    /// A run of `1 << size` zeroed buckets; `None` if there is no room for so many.
    pub(super) fn take(&self, size: u32) -> Option<u64> {
        let mut state = lock(&self.state);
        let max = self.taken_max();
        // Single buckets go on: without them a slot would be full, with them its chains are long.
        let max = if size == 0 { max.saturating_sub(state.promised) } else { max - max / CHAINS_PART };
        if state.taken + (1 << size) > max {
            return None;
        }
        state.take(size)
    }

    /// As [`take`](Self::take), for what the index need not have: a quarter stays.
    fn take_spare(&self, size: u32) -> Option<u64> {
        let mut state = lock(&self.state);
        let max = self.taken_max();
        if state.taken + state.promised + (1 << size) > max - max / SPARE_PART {
            return None;
        }
        state.take(size)
    }

    /// Has so many bytes less to give from now on.
    pub(super) fn set_reserved(&self, bytes: u64) {
        let buckets = (bytes / BUCKET_BYTES).min(self.taken_max / 4 * 3);
        self.reserved.store(buckets, Ordering::Relaxed);
    }

    pub(super) fn reserved_bytes(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed) * BUCKET_BYTES
    }

    /// So many single buckets, to be taken later; `None` if there are not so many.
    pub(super) fn promise(this: &Arc<Self>, count: u64) -> Option<Promise> {
        let mut state = lock(&this.state);
        if state.taken + state.promised + count > this.taken_max() {
            return None;
        }
        state.promised += count;
        Some(Promise { slab: Arc::clone(this), left: count })
    }

    /// A run for entries whose old buckets come back later.
    pub(super) fn take_instead(&self, size: u32) -> Option<u64> {
        lock(&self.state).take(size)
    }

    /// Takes back a run that no thread can reach any more.
    pub(super) fn give_back(&self, run: u64, size: u32) {
        self.zero(run, size);
        let mut state = lock(&self.state);
        let (whole, whole_size) = state.give_back(run, size);
        if size < PAGE_SIZE && whole_size >= PAGE_SIZE {
            // The last piece of a page has come back.
            debug_assert!(whole <= run, "a run lies within what it is put together to");
            let page = (run >> PAGE_SIZE << PAGE_SIZE) as usize * BUCKET_WORDS;
            self.words.discard(page..page + (BUCKET_WORDS << PAGE_SIZE));
        }
    }

    fn zero(&self, run: u64, size: u32) {
        let (from, count) = (run as usize * BUCKET_WORDS, BUCKET_WORDS << size);
        if size >= PAGE_SIZE {
            self.words.discard(from..from + count);
            return;
        }
        for word in self.words.words(from..from + count) {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Bytes of all runs that were taken and did not come back.
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.state).taken * BUCKET_BYTES
    }
}

/// Where buckets come from.
pub(super) enum Source<'s> {
    Any(&'s Slab),
    /// None where there are few.
    Spare(&'s Slab),
    Promised(&'s mut Promise),
}

impl Source<'_> {
    /// A zeroed bucket; `None` if there is none.
    pub(super) fn take(&mut self) -> Option<u64> {
        match self {
            Self::Any(slab) => slab.take(0),
            Self::Spare(slab) => slab.take_spare(0),
            Self::Promised(promise) => promise.take(),
        }
    }

    /// A run of `1 << size` zeroed buckets, which none is promised of.
    pub(super) fn take_run(&self, size: u32) -> Option<u64> {
        match self {
            Self::Any(slab) => slab.take(size),
            Self::Spare(slab) => slab.take_spare(size),
            Self::Promised(promise) => promise.slab.take(size),
        }
    }

    /// Takes back one that no other thread has seen.
    pub(super) fn give_back(&mut self, bucket: u64) {
        match self {
            Self::Any(slab) | Self::Spare(slab) => slab.give_back(bucket, 0),
            Self::Promised(promise) => promise.give_back(bucket),
        }
    }
}

/// Single buckets that are there for one caller. What it does not take is given up when dropped.
#[derive(Debug)]
pub(crate) struct Promise {
    slab: Arc<Slab>,
    left: u64,
}

impl Promise {
    /// One of them; `None` after the last.
    fn take(&mut self) -> Option<u64> {
        let mut state = lock(&self.slab.state);
        self.left = self.left.checked_sub(1)?;
        state.promised -= 1;
        state.take(0)
    }

    fn give_back(&mut self, bucket: u64) {
        self.slab.zero(bucket, 0);
        let mut state = lock(&self.slab.state);
        state.give_back(bucket, 0);
        state.promised += 1;
        self.left += 1;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        lock(&self.slab.state).promised -= self.left;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Runs of all sizes come and go in any order; then all is one again, and zero.
    #[test]
    fn runs_that_came_back_are_put_together() {
        let slab = Slab::new(1 << 12).expect("memory");
        let all = |slab: &Slab| lock(&slab.state).free.clone();
        let fresh = all(&slab);
        let mut random = fastrand::Rng::with_seed(5);
        let mut held: Vec<(u64, u32)> = Vec::new();
        for _ in 0..20_000 {
            let size = random.u32(0..8);
            match slab.take(size) {
                Some(run) if random.bool() => {
                    assert_eq!(run % (1 << size), 0, "aligned");
                    for bucket in run..run + (1 << size) {
                        let word = slab.words().word(bucket as usize * BUCKET_WORDS);
                        assert_eq!(word.swap(run, Ordering::Relaxed), 0, "given twice, or not zeroed");
                    }
                    held.push((run, size));
                }
                Some(run) => slab.give_back(run, size),
                None => {
                    let count = random.usize(..=held.len());
                    held.drain(..count).for_each(|(run, size)| slab.give_back(run, size));
                }
            }
        }
        held.into_iter().for_each(|(run, size)| slab.give_back(run, size));
        assert_eq!((all(&slab), slab.bytes()), (fresh, 0));
    }
}
