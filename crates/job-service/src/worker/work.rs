//! The threads that run jobs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;
use firn_jobs::{Control, Error, ErrorKind, JobSpec, Result, run};
use tokio::sync::mpsc::UnboundedSender;

use super::Shared;
use crate::control::pool::{JobKey, Lease, Outcome, Timings, Token};
use crate::scoped::Scoped;
use crate::wire::failure_of;

/// A job that waits for a thread.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) lease: Lease,
    pub(super) control: Control,
    /// Who tells how it ended.
    pub(super) tell: UnboundedSender<Told>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) key: JobKey,
    pub(super) token: Token,
    pub(super) outcome: Outcome,
    pub(super) timings: Timings,
}

/// Jobs that wait for a thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tasks: VecDeque<Task>,
    is_closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, task: Task) {
        self.lock().tasks.push_back(task);
        self.arrived.notify_one();
    }

    /// Threads end with what they do.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    fn pop(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            match state.tasks.pop_front() {
                Some(task) => return Some(task),
                None => state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Shared {
    /// A thread's life.
    pub(super) fn work(&self) {
        while let Some(Task { lease, control, tell }) = self.queue.pop() {
            let begun = self.clock.now();
            let (result, opened) = self.attempt(&lease, &control);
            let outcome = match result {
                Ok(result) => Outcome::Done(result),
                Err(error) => Outcome::Failed(failure_of(&error)),
            };
            let since = |at: Duration| at.saturating_sub(begun);
            let ran = since(self.clock.now());
            let timings = Timings { opened: opened.map_or(ran, since), ran };
            // Whoever tells is gone only when the worker is.
            let _told = tell.send(Told { key: lease.key, token: lease.token, outcome, timings });
        }
    }

    /// Runs one attempt: its encoded result, and when its first byte was read.
    fn attempt(&self, lease: &Lease, control: &Control) -> (Result<Vec<u8>>, Option<Duration>) {
        let scoped = match self.scope(lease) {
            Ok(scoped) => scoped,
            Err(error) => return (Err(error), None),
        };
        let (spec, place) = scoped;
        let progress = place.progress();
        self.holdings.runs(lease.token, Arc::clone(&progress));
        let result = run(&spec, &place, &self.semantics, control);
        (result.map(|result| result.encode()), progress.first_read())
    }

    /// What the attempt does, and where.
    fn scope(&self, lease: &Lease) -> Result<(JobSpec, Scoped)> {
        // A spec of a version that came later is for others.
        let spec = JobSpec::decode(&lease.spec).map_err(|error| {
            Error::new(ErrorKind::Rejected, format!("this worker cannot read the job: {error}"))
        })?;
        let stem = attempt_stem(spec.output_stem(), lease.token);
        if stem.len() > STEM_BYTES_MAX {
            return Err(Error::new(ErrorKind::Invalid, "expected a stem with room for an attempt's"));
        }
        let spec = spec.with_stem(&stem).without_spare();
        let place = self.place(&lease.place).map_err(|error| {
            // Another worker may reach it, and this one later.
            Error::new(ErrorKind::Unavailable, format!("worker {}: {error}", self.options.name))
        })?;
        let scoped = Scoped::new(place, &spec, Arc::clone(&self.clock));
        Ok((spec, scoped))
    }
}

/// Bytes of a stem that attempts add.
pub(crate) const ATTEMPT_BYTES: usize = 17;

/// The stem of an attempt at a job with the stem `stem`.
fn attempt_stem(stem: &str, token: Token) -> String {
    format!("{stem}-{:016x}", token.0)
}
