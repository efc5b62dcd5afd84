//! When there may be files that nothing waits for any more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_jobs::submit::Aborted;

/// When there may be something to remove.
///
/// 1. [`GRACE`] after an attempt came to nothing, or something could not be removed: the worker of
///    that attempt may write for a while still. Longer, the more sweeps in a row could not remove
///    it.
/// 2. On shared storage, [`GRACE`] after the opening, and again after groups of the process before
///    are needed no more. What that process asked for last may be done later still. Where sweeps do
///    not come to their end, when the next one does.
/// 3. Once in [`REST`] while jobs end, and once more after: an attempt of which no count tells, or
///    that stood still for longer.
/// 4. Never else, so that a database at which nothing happens asks nothing of its place.
#[derive(Debug)]
pub struct Sweeps {
    due: Mutex<Due>,
    /// Why uploads that nothing waits for may be there still, in words.
    upload_refusal: Mutex<Option<String>>,
}

/// Moments of the engine's clock.
#[derive(Debug, Default)]
struct Due {
    /// How often something was left, and when that was first and last noticed since the last sweep.
    left: u64,
    first_left_at: Option<Duration>,
    last_left_at: Option<Duration>,
    /// How many jobs have ended, and when that was noticed last.
    ended: u64,
    ended_at: Option<Duration>,
    /// The last sweep, or the opening.
    swept_at: Duration,
    /// How often sweeps did not come to their end, one after the other.
    repeats: u32,
}

/// How long what an attempt that came to nothing left stays at least: the attempt may write more,
/// and others may come to nothing soon.
const GRACE: Duration = Duration::from_secs(60);

/// How long after the sweep before comes a sweep that nothing else asks for.
const REST: Duration = Duration::from_secs(3600);

impl Sweeps {
    /// No sweep was needed until `now`: the opening has removed what there was, except for uploads
    /// that it could not, which `aborted` tells. More `may_follow`.
    pub fn new(now: Duration, aborted: Aborted, may_follow: bool) -> Self {
        let due = Due { swept_at: now, ..Due::default() };
        let sweeps = Self { due: Mutex::new(due), upload_refusal: Mutex::new(aborted.refusal) };
        if aborted.may_pass {
            sweeps.repeat(now);
        }
        if may_follow {
            sweeps.expect(now);
        }
        sweeps
    }

    /// Why uploads that nothing waits for may be there still.
    pub fn upload_refusal(&self) -> Option<String> {
        self.upload_refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says why they may be.
    pub fn tell_uploads(&self, refusal: Option<String>) {
        *self.upload_refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    /// Whether a sweep is due at the moment `now`, where `ended` jobs have ended and something was
    /// left `left` times.
    pub fn is_due(&self, now: Duration, ended: u64, left: u64) -> bool {
        let mut due = self.lock();
        if left > due.left {
            due.left = left;
            due.first_left_at.get_or_insert(now);
            due.last_left_at = Some(now);
        }
        if ended > due.ended {
            due.ended = ended;
            due.ended_at = Some(now);
        }
        let was_left = due.first_left_at.is_some_and(|at| now.saturating_sub(at) >= GRACE);
        let was_used = due.ended_at.is_some_and(|at| at.saturating_add(REST) > due.swept_at);
        was_left || was_used && now.saturating_sub(due.swept_at) >= REST
    }

    /// A sweep begins, which finds what was left [`GRACE`] ago, and not all of what was since.
    pub fn begin(&self, now: Duration) {
        let mut due = self.lock();
        due.swept_at = now;
        due.first_left_at = due.last_left_at.filter(|at| now.saturating_sub(*at) < GRACE);
    }

    /// There may be something to remove in a while, of which no count will tell.
    pub fn expect(&self, now: Duration) {
        let mut due = self.lock();
        due.first_left_at.get_or_insert(now);
        due.last_left_at = due.last_left_at.max(Some(now));
    }

    /// The last sweep did not come to its end: it is repeated in a while, and in twice as long each
    /// time, up to [`REST`].
    pub fn repeat(&self, now: Duration) {
        let mut due = self.lock();
        let pause = GRACE.saturating_mul(1 << due.repeats.min(10)).min(REST);
        due.repeats += 1;
        // As if what is left had been noticed then.
        let noticed = now.saturating_add(pause - GRACE);
        due.last_left_at = Some(noticed);
        due.first_left_at = Some(noticed);
    }

    /// The last sweep came to its end.
    pub fn end(&self) {
        self.lock().repeats = 0;
    }

    /// Whether something is or may be left that is to be looked for.
    pub fn is_left(&self) -> bool {
        self.lock().first_left_at.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at which a sweep is found to be due, where it is looked for each second.
    fn sweeps(seconds: u64, left: impl Fn(u64) -> u64, ended: impl Fn(u64) -> u64) -> Vec<u64> {
        let sweeps = Sweeps::new(Duration::ZERO, Aborted::default(), false);
        let is_due = |second: &u64| {
            let now = Duration::from_secs(*second);
            let is_due = sweeps.is_due(now, ended(*second), left(*second));
            if is_due {
                sweeps.begin(now);
            }
            is_due
        };
        (0..seconds).filter(is_due).collect()
    }

    #[test]
    fn a_sweep_comes_some_time_after_something_was_left_and_not_else() {
        assert_eq!(sweeps(20_000, |_| 0, |_| 0), []);
        assert_eq!(sweeps(20_000, |now| u64::from(now >= 100), |_| 0), [160]);
        // What came shortly before a sweep has another one.
        assert_eq!(sweeps(20_000, |now| u64::from(now >= 100) + u64::from(now >= 130), |_| 0), [160, 190]);
        assert_eq!(sweeps(300, |now| now, |_| 0), [61, 121, 181, 241]);
    }

    #[test]
    fn an_opening_that_could_not_abort_an_upload_now_has_a_sweep_some_time_after() {
        for (may_pass, is_due) in [(true, true), (false, false)] {
            let aborted = Aborted { may_pass, refusal: Some("no".to_owned()), count: 0 };
            let sweeps = Sweeps::new(Duration::ZERO, aborted, false);
            assert!(!sweeps.is_due(GRACE - Duration::from_secs(1), 0, 0));
            assert_eq!(sweeps.is_due(GRACE, 0, 0), is_due);
            assert_eq!(sweeps.upload_refusal().as_deref(), Some("no"));
        }
    }

    #[test]
    fn what_cannot_be_removed_is_tried_again_ever_later_until_it_can() {
        let sweeps = Sweeps::new(Duration::ZERO, Aborted::default(), false);
        assert!(!sweeps.is_left());
        let tried = |now: &u64| {
            let now = Duration::from_secs(*now);
            let is_due = sweeps.is_due(now, 0, 1);
            if is_due {
                sweeps.begin(now);
                sweeps.repeat(now);
            }
            is_due
        };
        let pauses = [60, 60, 120, 240, 480, 960, 1920, 3600, 3600];
        let moments = pauses.iter().scan(0, |now, pause| {
            *now += pause;
            Some(*now)
        });
        assert_eq!((0..12_000).filter(tried).collect::<Vec<u64>>(), moments.collect::<Vec<u64>>());
        assert!(sweeps.is_left());
        sweeps.begin(Duration::from_secs(20_000));
        sweeps.end();
        assert!(!sweeps.is_left());
    }

    #[test]
    fn a_sweep_comes_each_hour_while_jobs_end_and_once_more() {
        assert_eq!(sweeps(20_000, |_| 0, |now| u64::from(now >= 100)), [3600, 7200]);
        assert_eq!(sweeps(20_000, |_| 0, |now| u64::from(now >= 3700)), [3700, 7300]);
        assert_eq!(sweeps(14_000, |_| 0, |now| now), [3600, 7200, 10_800]);
    }
}
