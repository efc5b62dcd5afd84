//! Numbers handed out one after another.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Slots for numbers that are handed out and not yet acknowledged; a power of two.
const WINDOW: u64 = 1 << 20;

/// Hands out the numbers of a range in order, over and over, to all threads together.
#[derive(Debug)]
pub struct Sequential {
    first: u64,
    count: u64,
    next: AtomicU64,
}

impl Sequential {
    /// The numbers `first..=last`.
    pub fn new(first: u64, last: u64) -> Self {
        Self { first, count: last.saturating_sub(first) + 1, next: AtomicU64::new(0) }
    }

    /// The next number.
    pub fn draw(&self) -> u64 {
        self.first + self.next.fetch_add(1, Ordering::Relaxed) % self.count
    }
}

/// A counter for inserts: numbers are handed out at once, but readers see only those below the
/// first whose insert has not been acknowledged yet.
#[derive(Debug)]
pub struct AcknowledgedCounter {
    next: AtomicU64,
    acknowledged: AtomicU64,
    window: Vec<AtomicBool>,
    advancing: Mutex<()>,
}

impl AcknowledgedCounter {
    /// A counter whose numbers below `start` are acknowledged already.
    pub fn new(start: u64) -> Self {
        Self {
            next: AtomicU64::new(start),
            acknowledged: AtomicU64::new(start),
            window: (0..WINDOW).map(|_| AtomicBool::new(false)).collect(),
            advancing: Mutex::new(()),
        }
    }

    /// The number of the next record to insert.
    pub fn draw(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records `0..acknowledged()` are in the store.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Says that record `number`, drawn before, is in the store.
    ///
    /// At most `WINDOW` numbers may be open at once, far more than threads.
    pub fn acknowledge(&self, number: u64) {
        self.slot(number).store(true, Ordering::Release);
        // The thread that holds the lock advances for the others; a number that comes just too late
        // is seen by the next.
        let Ok(_advancing) = self.advancing.try_lock() else { return };
        let mut end = self.acknowledged.load(Ordering::Relaxed);
        while self.slot(end).swap(false, Ordering::Acquire) {
            end += 1;
        }
        self.acknowledged.store(end, Ordering::Release);
    }

    fn slot(&self, number: u64) -> &AtomicBool {
        &self.window[(number % WINDOW) as usize]
    }
}
