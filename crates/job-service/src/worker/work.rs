//! The threads that run jobs.

use std::sync::Arc;
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;
use firn_jobs::{Control, Error, ErrorKind, JobSpec, Result, caught, read_back, run};

use super::Shared;
use super::held::{AttemptReport, Task};
use super::tally::Attempted;
use crate::control::pool::{JobKey, Lease, Outcome, Timings, Token};
use crate::scoped::{Progress, Scoped};
use crate::wire::failure_of;

/// What came of running a job.
struct Attempt {
    kind: &'static str,
    /// The encoded result.
    result: Result<Vec<u8>>,
    /// What it has read and written; `None` = it did not begin.
    progress: Option<Arc<Progress>>,
}

impl Shared {
    /// The life of the thread `thread`.
    pub(super) fn work(&self, thread: usize) {
        while let Some(Task { lease, control, claimed, reports }) = self.holdings.next(thread) {
            let Attempt { kind, result, progress } = self.attempt(&lease, &control);
            let ended = self.clock.now();
            let opened = progress.as_ref().and_then(|progress| progress.first_read());
            let bytes = |of: fn(&Progress) -> u64| progress.as_ref().map_or(0, |progress| of(progress));
            let time = |of: fn(&Progress) -> Duration| {
                progress.as_ref().map_or(Duration::ZERO, |progress| of(progress))
            };
            let (reading, writing) = (time(Progress::reading), time(Progress::writing));
            self.tally.attempted(&Attempted {
                kind,
                failure: result.as_ref().err().map(|error| failure_of(error).kind),
                read_bytes: bytes(Progress::read_bytes),
                write_bytes: bytes(Progress::write_bytes),
                open: opened.map(|opened| opened.saturating_sub(claimed)),
                run: ended.saturating_sub(opened.unwrap_or(claimed)),
                reading,
                writing,
            });
            let outcome = match result {
                Ok(result) => Outcome::Done(result),
                Err(error) => Outcome::Failed(failure_of(&error)),
            };
            // What it waited for a thread here its database sees as opening.
            let since = |at: Duration| at.saturating_sub(claimed);
            let ran = since(ended);
            let timings = Timings { opened: opened.map_or(ran, since), ran, reading, writing };
            if self.holdings.ended(lease.token) {
                // The task that reports is gone only when the worker is.
                let _sent_or_gone = reports.send(AttemptReport {
                    key: lease.key,
                    token: lease.token,
                    outcome,
                    timings,
                    ended,
                });
            }
        }
    }

    /// Runs one attempt.
    fn attempt(&self, lease: &Lease, control: &Control) -> Attempt {
        // A control plane that does not know what versions are read gives out others too.
        let spec = JobSpec::decode(&lease.spec).map_err(|error| {
            Error::new(ErrorKind::Rejected, format!("this worker cannot read the job: {error}"))
        });
        let kind = match &spec {
            Ok(JobSpec::Compact(_)) => "compact",
            Ok(JobSpec::BlobGc(_)) => "blob_gc",
            Err(_) => "unknown",
        };
        let (spec, backend) = match self.caught(lease, || self.scope(lease, spec?, control)) {
            Ok(scoped) => scoped,
            Err(error) => return Attempt { kind, result: Err(error), progress: None },
        };
        let progress = backend.progress();
        self.holdings.runs(lease.token, Arc::clone(&progress));
        let done = || {
            let result = run(&spec, &backend, &self.semantics, control)?;
            read_back(&backend, &result)?;
            Ok(result)
        };
        let result = self.caught(lease, done);
        // Its backend does nothing more for it then, which is no failure of the backend.
        let is_cancelled = |error: &Error| control.is_cancelled() && error.kind == ErrorKind::Storage;
        let result = result.map(|result| result.encode()).map_err(|error| match is_cancelled(&error) {
            true => Error::new(ErrorKind::Cancelled, "the job was cancelled"),
            false => error,
        });
        Attempt { kind, result, progress: Some(progress) }
    }

    /// What `work` for `lease` answers. If it panics, no other worker is to try the job: an
    /// operator, or this program, cannot do it, and all have the same.
    fn caught<T>(&self, lease: &Lease, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // Whatever was begun is dropped, and nothing of it is seen again but the files, which go by
        // the attempt's stem.
        caught(&format!("worker {}", self.options.name), work).inspect_err(|error| {
            if error.kind == ErrorKind::Panicked {
                let JobKey { client, number } = lease.key;
                self.log(format!(
                    "job {number} of database {client:032x}, files at {}: {error}",
                    lease.location
                ));
            }
        })
    }

    /// What the attempt does, and where.
    fn scope(&self, lease: &Lease, spec: JobSpec, control: &Control) -> Result<(JobSpec, Scoped)> {
        let stem = attempt_stem(spec.output_stem(), lease.token);
        if stem.len() > STEM_BYTES_MAX {
            return Err(Error::new(ErrorKind::Invalid, "expected a stem with room for an attempt's"));
        }
        let spec = spec.with_stem(&stem).without_recycled();
        let backend = self.backend(&lease.location).map_err(|error| {
            // Another worker may reach it, and this one later.
            Error::new(ErrorKind::Unavailable, format!("worker {}: {error}", self.options.name))
        })?;
        let scoped = Scoped::until(control, backend, &spec, Arc::clone(&self.clock));
        Ok((spec, scoped))
    }
}

/// Bytes of a stem that attempts add.
pub(crate) const ATTEMPT_BYTES: usize = 17;

/// The stem of an attempt at a job with the stem `stem`.
fn attempt_stem(stem: &str, token: Token) -> String {
    format!("{stem}-{:016x}", token.0)
}
