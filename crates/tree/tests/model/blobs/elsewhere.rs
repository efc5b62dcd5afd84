//! A job on another machine, under a lease: `jobs/src/executor/chain.rs` over a control plane
//! and its workers.
//!
//! The database holds the job's inputs until it has one result, its own if it waits no longer. The
//! worker that had the job may not know that it was given up: it reads, writes and answers as
//! before.

use std::sync::PoisonError;

use super::collect::{Collected, Spec};
use super::database::{Database, Mistake};
use super::homes::FileName;
use crate::model::sync::{Condvar, Mutex, locked, pause};

/// What waits for a worker, and what workers have answered.
pub(crate) struct Pool {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: Option<(Spec, u32)>,
    answers: Vec<(FileName, Result<Collected, FileName>)>,
    attempts: u32,
    is_closed: bool,
}

/// How often the database looks whether there is an answer: about as long as a job takes beside
/// everything else.
const PATIENCE: usize = 8;

impl Pool {
    pub(super) fn new() -> Self {
        Self { jobs: Mutex::new(Jobs::default()), changed: Condvar::new() }
    }

    fn offer(&self, spec: &Spec, is_one_stem: bool) -> u32 {
        let mut jobs = locked(&self.jobs);
        jobs.attempts += u32::from(!is_one_stem);
        let attempt = jobs.attempts;
        jobs.waiting = Some((spec.clone(), attempt));
        self.changed.notify_all();
        attempt
    }

    fn take_answer(&self, file: FileName) -> Option<Result<Collected, FileName>> {
        let mut jobs = locked(&self.jobs);
        let at = jobs.answers.iter().position(|(answered, _)| *answered == file)?;
        Some(jobs.answers.swap_remove(at).1)
    }
}

impl Database {
    /// Collects all segments, twice, by jobs that others may do; afterwards there is no more work
    /// for them.
    pub(crate) fn collect_elsewhere(&self) {
        for _ in 0..2 {
            self.collect_where(|_| true, Self::run_elsewhere);
        }
        locked(&self.pool.jobs).is_closed = true;
        self.pool.changed.notify_all();
    }

    /// A link is asked, and the last executor does what came to nothing there.
    fn run_elsewhere(&self, spec: &Spec) -> Result<Collected, FileName> {
        let attempt = self.pool.offer(spec, self.is_wrong(Mistake::OneStem));
        let file = FileName::Output { stem: spec.stem, attempt };
        for _ in 0..PATIENCE {
            if let Some(answer) = self.pool.take_answer(file) {
                return answer;
            }
        }
        // From now on the handle is not asked. What was written is removed; what is written later,
        // by orphan GC.
        locked(&self.pool.jobs).waiting = None;
        self.files.remove(file);
        pause();
        let here = self.blob_gc_job(spec, 0);
        let late = self.is_wrong(Mistake::TakeLateAnswers).then(|| self.pool.take_answer(file));
        late.flatten().filter(Result::is_ok).unwrap_or(here)
    }

    /// A worker, as long as there may be jobs.
    pub(crate) fn work(&self) {
        let mut jobs = locked(&self.pool.jobs);
        while !jobs.is_closed {
            let Some((spec, attempt)) = jobs.waiting.take() else {
                jobs = self.pool.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(jobs);
            let answer = self.blob_gc_job(&spec, attempt);
            pause();
            let file = FileName::Output { stem: spec.stem, attempt };
            jobs = locked(&self.pool.jobs);
            jobs.answers.push((file, answer));
        }
    }
}
