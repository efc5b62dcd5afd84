//! The decision: what is owed first, then what stalls soonest for its length, each where it is done first.

use std::time::Duration;

use super::placement::{Slots, estimate};
use super::view::{Decision, Lane, Running, View, Waiting, Worker};

/// How long bulk work may wait as if nothing stalled meanwhile; jobs of relief whose databases nobody writes to, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// What bulk work is worth beside relief once it has waited for that long: what is left undone makes relief longer.
const BULK_WORTH: f64 = 0.1;

/// Jobs of mean length that a stall may be away before the job begins to matter less.
const LOOK_AHEAD: f64 = 1.0;

/// Whoever has waited so long goes before everybody who has not, whatever stalls.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Of all slots one in so many is kept for relief.
const RESERVED_OF: u32 = 8;

/// Seconds that stopping a bulk job must save beyond what it wastes.
const GAIN_MIN: f64 = 1.0;

/// What to do in `view`: leases, and bulk work to be stopped for relief that would come too late.
///
/// 1. A tenant that is behind what it is promised goes first, as does a job that has waited for 300 s; of these whoever is owed most.
/// 2. Then comes what is worth most: a job is worth less by a factor for each mean job's length that its database's stall is away (after the rule of
///    apparent tardiness costs, Vepsalainen and Morton 1987), and no less than bulk work or relief is that has waited as long.
/// 3. In this order each job gets the slot on which it is done first, by measured speeds, be that free or not; those whose slots are free are
///    leased. So nobody takes a far or slow slot for long who would be done sooner by waiting for another one.
/// 4. Bulk work leaves an eighth of the slots, at least one of several, to relief; and a bulk job is stopped where relief that would come too late is
///    brought forward by more than what the job has done; but none of a tenant that is owed, or that was submitted 150 s ago.
///
/// Pure; jobs times slots.
pub fn schedule(view: &View) -> Vec<Decision> {
    // Whoever would come first again is not stopped.
    let gives_way =
        |running: &Running| running.waited < WAIT_MAX / 2 && !view.owed.contains_key(&running.tenant);
    let mut slots = Slots::new(&view.workers, gives_way);
    let bulk_max = slots.len() - if slots.len() > 1 { slots.len().div_ceil(RESERVED_OF) } else { 0 };
    let mut bulk =
        view.workers.iter().flat_map(|worker| &worker.running).filter(|one| one.lane == Lane::Bulk).count();
    let mut decisions = Vec::new();
    for job in order(view) {
        let Some(best) = slots.best(job) else { continue };
        if best.is_free {
            if job.lane == Lane::Bulk && bulk >= bulk_max as usize {
                continue;
            }
            bulk += usize::from(job.lane == Lane::Bulk);
            decisions.push(Decision::Lease { job: job.id, worker: best.worker });
        } else if let Some(stopped) =
            slots.to_stop(job, best.done_at, GAIN_MIN).filter(|_| is_late(job, best.done_at))
        {
            decisions.push(Decision::Preempt { job: stopped.job, worker: stopped.worker, relief: job.id });
            bulk -= 1;
            slots.take(stopped.slot, stopped.done_at);
            continue;
        }
        slots.take(best.slot, best.done_at);
    }
    decisions
}

/// Whether `job` is relief whose database stops its writers before it is done.
fn is_late(job: &Waiting, done_at: f64) -> bool {
    job.lane == Lane::Relief && job.stalls_in.is_some_and(|stalls_in| stalls_in.as_secs_f64() < done_at)
}

/// Whoever is to be served, in order.
fn order(view: &View) -> Vec<&Waiting> {
    let fastest = |job: &Waiting| {
        let times = view.workers.iter().map(|worker: &Worker| estimate(job, worker));
        times.min().unwrap_or_default().as_secs_f64()
    };
    let lengths: Vec<f64> = view.waiting.iter().map(fastest).collect();
    let mean = (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64).max(1e-3);
    let ranks = view.waiting.iter().zip(&lengths).map(|(job, length)| (rank(job, *length, mean, view), job));
    let mut ranked: Vec<((f64, f64), &Waiting)> = ranks.collect();
    ranked.sort_by(|((owed, worth), job), ((other_owed, other_worth), other)| {
        other_owed.total_cmp(owed).then(other_worth.total_cmp(worth)).then(job.id.cmp(&other.id))
    });
    ranked.into_iter().map(|(_, job)| job).collect()
}

/// What `job`, of `length` seconds where the mean is `mean`, is owed, and what doing it now is worth.
fn rank(job: &Waiting, length: f64, mean: f64, view: &View) -> (f64, f64) {
    let owed = view.owed.get(&job.tenant).copied().unwrap_or(0.0);
    // A second beyond what may be waited counts as much as a MiB that is owed.
    let late = job.waited.saturating_sub(WAIT_MAX).as_secs_f64() * f64::from(1 << 20);
    let patience = PATIENCE.as_secs_f64() - job.waited.as_secs_f64();
    let stalls_in = job.stalls_in.filter(|_| job.lane == Lane::Relief);
    // A database that nobody writes to now may be written to any moment.
    let due = stalls_in.map_or(patience, |stalls_in| stalls_in.as_secs_f64().min(patience));
    let slack = (due - length).max(0.0);
    let weight = if job.lane == Lane::Bulk { BULK_WORTH } else { 1.0 };
    (owed + late, weight * (-slack / (LOOK_AHEAD * mean)).exp())
}

#[cfg(test)]
mod tests;
