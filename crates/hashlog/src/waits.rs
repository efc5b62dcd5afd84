//! How often operations waited for others, and how long at most.

use std::sync::Arc;
// Of the standard library, since no thread decides anything by them.
use std::sync::atomic::{AtomicU64, Ordering};

use firn_storage::Clock;

/// Waits of one kind.
#[derive(Debug)]
pub(crate) struct Waits {
    clock: Option<Arc<dyn Clock>>,
    count: AtomicU64,
    longest_us: AtomicU64,
}

impl Waits {
    /// None yet. Without a clock they are counted and not timed.
    pub(crate) fn timed_by(clock: Option<&Arc<dyn Clock>>) -> Self {
        Self { clock: clock.cloned(), count: AtomicU64::new(0), longest_us: AtomicU64::new(0) }
    }

    /// Counts `wait`, which waits. Asks the clock twice, so it is for what has to wait anyway.
    pub(crate) fn during<R>(&self, wait: impl FnOnce() -> R) -> R {
        let begun = self.clock.as_ref().map(|clock| clock.now());
        self.count.fetch_add(1, Ordering::Relaxed);
        let waited = wait();
        if let (Some(clock), Some(begun)) = (&self.clock, begun) {
            let time = clock.now().saturating_sub(begun).as_micros();
            self.longest_us.fetch_max(u64::try_from(time).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        waited
    }

    /// How many there were, those that go on included.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Microseconds of the longest one that has ended.
    pub(crate) fn longest_us(&self) -> u64 {
        self.longest_us.load(Ordering::Relaxed)
    }
}
