//! Memory for buckets.

use firn_arena::Words;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Words of a bucket: seven entries and a link, one cache line.
pub(super) const BUCKET_WORDS: usize = 8;

/// Sizes of runs that there may be: up to `1 << (SIZES - 1)` buckets.
const SIZES: usize = 28;

/// From so many bytes on, memory of a run that is free goes back to the system.
const DISCARD_BYTES_MIN: usize = 64 << 10;

/// Runs of 1, 2, 4, … zeroed buckets, by the number of their first one. Bucket 0 is never given.
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
    /// The first bucket that was never given.
    next: u64,
    /// Runs that came back, by size; zeroed.
    free: [Vec<u64>; SIZES],
    taken: u64,
}

impl State {
    /// A run of `1 << size` buckets, of those that came back, or among the first `end`.
    fn take(&mut self, size: u32, end: u64) -> Option<u64> {
        let count = 1_u64 << size;
        let run = match self.free.get_mut(size as usize)?.pop() {
            Some(run) => run,
            None => {
                let run = self.next;
                self.next = Some(run + count).filter(|next| *next <= end)?;
                run
            }
        };
        self.taken += count;
        Some(run)
    }
}

impl Slab {
    /// Room for `buckets`, and as many in [reserve](Self::take_reserved). None takes memory yet.
    pub(super) fn new(buckets: usize) -> std::io::Result<Self> {
        let words = Words::zeroed((2 * buckets).saturating_add(1).saturating_mul(BUCKET_WORDS))?;
        let state = State { next: 1, free: Default::default(), taken: 0 };
        Ok(Self { words, taken_max: buckets as u64, reserved: AtomicU64::new(0), state: Mutex::new(state) })
    }

    /// The words of all buckets.
    #[inline]
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// A run of `1 << size` zeroed buckets; `None` if there is no room for so many.
    pub(super) fn take(&self, size: u32) -> Option<u64> {
        let mut state = lock(&self.state);
        // Single buckets go on: without them a slot would be full, with them its chains are long.
        let max = self.taken_max.saturating_sub(self.reserved.load(Ordering::Relaxed));
        if size > 0 && state.taken + (1 << size) > max {
            return None;
        }
        state.take(size, (self.words.count() / BUCKET_WORDS) as u64)
    }

    /// Has so many bytes less to give from now on.
    pub(super) fn set_reserved(&self, bytes: u64) {
        self.reserved.store(bytes / (BUCKET_WORDS * 8) as u64, Ordering::Relaxed);
    }

    /// A bucket for the split of a chain, whose old buckets come back later: from the reserve where
    /// there is no other.
    pub(super) fn take_reserved(&self) -> u64 {
        let bucket = lock(&self.state).take(0, (self.words.count() / BUCKET_WORDS) as u64);
        bucket.expect("a split takes at most as many buckets as it gives back")
    }

    /// Takes back a run that no thread can reach any more.
    pub(super) fn give_back(&self, run: u64, size: u32) {
        let (from, count) = (run as usize * BUCKET_WORDS, BUCKET_WORDS << size);
        if count * 8 >= DISCARD_BYTES_MIN {
            self.words.discard(from..from + count);
        }
        // What is left of the first and the last page, or all of a small run.
        for word in self.words.words(from..from + count) {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
        let mut state = lock(&self.state);
        state.taken -= 1 << size;
        state.free[size as usize].push(run);
    }

    /// Bytes of all runs that were taken and did not come back.
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.state).taken * (BUCKET_WORDS * 8) as u64
    }
}
