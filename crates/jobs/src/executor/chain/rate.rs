//! Which held deep job may begin at the last executor while no link does them.

use std::time::Duration;

use super::patience::{Patience, time_of};

/// A bucket of bytes that fills with time and holds one job. Any job may overdraw it, and the next
/// one waits until that is made up for.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// When the next job may begin.
    free_at: Duration,
    /// When writers will stop; `None` = that is not in sight.
    stalls_at: Option<Duration>,
}

impl Rate {
    /// Writers will stop in `stalls_in`.
    pub(super) fn urge(&mut self, now: Duration, stalls_in: Option<Duration>) {
        self.stalls_at = stalls_in.map(|stalls_in| now.saturating_add(stalls_in));
    }

    /// Whether a job is held no longer: there is room in the bucket, it has waited for too long, or
    /// writers are about to stop.
    pub(super) fn is_come(&self, held_since: Option<Duration>, now: Duration, patience: &Patience) -> bool {
        let is_late = held_since.is_some_and(|since| now.saturating_sub(since) >= patience.wait_max);
        now >= self.free_at || is_late || self.is_stall_near(now, patience)
    }

    /// Whether writers are about to stop.
    pub(super) fn is_stall_near(&self, now: Duration, patience: &Patience) -> bool {
        self.stalls_at.is_some_and(|at| at.saturating_sub(now) <= patience.stall_near)
    }

    /// A job of so many `bytes` begins.
    pub(super) fn begin(&mut self, bytes: u64, now: Duration, patience: &Patience) {
        let taken = time_of(bytes, patience.deep_bytes_per_second);
        self.free_at = self.free_at.max(now).saturating_add(taken);
    }
}
