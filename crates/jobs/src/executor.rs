//! Where jobs run.

mod ran;
mod handle;
mod caught;
mod local;
mod trust;
mod held;
mod cause;
mod fallbacks;
mod fallback;

pub use caught::caught;
pub use cause::Cause;
pub use fallback::Fallback;
pub use fallbacks::Fallbacks;
pub use handle::{Finisher, JobHandle, new_job};
pub use local::Local;
pub use ran::Ran;
pub use trust::Patience;

use std::fmt;
use std::time::Duration;

use crate::error::Result;
use crate::spec::JobSpec;

/// Runs jobs somewhere.
///
/// Implementers MUST finish every accepted job's handle exactly once, whatever happens to the executor, and soon after it
/// is cancelled (the submitter waits for it before it closes), write nothing for it afterwards except for attempts that [`given_up_count`](Self::given_up_count) tells, touch no file but the outputs and the spec's spare, and MUST reject a spec that names an operator, filter or extractor they do not have (never run it without).
pub trait Executor: Send + Sync + fmt::Debug {
    /// Takes `spec` and returns at once; the handle tells when it is done. An inline executor runs it first.
    ///
    /// # Errors
    /// `Rejected`: the executor lacks a name of the spec. `Unavailable`: it takes no job at all now. Nothing was done.
    fn submit(&self, spec: JobSpec) -> Result<JobHandle>;

    /// Attempts since this executor was made that were given up, or done again elsewhere, while whoever ran them may not have known: their
    /// outputs may come to be long after the job's end. Whoever submits jobs looks for such files in a while. Only grows.
    fn given_up_count(&self) -> u64 {
        0
    }

    /// Whether an input may be mapped by an attempt whose job has ended: whoever cuts such a file ends the process that has it mapped. An attempt that
    /// reads an input by calls only meets other bytes there, of which nobody waits for what it makes.
    fn may_map_after_end(&self) -> bool {
        true
    }

    /// Jobs of one submitter that run at the same time, at least 1, as far as is known now: what is large is divided into so many, and few more
    /// compactions are chosen than run. `None` = it does not say. MUST NOT block, nor ask the database, which holds locks meanwhile, nor
    /// wait for a lock under which a job is finished.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Says that writers of the database whose jobs these are will stop in `stalls_in` if none of them is done; `None` = that is not in sight.
    /// It holds until it is said again, for jobs that wait as well as for those to come. MUST NOT block.
    ///
    /// Of the executor and not of a job: which database comes first is told by how soon it stalls, and within one by the kind of its jobs. Who
    /// runs jobs as they come has no use for it.
    fn urge(&self, _stalls_in: Option<Duration>) {}
}
