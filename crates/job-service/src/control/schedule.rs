//! The decision: what is owed first, then what stalls soonest, each where it is done first.

use std::time::Duration;

use super::placement::{best, estimate};
use super::view::{Decision, JobId, Lane, View, Waiting, Worker, WorkerId};

/// How long bulk work may wait as if nothing stalled meanwhile; jobs of relief whose databases nobody writes to, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whoever has waited so long goes before everybody who has not, whatever stalls.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Of all slots one in so many is kept for relief.
const RESERVED_OF: u32 = 8;

/// What to do in `view`: leases, and bulk work to be stopped for relief that would come too late.
///
/// 1. A tenant that is behind what it is promised goes first, as does a job that has waited for [`WAIT_MAX`]; of these whoever is owed most.
/// 2. Then comes what has least slack: the time until its database stalls, less what it takes where it is done fastest; for others what is left of
///    [`PATIENCE`].
/// 3. Bulk work leaves an eighth of the slots, at least one of several, to relief. Where no slot is free for relief that has no slack left, the bulk
///    job with least done is stopped.
/// 4. Each job goes to the worker that has a free slot and is done with it first, by measured speeds.
///
/// Pure; n log n in jobs, times workers for each lease.
pub fn schedule(view: &View) -> Vec<Decision> {
    let mut order: Vec<(Rank, &Waiting)> = view.waiting.iter().map(|job| (rank(job, view), job)).collect();
    order.sort_by(|(a, job), (b, other)| a.total_cmp(b).then(job.id.cmp(&other.id)));
    let mut workers = view.workers.clone();
    let slots: u32 = workers.iter().map(|worker| worker.slots).sum();
    let bulk_max = slots - if slots > 1 { slots.div_ceil(RESERVED_OF) } else { 0 };
    let mut bulk = count(&workers, Lane::Bulk);
    let mut decisions = Vec::new();
    for (rank, job) in order {
        if job.lane == Lane::Bulk && bulk >= bulk_max {
            continue;
        }
        if let Some(worker) = best(job, &workers).map(|worker| worker.id) {
            decisions.push(Decision::Lease { job: job.id, worker });
            bulk += u32::from(job.lane == Lane::Bulk);
            occupy(&mut workers, worker, job);
        } else if job.lane == Lane::Relief && rank.slack_seconds <= 0.0 {
            let Some((job, worker)) = to_stop(job, &workers) else { continue };
            decisions.push(Decision::Preempt { job, worker });
            // The slot is the relief's, which gets it once the worker has let go.
            release(&mut workers, worker, job);
            workers.iter_mut().filter(|one| one.id == worker).for_each(|one| one.slots -= 1);
            bulk -= 1;
        }
    }
    decisions
}

/// Where a job stands; what is less goes first.
#[derive(Clone, Copy, Debug)]
struct Rank {
    /// Below 0: it is owed, the more the sooner.
    owed: f64,
    slack_seconds: f64,
}

impl Rank {
    fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.owed.total_cmp(&other.owed).then(self.slack_seconds.total_cmp(&other.slack_seconds))
    }
}

fn rank(job: &Waiting, view: &View) -> Rank {
    let owed = view.owed.get(&job.tenant).copied().unwrap_or(0.0);
    // A second beyond what may be waited counts as much as a MiB that is owed.
    let late = job.waited.saturating_sub(WAIT_MAX).as_secs_f64() * f64::from(1 << 20);
    let fastest = view.workers.iter().map(|worker| estimate(job, worker)).min().unwrap_or_default();
    let slack_seconds = match job.stalls_in.filter(|_| job.lane == Lane::Relief) {
        Some(stalls_in) => stalls_in.as_secs_f64() - fastest.as_secs_f64(),
        None => PATIENCE.as_secs_f64() - job.waited.as_secs_f64(),
    };
    Rank { owed: -(owed + late), slack_seconds }
}

fn count(workers: &[Worker], lane: Lane) -> u32 {
    workers.iter().flat_map(|worker| &worker.running).filter(|running| running.lane == lane).count() as u32
}

fn occupy(workers: &mut [Worker], id: WorkerId, job: &Waiting) {
    let running = super::Running { id: job.id, lane: job.lane, bytes: job.bytes, bytes_done: 0 };
    workers
        .iter_mut()
        .filter(|worker| worker.id == id)
        .for_each(|worker| worker.running.push(running.clone()));
}

fn release(workers: &mut [Worker], id: WorkerId, job: JobId) {
    let mine = workers.iter_mut().filter(|worker| worker.id == id);
    mine.for_each(|worker| worker.running.retain(|running| running.id != job));
}

/// The bulk job to stop for `job`: the one with least done, where `job` can be done.
fn to_stop(job: &Waiting, workers: &[Worker]) -> Option<(JobId, WorkerId)> {
    let can = workers.iter().filter(|worker| !job.refused_by.contains(&worker.id));
    let bulk = can.flat_map(|worker| {
        worker
            .running
            .iter()
            .filter(|one| one.lane == Lane::Bulk && one.bytes > 0)
            .map(move |one| (worker, one))
    });
    bulk.min_by_key(|(worker, one)| (one.bytes_done, worker.id, one.id))
        .map(|(worker, one)| (one.id, worker.id))
}

#[cfg(test)]
mod tests;
