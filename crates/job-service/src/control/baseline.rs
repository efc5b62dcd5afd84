//! Other decisions, to compare with.

use super::view::{Decision, View, Waiting, Worker};

/// Any free slot for any job, by a generator that starts from `seed`.
pub fn random(view: &View, seed: u64) -> Vec<Decision> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut jobs: Vec<&Waiting> = view.waiting.iter().collect();
    random.shuffle(&mut jobs);
    lease(&jobs, view, |free| random.usize(0..free.len()))
}

/// The oldest job goes to the first worker that is free.
pub fn fifo(view: &View) -> Vec<Decision> {
    lease(&view.waiting.iter().collect::<Vec<_>>(), view, |_| 0)
}

/// Level 0 first, whosever it is, then the oldest; to the worker with fewest jobs. So CaaS-LSM
/// does.
pub fn least_loaded(view: &View) -> Vec<Decision> {
    let mut jobs: Vec<&Waiting> = view.waiting.iter().collect();
    jobs.sort_by_key(|job| job.lane);
    lease(&jobs, view, |free| {
        let least = free.iter().enumerate().min_by_key(|(_, (worker, left))| worker.slots - *left);
        least.map_or(0, |(at, _)| at)
    })
}

/// Gives `jobs`, in this order, to workers with free slots as `choose` says, which gets those with
/// what is left of their slots.
fn lease(
    jobs: &[&Waiting],
    view: &View,
    mut choose: impl FnMut(&[(&Worker, u32)]) -> usize,
) -> Vec<Decision> {
    let mut left: Vec<(&Worker, u32)> = view.workers.iter().map(|worker| (worker, worker.free())).collect();
    let mut decisions = Vec::new();
    for job in jobs {
        let can = |(worker, left): &(&Worker, u32)| *left > 0 && !job.refused_by.contains(&worker.id);
        let free: Vec<(&Worker, u32)> = left.iter().copied().filter(can).collect();
        if free.is_empty() {
            continue;
        }
        let Some((chosen, _)) = free.get(choose(&free)) else { continue };
        decisions.push(Decision::Lease { job: job.id, worker: chosen.id });
        left.iter_mut().filter(|(worker, _)| worker.id == chosen.id).for_each(|(_, left)| *left -= 1);
    }
    decisions
}
