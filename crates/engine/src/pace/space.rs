//! Slowing writers where blob GC does not keep up with what they overwrite.
//!
//! Every value that overwrites another leaves as many bytes for a GC to free. About where GCs
//! begin, writers get a pace: the bytes that GCs freed a second of late. It is measured from the
//! end of one GC to the end of the next, so that it counts what else keeps GCs from running.
//! Writers get more than that while space is little above what is allowed, and less beyond. Time
//! in which nothing could be collected does not count: what is freed then shows how little was
//! written, and not how fast GCs are.
//!
//! Writers get a pace too where segments that they have filled wait to be sealed, which may take a
//! device or a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::due::Due;

/// The pace of writers whose values are separated.
#[derive(Debug, Default)]
pub struct SpacePace {
    /// Bytes a second that are admitted; 0 = no limit, [`UNKNOWN`] = none until a writer has
    /// looked.
    rate: AtomicU64,
    due: Due,
    /// When it is worked out again, in nanoseconds of the engine's clock.
    look_ns: AtomicU64,
    freed: Mutex<Freed>,
    /// Bytes of segments that went without a GC since the last one.
    gone_bytes: AtomicU64,
}

/// What GCs free.
#[derive(Debug, Default)]
struct Freed {
    /// Bytes and the seconds they took, both of late: fading sums, so that short and long ones
    /// count as what they are.
    bytes: f64,
    seconds: f64,
    /// When the last one ended, or when there was something to collect again.
    since: Option<Duration>,
}

/// Much may have changed since the rate was set.
const UNKNOWN: u64 = u64::MAX;
/// How long a rate holds: to find out another takes a look at every segment and every table.
const LOOK_NS: u64 = 5_000_000;
/// What GCs are taken to free before one was measured, in bytes a second.
const FREED_RATE_FIRST: f64 = (128 << 20) as f64;
/// How much the GCs before count beside a new one.
const FADE: f64 = 0.75;
/// Writers get a pace from here on, as close as that to where GCs begin.
const OVER_MIN: f64 = -0.045;
/// Here they get just what GCs free: with more writes than GCs keep up with, space settles about
/// here (decision 0013).
const OVER_EVEN: f64 = -0.015;
/// Slowest pace: a writer is never slowed below this many bytes a second.
const RATE_MIN: f64 = (1 << 20) as f64;
/// Debts shorter than this are not worth a sleep: the shorter, the more writes sleep, and the less
/// the longest of them do (decision 0013).
const DEBT_NS_MIN: u64 = 500_000;
/// The longest that any write is made to wait; by then the pace is another.
const DEBT_NS_MAX: u64 = 200_000_000;
/// So many segments of the largest size may wait to be sealed without a pace.
const WAITING_FREE: u64 = 8;
/// The pace where one more waits, in bytes a second; with each one more it is halved, so that it
/// comes to what sealing achieves.
const WAITING_RATE: u64 = 1 << 30;

/// What the pace by space depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceDebt {
    /// Bytes beyond what is allowed, for each that lives; `None` = neither is there anything to
    /// collect, nor too much.
    pub over: Option<f64>,
    /// There is something to collect, or is being collected.
    pub is_collecting: bool,
    /// Segments that wait to be sealed, as many as there would be of the largest size.
    pub waiting_segments: u64,
}

impl SpacePace {
    /// Whether writers go at their own pace.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.rate.load(Ordering::Relaxed) == 0
    }

    /// Much was written: the next writer is to look. Where writers go at a pace they look anyway.
    pub fn doubt(&self) {
        let _ = self.rate.compare_exchange(0, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the caller, and no other thread, is to look: much was written, or writers go at a
    /// pace that was found some time ago.
    pub fn is_to_look(&self, now: Duration) -> bool {
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
    pub fn delay(&self, bytes: u64, now: Duration) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        let delay = self.due.charge(bytes.saturating_mul(1_000_000_000) / rate, now, DEBT_NS_MAX);
        if delay < DEBT_NS_MIN { Duration::ZERO } else { Duration::from_nanos(delay) }
    }

    /// A GC that ended `now` freed `bytes`.
    pub fn freed(&self, bytes: u64, now: Duration) {
        let bytes = bytes + self.gone_bytes.swap(0, Ordering::Relaxed);
        let mut freed = self.lock();
        let Some(since) = freed.since.replace(now) else { return };
        freed.bytes = freed.bytes * FADE + bytes as f64;
        freed.seconds = freed.seconds * FADE + now.saturating_sub(since).as_secs_f64();
    }

    /// Segments of `bytes` went without a GC: nothing of them lived.
    pub fn gone(&self, bytes: u64) {
        self.gone_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives writers a pace by `debt`. They bring `brought` bytes for each that is written of
    /// them: they are charged for the former, and GCs free the latter.
    pub fn set(&self, debt: &SpaceDebt, brought: f64, now: Duration) {
        let mut freed = self.lock();
        match debt.is_collecting {
            true => drop(freed.since.get_or_insert(now)),
            false => freed.since = None,
        }
        let freed_rate = freed.rate();
        let by_space = debt.over.map_or(0, |over| rate(over, freed_rate * brought));
        let rate = match (by_space, waiting_rate(debt.waiting_segments)) {
            (0, rate) | (rate, 0) => rate,
            (by_space, by_waiting) => by_space.min(by_waiting),
        };
        self.look_ns.store(now.as_nanos() as u64 + LOOK_NS, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Freed> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that writers bring and bytes that are written of them, more where they are not compressed:
/// both of late, halved with each segment.
#[derive(Debug, Default)]
pub struct Brought {
    brought: AtomicU64,
    written: AtomicU64,
}

impl Brought {
    /// Of `brought` bytes `written` are written.
    pub fn add(&self, brought: u64, written: u64) {
        self.brought.fetch_add(brought, Ordering::Relaxed);
        self.written.fetch_add(written, Ordering::Relaxed);
    }

    /// What was before counts half from now on. What is added meanwhile may not count: an estimate.
    pub fn fade(&self) {
        for sum in [&self.brought, &self.written] {
            sum.store(sum.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }

    /// Bytes that are brought for each that is written.
    pub fn for_each_written(&self) -> f64 {
        let [brought, written] = [&self.brought, &self.written].map(|sum| sum.load(Ordering::Relaxed));
        if brought == 0 || written == 0 { 1.0 } else { brought as f64 / written as f64 }
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

/// Bytes a second to admit where so many segments wait to be sealed; 0 = no limit.
fn waiting_rate(segments: u64) -> u64 {
    match segments.checked_sub(WAITING_FREE + 1) {
        None => 0,
        Some(more) => (WAITING_RATE >> more.min(63)).max(RATE_MIN as u64),
    }
}

#[cfg(test)]
mod tests;
