//! When an executor is asked, how long it is waited for, and why it was not believed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a job may take elsewhere before it is done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a job of any size. Default 30 s.
    pub least: Duration,
    /// So many bytes of inputs get a second more. Default 4 MiB.
    pub bytes_per_second: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { least: Duration::from_secs(30), bytes_per_second: 4 << 20 }
    }
}

impl Patience {
    /// For a job that reads `bytes`.
    pub(super) fn with(&self, bytes: u64) -> Duration {
        self.least
            .saturating_add(Duration::from_millis(bytes.saturating_mul(1000) / self.bytes_per_second.max(1)))
    }
}

/// Jobs that were not done where they should have been.
#[derive(Debug, Default)]
pub struct Fallbacks {
    count: AtomicU64,
    reason: Mutex<Option<String>>,
}

impl Fallbacks {
    /// Jobs done here instead, those included for which nobody else was asked so shortly after a failure.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Why the latest job that was asked of the first executor was not done there; `None` = that never happened.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn count_one(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Says why; for a committer too that finds in several answers what no single one shows.
    pub fn explain(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

/// Whether an executor is worth asking.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// Failures in a row, and the moment before which it is not asked.
    failures: u32,
    retry_at: Duration,
}

/// Pause after the first failure.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Longest pause, unless jobs were waited for longer.
const PAUSE_MAX: Duration = Duration::from_secs(60);

impl Trust {
    pub(super) fn is_paused(&self, now: Duration) -> bool {
        now < self.retry_at
    }

    /// It failed at the moment `now`, after it was waited for `waited`: at least as long goes by without it.
    pub(super) fn refused(&mut self, now: Duration, waited: Duration) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(20)).min(PAUSE_MAX).max(waited);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = self.retry_at.max(now.saturating_add(pause));
    }

    pub(super) fn went_well(&mut self) {
        self.failures = 0;
    }
}
