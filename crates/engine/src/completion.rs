//! How pending operations come back to their session.
//!
//! Locks are here because the two make one another: a completion may grant locks, and locks that
//! are dropped complete the call that waits for them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use crate::{Error, HashBatch, Position, RmwAnswer, ScanBatch, Ticket, Values};

mod locks;

pub use locks::{KeyLocks, LockTable};

/// The result of an operation that was pending.
#[derive(Debug)]
pub enum Completion {
    /// A write was acknowledged.
    Written(Position),
    /// An `rmw` was acknowledged, and came to this.
    Modified(Position, RmwAnswer),
    /// A `get` or `get_range` found this value, or none; `is_stored` answers with an empty one,
    /// `load` with none.
    Value(Option<Vec<u8>>),
    /// A `multi_get` found these values.
    Values(Values),
    /// A scan produced this batch.
    Scanned(ScanBatch),
    /// A scan by hash produced this batch.
    ScannedByHash(HashBatch),
    /// A `lock` was granted.
    Locked(KeyLocks),
    /// The operation failed.
    Failed(Error),
}

/// The receiving end of a session's completions: a queue that background threads fill and `poll`
/// empties.
#[derive(Debug, Default)]
pub struct CompletionQueue {
    shared: Arc<Shared>,
}

/// The sending end; may outlive the session, whose completions are then dropped.
#[derive(Clone, Debug)]
pub struct CompletionSender {
    shared: Arc<Shared>,
}

/// Wakes what waits for a session: a registered waker, or another thread blocked on it.
#[derive(Clone, Debug)]
pub struct Notifier {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<(Ticket, Completion)>,
    nudged: bool,
    /// The session is gone: what arrives is dropped.
    closed: bool,
    wakers: Vec<Waker>,
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CompletionQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// A sender for background threads.
    pub fn sender(&self) -> CompletionSender {
        CompletionSender { shared: Arc::clone(&self.shared) }
    }

    /// A notifier for waiters.
    pub fn notifier(&self) -> Notifier {
        Notifier { shared: Arc::clone(&self.shared) }
    }

    /// Takes the oldest completion, if any. Never blocks on I/O.
    pub fn pop(&self) -> Option<(Ticket, Completion)> {
        self.shared.lock().ready.pop_front()
    }

    /// Forgets [nudges](CompletionSender::nudge) so far. A session's `poll` begins with this: it
    /// finds what the nudges were for. A nudge that comes during `poll` makes the next wait end at
    /// once.
    pub fn take_nudge(&self) {
        self.shared.lock().nudged = false;
    }
}

impl Drop for CompletionQueue {
    /// Drops what was not taken, and later completions as they come: locks among them open at once.
    fn drop(&mut self) {
        let ready = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.ready)
        };
        drop(ready);
    }
}

impl CompletionSender {
    /// Delivers a completion and wakes every waiter.
    pub fn send(&self, ticket: Ticket, completion: Completion) {
        let wakers = {
            let mut state = self.shared.lock();
            if state.closed {
                drop(state);
                return drop(completion);
            }
            state.ready.push_back((ticket, completion));
            std::mem::take(&mut state.wakers)
        };
        self.shared.arrived.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl CompletionSender {
    /// Whether both send to the same session.
    pub fn is_twin_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Wakes every waiter without a completion: something the session waited for may go on now.
    pub fn nudge(&self) {
        let wakers = {
            let mut state = self.shared.lock();
            state.nudged = true;
            std::mem::take(&mut state.wakers)
        };
        self.shared.arrived.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Notifier {
    /// Wakes `waker` once when the next completion arrives; at once if one is waiting.
    pub fn register(&self, waker: &Waker) {
        let mut state = self.shared.lock();
        if !state.ready.is_empty() || state.nudged {
            drop(state);
            waker.wake_by_ref();
            return;
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
    }

    /// Blocks until a completion is waiting, the session should poll for another reason, or
    /// `deadline` passes (`None` = no deadline). `true` unless the deadline passed.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.shared.lock();
        while state.ready.is_empty() && !state.nudged {
            state = match deadline {
                None => self.shared.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    #[expect(clippy::disallowed_methods, reason = "a deadline is wall time by its meaning")]
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.shared.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }
}
