//! How long a job takes where, and when the place is free.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use super::rank::Rank;
use super::view::{JobId, Lane, Running, Speed, Waiting, Worker, WorkerId, Zone};

/// From the lease until `job` is done on `worker`, if a slot is free there.
pub fn estimate(job: &Waiting, worker: &Worker) -> Duration {
    time_for(job.bytes, &worker.speed(job.zone))
}

/// How long a job of `bytes` takes at `speed`. More bytes never take less.
pub(super) fn time_for(bytes: u64, speed: &Speed) -> Duration {
    let seconds = bytes as f64 / speed.bytes_per_second.max(1.0);
    // No more than a century is counted.
    speed.open + Duration::from_secs_f64(seconds.min(3e9))
}

/// Seconds until a slot is free that has another control plane's job: more than any job takes.
const NOBODY_KNOWS: f64 = 3e9;

/// Some of the workers, by where they are among them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mask(Vec<u64>);

impl Mask {
    /// All workers without the ones of `refused_by`.
    pub(super) fn without(workers: &[Worker], refused_by: &BTreeSet<WorkerId>) -> Self {
        let mut words = vec![0_u64; workers.len().div_ceil(64)];
        for (at, worker) in workers.iter().enumerate() {
            if let Some(word) = words.get_mut(at / 64)
                && !refused_by.contains(&worker.id)
            {
                *word |= 1 << (at % 64);
            }
        }
        Self(words)
    }

    fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

/// What a slot is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'m> {
    pub(super) bytes: u64,
    pub(super) zone: Zone,
    pub(super) rank: Rank,
    pub(super) may: &'m Mask,
}

/// All slots, with what is planned for them.
#[derive(Debug)]
pub(super) struct Slots<'w> {
    workers: Vec<Station<'w>>,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Station<'w> {
    worker: &'w Worker,
    slots: Range<usize>,
    /// Of these, how many are free.
    free: usize,
    /// How many have a deep job that may be stopped.
    stoppable: usize,
}

#[derive(Debug)]
struct Slot {
    /// Of which worker, by its index among them.
    at: usize,
    /// Seconds until it is free; 0 = now.
    free_in: f64,
    /// The job that was given it when it was free: to those before that it still is.
    leased_to: Option<Rank>,
    /// The deep job that it has, and how many seconds of it would be lost; `None` is a job of
    /// another control plane.
    stoppable: Option<(Option<JobId>, f64)>,
}

impl Slot {
    /// Seconds until it is free, as the job at `rank` finds it.
    fn free_in(&self, rank: &Rank) -> f64 {
        if self.leased_to.is_some_and(|leased_to| *rank < leased_to) { 0.0 } else { self.free_in }
    }
}

/// Where a job is done first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    pub(super) slot: usize,
    pub(super) worker: WorkerId,
    pub(super) is_free: bool,
    /// Seconds from now.
    pub(super) done_at: f64,
}

/// A deep job that gives way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped {
    pub(super) slot: usize,
    pub(super) worker: WorkerId,
    /// `None` = a job of another control plane, which the worker stops.
    pub(super) job: Option<JobId>,
    /// When the other job is done then.
    pub(super) done_at: f64,
}

impl<'w> Slots<'w> {
    /// All of `workers`; `gives_way` tells which deep jobs may be stopped.
    pub(super) fn new(workers: &'w [Worker], gives_way: impl Fn(&Running) -> bool) -> Self {
        let (mut stations, mut slots) = (Vec::new(), Vec::new());
        for (at, worker) in workers.iter().enumerate() {
            let first = slots.len();
            for running in &worker.running {
                let speed = worker.speed(running.zone).bytes_per_second.max(1.0);
                let left = running.bytes.saturating_sub(running.bytes_done) as f64 / speed;
                let is_deep = running.lane == Lane::Deep && gives_way(running);
                let stoppable = is_deep.then(|| (Some(running.id), running.bytes_done as f64 / speed));
                // What should be done any moment is not free before that is said.
                slots.push(Slot { at, free_in: left.max(1e-3), leased_to: None, stoppable });
            }
            let free = worker.free() as usize;
            slots.extend((0..free).map(|_| Slot { at, free_in: 0.0, leased_to: None, stoppable: None }));
            slots.extend(worker.elsewhere.gives_way.iter().map(|ran| {
                let stoppable = Some((None, ran.as_secs_f64()));
                Slot { at, free_in: NOBODY_KNOWS, leased_to: None, stoppable }
            }));
            let mine = slots.get(first..).unwrap_or_default();
            let stoppable = mine.iter().filter(|slot| slot.stoppable.is_some()).count();
            stations.push(Station { worker, slots: first..slots.len(), free, stoppable });
        }
        Self { workers: stations, slots }
    }

    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Whether a slot of `may` is free.
    pub(super) fn has_free(&self, may: &Mask) -> bool {
        self.workers.iter().enumerate().any(|(at, station)| station.free > 0 && may.has(at))
    }

    /// Whether a slot of `may` has a deep job that may be stopped.
    pub(super) fn has_stoppable(&self, may: &Mask) -> bool {
        self.workers.iter().enumerate().any(|(at, station)| station.stoppable > 0 && may.has(at))
    }

    /// The slot on which `job` is done first; of equal ones that of the least loaded worker.
    pub(super) fn best(&self, job: &Wanted<'_>) -> Option<Best> {
        let can = self.workers.iter().enumerate().filter(|(at, _)| job.may.has(*at));
        let firsts = can.filter_map(|(_, station)| {
            let slots = station.slots.clone().filter_map(|at| Some((at, self.slots.get(at)?)));
            let free = slots.map(|(at, slot)| (at, slot.free_in(&job.rank)));
            let (slot, free_in) = free.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
            let takes = time_for(job.bytes, &station.worker.speed(job.zone)).as_secs_f64();
            let worker = station.worker.id;
            Some((station, Best { slot, worker, is_free: free_in == 0.0, done_at: free_in + takes }))
        });
        let best = firsts.min_by(|(station, a), (other, b)| {
            let load = |station: &Station<'_>| self.load(station, &job.rank);
            let by_load = || load(station).cmp(&load(other)).then(a.worker.cmp(&b.worker));
            a.done_at.total_cmp(&b.done_at).then_with(by_load)
        });
        best.map(|(_, best)| best)
    }

    /// Slots that are not free, as the job at `rank` finds them.
    fn load(&self, station: &Station<'_>, rank: &Rank) -> usize {
        let slots = self.slots.get(station.slots.clone()).unwrap_or_default();
        slots.iter().filter(|slot| slot.free_in(rank) > 0.0).count()
    }

    /// The deep job whose slot brings `job`, else done at `done_at`, forward by most beyond what is
    /// lost. The gain is at least `gain_min` seconds.
    pub(super) fn to_stop(&self, job: &Wanted<'_>, done_at: f64, gain_min: f64) -> Option<Stopped> {
        let gains = self.slots.iter().enumerate().filter_map(|(at, slot)| {
            let (stopped, lost) = slot.stoppable.filter(|_| job.may.has(slot.at))?;
            let worker = self.workers.get(slot.at)?.worker;
            let then = time_for(job.bytes, &worker.speed(job.zone)).as_secs_f64();
            let gain = done_at - then - lost;
            let stopped = Stopped { slot: at, worker: worker.id, job: stopped, done_at: then };
            (gain >= gain_min).then_some((gain, stopped))
        });
        gains.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, stopped)| stopped)
    }

    /// Plans the job at `rank` for a slot, which is free after it. Whether the slot was free, or
    /// its job could be stopped, until now.
    pub(super) fn take(&mut self, slot: usize, rank: Rank, done_at: f64) -> bool {
        let Some(slot) = self.slots.get_mut(slot) else { return false };
        let (was_free, was_stoppable) = (slot.free_in == 0.0, slot.stoppable.is_some());
        if was_free {
            slot.leased_to = Some(rank);
        }
        (slot.free_in, slot.stoppable) = (done_at, None);
        if let Some(station) = self.workers.get_mut(slot.at) {
            station.free -= usize::from(was_free);
            station.stoppable -= usize::from(was_stoppable);
        }
        was_free || was_stoppable
    }
}
