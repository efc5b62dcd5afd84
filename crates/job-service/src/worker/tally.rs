//! What a worker has done, counted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::control::pool::{ByFailure, FailureKind};

/// Bounds of the buckets in which times are counted, in milliseconds; what takes longer is in none
/// but the sum.
pub const STAGE_BOUNDS_MS: [u64; 10] = [1, 4, 16, 64, 256, 1_000, 4_000, 16_000, 64_000, 256_000];

/// What a worker does, and has done since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerFigures {
    /// Jobs at a time.
    pub slots: u32,
    /// Jobs that it has, ended ones included until their ends are told.
    pub held: usize,
    /// Attempts that were stopped and hang in their backend, beside those; at most as many as there
    /// are slots.
    pub hanging: usize,
    /// It takes no more jobs.
    pub is_draining: bool,
    /// Control planes that it can talk with now.
    pub control_planes_heard: usize,
    /// Control planes that it cannot talk with now.
    pub control_planes_silent: usize,
    /// What came of attempts, by the kind of job: `compact`, `blob_gc`, or `unknown` where this
    /// build cannot read the job.
    pub attempts: BTreeMap<&'static str, Attempts>,
    /// Bytes that attempts have read, and written.
    pub read_bytes: u64,
    /// See above.
    pub write_bytes: u64,
    /// From the lease to the first byte of the first input.
    pub open: Times,
    /// What they waited for inputs from then on.
    pub read: Times,
    /// What they did beside waiting.
    pub merge: Times,
    /// What they waited for outputs, until those were durable and read back.
    pub write: Times,
    /// From the end of the work until the control plane has taken it.
    pub report: Times,
}

/// What came of attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// There is a result.
    pub done: u64,
    /// There is none.
    pub failed: ByFailure,
}

/// Times of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// How many took at most as long as each of [`STAGE_BOUNDS_MS`], and longer than the one before
    /// it.
    pub buckets: [u64; STAGE_BOUNDS_MS.len()],
    /// How many there are.
    pub count: u64,
    /// How long they took together.
    pub sum: Duration,
}

/// Figures that rise.
#[derive(Debug, Default)]
pub(super) struct Tally {
    figures: Mutex<WorkerFigures>,
}

/// An attempt that has ended.
#[derive(Debug)]
pub(super) struct Attempted {
    /// What kind of job.
    pub(super) kind: &'static str,
    /// `None`: there is a result.
    pub(super) failure: Option<FailureKind>,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    /// From the lease to the first byte, if one was read.
    pub(super) open: Option<Duration>,
    /// From then on, or from the lease on.
    pub(super) run: Duration,
    /// Of that it waited so long for inputs,
    pub(super) reading: Duration,
    /// and for outputs.
    pub(super) writing: Duration,
}

impl Times {
    fn add(&mut self, time: Duration) {
        let bound = STAGE_BOUNDS_MS.iter().position(|bound| time <= Duration::from_millis(*bound));
        if let Some(bucket) = bound.and_then(|bound| self.buckets.get_mut(bound)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += time;
    }
}

impl Tally {
    fn with(&self, change: impl FnOnce(&mut WorkerFigures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn attempted(&self, attempted: &Attempted) {
        self.with(|figures| {
            let attempts = figures.attempts.entry(attempted.kind).or_default();
            match attempted.failure {
                None => attempts.done += 1,
                Some(kind) => attempts.failed.add(kind),
            }
            figures.read_bytes += attempted.read_bytes;
            figures.write_bytes += attempted.write_bytes;
            attempted.open.into_iter().for_each(|open| figures.open.add(open));
            let (reading, writing) = (attempted.reading, attempted.writing);
            figures.read.add(reading);
            figures.merge.add(attempted.run.saturating_sub(reading + writing));
            figures.write.add(writing);
        });
    }

    pub(super) fn reported(&self, time: Duration) {
        self.with(|figures| figures.report.add(time));
    }

    pub(super) fn figures(&self) -> WorkerFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_the_first_bucket_that_it_fits_in() {
        let mut times = Times::default();
        for ms in [0, 1, 2, 256_000, 256_001] {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!(times.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((times.count, times.sum), (5, Duration::from_millis(512_004)));
    }
}
