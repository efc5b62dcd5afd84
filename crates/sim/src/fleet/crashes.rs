//! Workers that are killed amid their jobs, and come back.
//!
//! Nobody is told: what a killed worker had is given to others once its lease has ended, and for them begins anew.

use std::collections::BTreeMap;

use firn_job_service::control::{Running, TenantId, WorkerId};

use super::run::{Fleet, STEP};

/// How long what a killed worker had is nobody else's: a lease of the control plane.
const LEASE_SECONDS: f64 = 10.0;
/// How long a killed worker is away.
const AWAY_SECONDS: f64 = 60.0;

/// Workers that are away, and what decides who is next.
#[derive(Clone)]
pub(super) struct Crashes {
    /// Of one worker in a step.
    chance: f64,
    random: fastrand::Rng,
    /// When each was killed.
    killed_at: BTreeMap<WorkerId, f64>,
}

impl Crashes {
    /// Each worker is killed so many times in an hour that it works.
    pub(super) fn new(in_an_hour: f64, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed ^ 0xdead);
        Self { chance: in_an_hour / 3600.0 * STEP, random, killed_at: BTreeMap::new() }
    }

    pub(super) fn is_away(&self, worker: WorkerId) -> bool {
        self.killed_at.contains_key(&worker)
    }
}

impl Fleet {
    /// Kills workers, gives what they had back when its leases end, and has them come back without a job.
    pub(super) fn crash(&mut self) {
        if self.crashes.chance <= 0.0 {
            return;
        }
        for worker in &self.workers {
            if !self.crashes.is_away(worker.id) && self.crashes.random.f64() < self.crashes.chance {
                self.crashes.killed_at.insert(worker.id, self.now);
                self.outcome.crashes += 1;
            }
        }
        self.crashes.killed_at.retain(|_, killed_at| self.now - *killed_at < AWAY_SECONDS);
        let is_over =
            |(worker, at): (&WorkerId, &f64)| (self.now - at >= LEASE_SECONDS).then_some((*worker, *at));
        let over: BTreeMap<WorkerId, f64> = self.crashes.killed_at.iter().filter_map(is_over).collect();
        for worker in &mut self.workers {
            let Some(killed_at) = over.get(&worker.id) else { continue };
            for Running { id, .. } in std::mem::take(&mut worker.running) {
                let Some(job) = self.jobs.get_mut(&id) else { continue };
                self.outcome.wasted_bytes += job.done;
                self.ledger.stop(TenantId(job.database as u32), job.wanted.bytes as u64);
                // Nobody has worked on it since.
                (job.on, job.done, job.waits_since) = (None, 0.0, Some(*killed_at));
            }
        }
    }
}
