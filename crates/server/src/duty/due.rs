//! When a work is done next.

/// Milliseconds until the next look after one that found nothing more to do.
const PAUSE_MS: u64 = 100;

/// Milliseconds until a work that failed is tried again: after the first failure, and at most. The
/// reason may well be the disk, so each failure doubles them.
const RETRY_MS: u64 = 500;
const RETRY_MS_MAX: u64 = 32_000;

/// When one work is done next, and how often it has failed since it last did not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    at_ms: u64,
    failures: u32,
}

impl Due {
    /// When it is due, by the clock that never goes back.
    pub(super) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// It was done, and there is more or not; whether it had failed before.
    pub(super) fn succeeded(&mut self, now_ms: u64, is_more: bool) -> bool {
        self.at_ms = if is_more { now_ms } else { now_ms + PAUSE_MS };
        std::mem::take(&mut self.failures) > 0
    }

    /// It failed; whether for the first time since it last did not.
    pub(super) fn failed(&mut self, now_ms: u64) -> bool {
        // Beyond the most already, and no shift overflows.
        let doublings = self.failures.min(16);
        self.at_ms = now_ms + (RETRY_MS << doublings).min(RETRY_MS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.failures == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_later_and_later_but_not_never() {
        let mut due = Due::default();
        assert_eq!(due.at_ms(), 0, "at once");
        assert!(!due.succeeded(10, true));
        assert_eq!(due.at_ms(), 10);
        assert!(due.failed(1000), "it is told");
        assert_eq!(due.at_ms(), 1500);
        assert!(!due.failed(1500), "once");
        assert_eq!(due.at_ms(), 2500);
        for _ in 0..100 {
            due.failed(0);
        }
        assert_eq!(due.at_ms(), RETRY_MS_MAX);
        assert!(due.succeeded(50_000, false));
        assert_eq!(due.at_ms(), 50_100);
        assert!(due.failed(50_100));
        assert_eq!(due.at_ms(), 50_600, "it begins anew");
    }
}
