//! A clock that moves when it is told to. The tests of `tree` include this file.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use firn_storage::{Clock, ManualClock};

/// Counts how often the thread that watches over jobs asks it: once as it looks, and as it goes on
/// with what it found.
#[derive(Debug)]
pub(crate) struct AskedClock {
    time: ManualClock,
    asked: AtomicUsize,
}

impl AskedClock {
    pub(crate) fn new() -> Self {
        Self { time: ManualClock::new(0), asked: AtomicUsize::new(0) }
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.time.advance(time);
    }

    pub(crate) fn asked_count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Clock for AskedClock {
    fn now(&self) -> Duration {
        let now = self.time.now();
        if std::thread::current().name() == Some("firn-chain") {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
        now
    }

    fn unix_ms(&self) -> u64 {
        self.time.unix_ms()
    }

    fn sleep(&self, time: Duration) {
        self.time.sleep(time);
    }
}
