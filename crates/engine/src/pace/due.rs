//! Writers that keep to a pace, one behind the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When what was written so far is due, at the pace that it was charged at.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// In nanoseconds of the engine's clock.
    ns: AtomicU64,
}

impl Due {
    /// Charges a write that takes `cost_ns`; nanoseconds from `now` until it is due.
    ///
    /// At most `most_ns`: one large write must not make all writers wait for longer than the pace
    /// that it was charged at lasts.
    pub(super) fn charge(&self, cost_ns: u64, now: Duration, most_ns: u64) -> u64 {
        let now = now.as_nanos() as u64;
        self.ns.fetch_max(now, Ordering::Relaxed);
        let due = self.ns.fetch_add(cost_ns, Ordering::Relaxed) + cost_ns;
        let latest = now + most_ns;
        if due > latest {
            self.ns.fetch_min(latest, Ordering::Relaxed);
        }
        due.min(latest).saturating_sub(now)
    }
}
