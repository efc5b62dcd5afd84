//! What a chain reports of jobs that its links did not do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::executor::cause::Cause;

/// Jobs that links passed on to the last executor, and jobs that wait.
#[derive(Debug, Default)]
pub struct ChainStatus {
    /// By [`Cause`].
    counts: [AtomicU64; Cause::ALL.len()],
    held_count: AtomicU64,
    held_bytes: AtomicU64,
    is_away: AtomicBool,
    here: AtomicU64,
    reexecuted_count: AtomicU64,
    differed_count: AtomicU64,
    idle_count: AtomicU64,
    late_count: AtomicU64,
    reason: Mutex<Option<String>>,
}

impl ChainStatus {
    /// Jobs that were passed on, those included for which no link was asked so shortly after a
    /// failure.
    pub fn count(&self) -> u64 {
        self.by_cause().iter().map(|(_, count)| count).sum()
    }

    /// The same, by why.
    pub fn by_cause(&self) -> [(Cause, u64); Cause::ALL.len()] {
        Cause::ALL.map(|cause| (cause, self.counts[cause as usize].load(Ordering::Relaxed)))
    }

    /// Why the latest job that was asked of a link was not done there; `None` = that never
    /// happened.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Deep jobs that wait now, for a link to come back or for their turn here, and bytes of their
    /// inputs.
    pub fn held(&self) -> (u64, u64) {
        (self.held_count.load(Ordering::Relaxed), self.held_bytes.load(Ordering::Relaxed))
    }

    /// Whether each link is asked no more than to find out whether it can be relied on again; see
    /// [`reason`](Self::reason).
    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Compactions without a result that occupy no executor elsewhere: they are done here, or their
    /// results are looked at. Jobs that are here because none there began them in time do not
    /// count: another in their place would wait as well.
    pub fn here(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }

    /// Jobs that were done elsewhere and again here, and how many of them came to another result.
    pub fn reexecuted(&self) -> (u64, u64) {
        (self.reexecuted_count.load(Ordering::Relaxed), self.differed_count.load(Ordering::Relaxed))
    }

    /// Jobs that waited elsewhere and were done on idle processors here, and jobs that were given
    /// back as too slow.
    pub fn idle(&self) -> (u64, u64) {
        (self.idle_count.load(Ordering::Relaxed), self.late_count.load(Ordering::Relaxed))
    }

    /// Says why; for a committer too that finds in several answers what no single one shows.
    pub fn explain(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    pub(super) fn count_one(&self, cause: Cause) {
        self.counts[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_reexecuted(&self, differs: bool) {
        self.reexecuted_count.fetch_add(1, Ordering::Relaxed);
        self.differed_count.fetch_add(u64::from(differs), Ordering::Relaxed);
    }

    pub(super) fn count_idle(&self, is_late: bool) {
        let count = if is_late { &self.late_count } else { &self.idle_count };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    pub(super) fn set_here(&self, count: u64) {
        self.here.store(count, Ordering::Relaxed);
    }

    pub(super) fn set_held(&self, (count, bytes): (u64, u64)) {
        self.held_count.store(count, Ordering::Relaxed);
        self.held_bytes.store(bytes, Ordering::Relaxed);
    }
}
