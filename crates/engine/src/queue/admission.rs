//! Whether a write may begin: those that may not wait here for room.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::HeldTime;
use crate::CompletionSender;

/// Writers and sessions that wait for room; counts how long they are stopped.
///
/// What makes room [releases](Self::release) all of them, and each tries again in its own order. A
/// session is held once, however often it asks.
#[derive(Debug, Default)]
pub struct Admission {
    stop_us: AtomicU64,
    stop_time: HeldTime,
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

/// How long sessions that wait go without a nudge.
const NUDGE: Duration = Duration::from_millis(2);

impl Admission {
    /// Microseconds that writers and sessions were stopped, all together.
    pub fn stop_us(&self) -> u64 {
        self.stop_us.load(Ordering::Relaxed)
    }

    /// Microseconds of the clock, until `now`, in which at least one of them was stopped.
    pub fn stop_wall_us(&self, now: Duration) -> u64 {
        self.stop_time.us(now)
    }

    /// A writer or a session was stopped from `from` until `until`.
    pub fn stopped(&self, from: Duration, until: Duration) {
        self.stop_us.fetch_add(until.saturating_sub(from).as_micros() as u64, Ordering::Relaxed);
        self.stop_time.note(from, until);
    }

    /// A session that is stopped since `from` is so at `now`, and will tell when it is over.
    pub fn still_stopped(&self, from: Duration, now: Duration) {
        self.stop_time.note(from, now);
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
    pub fn is_writer_stopped(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Asks for a nudge at the next [`release`](Self::release) or within 2 ms; once is enough.
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
