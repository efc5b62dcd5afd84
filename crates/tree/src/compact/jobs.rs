//! Where compactions run, those that run there now, and when to ask again after a failure.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_jobs::{Error, ErrorKind, Executor, JobHandle, JobResult, JobSpec, Result};

/// The executor of a database, from its opening to its close.
///
/// 1. Every job that was submitted is waited for before its inputs or its outputs' names are let go.
/// 2. [`end`](Self::end) asks all of them to stop; none is submitted afterwards.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// Whether the owner gave the executor: then a failure tells of somewhere else, not of this database.
    pub(crate) is_given: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Gone once the database closes.
    executor: Option<Arc<dyn Executor>>,
    /// By the stem of their outputs.
    running: BTreeMap<String, JobHandle>,
    /// How often in a row jobs failed, and the moment (of the clock's `now`) before which none is tried.
    failures: u32,
    retry_at: Duration,
}

impl Jobs {
    pub(crate) fn new(executor: Arc<dyn Executor>, is_given: bool) -> Self {
        let state = State {
            executor: Some(executor),
            running: BTreeMap::new(),
            failures: 0,
            retry_at: Duration::ZERO,
        };
        Self { is_given, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs all of `specs` and waits for them, in their order.
    ///
    /// # Errors
    /// The first failure; nothing runs any more then. `Cancelled` when the database is being closed.
    pub(crate) fn run(&self, specs: &[JobSpec]) -> Result<Vec<JobResult>> {
        let mut handles = Vec::with_capacity(specs.len());
        let submitted: Result<()> =
            specs.iter().try_for_each(|spec| self.submit(spec).map(|handle| handles.push(handle)));
        if submitted.is_err() {
            handles.iter().for_each(JobHandle::cancel);
        }
        let results: Vec<_> = handles.iter().map(JobHandle::wait).collect();
        let mut state = self.lock();
        for spec in &specs[..handles.len()] {
            state.running.remove(&spec.output_stem);
        }
        drop(state);
        submitted?;
        results.into_iter().collect()
    }

    fn submit(&self, spec: &JobSpec) -> Result<JobHandle> {
        // Not under the lock: an inline executor runs the job before it answers.
        let Some(executor) = self.lock().executor.clone() else { return Err(closing()) };
        let handle = executor.submit(spec.clone())?;
        let mut state = self.lock();
        if state.executor.is_none() {
            handle.cancel();
        }
        state.running.insert(spec.output_stem.clone(), handle.clone());
        Ok(handle)
    }

    /// Asks running jobs to stop and lets go of the executor. Does not wait.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        let executor = state.executor.take();
        state.running.values().for_each(JobHandle::cancel);
        drop(state);
        // An executor's end answers handles, whose callbacks must not find the lock taken.
        drop(executor);
    }

    /// Whether to wait before the next job, at the moment `now`.
    pub(crate) fn is_put_off(&self, now: Duration) -> bool {
        now < self.lock().retry_at
    }

    /// Notes that jobs failed at the moment `now`: the next is tried a little later, twice as much later each time.
    pub(crate) fn put_off(&self, now: Duration) {
        let mut state = self.lock();
        let pause = RETRY_MIN.saturating_mul(1 << state.failures.min(10)).min(RETRY_MAX);
        state.failures = state.failures.saturating_add(1);
        state.retry_at = now.saturating_add(pause);
    }

    /// Notes that jobs were done.
    pub(crate) fn went_well(&self) {
        self.lock().failures = 0;
    }
}

/// Pause after the first failure.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// Longest pause.
const RETRY_MAX: Duration = Duration::from_secs(10);

fn closing() -> Error {
    Error::new(ErrorKind::Cancelled, "the database is being closed")
}
