//! Decisions by line against decisions job by job: in order, nothing left out.

use std::time::Duration;

use super::*;
use crate::control::estimate;

#[derive(Clone, Copy)]
struct Slot<'v> {
    worker: &'v Worker,
    free_in: f64,
    stoppable: Option<(JobId, f64)>,
}

/// All jobs, the first in front: by what they are owed, and by the logarithm of what they are
/// worth.
fn order(view: &View) -> Vec<&Waiting> {
    let fastest = |bytes: u64, job: &Waiting| {
        let times = view.workers.iter().map(|worker| estimate(&Waiting { bytes, ..job.clone() }, worker));
        times.min().unwrap_or_default()
    };
    let of_mean_bytes = |job: &Waiting| {
        let same: Vec<u64> =
            view.waiting.iter().filter(|one| one.zone == job.zone).map(|one| one.bytes).collect();
        fastest(same.iter().sum::<u64>() / same.len() as u64, job).as_secs_f64()
    };
    let mean = view.waiting.iter().map(of_mean_bytes).sum::<f64>() / view.waiting.len() as f64;
    let rank = |job: &Waiting| {
        let late = job.waited.saturating_sub(WAIT_MAX).as_secs_f64() * f64::from(1 << 20);
        let due = Duration::from_secs(60).saturating_sub(job.waited);
        let (due, worth) = match (job.lane, job.stalls_in) {
            (Lane::L0, Some(stalls_in)) => (due.min(stalls_in), 1.0_f64),
            (Lane::L0, None) => (due, 1.0),
            (Lane::Deep, _) => (due, 0.1),
        };
        let slack = due.saturating_sub(fastest(job.bytes, job)).as_secs_f64();
        (view.owed.get(&job.tenant).copied().unwrap_or(0.0) + late, worth.ln() - slack / mean.max(1e-3))
    };
    let mut ranked: Vec<_> = view.waiting.iter().map(|job| (rank(job), job)).collect();
    ranked.sort_by(|((owed, worth), job), ((other_owed, other_worth), other)| {
        other_owed.total_cmp(owed).then(other_worth.total_cmp(worth)).then(job.id.cmp(&other.id))
    });
    ranked.into_iter().map(|(_, job)| job).collect()
}

fn slots<'v>(view: &'v View) -> Vec<Slot<'v>> {
    let of = |worker: &'v Worker| {
        let Worker { running, slots, .. } = worker;
        let busy = running.iter().map(move |one| {
            let speed = worker.speed(one.zone).bytes_per_second;
            let is_spared =
                one.waited >= WAIT_MAX / 2 || view.owed.get(&one.tenant).is_some_and(|owed| *owed > 0.0);
            let stoppable =
                (one.lane == Lane::Deep && !is_spared).then(|| (one.id, one.bytes_done as f64 / speed));
            let left = one.bytes.saturating_sub(one.bytes_done) as f64 / speed;
            Slot { worker, free_in: left.max(1e-3), stoppable }
        });
        let free =
            (running.len()..*slots as usize).map(move |_| Slot { worker, free_in: 0.0, stoppable: None });
        busy.chain(free)
    };
    view.workers.iter().flat_map(of).collect()
}

/// As [`schedule`] says, without leaving anything out.
fn whole(view: &View) -> Vec<Decision> {
    let mut slots = slots(view);
    let kept = if slots.len() > 1 { slots.len().div_ceil(8) } else { 0 };
    let running = view.workers.iter().flat_map(|worker| &worker.running);
    let mut deep = running.filter(|one| one.lane == Lane::Deep).count();
    let mut decisions = Vec::new();
    for job in order(view) {
        let takes = |slot: &Slot<'_>| estimate(job, slot.worker).as_secs_f64();
        let load =
            |worker| slots.iter().filter(|slot| slot.worker.id == worker && slot.free_in > 0.0).count();
        let can = slots.iter().enumerate().filter(|(_, slot)| !job.refused_by.contains(&slot.worker.id));
        let best = can.clone().min_by(|(_, a), (_, b)| {
            let (a_done, b_done) = (a.free_in + takes(a), b.free_in + takes(b));
            let by_load = || load(a.worker.id).cmp(&load(b.worker.id)).then(a.worker.id.cmp(&b.worker.id));
            a_done.total_cmp(&b_done).then_with(by_load).then(a.free_in.total_cmp(&b.free_in))
        });
        let Some((at, best)) = best else { continue };
        let (done_at, worker) = (best.free_in + takes(best), best.worker.id);
        if best.free_in == 0.0 {
            if job.lane == Lane::Deep && deep >= slots.len() - kept {
                continue;
            }
            deep += usize::from(job.lane == Lane::Deep);
            decisions.push(Decision::Lease { job: job.id, worker });
        } else if job.lane == Lane::L0
            && job.stalls_in.is_some_and(|at| at.as_secs_f64() < done_at)
            && view.owed.get(&job.tenant).is_none_or(|owed| *owed >= 0.0)
        {
            let gains = can.filter_map(|(at, slot)| {
                let (stopped, lost) = slot.stoppable?;
                Some((done_at - takes(slot) - lost, at, stopped)).filter(|(gain, ..)| *gain >= 1.0)
            });
            if let Some((_, at, stopped)) = gains.max_by(|a, b| a.0.total_cmp(&b.0)) {
                let worker = slots[at].worker.id;
                decisions.push(Decision::Preempt { job: stopped, worker, l0: job.id });
                deep -= 1;
                (slots[at].free_in, slots[at].stoppable) = (takes(&slots[at]), None);
                continue;
            }
        }
        (slots[at].free_in, slots[at].stoppable) = (done_at, None);
    }
    decisions
}

/// Few values, so that many things are equal.
fn draw(random: &mut fastrand::Rng, jobs: u64) -> View {
    let count = random.u64(0..6);
    let workers = (1..=count).map(|id| {
        let mut drawn = worker(id, random.u32(0..3), random.u32(1..5));
        drawn.near.bytes_per_second = [100e6, 100e6, 37e6, 1e6][random.usize(0..4)];
        drawn.far.bytes_per_second = drawn.near.bytes_per_second / [1.0, 3.0][random.usize(0..2)];
        drawn.near.open = Duration::from_millis([0, 50, 3000][random.usize(0..3)]);
        let busy = random.u64(0..=u64::from(drawn.slots));
        drawn.running = (0..busy)
            .map(|at| {
                let lane = if random.u8(0..3) == 0 { Lane::L0 } else { Lane::Deep };
                let waited = Duration::from_secs([0, 200][random.usize(0..2)]);
                let tenant = TenantId(random.u32(0..4));
                Running { tenant, waited, ..running(1_000_000 + 10 * id + at, lane, random.u64(0..1000)) }
            })
            .collect();
        drawn
    });
    let workers: Vec<Worker> = workers.collect();
    let (l0_of, is_alike) = (random.u8(0..4), random.u8(0..3) == 0);
    let mut few = |most: usize| if is_alike { 0 } else { random.usize(0..most) };
    let drawn: Vec<[usize; 4]> = (0..jobs).map(|_| [few(4), few(3), few(5), few(3)]).collect();
    let refusals: Vec<BTreeSet<WorkerId>> =
        (0..4).map(|_| (1..=count).filter(|_| random.u8(0..4) == 0).map(WorkerId).collect()).collect();
    let stalls = [2, 0, 7, 10, 50].map(|seconds| (seconds != 7).then(|| Duration::from_secs(seconds)));
    let waiting = drawn.into_iter().zip(0..).map(|([tenant, zone, stalls_in, refused], id)| {
        let lane = if random.u8(0..4) < l0_of { Lane::L0 } else { Lane::Deep };
        let seconds = [0, 0, 3, 20, 45, 59, 70, 299, 310][random.usize(0..9)];
        // Deep work and L0 work have the same workers, or not.
        let refused = refused + usize::from(lane == Lane::Deep);
        Waiting {
            tenant: TenantId(tenant as u32),
            zone: Zone(zone as u32),
            waited: Duration::from_millis(1000 * seconds + random.u64(0..2)),
            stalls_in: stalls[stalls_in],
            refused_by: refusals[refused].clone(),
            ..job(id, lane, [1, 64, 64, 300, 2000][random.usize(0..5)])
        }
    });
    let waiting = waiting.collect();
    // A second beyond what may be waited makes up for a MiB that a tenant is ahead.
    let bytes = [f64::from(1 << 29), -f64::from(5 << 20), -f64::from(1 << 29)];
    let owed: Vec<(TenantId, f64)> =
        (0..4).filter(|_| random.u8(0..4) == 0).map(|id| (TenantId(id), bytes[id as usize % 3])).collect();
    View { waiting, workers, owed: owed.into_iter().collect() }
}

#[test]
fn what_is_decided_by_line_is_what_is_decided_job_by_job() {
    let (mut leases, mut stops) = (0, 0);
    for seed in 0..6000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let jobs = if seed % 50 == 0 { 1500 } else { random.u64(0..40) };
        let view = draw(&mut random, jobs);
        let decisions = schedule(&view);
        assert_eq!(decisions, whole(&view), "seed {seed}: {jobs} jobs");
        let stopped = decisions.iter().filter(|one| matches!(one, Decision::Preempt { .. })).count();
        (leases, stops) = (leases + decisions.len() - stopped, stops + stopped);
    }
    assert!(leases > 10_000 && stops > 500, "{leases} leases, {stops} stops: otherwise it is too easy");
}
