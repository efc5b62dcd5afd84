//! Where a job ran, and what that took.

use std::time::Duration;

/// Where a job ran, and how long its stages took: told for people. An executor elsewhere may say
/// anything: no result depends on it, only what is expected of later jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The worker that ran it; empty = the submitter's own process.
    pub worker: String,
    /// From its submission until an executor had it.
    pub queued: Duration,
    /// From the begin of the attempt that counts until the first byte of its inputs was read; zero
    /// where it is not measured.
    pub opened: Duration,
    /// From that begin until its end.
    pub ran: Duration,
    /// Of that, what it waited for its inputs after their first byte; zero where it is not
    /// measured.
    pub reading: Duration,
    /// Of that, what it waited for its outputs: to take bytes, to become durable, to be read back.
    /// Zero where it is not measured.
    pub writing: Duration,
    /// Checking what was answered, files included.
    pub checked: Duration,
}

impl Ran {
    /// Longest name of a worker that is believed; of a longer one the beginning is kept.
    const WORKER_BYTES_MAX: usize = 64;

    /// Somewhere else: by `worker`, of which nothing else is known. Names come from other
    /// processes, so that they are cut.
    pub fn by(worker: &str) -> Self {
        let end = worker.floor_char_boundary(Self::WORKER_BYTES_MAX);
        Self { worker: worker.get(..end).unwrap_or_default().to_owned(), ..Self::default() }
    }
}
