//! How long a job takes where, and when the place is free.

use std::time::Duration;

use super::view::{JobId, Lane, Running, Waiting, Worker, WorkerId};

/// From the lease until `job` is done on `worker`, if a slot is free there.
pub fn estimate(job: &Waiting, worker: &Worker) -> Duration {
    let speed = worker.speed(job.zone);
    let seconds = job.bytes as f64 / speed.bytes_per_second.max(1.0);
    // Nobody waits for more than a century.
    speed.open + Duration::from_secs_f64(seconds.min(3e9))
}

/// All slots, with what is planned for them.
#[derive(Debug)]
pub(super) struct Slots<'w> {
    slots: Vec<Slot<'w>>,
}

#[derive(Debug)]
struct Slot<'w> {
    worker: &'w Worker,
    /// Seconds until it is free; 0 = now.
    free_in: f64,
    /// The bulk job that it has, and how many seconds of it would be lost.
    stoppable: Option<(JobId, f64)>,
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

/// A bulk job that gives way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped {
    pub(super) slot: usize,
    pub(super) worker: WorkerId,
    pub(super) job: JobId,
    /// When the other job is done then.
    pub(super) done_at: f64,
}

impl<'w> Slots<'w> {
    /// All of `workers`; `gives_way` tells which bulk jobs may be stopped.
    pub(super) fn new(workers: &'w [Worker], gives_way: impl Fn(&Running) -> bool) -> Self {
        let gives_way = &gives_way;
        let slots = workers.iter().flat_map(|worker| {
            let running = worker.running.iter().map(move |running| {
                let speed = worker.speed(running.zone).bytes_per_second.max(1.0);
                let left = running.bytes.saturating_sub(running.bytes_done) as f64 / speed;
                let is_bulk = running.lane == Lane::Bulk && gives_way(running);
                let stoppable = is_bulk.then(|| (running.id, running.bytes_done as f64 / speed));
                // What should be done any moment is not free before that is said.
                Slot { worker, free_in: left.max(1e-3), stoppable }
            });
            let free = (0..worker.free()).map(move |_| Slot { worker, free_in: 0.0, stoppable: None });
            running.chain(free)
        });
        Self { slots: slots.collect() }
    }

    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The slot on which `job` is done first; of equal ones that of the least loaded worker.
    pub(super) fn best(&self, job: &Waiting) -> Option<Best> {
        let can = self.slots.iter().enumerate().filter(|(_, slot)| !job.refused_by.contains(&slot.worker.id));
        let done_at = |slot: &Slot<'_>| slot.free_in + estimate(job, slot.worker).as_secs_f64();
        let best = can.min_by(|(_, a), (_, b)| {
            let load = |slot: &Slot<'_>| (self.load(slot.worker.id), slot.worker.id);
            done_at(a).total_cmp(&done_at(b)).then_with(|| load(a).cmp(&load(b)))
        });
        best.map(|(index, slot)| Best {
            slot: index,
            worker: slot.worker.id,
            is_free: slot.free_in == 0.0,
            done_at: done_at(slot),
        })
    }

    /// Slots of a worker that are not free.
    fn load(&self, worker: WorkerId) -> usize {
        self.slots.iter().filter(|slot| slot.worker.id == worker && slot.free_in > 0.0).count()
    }

    /// The bulk job whose slot lets `job`, else done at `done_at`, be done sooner by most beyond what is lost, if that is `gain_min` seconds.
    pub(super) fn to_stop(&self, job: &Waiting, done_at: f64, gain_min: f64) -> Option<Stopped> {
        let can = self.slots.iter().enumerate().filter(|(_, slot)| !job.refused_by.contains(&slot.worker.id));
        let gains = can.filter_map(|(index, slot)| {
            let (stopped, lost) = slot.stoppable?;
            let then = estimate(job, slot.worker).as_secs_f64();
            let gain = done_at - then - lost;
            let stopped = Stopped { slot: index, worker: slot.worker.id, job: stopped, done_at: then };
            (gain >= gain_min).then_some((gain, stopped))
        });
        gains.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, stopped)| stopped)
    }

    /// Plans a job for a slot, which is free after it.
    pub(super) fn take(&mut self, slot: usize, done_at: f64) {
        if let Some(slot) = self.slots.get_mut(slot) {
            (slot.free_in, slot.stoppable) = (done_at, None);
        }
    }
}
