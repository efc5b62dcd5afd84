//! How long a job takes where.

use std::time::Duration;

use super::view::{Waiting, Worker};

/// From the lease until `job` is done on `worker`, if a slot is free there.
pub fn estimate(job: &Waiting, worker: &Worker) -> Duration {
    let speed = worker.speed(job.zone);
    let seconds = job.bytes as f64 / speed.bytes_per_second.max(1.0);
    speed.open + Duration::from_secs_f64(seconds)
}

/// The worker with a free slot on which `job` is done first; of equal ones the least loaded, then the first.
pub(super) fn best<'w>(job: &Waiting, workers: &'w [Worker]) -> Option<&'w Worker> {
    let can = workers.iter().filter(|worker| worker.free() > 0 && !job.refused_by.contains(&worker.id));
    can.min_by_key(|worker| (estimate(job, worker), worker.running.len(), worker.id))
}
