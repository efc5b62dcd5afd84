//! Which job comes first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use super::line::Entry;
use super::placement::time_for;
use super::view::{JobId, Lane, Speed, TenantId, Worker, Zone};

/// Deep work, and L0 work of a database that is not written to, ranks as if its stall came so long
/// after its submission.
const PATIENCE: Duration = Duration::from_secs(60);

/// What deep work is worth beside L0 work once it has waited for that long: what is left undone
/// makes L0 work longer.
const DEEP_WORTH: f64 = 0.1;

/// Jobs of mean length that a stall may be away before the job is worth less by a factor of e.
const LOOK_AHEAD: f64 = 1.0;

/// A job that has waited so long goes before all that have not, whatever stalls.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(300);

/// What jobs that wait together have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) tenant: TenantId,
    pub(super) lane: Lane,
    pub(super) zone: Zone,
    pub(super) stalls_in: Option<Duration>,
}

/// A job's place in the order: the least comes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    /// Bytes for each unit of weight: more owed comes before less. A tenant that is ahead has less
    /// than 0, and comes last.
    owed: f64,
    /// Until it is too late, and for deep work so much more that it is worth as little as it is.
    slack: Duration,
    id: JobId,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let owed = other.owed.total_cmp(&self.owed);
        owed.then_with(|| self.slack.cmp(&other.slack)).then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}

/// What ranks go by at one moment.
#[derive(Debug)]
pub(super) struct Ranking<'v> {
    now: Duration,
    owed: &'v BTreeMap<TenantId, f64>,
    /// For files of each zone, workers that are not slower both ways than another one.
    fastest: BTreeMap<Zone, Vec<Speed>>,
    /// So much further away is a stall that makes L0 work worth as little as deep work.
    deep_behind: Duration,
}

impl<'v> Ranking<'v> {
    /// Of jobs that wait, counted by zone with their bytes.
    pub(super) fn new(
        now: Duration,
        workers: &[Worker],
        owed: &'v BTreeMap<TenantId, f64>,
        waiting: &BTreeMap<Zone, (usize, u128)>,
    ) -> Self {
        let fastest: BTreeMap<Zone, Vec<Speed>> =
            waiting.keys().map(|zone| (*zone, fastest(workers, *zone))).collect();
        let mut ranking = Self { now, owed, fastest, deep_behind: Duration::ZERO };
        let (mut seconds, mut jobs) = (0.0, 0);
        for (zone, (count, bytes)) in waiting {
            let mean = (bytes / (*count).max(1) as u128) as u64;
            seconds += *count as f64 * ranking.length(*zone, mean).as_secs_f64();
            jobs += count;
        }
        let mean = (seconds / jobs.max(1) as f64).clamp(1e-3, 3e9);
        ranking.deep_behind = Duration::from_secs_f64(LOOK_AHEAD * mean * -DEEP_WORTH.ln());
        ranking
    }

    /// How long a job of `bytes` takes where it is done first.
    fn length(&self, zone: Zone, bytes: u64) -> Duration {
        let speeds = self.fastest.get(&zone).map(Vec::as_slice).unwrap_or_default();
        speeds.iter().map(|speed| time_for(bytes, speed)).min().unwrap_or_default()
    }

    /// Whether `tenant` was given more than its share.
    pub(super) fn is_ahead(&self, tenant: TenantId) -> bool {
        self.owed.get(&tenant).is_some_and(|owed| *owed < 0.0)
    }

    /// The place of `job`. More bytes or an earlier submission never make it later, and neither
    /// does a smaller number.
    pub(super) fn of(&self, class: &Class, job: &Entry) -> Rank {
        let waited = self.now.saturating_sub(job.submitted);
        // A second beyond what may be waited counts as much as a MiB that is owed.
        let late = waited.saturating_sub(WAIT_MAX).as_secs_f64() * f64::from(1 << 20);
        let owed = self.owed.get(&class.tenant).copied().unwrap_or(0.0) + late;
        // A database that is not written to now may be written to any moment.
        let patience = PATIENCE.saturating_sub(waited);
        let (due, behind) = match class.lane {
            Lane::L0 => {
                (class.stalls_in.map_or(patience, |stalls_in| stalls_in.min(patience)), Duration::ZERO)
            }
            Lane::Deep => (patience, self.deep_behind),
        };
        let slack = due.saturating_sub(self.length(class.zone, job.bytes)) + behind;
        Rank { owed, slack, id: job.id }
    }
}

/// Speeds with files of `zone`, without the ones that another beats both ways.
fn fastest(workers: &[Worker], zone: Zone) -> Vec<Speed> {
    let mut speeds: Vec<Speed> = workers.iter().map(|worker| worker.speed(zone)).collect();
    speeds.sort_by(|a, b| a.open.cmp(&b.open).then(b.bytes_per_second.total_cmp(&a.bytes_per_second)));
    let mut most = f64::NEG_INFINITY;
    speeds.retain(|speed| {
        let is_faster = speed.bytes_per_second > most;
        most = most.max(speed.bytes_per_second);
        is_faster
    });
    speeds
}
