//! When a database's writers will stop: as it is believed here, and as control planes know it.

use std::time::Duration;

use crate::wire::{millis, proto};

/// What the database says of itself, and what is known of that elsewhere. Moments are of the
/// executor's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Urgency {
    /// `None` = not in sight.
    stalls_at: Option<Duration>,
    reported: Option<Reported>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reported {
    at: Duration,
    stalls_at: Option<Duration>,
}

/// A stall that is further away puts no job before others.
const SIGHT: Duration = Duration::from_secs(60);

/// News are not reported more often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl Urgency {
    /// Writers stop in `stalls_in`, says the database now.
    pub(super) fn set(&mut self, now: Duration, stalls_in: Option<Duration>) {
        self.stalls_at = stalls_in.map(|stalls_in| now.saturating_add(stalls_in));
    }

    /// Whether what was reported to the control plane is wrong by more than a quarter of the time
    /// left, and by more than a second.
    pub(super) fn is_news(&self, now: Duration) -> bool {
        let Some(reported) = self.reported else { return true };
        if now.saturating_sub(reported.at) < REPORT_EVERY {
            return false;
        }
        match (left(reported.stalls_at, now), left(self.stalls_at, now)) {
            (Some(reported), Some(left)) => {
                reported.abs_diff(left) > (reported.min(left) / 4).max(Duration::from_secs(1))
            }
            (reported, left) => reported != left,
        }
    }

    /// Milliseconds that are left, as they travel.
    pub(super) fn left_ms(&self, now: Duration) -> Option<u64> {
        self.stalls_at.map(|at| millis(at.saturating_sub(now)))
    }

    /// The message, which counts as reported from now on.
    pub(super) fn report(&mut self, now: Duration) -> proto::Urgency {
        self.reported = Some(Reported { at: now, stalls_at: self.stalls_at });
        proto::Urgency { stalls_in_ms: self.left_ms(now) }
    }

    /// The control plane that it was reported to may be gone.
    pub(super) fn forget_reported(&mut self) {
        self.reported = None;
    }
}

/// Until the stall, where it is in sight.
fn left(stalls_at: Option<Duration>, now: Duration) -> Option<Duration> {
    stalls_at.map(|at| at.saturating_sub(now)).filter(|left| *left <= SIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_told_is_told_again_once_it_is_far_from_true_and_not_all_the_time() {
        let mut urgency = Urgency::default();
        assert!(urgency.is_news(seconds(0)), "nothing was told");
        assert_eq!(urgency.report(seconds(0)).stalls_in_ms, None);
        urgency.set(seconds(10), Some(seconds(600)));
        assert!(!urgency.is_news(seconds(10)), "nobody looks so far");
        urgency.set(seconds(20), Some(seconds(40)));
        assert!(urgency.is_news(seconds(20)));
        assert_eq!(urgency.report(seconds(20)).stalls_in_ms, Some(40_000));
        assert_eq!(urgency.left_ms(seconds(30)), Some(30_000), "time goes on");
        assert!(!urgency.is_news(seconds(30)), "that is known");
        for (left, is_news) in [(30, false), (36, false), (39, true), (25, false), (20, true)] {
            urgency.set(seconds(30), Some(seconds(left)));
            assert_eq!(urgency.is_news(seconds(30)), is_news, "30 s were left, and now {left}");
        }
        urgency.set(seconds(30), None);
        assert!(urgency.is_news(seconds(30)), "it is over");
        let _report = urgency.report(seconds(30));
        urgency.set(seconds(30), Some(seconds(0)));
        assert!(!urgency.is_news(seconds(30)), "not twice in a second");
        assert!(urgency.is_news(seconds(31)));
        let _report = urgency.report(seconds(31));
        assert!(!urgency.is_news(seconds(33)));
        urgency.forget_reported();
        assert!(urgency.is_news(seconds(33)));
    }
}
