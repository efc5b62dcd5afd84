//! How a database submits its jobs: which run now, what came of them, and what their outputs are
//! called.
//!
//! `history` has what statistics report of them. `output_names` tells by a name whether
//! anything waits for an output, and `uploads` aborts those that nothing waits for.

mod output_names;
mod uploads;
mod history;

pub use history::{JobHistory, JobKind};
pub use output_names::{AbandonedNames, HeldNames, OutputNames};
pub use uploads::{Aborted, Reach, Uploads};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::executor::{ChainStatus, Executor, JobHandle, Ran};
use crate::spec::{JobResult, JobSpec};
use firn_engine::JobStats;
use firn_storage::Clock;

/// The executor of a database, from its opening to its close.
///
/// 1. Every job that was submitted is waited for before its inputs or its outputs' names are let
///    go.
/// 2. [`end`](Self::end) asks all of them to stop; none is submitted afterwards.
#[derive(Debug)]
pub struct Submitter {
    /// What an executor that the owner gave did not do, and why; `None` = there is none.
    pub chain: Option<Arc<ChainStatus>>,
    /// What came of jobs that ended well.
    pub history: JobHistory,
    clock: Arc<dyn Clock>,
    /// Jobs that have ended, well or not.
    ended: AtomicU64,
    /// How often something was left, or may be, that nothing waits for.
    left: AtomicU64,
    state: Mutex<State>,
}

/// Jobs that were given to the executor together.
#[derive(Debug)]
#[must_use = "their inputs and names may be let go only once they have ended"]
pub struct Submitted {
    specs: Vec<JobSpec>,
    /// Of the first of them, up to one that was refused.
    handles: Vec<JobHandle>,
    refused: Option<Error>,
    begun: Duration,
}

impl Submitted {
    /// Asks all of them to stop. Does not wait.
    pub fn cancel(&self) {
        self.handles.iter().for_each(JobHandle::cancel);
    }
}

#[derive(Debug)]
struct State {
    /// Gone once the database closes.
    executor: Option<Arc<dyn Executor>>,
    /// By the stem of their outputs.
    running: BTreeMap<String, (JobKind, JobHandle)>,
}

impl Submitter {
    /// Of a database that gives its jobs to `executor`; `chain` is its status if it is a chain.
    pub fn new(executor: Arc<dyn Executor>, chain: Option<Arc<ChainStatus>>, clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::new(State { executor: Some(executor), running: BTreeMap::new() });
        let (history, ended, left) = Default::default();
        Self { chain, history, clock, ended, left, state }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs of this database that run at the same time, as far as is known now; `None` = the
    /// executor does not say.
    pub fn width(&self) -> Option<usize> {
        let executor = self.lock().executor.clone();
        executor.and_then(|executor| executor.width())
    }

    /// Compactions that were given to the executor and have no result yet: those that take runs out
    /// of level 0, and all.
    pub fn unfinished(&self) -> (usize, usize) {
        let state = self.lock();
        let unfinished = state.running.values().filter(|(_, handle)| !handle.is_finished());
        unfinished.fold((0, 0), |(l0, all), (kind, _)| match kind {
            JobKind::L0Compaction => (l0 + 1, all + 1),
            JobKind::DeepCompaction => (l0, all + 1),
            JobKind::BlobGc => (l0, all),
        })
    }

    /// Runs all of `specs` and waits for them, in their order.
    ///
    /// # Errors
    /// The first failure; nothing runs any more then. `Cancelled` when the database is being
    /// closed.
    pub fn run(&self, specs: Vec<JobSpec>) -> Result<Vec<JobResult>> {
        self.wait(self.begin(specs), || ())
    }

    /// Gives all of `specs` to the executor. The caller MUST [`wait`](Self::wait) for them.
    pub fn begin(&self, specs: Vec<JobSpec>) -> Submitted {
        let begun = self.clock.now();
        let mut handles = Vec::with_capacity(specs.len());
        let all: Result<()> =
            specs.iter().try_for_each(|spec| self.submit(spec).map(|handle| handles.push(handle)));
        let submitted = Submitted { specs, handles, refused: all.err(), begun };
        if submitted.refused.is_some() {
            submitted.cancel();
        }
        submitted
    }

    /// Waits for jobs that have begun, in their order; says of each that it has `ended`, once those
    /// before it have.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn wait(&self, submitted: Submitted, ended: impl Fn()) -> Result<Vec<JobResult>> {
        let Submitted { specs, handles, refused, begun } = submitted;
        let wait = |(spec, handle): (&JobSpec, &JobHandle)| {
            let result = handle.wait();
            ended();
            if let Ok(result) = &result {
                // A job of which the executor says nothing ran here, and tells nothing of its
                // stages.
                let here = || Ran { ran: self.clock.now().saturating_sub(begun), ..Ran::default() };
                self.history.finished(spec, result, &handle.ran().unwrap_or_else(here), self.clock.unix_ms());
            }
            result
        };
        let results: Vec<_> = specs.iter().zip(&handles).map(wait).collect();
        let mut state = self.lock();
        for spec in &specs[..handles.len()] {
            state.running.remove(spec.output_stem());
        }
        drop(state);
        self.ended.fetch_add(handles.len() as u64, Ordering::Relaxed);
        match refused {
            Some(error) => Err(error),
            None => results.into_iter().collect(),
        }
    }

    fn submit(&self, spec: &JobSpec) -> Result<JobHandle> {
        // Not under the lock: an inline executor runs the job before it answers.
        let Some(executor) = self.lock().executor.clone() else { return Err(closing()) };
        let handle = executor.submit(spec.clone())?;
        let mut state = self.lock();
        if state.executor.is_none() {
            handle.cancel();
        }
        state.running.insert(spec.output_stem().to_owned(), (JobKind::of(spec), handle.clone()));
        Ok(handle)
    }

    /// Says when writers will stop; see [`Executor::urge`].
    pub fn urge(&self, stalls_in: Option<Duration>) {
        let executor = self.lock().executor.clone();
        if let Some(executor) = executor {
            executor.urge(stalls_in);
        }
    }

    /// What statistics report of them.
    pub fn stats(&self) -> JobStats {
        let chain = self.chain.as_ref();
        let (held_count, held_bytes) = chain.map_or((0, 0), |chain| chain.held());
        let is_executor_away = chain.is_some_and(|chain| chain.is_away());
        let (idle_count, late_count) = chain.map_or((0, 0), |chain| chain.idle());
        let (reexecuted_count, differed_count) = chain.map_or((0, 0), |chain| chain.reexecuted());
        let by_cause = chain.map(|chain| chain.by_cause());
        let passed_on = by_cause.into_iter().flatten().map(|(cause, count)| (cause.name(), count)).collect();
        JobStats {
            passed_on,
            held_count,
            held_bytes,
            is_executor_away,
            reexecuted_count,
            differed_count,
            idle_count,
            late_count,
            ..self.history.stats()
        }
    }

    /// Jobs that have ended.
    pub fn ended_count(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Something may be left behind that nothing waits for: outputs of a job that failed, a file
    /// that could not be removed.
    pub fn leave_something(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was so, attempts included that the executor gave up. Only grows until the
    /// close.
    pub fn left_count(&self) -> u64 {
        let executor = self.lock().executor.clone();
        let given_up = executor.map_or(0, |executor| executor.given_up_count());
        self.left.load(Ordering::Relaxed) + given_up
    }

    /// Asks running jobs to stop and lets go of the executor. Does not wait.
    pub fn end(&self) {
        let mut state = self.lock();
        let executor = state.executor.take();
        state.running.values().for_each(|(_, handle)| handle.cancel());
        drop(state);
        // An executor's end answers handles, whose callbacks must not find the lock taken.
        drop(executor);
    }
}

fn closing() -> Error {
    Error::new(ErrorKind::Cancelled, "the database is being closed")
}
