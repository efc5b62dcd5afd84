//! How much may be under way at executors elsewhere: threads that wait for it, and what is chosen
//! for them.
//!
//! A thread that waits for a job elsewhere does nothing here. An executor that hangs must not hold
//! up what is done here, nor a job that takes long one that writers wait for.
//!
//! [`RemoteLimits`] is made for one choice and asked under the schedule's lock. It blocks for
//! nothing.
//!
//! # Invariants
//! 1. However many jobs wait elsewhere, one thread works here, and one more waits for urgent jobs
//!    alone: [`RemoteLimits::is_thread_left`].

use firn_jobs::caught;
use firn_jobs::submit::Submitter;

/// What an engine may have done elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct RemoteLimits<'j> {
    jobs: &'j Submitter,
    threads: usize,
}

impl<'j> RemoteLimits<'j> {
    /// Of an engine whose owner asked for `threads` background threads.
    pub fn new(jobs: &'j Submitter, threads: usize) -> Self {
        Self { jobs, threads }
    }

    /// Number of background threads. Beside an executor elsewhere there are as many again as were
    /// asked for, and two more: one never waits, one waits for urgent jobs alone.
    pub fn thread_count(&self) -> usize {
        thread_count(self.threads, self.is_remote())
    }

    /// Copies of what lives at a time.
    pub fn copies_max(&self) -> usize {
        self.threads * if self.is_remote() { 2 } else { 1 }
    }

    /// Whether one more thread may wait for an urgent job elsewhere (`is_urgent`), or for anything
    /// else that may take long, where `waiting` do. That is any other job, which may be held for a
    /// minute, or a list of a storage that may be far away.
    pub fn is_thread_left(&self, waiting: usize, is_urgent: bool) -> bool {
        !self.is_remote() || is_left(waiting, self.thread_count(), is_urgent)
    }

    /// Whether a worker elsewhere is free, as far as is known, where `running` jobs run.
    pub fn is_worker_free(&self, running: usize) -> bool {
        let is_there = self.jobs.chain.as_ref().is_some_and(|chain| !chain.is_away());
        is_there && self.width().is_some_and(|width| running < width)
    }

    /// Whether a job that is chosen now begins soon, where executors elsewhere do such jobs. One
    /// that waits there keeps its inputs from being chosen with what comes meanwhile. `chosen` are
    /// jobs that were chosen and are not with the executor yet: urgent ones, and all.
    ///
    /// One job is chosen ahead, which may be divided: otherwise a free worker there would wait for
    /// a choice.
    pub fn is_begun_soon(&self, is_urgent: bool, chosen: (usize, usize)) -> bool {
        let Some(chain) = &self.jobs.chain else { return true };
        let Some(width) = self.width() else { return true };
        let here = if chain.is_away() { 0 } else { chain.here() as usize };
        let ((urgent, all), (chosen_urgent, chosen_all)) = (self.jobs.unfinished(), chosen);
        let before = if is_urgent { urgent + chosen_urgent } else { all + chosen_all };
        before <= width.saturating_add(here)
    }

    fn is_remote(&self) -> bool {
        self.jobs.chain.is_some()
    }

    /// Jobs of this engine that run at the same time, if the executor says.
    fn width(&self) -> Option<usize> {
        // An executor that panics when asked panics again where a job is divided, and that is told.
        caught("asking how many jobs run", || Ok(self.jobs.width())).ok().flatten()
    }
}

/// Background threads where `threads` were asked for.
fn thread_count(threads: usize, is_remote: bool) -> usize {
    threads + if is_remote { threads + 2 } else { 0 }
}

/// Whether one of `threads` may wait beside `waiting` others.
fn is_left(waiting: usize, threads: usize, is_urgent: bool) -> bool {
    waiting + 2 - usize::from(is_urgent) < threads
}

#[cfg(test)]
mod tests {
    use super::{is_left, thread_count};

    #[test]
    fn one_thread_works_here_and_one_more_waits_for_urgent_jobs_alone() {
        assert_eq!((thread_count(3, false), thread_count(3, true)), (3, 8));
        for threads in 1..6 {
            let all = thread_count(threads, true);
            let most = |is_urgent| (0..).find(|waiting| !is_left(*waiting, all, is_urgent)).unwrap();
            assert_eq!((most(true), most(false)), (all - 1, all - 2), "of {all}");
        }
    }
}
