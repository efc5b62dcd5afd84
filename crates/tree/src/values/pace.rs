//! Slowing writers where collections do not keep up with what they overwrite.
//!
//! Every value that overwrites another leaves as much for a collection to give back. Above the space that is allowed writers get
//! a pace: what was given back a second of late, from one collection's end to the next one's, so that it counts what else keeps
//! collections from running. They get more of it while space is little above what is allowed, and less beyond.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::write::due::Due;

/// The pace of writers whose values lie beside the tree.
#[derive(Debug, Default)]
pub(crate) struct SpacePace {
    /// Bytes a second that are admitted; 0 = no limit, [`UNKNOWN`] = none until somebody has looked.
    rate: AtomicU64,
    due: Due,
    /// When it is worked out again, in nanoseconds of the engine's clock.
    look_ns: AtomicU64,
    freed: Mutex<Freed>,
    /// Bytes of segments that went without a collection since the last one.
    gone_bytes: AtomicU64,
}

/// What collections give back.
#[derive(Debug, Default)]
struct Freed {
    /// Bytes and the seconds they took, both of late: fading sums, so that short and long ones count as what they are.
    bytes: f64,
    seconds: f64,
    /// When the last one ended, or when there was something to collect again.
    since: Option<Duration>,
}

/// Much may have changed since the rate was set.
const UNKNOWN: u64 = u64::MAX;
/// How long a rate holds: to find out another takes a look at every segment and every table.
const LOOK_NS: u64 = 5_000_000;
/// What collections are taken to give back before one was measured, in bytes a second.
const FREED_RATE_FIRST: f64 = (128 << 20) as f64;
/// How much the collections before count beside a new one.
const FADE: f64 = 0.75;
/// Writers get a pace from here on, as close as that to what is allowed.
const OVER_MIN: f64 = -0.04;
/// Here they get just what collections give back.
const OVER_EVEN: f64 = 0.0;
/// Slowest pace: a writer is never slowed below this many bytes a second.
const RATE_MIN: f64 = (1 << 20) as f64;
/// Debts shorter than this are not worth a sleep.
const DEBT_NS_MIN: u64 = 2_000_000;
/// The longest that any write is made to wait; by then the pace is another.
const DEBT_NS_MAX: u64 = 200_000_000;

impl SpacePace {
    /// Whether writers go at their own pace.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.rate.load(Ordering::Relaxed) == 0
    }

    /// Much was written: whoever writes next is to look, if nobody goes at a pace, who looks anyway.
    pub(super) fn doubt(&self) {
        let _ = self.rate.compare_exchange(0, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the caller, and nobody else, is to look: much was written, or writers go at a pace that was found some time ago.
    pub(crate) fn is_to_look(&self, now: Duration) -> bool {
        let relaxed = Ordering::Relaxed;
        match self.rate.load(relaxed) {
            0 => false,
            UNKNOWN => self.rate.compare_exchange(UNKNOWN, 0, relaxed, relaxed).is_ok(),
            _ => {
                let (now, look) = (now.as_nanos() as u64, self.look_ns.load(relaxed));
                now >= look && self.look_ns.compare_exchange(look, now + LOOK_NS, relaxed, relaxed).is_ok()
            }
        }
    }

    /// How long a write of `bytes` has to wait at the present pace.
    pub(crate) fn delay(&self, bytes: u64, now: Duration) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        let delay = self.due.charge(bytes.saturating_mul(1_000_000_000) / rate, now, DEBT_NS_MAX);
        if delay < DEBT_NS_MIN { Duration::ZERO } else { Duration::from_nanos(delay) }
    }

    /// A collection that ended `now` gave `bytes` back.
    pub(crate) fn freed(&self, bytes: u64, now: Duration) {
        let bytes = bytes + self.gone_bytes.swap(0, Ordering::Relaxed);
        let mut freed = self.lock();
        let Some(since) = freed.since.replace(now) else { return };
        freed.bytes = freed.bytes * FADE + bytes as f64;
        freed.seconds = freed.seconds * FADE + now.saturating_sub(since).as_secs_f64();
    }

    /// Segments of `bytes` went without a collection: nothing of them lived.
    pub(crate) fn gone(&self, bytes: u64) {
        self.gone_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Space is `over` what is allowed; `None` = there is nothing to collect. Writers bring `taken` bytes for each that is written
    /// of them: they are charged for the former, and collections give back the latter.
    pub(crate) fn set(&self, over: Option<f64>, taken: f64, now: Duration) {
        let mut freed = self.lock();
        match over {
            Some(_) => drop(freed.since.get_or_insert(now)),
            None => freed.since = None,
        }
        let freed_rate = freed.rate();
        let rate = over.map_or(0, |over| rate(over, freed_rate * taken));
        self.look_ns.store(now.as_nanos() as u64 + LOOK_NS, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Freed> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Freed {
    /// Bytes a second.
    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { FREED_RATE_FIRST }
    }
}

/// Bytes a second to admit where space is `over` what is allowed; 0 = no limit.
fn rate(over: f64, freed_rate: f64) -> u64 {
    if over <= OVER_MIN {
        return 0;
    }
    let share = (2.0 - (over - OVER_MIN) / (OVER_EVEN - OVER_MIN)).clamp(0.25, 2.0);
    (freed_rate * share).max(RATE_MIN) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn writers_get_what_collections_give_back_a_little_above_what_is_allowed() {
        assert_eq!([rate(-1.0, 1e9), rate(OVER_MIN, 1e9)], [0, 0]);
        assert_eq!(rate(OVER_EVEN, 1e9), 1_000_000_000);
        assert!(rate(-0.02, 1e9) > 1_300_000_000 && rate(0.02, 1e9) < 600_000_000);
        assert_eq!([rate(0.3, 1e9), rate(9.0, 1e9)], [250_000_000; 2]);
        assert_eq!(rate(9.0, 0.0), 1 << 20);
    }

    #[test]
    fn whoever_writes_after_much_was_written_is_to_look_once() {
        let pace = SpacePace::default();
        pace.doubt();
        assert!(!pace.is_off() && pace.delay(1 << 30, MS).is_zero());
        assert!(pace.is_to_look(MS) && !pace.is_to_look(MS));
        pace.set(None, 1.0, MS);
        assert!(!pace.is_to_look(100 * MS) && pace.is_off());
        // Who goes at a pace looks now and then.
        pace.set(Some(1.0), 1.0, MS);
        pace.doubt();
        assert!(!pace.is_to_look(2 * MS));
        assert!(pace.is_to_look(7 * MS) && !pace.is_to_look(7 * MS));
    }

    /// One long and many short ones are as fast as all of them together.
    #[test]
    fn collections_that_end_together_do_not_count_as_fast_ones() {
        let pace = SpacePace::default();
        pace.set(Some(OVER_EVEN), 1.0, Duration::ZERO);
        for at in 1..=20 {
            for later in [0, 1] {
                pace.freed(10 << 20, Duration::from_secs(at) + later * MS);
            }
        }
        pace.set(Some(OVER_EVEN), 1.0, Duration::from_secs(21));
        let rate = pace.rate.load(Ordering::Relaxed) >> 20;
        assert!((18..25).contains(&rate), "{rate} MiB a second where 20 are given back");
    }

    #[test]
    fn a_paced_writer_writes_as_fast_as_that() {
        let pace = SpacePace::default();
        assert!(pace.is_off() && pace.delay(1 << 40, MS).is_zero());
        let second = Duration::from_secs(1);
        // A quarter of a second's work, and then nothing for the rest of it.
        pace.set(Some(1.0), 1.0, Duration::ZERO);
        pace.gone(4 << 20);
        pace.freed(6 << 20, second);
        pace.set(Some(OVER_EVEN), 1.0, second);
        let (mut now, mut bytes) = (MS, 0_u64);
        while now < Duration::from_secs(2) {
            now += pace.delay(16 << 10, now);
            now += Duration::from_micros(10);
            bytes += 16 << 10;
        }
        assert!((18 << 20..22 << 20).contains(&bytes), "{bytes} bytes in two seconds");
        assert!(pace.delay(1 << 40, now) <= Duration::from_nanos(DEBT_NS_MAX));
        pace.set(None, 1.0, now);
        assert!(pace.is_off());
        // Time without anything to collect says nothing of how fast that is.
        pace.set(Some(OVER_EVEN), 1.0, 100 * second);
        pace.freed(10 << 20, 101 * second);
        pace.set(Some(OVER_EVEN), 1.0, 101 * second);
        assert_eq!(pace.rate.load(Ordering::Relaxed), 10 << 20);
    }
}
