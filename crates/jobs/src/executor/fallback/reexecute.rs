//! What others did, done again here: sums prove that nothing was lost by accident, and not that the rules were kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_format::file_name::STEM_BYTES_MAX;

use super::super::ran::Ran;
use super::super::trust::Concern;
use super::Shared;
use super::state::{Answered, Job, Place, Running};
use crate::error::{ErrorKind, Result};
use crate::spec::JobResult;
use crate::verify::{same_files, verify_same};

impl Shared {
    /// Gives the job what the first executor came to, or has the second come to the same first.
    pub(super) fn reexecute(self: &Arc<Self>, job: Job, stem: String, result: JobResult, ran: Ran) {
        let own_stem = format!("{}-c", job.spec.output_stem());
        let begun = self.clock.now();
        let is_drawn = {
            let mut state = self.lock();
            let is_over = state.is_closed || job.finisher.control().is_cancelled();
            state.draw_reexecution(begun, &self.patience) && !is_over
        };
        if !is_drawn || own_stem.len() > STEM_BYTES_MAX {
            return job.finisher.finish_ran(Ok(result), ran);
        }
        // A spare file that it names went to whoever renamed it.
        match self.second.submit(job.spec.with_stem(&own_stem).without_spare()) {
            Err(_) => job.finisher.finish_ran(Ok(result), ran),
            Ok(handle) => {
                let place = Place::Reexecuted(Box::new(Answered { stem, own_stem, result, ran }));
                self.follow(Running { job, handle, begun, place, is_cancelled: false });
            }
        }
    }

    /// Gives the job what the first executor came to, unless the second came to something else.
    pub(super) fn compare(&self, job: Job, answered: Box<Answered>, second: Result<JobResult>) {
        let Answered { stem, own_stem, result, ran } = *answered;
        // What was not done again (the disk is full, or the job was cancelled) says nothing of what was done.
        let second = match second {
            Ok(second) => second,
            Err(error) => {
                self.remove_outputs(&own_stem);
                if !matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Storage) {
                    self.fallbacks.explain(format!("a job that was done elsewhere fails here: {error}"));
                }
                return job.finisher.finish_ran(Ok(result), ran);
            }
        };
        let storage = &*self.storage;
        let differs =
            verify_same(&result, &second).and_then(|()| same_files(storage, &result, &second)).err();
        self.fallbacks.count_reexecuted(differs.is_some());
        let Some(error) = differs else {
            self.remove_outputs(&own_stem);
            return job.finisher.finish_ran(Ok(result), ran);
        };
        self.given_up.fetch_add(1, Ordering::Relaxed);
        self.remove_outputs(&stem);
        let who = if ran.worker.is_empty() { super::ELSEWHERE } else { &ran.worker };
        let reason = format!("{who} came to something else than this process: {error}");
        self.refused(&job.spec, Concern::Service, reason, ran.ran);
        self.fallbacks.count_one();
        job.finisher.finish_ran(Ok(second), Ran { queued: ran.queued, ..Ran::default() });
    }
}
