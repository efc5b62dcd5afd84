//! Where jobs run.

mod ran;
mod handle;
mod caught;
mod local;
mod cause;
mod chain;

pub use caught::caught;
pub use cause::Cause;
pub use chain::{ChainStatus, ExecutorChain, Patience};
pub use handle::{Finisher, JobHandle, new_job};
pub use local::Local;
pub use ran::Ran;

use std::fmt;
use std::time::Duration;

use crate::error::Result;
use crate::spec::JobSpec;

/// Runs jobs somewhere.
///
/// Implementers MUST finish every accepted job's handle exactly once, whatever happens to the
/// executor. They MUST do so soon after the job is cancelled: the submitter waits for that before
/// it closes. Afterwards they MUST write nothing for the job, except in attempts that
/// [`given_up_count`](Self::given_up_count) tells. They MUST touch no file but the outputs and the
/// spec's recycled file. They MUST reject a spec that names an operator, filter or extractor they
/// do not have, and never run it without.
pub trait Executor: Send + Sync + fmt::Debug {
    /// Takes `spec` and returns at once; the handle tells when it is done. An inline executor runs
    /// it first.
    ///
    /// # Errors
    /// `Rejected`: the executor lacks a name of the spec. `Unavailable`: it takes no job at all
    /// now. Nothing was done.
    fn submit(&self, spec: JobSpec) -> Result<JobHandle>;

    /// Attempts since this executor was made that were given up, or done again elsewhere, and may
    /// still run. Their outputs may appear long after the job's end. The submitter looks for such
    /// files after a while. Only grows.
    fn given_up_count(&self) -> u64 {
        0
    }

    /// Jobs of one submitter that run at the same time, at least 1, as far as is known now. Large
    /// jobs are divided into so many, and few more compactions are chosen than run. `None` = it
    /// does not say. MUST NOT block, nor call the database, which holds locks meanwhile, nor wait
    /// for a lock under which a job is finished.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Says that writers of the database that submits will stop in `stalls_in` if none of its jobs
    /// is done; `None` = that is not in sight. It holds until it is said again, for waiting jobs
    /// and for those to come. MUST NOT block.
    ///
    /// Of the executor and not of a job: the database that stalls soonest comes first, and within a
    /// database the kind of the job decides. An executor that runs jobs in the order of their
    /// coming ignores it.
    fn urge(&self, _stalls_in: Option<Duration>) {}
}
