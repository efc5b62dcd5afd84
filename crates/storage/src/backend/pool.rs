//! Threads for reads that missed memory.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Priority, Result, Spawn};

/// A read to be done on a thread of the pool.
pub type ReadBody = Box<dyn FnOnce() + Send>;

/// A small fixed set of threads that do reads which would make the caller wait for the device.
///
/// Reads begin in the order they were submitted. The queue is bounded. A read that panics is
/// counted and ends alone; its waiter learns of that by what the read drops. Dropping the pool
/// tells the threads to end after what is queued, without waiting; [`shutdown`](Self::shutdown)
/// waits.
pub struct ReadPool {
    queue: Arc<Queue>,
    queued_max: usize,
}

/// Why a read was not taken; it comes back.
pub enum Rejected {
    /// As many reads are queued as the pool may hold: try again when some are done, or read on this
    /// thread.
    Full(ReadBody),
    /// The pool was shut down.
    Closed(ReadBody),
}

struct Queue {
    state: Mutex<State>,
    /// Told when a read is queued or the pool closes.
    work: Condvar,
    /// Told when a thread ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    reads: VecDeque<Waiting>,
    running: usize,
    threads: usize,
    panics: u64,
    is_closed: bool,
}

struct Waiting(ReadBody);

impl ReadPool {
    /// A pool of `threads` threads (at least one) from `spawn`, holding up to `queued_max` reads
    /// (at least one) that no thread has begun.
    ///
    /// Fails if a thread cannot be started; threads that were started end again.
    pub fn new(threads: usize, queued_max: usize, spawn: &dyn Spawn) -> Result<Self> {
        let queue =
            Queue { state: Mutex::new(State::default()), work: Condvar::new(), ended: Condvar::new() };
        let pool = Self { queue: Arc::new(queue), queued_max: queued_max.max(1) };
        for index in 0..threads.max(1) {
            let queue = pool.queue.clone();
            pool.queue.state().threads += 1;
            let started =
                spawn.spawn(format!("firn-read-{index}"), Priority::Normal, Box::new(move || queue.serve()));
            if let Err(error) = started {
                pool.queue.state().threads -= 1;
                return Err(error);
            }
        }
        Ok(pool)
    }

    /// Queues `body` to be run by a thread of the pool; never waits.
    pub fn submit(&self, body: ReadBody) -> std::result::Result<(), Rejected> {
        let mut state = self.queue.state();
        if state.is_closed {
            return Err(Rejected::Closed(body));
        }
        if state.reads.len() >= self.queued_max {
            return Err(Rejected::Full(body));
        }
        state.reads.push_back(Waiting(body));
        drop(state);
        self.queue.work.notify_one();
        Ok(())
    }

    /// How many reads are queued and not begun.
    pub fn queued_count(&self) -> usize {
        self.queue.state().reads.len()
    }

    /// How many reads are being done now.
    pub fn running_count(&self) -> usize {
        self.queue.state().running
    }

    /// How many reads panicked so far.
    pub fn panic_count(&self) -> u64 {
        self.queue.state().panics
    }

    /// Takes no more reads, and waits until all queued ones are done and the threads have ended.
    ///
    /// MUST not be called from a read: it would wait for itself.
    pub fn shutdown(&self) {
        self.close();
        let mut state = self.queue.state();
        while state.threads > 0 {
            state = self.queue.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.queue.state().is_closed = true;
        self.queue.work.notify_all();
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each thread does: reads until the pool is closed and nothing is queued.
    fn serve(&self) {
        let mut state = self.state();
        loop {
            if let Some(Waiting(body)) = state.reads.pop_front() {
                state.running += 1;
                drop(state);
                // The queue's own state is not touched by the body, so a panic leaves it whole.
                let done = catch_unwind(AssertUnwindSafe(body));
                state = self.state();
                state.running -= 1;
                state.panics += u64::from(done.is_err());
            } else if state.is_closed {
                break;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.threads -= 1;
        drop(state);
        self.ended.notify_all();
    }
}

impl Rejected {
    /// The read that was not taken.
    pub fn into_body(self) -> ReadBody {
        match self {
            Self::Full(body) | Self::Closed(body) => body,
        }
    }
}

impl fmt::Debug for ReadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = &*self.queue.state();
        f.debug_struct("ReadPool").field("queued_max", &self.queued_max).field("state", state).finish()
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full",
            Self::Closed(_) => "Closed",
        })
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("read")
    }
}

#[cfg(test)]
mod tests;
