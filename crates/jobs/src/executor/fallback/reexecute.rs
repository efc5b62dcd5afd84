//! What others did, done again here: sums prove that nothing was lost by accident, and not that the
//! rules were kept.

use std::sync::Arc;

use firn_format::file_name::STEM_BYTES_MAX;

use super::super::ran::Ran;
use super::state::{Answered, Job, Place, Running};
use super::{Shared, submit};
use crate::spec::JobResult;

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
        // A spare file that it names went to the attempt that renamed it.
        match submit(&*self.second, job.spec.with_stem(&own_stem).without_spare()) {
            Err(_) => job.finisher.finish_ran(Ok(result), ran),
            Ok(handle) => {
                let place = Place::Reexecuted(Box::new(Answered { stem, own_stem, result, ran }));
                self.follow(Running { job, handle, begun, place, is_cancelled: false });
            }
        }
    }
}
