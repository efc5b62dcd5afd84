//! Slowing writers before memory runs out, and stopping them when it has.
//!
//! The buffer may hold `buffer_bytes` for nothing. Between that and `buffer_bytes_max` writers are admitted at a
//! pace that falls smoothly from what drains achieve to a trickle; at the maximum no new segment begins until a
//! drain frees one. Reads are never slowed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use firn_engine::{CompletionSender, Result};

use crate::database::Database;

/// Pace and stop of writers; counts what they cost.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Log bytes a second that are admitted; 0 = no limit.
    pace: AtomicU64,
    /// When the bytes admitted so far are due, in nanoseconds of the engine's clock.
    due_ns: AtomicU64,
    /// Bytes drained a second, as measured over the latest drains.
    drain_rate: AtomicU64,
    slowdown_us: AtomicU64,
    stop_us: AtomicU64,
    /// Bytes of the segment that a stopped writer waits for; 0 = nobody waits.
    wanted: AtomicU64,
    waiting: Mutex<Waiting>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Grows whenever room may have been made.
    round: u64,
    sessions: Vec<CompletionSender>,
}

/// Slowest pace: a writer is never slowed below this many bytes a second.
const PACE_MIN: u64 = 1 << 20;
/// Drain rate assumed before one was measured.
const DRAIN_RATE_FIRST: u64 = 128 << 20;
/// Debts shorter than this are not worth a sleep.
const DUE_SLACK_NS: u64 = 200_000;

impl Admission {
    pub(crate) fn slowdown_us(&self) -> u64 {
        self.slowdown_us.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_us(&self) -> u64 {
        self.stop_us.load(Ordering::Relaxed)
    }

    /// A writer or a session was stopped for `time`.
    pub(crate) fn stopped_for(&self, time: Duration) {
        self.stop_us.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// A drain wrote `bytes` in `took`.
    pub(crate) fn drained(&self, bytes: u64, took: Duration) {
        let rate = (bytes as f64 / took.as_secs_f64().max(1e-6)) as u64;
        let old = self.drain_rate.load(Ordering::Relaxed);
        let next = if old == 0 { rate } else { (old * 3 + rate) / 4 };
        self.drain_rate.store(next.max(PACE_MIN), Ordering::Relaxed);
    }

    /// Room may have been made: whoever was stopped looks again.
    pub(crate) fn release(&self) {
        let sessions = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.round += 1;
            std::mem::take(&mut waiting.sessions)
        };
        self.freed.notify_all();
        sessions.iter().for_each(CompletionSender::nudge);
    }

    /// Whether a session waits for a nudge.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).sessions.is_empty()
    }

    /// Asks for a nudge at the next [`release`](Self::release); once is enough.
    pub(crate) fn wait_in(&self, session: &CompletionSender) {
        let sessions = &mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner).sessions;
        if !sessions.iter().any(|known| known.is_twin_of(session)) {
            sessions.push(session.clone());
        }
    }
}

impl Database {
    /// Memory of the buffer: arenas of live segments, memtables and run indexes.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let version = self.version.load();
        let arenas: u64 = version.segments.segments().iter().map(|segment| segment.memory_bytes()).sum();
        let indexes: u64 = version
            .live()
            .map(|keyspace| {
                let runs: u64 = keyspace.runs.iter().map(|run| run.memory_bytes()).sum();
                let frozen: usize = keyspace.frozen.iter().map(|frozen| frozen.memtable.memory_bytes()).sum();
                runs + (frozen + keyspace.memtable.memory_bytes()) as u64
            })
            .sum();
        arenas + indexes
    }

    /// Whether runs must drain: the buffer is over its soft limit, or a writer is stopped for want of room.
    pub(crate) fn is_under_pressure(&self) -> bool {
        let held = self.buffer_bytes();
        let wanted = self.admission.wanted.load(Ordering::Relaxed);
        held > self.settings.buffer_bytes || (wanted > 0 && held + wanted > self.settings.buffer_bytes_max)
    }

    /// A writer waits for room for a segment of `bytes`; 0 = one has begun, and whoever still waits says so again.
    pub(crate) fn want_room(&self, bytes: u64) {
        self.admission.wanted.store(bytes, Ordering::Relaxed);
    }

    /// Whether a segment of `bytes` may begin. One segment beside the active one always may.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let version = self.version.load();
        if version.segments.segments().len() <= 1 {
            return true;
        }
        self.buffer_bytes() + bytes <= self.settings.buffer_bytes_max
    }

    /// Sets the pace of writers from the buffer's size now.
    pub(crate) fn pace_by_debt(&self) {
        let held = self.buffer_bytes();
        let (soft, hard) = (self.settings.buffer_bytes, self.settings.buffer_bytes_max);
        // The active segment counts in full from its beginning, so slowing begins one segment above the soft limit.
        let soft = (soft + self.settings.segment_bytes).min(hard);
        let pace = if held <= soft || hard == soft {
            0
        } else {
            let rate = match self.admission.drain_rate.load(Ordering::Relaxed) {
                0 => DRAIN_RATE_FIRST,
                rate => rate,
            };
            let stretch = ((held - soft) as f64 / (hard - soft) as f64).min(1.0);
            // From three times the drain rate down to half of it.
            ((rate as f64 * (3.0 - 2.5 * stretch)) as u64).max(PACE_MIN)
        };
        self.admission.pace.store(pace, Ordering::Relaxed);
    }

    /// When a write of `bytes` is due: the delay its acknowledgement must wait, zero when writers are not slowed.
    #[inline]
    pub(crate) fn admit(&self, bytes: u64) -> Duration {
        let pace = self.admission.pace.load(Ordering::Relaxed);
        if pace == 0 { Duration::ZERO } else { self.admit_paced(bytes, pace) }
    }

    #[cold]
    fn admit_paced(&self, bytes: u64, pace: u64) -> Duration {
        let now = self.clock.now().as_nanos() as u64;
        let cost = bytes.saturating_mul(1_000_000_000) / pace;
        self.admission.due_ns.fetch_max(now, Ordering::Relaxed);
        let due = self.admission.due_ns.fetch_add(cost, Ordering::Relaxed) + cost;
        let delay = due.saturating_sub(now);
        if delay < DUE_SLACK_NS {
            return Duration::ZERO;
        }
        self.admission.slowdown_us.fetch_add(delay / 1000, Ordering::Relaxed);
        Duration::from_nanos(delay)
    }

    /// Blocks until a stopped writer should try again, and counts the time.
    ///
    /// With nobody to do background work it does a unit of it itself.
    pub(crate) fn wait_for_room(&self) -> Result<()> {
        let begun = self.clock.now();
        self.retry_drains();
        if self.is_manual() {
            self.step()?;
        } else {
            let waiting = self.admission.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let round = waiting.round;
            // Whatever frees room bumps the round; the limit only guards against a background thread's death.
            let limit = Duration::from_millis(50);
            let _waited =
                self.admission.freed.wait_timeout_while(waiting, limit, |waiting| waiting.round == round);
        }
        let waited = self.clock.now().saturating_sub(begun);
        self.admission.stopped_for(waited);
        self.background_error()?;
        // Nothing drains any more once the database closes.
        self.check_open()?;
        self.refused_room()
    }

    /// `Retry` if the disk was too full for a drain since [`retry_drains`](Self::retry_drains).
    pub(crate) fn refused_room(&self) -> Result<()> {
        self.schedule.refused().map_or(Ok(()), Err)
    }

    /// Forgets why a drain was refused: there may be space on the disk by now.
    pub(crate) fn retry_drains(&self) {
        self.schedule.forget_refused();
        self.wake_background();
    }
}
