//! When an executor is asked, how long it is waited for, and why it was not believed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::ErrorKind;
use crate::spec::JobSpec;

/// How long jobs may take elsewhere before they are done here. And how much is done here while no
/// executor there is relied on, and how much of their work is done again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// For a job of any size. Default 30 s.
    pub least: Duration,
    /// So many bytes of inputs get a second more: of the job, and of jobs that were given away
    /// before it. Default 4 MiB.
    pub bytes_per_second: u64,
    /// The longest wait for syncs there beside that, where it is reported. Relief gets none of it
    /// where writers will stop within [`stall_near`](Self::stall_near). Default 300 s.
    pub sync_max: Duration,
    /// The longest look at an answer, plus the time that
    /// [`bytes_per_second`](Self::bytes_per_second) allows; then the job is done here. A place
    /// without limits may never answer. Default 300 s.
    pub check_max: Duration,
    /// Bytes of inputs of bulk jobs that are begun here in a second while others are away. Default
    /// 16 MiB.
    pub bulk_bytes_per_second: u64,
    /// The longest that a bulk job waits for that, or for others to come back. Default 60 s.
    pub wait_max: Duration,
    /// Where writers will stop within so long, no bulk job waits. Default 10 s.
    pub stall_near: Duration,
    /// Where writers will stop so soon, relief that has not begun elsewhere for so long is done
    /// here, if that is reported. Default 1 s.
    pub begin_max: Duration,
    /// Share of the jobs done elsewhere that are done here too before they are believed, drawn for
    /// each. None while writers will stop within [`stall_near`](Self::stall_near). Default 0.01.
    pub reexecuted_share: f64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            least: Duration::from_secs(30),
            bytes_per_second: 4 << 20,
            sync_max: Duration::from_secs(300),
            check_max: Duration::from_secs(300),
            bulk_bytes_per_second: 16 << 20,
            wait_max: Duration::from_secs(60),
            stall_near: Duration::from_secs(10),
            begin_max: Duration::from_secs(1),
            reexecuted_share: 0.01,
        }
    }
}

impl Patience {
    /// For a job that reads `bytes`, with those before it.
    pub(super) fn with(&self, bytes: u64) -> Duration {
        self.least.saturating_add(time_of(bytes, self.bytes_per_second))
    }

    /// To look at what came of jobs that read `bytes`, all that are looked at together: each may
    /// wait for the others.
    pub(super) fn check_limit(&self, bytes: u64) -> Duration {
        self.check_max.saturating_add(time_of(bytes, self.bytes_per_second))
    }
}

/// How long `bytes` take at so many a second.
pub(super) fn time_of(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / bytes_per_second.max(1))
}

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

/// What makes jobs alike: whether they are collections, and the names that they need.
type Need = (bool, BTreeSet<String>);

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

    /// What to do with `spec` at the moment `now`.
    pub(super) fn advise(&self, spec: &JobSpec, now: Duration) -> Advice {
        if self.lacking.get(&need_of(spec)).is_some_and(|pause| pause.is_on(now)) {
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

    /// `spec` was done as it should be.
    pub(super) fn went_well(&mut self, spec: &JobSpec) {
        self.lacking.remove(&need_of(spec));
        self.pause.failures = self.pause.failures.saturating_sub(1);
        self.odd = 0;
        self.successes += u32::from(self.is_doubted);
        if self.successes >= BACK_AFTER {
            (self.is_doubted, self.successes) = (false, 0);
        }
    }

    /// `spec` failed at the moment `now`, after it was waited for `waited`.
    pub(super) fn failed(&mut self, spec: &JobSpec, concern: Concern, now: Duration, waited: Duration) {
        match concern {
            Concern::Need => {
                let need = need_of(spec);
                if !self.lacking.contains_key(&need) && self.lacking.len() >= LACKING_MAX {
                    let first = self.lacking.iter().min_by_key(|(_, pause)| pause.retry_at);
                    if let Some(need) = first.map(|(need, _)| need.clone()) {
                        self.lacking.remove(&need);
                    }
                }
                self.lacking.entry(need).or_default().fail(now, waited);
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

fn need_of(spec: &JobSpec) -> Need {
    (matches!(spec, JobSpec::Collect(_)), spec.needs())
}

#[cfg(test)]
mod tests;
