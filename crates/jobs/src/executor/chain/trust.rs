//! Whether a link is worth asking, and what a failure says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::ErrorKind;
use crate::spec::JobSpec;

/// What a failure says something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concern {
    /// The executor lacks what jobs like this one need.
    Need,
    /// This job, and no other.
    Job,
    /// The job's files, and no executor that reads them.
    Files,
    /// How much others have to do there: the job was not begun in time.
    Queue,
    /// Every job: the executor is not there, or cannot be relied on.
    Service,
}

impl Concern {
    /// Of a job that failed with an error of this kind.
    pub(super) fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Rejected => Self::Need,
            ErrorKind::Invalid | ErrorKind::Cancelled | ErrorKind::Panicked => Self::Job,
            ErrorKind::Corrupt => Self::Files,
            ErrorKind::Unavailable | ErrorKind::Storage | ErrorKind::NotConserved => Self::Service,
        }
    }
}

/// What to do with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// The executor is asked.
    Ask,
    /// It is asked, to find out whether it can be relied on again; it was not of late.
    Probe,
    /// It lacks what the job needs, so that others do it at once.
    Lacking,
    /// It is not asked now.
    Wait,
}

/// Whether an executor is worth asking, for any job and for jobs with the same needs.
///
/// 1. After a failure that concerns every job it is doubted, and asked nothing for a pause. Then
///    one job at a time finds out whether it is back, and it is believed to be after [`BACK_AFTER`]
///    that went well. Each further failure doubles the pause, and each success takes one doubling
///    back. So an executor that comes and goes is left alone for longer and longer.
/// 2. What it lacks says nothing of jobs that need something else.
/// 3. What fails while it is not asked anyway belongs to the same outage, and counts once.
#[derive(Debug, Default)]
pub(super) struct Trust {
    pause: Pause,
    is_doubted: bool,
    /// Whether a job is on its way to find out.
    is_probed: bool,
    /// Jobs that went well since it is doubted.
    successes: u32,
    /// Jobs in a row that failed, each for a reason of its own.
    odd: u32,
    lacking: BTreeMap<Need, Pause>,
}

/// What makes jobs alike: whether they are GCs, and the names that they need.
pub(super) type Need = (bool, BTreeSet<String>);

/// Failures, and the moment before which the executor is not asked.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    failures: u32,
    retry_at: Duration,
}

/// Pause after the first failure.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Longest pause, unless jobs were waited for longer.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Jobs in a row that go well before an executor is relied on again.
const BACK_AFTER: u32 = 2;

/// So many jobs in a row that fail, each for a reason of its own, say something of the executor.
const ODD_MAX: u32 = 4;

/// Needs that are remembered; of more, the need with the earliest retry is forgotten.
const LACKING_MAX: usize = 64;

impl Pause {
    fn is_on(&self, now: Duration) -> bool {
        now < self.retry_at
    }

    /// It failed at the moment `now`, after it was waited for `waited`: at least as long goes by
    /// without it.
    fn fail(&mut self, now: Duration, waited: Duration) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(20)).min(PAUSE_MAX).max(waited);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = self.retry_at.max(now.saturating_add(pause));
    }
}

impl Trust {
    /// Whether it is relied on.
    pub(super) fn is_doubted(&self) -> bool {
        self.is_doubted
    }

    /// What to do with a job that has this `need` at the moment `now`.
    pub(super) fn advise(&self, need: &Need, now: Duration) -> Advice {
        if self.lacking.get(need).is_some_and(|pause| pause.is_on(now)) {
            return Advice::Lacking;
        }
        match (self.is_doubted, self.pause.is_on(now) || self.is_probed) {
            (false, _) => Advice::Ask,
            (true, false) => Advice::Probe,
            (true, true) => Advice::Wait,
        }
    }

    /// A job is on its way that is to find out, until [`end_probe`](Self::end_probe).
    pub(super) fn begin_probe(&mut self) {
        self.is_probed = true;
    }

    /// The job that was to find out has ended, well or not.
    pub(super) fn end_probe(&mut self) {
        self.is_probed = false;
    }

    /// A job with this `need` was done as it should be.
    pub(super) fn went_well(&mut self, need: &Need) {
        self.lacking.remove(need);
        self.pause.failures = self.pause.failures.saturating_sub(1);
        self.odd = 0;
        self.successes += u32::from(self.is_doubted);
        if self.successes >= BACK_AFTER {
            (self.is_doubted, self.successes) = (false, 0);
        }
    }

    /// A job with this `need` failed at the moment `now`, after it was waited for `waited`.
    pub(super) fn failed(&mut self, need: &Need, concern: Concern, now: Duration, waited: Duration) {
        match concern {
            Concern::Need => {
                if !self.lacking.contains_key(need) && self.lacking.len() >= LACKING_MAX {
                    let first = self.lacking.iter().min_by_key(|(_, pause)| pause.retry_at);
                    if let Some(need) = first.map(|(need, _)| need.clone()) {
                        self.lacking.remove(&need);
                    }
                }
                self.lacking.entry(need.clone()).or_default().fail(now, waited);
            }
            Concern::Job => {
                self.odd += 1;
                if self.odd >= ODD_MAX {
                    self.doubt(now, waited);
                }
            }
            // An executor that serves many databases is no worse for a queue.
            Concern::Files | Concern::Queue => {}
            Concern::Service => self.doubt(now, waited),
        }
    }

    fn doubt(&mut self, now: Duration, waited: Duration) {
        (self.is_doubted, self.successes) = (true, 0);
        if self.pause.is_on(now) {
            self.pause.retry_at = self.pause.retry_at.max(now.saturating_add(waited));
        } else {
            self.pause.fail(now, waited);
        }
    }
}

pub(super) fn need_of(spec: &JobSpec) -> Need {
    (matches!(spec, JobSpec::BlobGc(_)), spec.needs())
}

#[cfg(test)]
mod tests;
