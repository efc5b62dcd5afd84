//! What is being worked on: each piece by one unit of work at a time.
//!
//! An engine has one [`Schedule`], for as long as it is open. Its threads choose and claim under
//! one lock, and work without it. All of it is thread-safe; what [`Schedule::lock`] gives is
//! touched by one thread at a time.
//!
//! # Invariants
//! 1. Nothing is claimed twice: a task is chosen and claimed under one lock. Established in
//!    `threads::claim_next`.
//! 2. What a task claims is given up whatever becomes of the task. Established by `threads::Claim`,
//!    which is dropped by a panic too.
//! 3. After [`Schedule::stop`] no unit runs, and none begins.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backoff::Backoff;

/// What is being worked on, and what was refused: `C` is what the engine's tasks claim, `K` the
/// kinds of its units.
#[derive(Debug)]
pub struct Schedule<C, K> {
    state: Mutex<InProgress<C, K>>,
    work: Arc<Condvar>,
    idle: Condvar,
    is_manual: bool,
}

/// Wakes threads that wait for work.
#[derive(Clone, Debug)]
pub struct Wake(Arc<Condvar>);

impl Wake {
    /// There may be something to do.
    pub fn wake(&self) {
        self.0.notify_all();
    }
}

/// What is in progress, under the schedule's lock.
#[derive(Debug)]
pub struct InProgress<C, K> {
    /// What tasks in progress have claimed.
    pub claims: C,
    /// What failed and may work later.
    pub backoff: Backoff<K>,
    running: usize,
    held: usize,
    is_stopping: bool,
}

impl<C: Default, K> Default for InProgress<C, K> {
    fn default() -> Self {
        Self { claims: C::default(), backoff: Backoff::default(), running: 0, held: 0, is_stopping: false }
    }
}

impl<C, K> InProgress<C, K> {
    /// Whether a [`Hold`] is alive: nothing begins then that it is to keep from beginning. Which
    /// tasks those are the engine says.
    pub fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Whether no unit is to begin any more.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Whether no unit is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.running == 0
    }

    pub(crate) fn begin(&mut self) {
        self.running += 1;
    }
}

impl<C: Default, K> Schedule<C, K> {
    /// Nothing in progress. If `is_manual`, no thread works, and [`step`](crate::step) does.
    pub fn new(is_manual: bool) -> Self {
        Self { state: Mutex::default(), work: Arc::default(), idle: Condvar::new(), is_manual }
    }
}

impl<C, K> Schedule<C, K> {
    /// Whether the owner does all work, unit by unit.
    pub fn is_manual(&self) -> bool {
        self.is_manual
    }

    /// Nothing is chosen, claimed or given up while the answer is held.
    pub fn lock(&self) -> MutexGuard<'_, InProgress<C, K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What wakes threads that wait for work, for parts of the engine that need nothing else of
    /// the schedule.
    pub fn waker(&self) -> Wake {
        Wake(Arc::clone(&self.work))
    }

    /// There may be something to do.
    pub fn wake(&self) {
        self.work.notify_all();
    }

    /// Tells threads to end and waits until no unit runs.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.is_stopping = true;
        self.work.notify_all();
        while !state.is_idle() {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a unit in progress should give up.
    pub fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// Waits until `is_settled` holds of what is claimed. Keeps tasks that look at
    /// [`InProgress::is_held`] from beginning, until the answer is dropped.
    pub fn hold(&self, is_settled: impl Fn(&C) -> bool) -> Hold<'_, C, K> {
        self.lock().held += 1;
        let hold = Hold(self);
        let mut state = self.lock();
        while !is_settled(&state.claims) {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        hold
    }

    /// Waits with `state` until there may be something to do, for [`POLL`] at most.
    pub(crate) fn wait_for_work<'s>(
        &self,
        state: MutexGuard<'s, InProgress<C, K>>,
    ) -> MutexGuard<'s, InProgress<C, K>> {
        self.work.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits with `state` until a unit has ended, for [`POLL`] at most.
    pub(crate) fn wait_for_end(&self, state: MutexGuard<'_, InProgress<C, K>>) {
        let _waited = self.idle.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner);
    }

    /// A unit has ended, and what it held is gone.
    pub(crate) fn end(&self) {
        self.lock().running -= 1;
        self.idle.notify_all();
        self.work.notify_all();
    }
}

/// Keeps units from beginning until it is dropped; see [`Schedule::hold`].
#[derive(Debug)]
pub struct Hold<'s, C, K>(&'s Schedule<C, K>);

impl<C, K> Drop for Hold<'_, C, K> {
    fn drop(&mut self) {
        self.0.lock().held -= 1;
        self.0.work.notify_all();
    }
}

/// How long a thread sleeps at most before it looks again.
const POLL: Duration = Duration::from_millis(100);
