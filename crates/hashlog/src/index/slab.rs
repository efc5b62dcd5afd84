//! Memory for buckets.

use std::sync::Arc;

use firn_arena::Words;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Words of a bucket: seven entries and a link, one cache line.
pub(super) const BUCKET_WORDS: usize = 8;

/// Sizes of runs that there may be: up to `1 << (SIZES - 1)` buckets.
const SIZES: usize = 28;

/// From so many bytes on, memory of a run that is free goes back to the system.
const DISCARD_BYTES_MIN: usize = 64 << 10;

/// Runs of 1, 2, 4, … zeroed buckets, by the number of their first one. Bucket 0 is never given.
///
/// What may be taken: runs as long as fewer than `taken_max` buckets are taken; single buckets,
/// which make chains longer, as long as `kept` are left and those that are promised; all of them by
/// splits of chains, which give back as many.
#[derive(Debug)]
pub(super) struct Slab {
    words: Words,
    taken_max: u64,
    /// Of which so many may not be taken.
    reserved: AtomicU64,
    /// Buckets that only splits take.
    kept: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The first bucket that was never given, and the end of all.
    next: u64,
    end: u64,
    /// Runs that came back, by size; zeroed.
    free: [Vec<u64>; SIZES],
    taken: u64,
    /// Single buckets that are taken later, whatever others take.
    promised: u64,
}

impl State {
    /// Buckets that are free, some of them perhaps in runs.
    fn available(&self) -> u64 {
        // All but bucket 0.
        self.end - 1 - self.taken
    }

    /// A run of `1 << size` buckets: one that came back, one that was never given, or a part of a
    /// longer one that came back.
    fn take(&mut self, size: u32) -> Option<u64> {
        let count = 1_u64 << size;
        let run = match self.free.get_mut(size as usize)?.pop() {
            Some(run) => run,
            None if self.next + count <= self.end => {
                let run = self.next;
                self.next += count;
                run
            }
            None => self.divide(size)?,
        };
        self.taken += count;
        Some(run)
    }

    fn give_back(&mut self, run: u64, size: u32) {
        self.taken -= 1 << size;
        self.free[size as usize].push(run);
    }

    /// The first part of the shortest run that came back and is longer; what is left of it is free.
    fn divide(&mut self, size: u32) -> Option<u64> {
        let longer = (size as usize + 1..SIZES).find(|longer| !self.free[*longer].is_empty())?;
        let run = self.free[longer].pop()?;
        for rest in size as usize..longer {
            self.free[rest].push(run + (1 << rest));
        }
        Some(run)
    }
}

impl Slab {
    /// Room for `buckets`, and as many for chains. None takes memory yet.
    pub(super) fn new(buckets: usize) -> std::io::Result<Self> {
        let words = Words::zeroed((2 * buckets).saturating_add(1).saturating_mul(BUCKET_WORDS))?;
        let end = (words.count() / BUCKET_WORDS) as u64;
        let state = State { next: 1, end, free: Default::default(), taken: 0, promised: 0 };
        let (taken_max, kept) = (buckets as u64, buckets as u64 / 8);
        let reserved = AtomicU64::new(0);
        Ok(Self { words, taken_max, reserved, kept, state: Mutex::new(state) })
    }

    /// The words of all buckets.
    #[inline]
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// A run of `1 << size` zeroed buckets; `None` if there is no room for so many.
    pub(super) fn take(&self, size: u32) -> Option<u64> {
        let mut state = lock(&self.state);
        let count = 1 << size;
        // Single buckets go on: without them a slot would be full, with them its chains are long.
        let max = self.taken_max.saturating_sub(self.reserved.load(Ordering::Relaxed));
        let is_too_much = size > 0 && state.taken + count > max;
        if is_too_much || state.available() < count + self.kept + state.promised {
            return None;
        }
        state.take(size)
    }

    /// Has so many bytes less to give from now on.
    pub(super) fn set_reserved(&self, bytes: u64) {
        self.reserved.store(bytes / (BUCKET_WORDS * 8) as u64, Ordering::Relaxed);
    }

    /// So many single buckets, to be taken later; `None` if there are not so many.
    pub(super) fn promise(this: &Arc<Self>, count: u64) -> Option<Promise> {
        let mut state = lock(&this.state);
        if state.available() < count + this.kept + state.promised {
            return None;
        }
        state.promised += count;
        Some(Promise { slab: Arc::clone(this), left: count })
    }

    /// A bucket for the split of a chain, whose old buckets come back later.
    pub(super) fn take_reserved(&self) -> u64 {
        lock(&self.state).take(0).expect("a split takes at most as many buckets as it gives back")
    }

    /// Takes back a run that no thread can reach any more.
    pub(super) fn give_back(&self, run: u64, size: u32) {
        self.zero(run, size);
        lock(&self.state).give_back(run, size);
    }

    fn zero(&self, run: u64, size: u32) {
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
    }

    /// Bytes of all runs that were taken and did not come back.
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.state).taken * (BUCKET_WORDS * 8) as u64
    }
}

/// Where single buckets come from.
pub(super) enum Source<'s> {
    Any(&'s Slab),
    Promised(&'s mut Promise),
}

impl Source<'_> {
    /// A zeroed bucket; `None` if there is none.
    pub(super) fn take(&mut self) -> Option<u64> {
        match self {
            Self::Any(slab) => slab.take(0),
            Self::Promised(promise) => promise.take(),
        }
    }

    /// Takes back one that no other thread has seen.
    pub(super) fn give_back(&mut self, bucket: u64) {
        match self {
            Self::Any(slab) => slab.give_back(bucket, 0),
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
