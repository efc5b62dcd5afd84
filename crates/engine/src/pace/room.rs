//! Slowing writers before memory runs out, and stopping them when it has.
//!
//! The buffer may hold `buffer_bytes` without a delay. Above that writers share the room that is
//! left until `buffer_bytes_max` over the time until the next drain is expected to free some
//! ([`Flow`]). Where that drain is late, what is left is shared over a quarter of a drain's time
//! again and again. So the room is never used up while drains go on. At the maximum no new segment
//! begins until a drain frees one. The log has limits of its own,
//! and the smaller room counts. Reads are never slowed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::due::Due;
use crate::CompletionSender;

/// Pace and stop of writers; counts what they cost.
#[derive(Debug, Default)]
pub struct Admission {
    /// Log bytes a second that are admitted; 0 = no limit.
    pace: AtomicU64,
    /// When the bytes admitted so far are due.
    due: Due,
    /// When the pace is worked out again, in nanoseconds of the engine's clock.
    look_ns: AtomicU64,
    flow: Mutex<Flow>,
    slowdown_us: AtomicU64,
    stop_us: AtomicU64,
    /// Bytes of the segment that a stopped writer waits for; 0 = no writer waits.
    wanted: AtomicU64,
    waiting: Mutex<Waiting>,
    freed: Condvar,
    /// A session waits, or the database closes and none waits any more.
    awaited: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Grows whenever room may have been made.
    round: u64,
    sessions: Vec<CompletionSender>,
    is_over: bool,
}

/// Slowest pace: a writer is never slowed below this many bytes a second.
const PACE_MIN: u64 = 1 << 20;
/// Drain rate assumed before one was measured.
const DRAIN_RATE_FIRST: f64 = (128 << 20) as f64;
/// How long a pace holds at most.
const PACE_NS: u64 = 1_000_000;
/// Writes like the one in hand that may be owed before a sleep. Few sleeps of some milliseconds
/// keep more writes fast than many short ones.
const DUE_WRITES: u64 = 512;
/// Debts shorter than this are not worth a sleep.
const DUE_SLACK_NS: u64 = 200_000;
/// Debts longer than this are slept off, however few writes they are.
const DUE_NS_MAX: u64 = 10_000_000;
/// How long sessions that wait go without a nudge.
const NUDGE: Duration = Duration::from_millis(2);
/// The longest that any write is made to wait. By then the pace is another, and where no room is
/// left the writer stops until there is.
const DEBT_NS_MAX: u64 = 25_000_000;

/// What drains give back, measured while writers wait for it. The time runs from one drain's end to
/// the next, so that it includes whatever keeps drains from beginning.
#[derive(Debug, Default)]
struct Flow {
    /// Log bytes freed, in this time, by so many drains; all fade with each drain.
    freed_bytes: f64,
    seconds: f64,
    drains: f64,
    /// When the latest drain ended, or the buffer began to hold too much.
    since: Option<Duration>,
}

impl Flow {
    /// How much earlier drains count beside a new one.
    const FADE: f64 = 0.75;

    /// The buffer holds more than `buffer_bytes`, or does not.
    fn press(&mut self, pressed: bool, now: Duration) {
        self.since = if pressed { self.since.or(Some(now)) } else { None };
    }

    /// A drain freed `bytes` of the log.
    fn freed(&mut self, bytes: u64, now: Duration) {
        let Some(since) = self.since.replace(now) else { return };
        self.freed_bytes = self.freed_bytes * Self::FADE + bytes as f64;
        self.seconds = self.seconds * Self::FADE + now.saturating_sub(since).as_secs_f64();
        self.drains = self.drains * Self::FADE + 1.0;
    }

    /// Bytes a second to admit where `room` is left; 0 = no limit. `drain_bytes` is what a drain
    /// frees before one was measured.
    fn pace(&self, room: u64, drain_bytes: u64, now: Duration) -> u64 {
        let Some(since) = self.since else { return 0 };
        let (rate, whole) = match self.seconds > 0.0 && self.freed_bytes > 0.0 {
            true => (self.freed_bytes / self.seconds, self.freed_bytes / self.drains),
            false => (DRAIN_RATE_FIRST, drain_bytes as f64),
        };
        let done = rate * now.saturating_sub(since).as_secs_f64();
        let left = (whole - done).max(whole / 4.0).max(1.0);
        let pace = rate * room as f64 / left;
        // So much more than drains achieve is as good as no limit.
        if pace >= rate * 4.0 { 0 } else { (pace.max(rate / 32.0) as u64).max(PACE_MIN) }
    }
}

impl Admission {
    /// Microseconds that writers were slowed, all together.
    pub fn slowdown_us(&self) -> u64 {
        self.slowdown_us.load(Ordering::Relaxed)
    }

    /// Microseconds that writers and sessions were stopped, all together.
    pub fn stop_us(&self) -> u64 {
        self.stop_us.load(Ordering::Relaxed)
    }

    /// A writer or a session was stopped for `time`.
    pub fn stopped_for(&self, time: Duration) {
        self.stop_us.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// A writer was slowed by `time`.
    pub fn slowed_for(&self, time: Duration) {
        self.slowdown_us.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// A drain freed `bytes` of the log.
    pub fn freed(&self, bytes: u64, now: Duration) {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner).freed(bytes, now);
    }

    /// Sets the pace where the buffer holds more than `buffer_bytes` if `pressed`, and has `room`
    /// until it is full.
    pub fn set_pace(&self, pressed: bool, room: u64, drain_bytes: u64, now: Duration) {
        let pace = {
            let mut flow = self.flow.lock().unwrap_or_else(PoisonError::into_inner);
            flow.press(pressed, now);
            flow.pace(room, drain_bytes, now)
        };
        self.look_ns.store(now.as_nanos() as u64 + PACE_NS, Ordering::Relaxed);
        // While there is pressure the pace is worked out again and again; a pace of 0 must not end
        // that.
        self.pace.store(if pressed && pace == 0 { u64::MAX } else { pace }, Ordering::Relaxed);
    }

    /// Whether the pace is to be worked out again; `true` for one caller each time.
    pub fn is_pace_old(&self, now: Duration) -> bool {
        let (now, look) = (now.as_nanos() as u64, self.look_ns.load(Ordering::Relaxed));
        let relaxed = Ordering::Relaxed;
        now >= look && self.look_ns.compare_exchange(look, now + PACE_NS, relaxed, relaxed).is_ok()
    }

    /// How long a write of `bytes` has to wait at the present pace.
    pub fn delay(&self, bytes: u64, now: Duration) -> Duration {
        let pace = self.pace.load(Ordering::Relaxed);
        if pace == 0 || pace == u64::MAX {
            return Duration::ZERO;
        }
        let cost = bytes.saturating_mul(1_000_000_000) / pace;
        let delay = self.due.charge(cost, now, DEBT_NS_MAX);
        if delay < (cost * DUE_WRITES).clamp(DUE_SLACK_NS, DUE_NS_MAX) {
            return Duration::ZERO;
        }
        Duration::from_nanos(delay)
    }

    /// Room may have been made: stopped writers and waiting sessions look again.
    pub fn release(&self) {
        let sessions = {
            let mut waiting = self.lock();
            waiting.round += 1;
            std::mem::take(&mut waiting.sessions)
        };
        self.freed.notify_all();
        sessions.iter().for_each(CompletionSender::nudge);
    }

    /// Whether writers have a pace.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.pace.load(Ordering::Relaxed) != 0
    }

    /// A writer waits for room for a segment of `bytes`. 0 = a segment has begun; a writer that
    /// still waits sets this again.
    pub fn want(&self, bytes: u64) {
        self.wanted.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the segment that a stopped writer waits for; 0 = no writer waits.
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Blocks until room may have been made, or for a moment.
    pub fn wait_released(&self) {
        let waiting = self.lock();
        let round = waiting.round;
        // Each release of room bumps the round; the limit only guards against a background
        // thread's death.
        let limit = Duration::from_millis(50);
        let _waited = self.freed.wait_timeout_while(waiting, limit, |waiting| waiting.round == round);
    }

    /// Whether a writer stands still for want of room.
    pub fn is_somebody_stopped(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Asks for a nudge at the next [`release`](Self::release) or within [`NUDGE`]; once is enough.
    pub fn wait_in(&self, session: &CompletionSender) {
        let mut waiting = self.lock();
        if waiting.is_over {
            // The thread that nudges has ended.
            drop(waiting);
            return session.nudge();
        }
        if !waiting.sessions.iter().any(|known| known.is_twin_of(session)) {
            waiting.sessions.push(session.clone());
            self.awaited.notify_one();
        }
    }

    /// A thread's life until [`end`](Self::end): nudges sessions that wait. So a session whose
    /// owner sleeps learns when its pace has let a write go. Background threads are no help where
    /// all of them are busy.
    pub fn nudge(&self) {
        let mut waiting = self.lock();
        loop {
            let is_quiet = |waiting: &mut Waiting| waiting.sessions.is_empty() && !waiting.is_over;
            waiting = self.awaited.wait_while(waiting, is_quiet).unwrap_or_else(PoisonError::into_inner);
            let is_on = |waiting: &mut Waiting| !waiting.is_over;
            let paused = self.awaited.wait_timeout_while(waiting, NUDGE, is_on);
            waiting = paused.unwrap_or_else(PoisonError::into_inner).0;
            let (sessions, is_over) = (std::mem::take(&mut waiting.sessions), waiting.is_over);
            drop(waiting);
            sessions.iter().for_each(CompletionSender::nudge);
            if is_over {
                return;
            }
            waiting = self.lock();
        }
    }

    /// Ends [`nudge`](Self::nudge).
    pub fn end(&self) {
        self.lock().is_over = true;
        self.awaited.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
