//! How much of the clock's time something was held back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time in which at least one write was held back: of spans that overlap each moment counts once.
/// So it never rises faster than the clock, however many writers wait.
///
/// Shared by all threads; writes that nothing holds back never come here. Spans are noted in about
/// the order of their beginnings. One that is noted late counts only for what lies behind the
/// latest end.
#[derive(Debug, Default)]
pub struct HeldTime {
    spans: Mutex<Spans>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spans {
    /// The latest end.
    end: Duration,
    /// Up to that end.
    total: Duration,
}

impl HeldTime {
    /// Something is held back from `from` until `until`, which may be in the future.
    pub fn note(&self, from: Duration, until: Duration) {
        let mut spans = self.lock();
        let fresh = until.saturating_sub(from.max(spans.end));
        *spans = Spans { end: spans.end.max(until), total: spans.total + fresh };
    }

    /// Microseconds of it until `now`.
    pub fn us(&self, now: Duration) -> u64 {
        let Spans { end, total } = *self.lock();
        total.saturating_sub(end.saturating_sub(now)).as_micros() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn each_moment_counts_once_and_what_is_to_come_later() {
        let held = HeldTime::default();
        held.note(us(10), us(20));
        held.note(us(12), us(18));
        held.note(us(15), us(25));
        assert_eq!(held.us(us(30)), 15);
        held.note(us(40), us(100));
        assert_eq!((held.us(us(40)), held.us(us(55)), held.us(us(100))), (15, 30, 75));
        // It is told again and again how long it lasts.
        for until in [120, 130, 130, 140] {
            held.note(us(110), us(until));
        }
        assert_eq!(held.us(us(150)), 105);
    }

    #[test]
    fn many_threads_hold_no_more_than_the_clock_goes() {
        let held = HeldTime::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let held = &held;
                scope.spawn(move || {
                    for at in 0..1000 {
                        held.note(us(at * 3 + thread), us(at * 3 + thread + 40));
                    }
                });
            }
        });
        let all = held.us(us(1 << 20));
        assert!(all <= 3 * 999 + 3 + 40, "{all}");
    }
}
