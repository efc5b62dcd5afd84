//! A submitted job as its submitter sees it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::ran::Ran;
use crate::control::Control;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::JobResult;

/// A submitted job. Dropping the handle does not stop it.
#[derive(Clone, Debug)]
pub struct JobHandle {
    shared: Arc<Shared>,
}

/// The executor's end. Dropped without an answer, it answers `Cancelled`.
#[derive(Debug)]
pub struct Finisher {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    finished: Condvar,
    control: Control,
    is_waiting: AtomicBool,
    is_syncing: AtomicBool,
}

#[derive(Default)]
struct State {
    result: Option<Result<JobResult>>,
    ran: Option<Ran>,
    trouble: Option<String>,
    callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("finished", &self.lock().result.is_some()).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends of a new job: an executor keeps the finisher and hands out the handle.
pub fn new_job() -> (JobHandle, Finisher) {
    let shared = Arc::new(Shared::default());
    (JobHandle { shared: Arc::clone(&shared) }, Finisher { shared })
}

impl JobHandle {
    /// The result if there is one yet; never blocks.
    pub fn poll(&self) -> Option<Result<JobResult>> {
        self.shared.lock().result.clone()
    }

    /// Whether there is a result; never blocks.
    pub fn is_finished(&self) -> bool {
        self.shared.lock().result.is_some()
    }

    /// Blocks until there is a result.
    ///
    /// # Errors
    /// The job's own.
    pub fn wait(&self) -> Result<JobResult> {
        let mut state = self.shared.lock();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state = self.shared.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Where it ran, once there is a result; `None` too where its executor does not say.
    pub fn ran(&self) -> Option<Ran> {
        self.shared.lock().ran.clone()
    }

    /// Whether the executor has said that the job has not begun yet; `false` where it does not say.
    pub fn is_waiting(&self) -> bool {
        // No ordering: it decides only how long the job is waited for.
        self.shared.is_waiting.load(Ordering::Relaxed)
    }

    /// Whether the executor has said that the job waits for its output to become durable; `false`
    /// where it does not say.
    pub fn is_syncing(&self) -> bool {
        // No ordering: as above.
        self.shared.is_syncing.load(Ordering::Relaxed)
    }

    /// Entries that a compaction has gone over so far; 0 where the executor does not say.
    pub fn passed_count(&self) -> u64 {
        self.shared.control.passed_count()
    }

    /// Why it was tried in vain there the last time, where the executor says so and tries it again.
    pub fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }

    /// Asks the job to stop; its result is then `Cancelled`, unless it is done already. Does not
    /// wait.
    pub fn cancel(&self) {
        self.shared.control.cancel();
    }

    /// Calls `callback` once there is a result: on the executor's thread, or here and now if there
    /// is one already. It MUST NOT block.
    pub fn on_finished(&self, callback: Box<dyn FnOnce() + Send>) {
        let mut state = self.shared.lock();
        if state.result.is_none() {
            state.callbacks.push(callback);
            return;
        }
        drop(state);
        callback();
    }
}

impl Finisher {
    /// Tells whether the submitter wants the job to stop.
    pub fn control(&self) -> &Control {
        &self.shared.control
    }

    /// Says whether the job still waits to begin.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.shared.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Says whether the job waits for its output to become durable.
    pub fn set_syncing(&self, is_syncing: bool) {
        self.shared.is_syncing.store(is_syncing, Ordering::Relaxed);
    }

    /// Says why the job was tried in vain the last time.
    pub fn set_trouble(&self, why: String) {
        self.shared.lock().trouble = Some(why);
    }

    /// Gives the job its result: wakes waiting threads and calls the callbacks, on this thread.
    pub fn finish(self, result: Result<JobResult>) {
        self.answer(result, None);
    }

    /// As [`finish`](Self::finish), and says where the job ran.
    pub fn finish_ran(self, result: Result<JobResult>, ran: Ran) {
        self.answer(result, Some(ran));
    }

    fn answer(&self, result: Result<JobResult>, ran: Option<Ran>) {
        let mut state = self.shared.lock();
        if state.result.is_some() {
            return;
        }
        (state.result, state.ran) = (Some(result), ran);
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.shared.finished.notify_all();
        for callback in callbacks {
            callback();
        }
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        self.answer(Err(Error::new(ErrorKind::Cancelled, "the executor ended before the job did")), None);
    }
}
