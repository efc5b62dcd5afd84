//! Slowing writers before memory runs out.
//!
//! The buffer may hold a part of its memory without a delay. Above that writers share the room that
//! is left over the time until the next flush is expected to free some ([`Flow`]). Where that flush
//! is late, what is left is shared over a quarter of a flush's time again and again. So the room is
//! never used up while flushes go on. A log has limits of its own, and the smaller room counts.
//! Reads are never slowed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::due::Due;

/// The pace of writers by the room that is left for what no flush has written out.
#[derive(Debug, Default)]
pub struct RoomPace {
    /// Log bytes a second that are admitted; 0 = no limit.
    rate: AtomicU64,
    /// When the bytes admitted so far are due.
    due: Due,
    /// When the rate is worked out again, in nanoseconds of the engine's clock.
    look_ns: AtomicU64,
    flow: Mutex<Flow>,
}

/// What the pace by room depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomDebt {
    /// More is held than goes without a delay.
    pub is_pressed: bool,
    /// Bytes that may come until nothing more does.
    pub room_bytes: u64,
    /// What a flush is taken to free before one was measured.
    pub flush_bytes: u64,
}

/// Slowest pace: a writer is never slowed below this many bytes a second.
const RATE_MIN: u64 = 1 << 20;
/// Flush rate assumed before one was measured.
const FLUSH_RATE_FIRST: f64 = (128 << 20) as f64;
/// How long a rate holds at most.
const LOOK_NS: u64 = 1_000_000;
/// Writes like the one in hand that may be owed before a sleep. Few sleeps of some milliseconds
/// keep more writes fast than many short ones.
const DUE_WRITES: u64 = 512;
/// Debts shorter than this are not worth a sleep.
const DUE_SLACK_NS: u64 = 200_000;
/// Debts longer than this are slept off, however few writes they are.
const DUE_NS_MAX: u64 = 10_000_000;
/// The longest that any write is made to wait. By then the pace is another, and where no room is
/// left the writer stops until there is.
const DEBT_NS_MAX: u64 = 25_000_000;

/// What flushes give back, measured while writers wait for it. The time runs from one flush's end
/// to the next, so that it includes whatever keeps flushes from beginning.
#[derive(Debug, Default)]
struct Flow {
    /// Log bytes freed, in this time, by so many flushes; all fade with each flush.
    freed_bytes: f64,
    seconds: f64,
    flushes: f64,
    /// When the latest flush ended, or the buffer began to hold too much.
    since: Option<Duration>,
}

impl Flow {
    /// How much earlier flushes count beside a new one.
    const FADE: f64 = 0.75;

    /// The buffer holds more than goes without a delay, or does not.
    fn press(&mut self, pressed: bool, now: Duration) {
        self.since = if pressed { self.since.or(Some(now)) } else { None };
    }

    /// A flush freed `bytes` of the log.
    fn freed(&mut self, bytes: u64, now: Duration) {
        let Some(since) = self.since.replace(now) else { return };
        self.freed_bytes = self.freed_bytes * Self::FADE + bytes as f64;
        self.seconds = self.seconds * Self::FADE + now.saturating_sub(since).as_secs_f64();
        self.flushes = self.flushes * Self::FADE + 1.0;
    }

    /// Bytes a second to admit where `room` is left; 0 = no limit. `flush_bytes` is what a flush
    /// frees before one was measured.
    fn rate(&self, room: u64, flush_bytes: u64, now: Duration) -> u64 {
        let Some(since) = self.since else { return 0 };
        let (freed_rate, whole) = match self.seconds > 0.0 && self.freed_bytes > 0.0 {
            true => (self.freed_bytes / self.seconds, self.freed_bytes / self.flushes),
            false => (FLUSH_RATE_FIRST, flush_bytes as f64),
        };
        let done = freed_rate * now.saturating_sub(since).as_secs_f64();
        let left = (whole - done).max(whole / 4.0).max(1.0);
        let rate = freed_rate * room as f64 / left;
        // So much more than flushes achieve is as good as no limit.
        if rate >= freed_rate * 4.0 { 0 } else { (rate.max(freed_rate / 32.0) as u64).max(RATE_MIN) }
    }
}

impl RoomPace {
    /// A flush freed `bytes` of the log.
    pub fn freed(&self, bytes: u64, now: Duration) {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner).freed(bytes, now);
    }

    /// Sets the pace by `debt`.
    pub fn set(&self, debt: &RoomDebt, now: Duration) {
        let rate = {
            let mut flow = self.flow.lock().unwrap_or_else(PoisonError::into_inner);
            flow.press(debt.is_pressed, now);
            flow.rate(debt.room_bytes, debt.flush_bytes, now)
        };
        self.look_ns.store(now.as_nanos() as u64 + LOOK_NS, Ordering::Relaxed);
        // While there is pressure the rate is worked out again and again; a rate of 0 must not end
        // that.
        self.rate.store(if debt.is_pressed && rate == 0 { u64::MAX } else { rate }, Ordering::Relaxed);
    }

    /// Whether the caller, and no other thread, is to work the pace out again.
    pub fn is_to_look(&self, now: Duration) -> bool {
        let (now, look) = (now.as_nanos() as u64, self.look_ns.load(Ordering::Relaxed));
        let relaxed = Ordering::Relaxed;
        now >= look && self.look_ns.compare_exchange(look, now + LOOK_NS, relaxed, relaxed).is_ok()
    }

    /// How long a write of `bytes` has to wait at the present pace.
    pub fn delay(&self, bytes: u64, now: Duration) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 || rate == u64::MAX {
            return Duration::ZERO;
        }
        let cost = bytes.saturating_mul(1_000_000_000) / rate;
        let delay = self.due.charge(cost, now, DEBT_NS_MAX);
        if delay < (cost * DUE_WRITES).clamp(DUE_SLACK_NS, DUE_NS_MAX) {
            return Duration::ZERO;
        }
        Duration::from_nanos(delay)
    }

    /// Whether writers have a pace.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.rate.load(Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests;
