//! Workers that are killed amid their jobs, and come back.
//!
//! The scheduler is not told. Jobs go to a killed worker for as long as its leases last; then those
//! that it has go to others, where they begin anew.

use std::collections::BTreeMap;

use firn_job_service::control::{Running, TenantId, WorkerId};

use super::run::{Fleet, STEP};

/// How long the jobs of a killed worker go to no other: a lease of the control plane.
const LEASE_SECONDS: f64 = 10.0;
/// How long a killed worker is away.
const AWAY_SECONDS: f64 = 60.0;

/// Workers that are away, and what decides which is next.
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

    pub(super) fn killed_at(&self, worker: WorkerId) -> Option<f64> {
        self.killed_at.get(&worker).copied()
    }

    /// Whether the decider knows at the moment `now` that `worker` is away.
    pub(super) fn is_missed(&self, worker: WorkerId, now: f64) -> bool {
        self.killed_at(worker).is_some_and(|at| now - at >= LEASE_SECONDS)
    }
}

impl Fleet {
    /// Kills workers, gives what they had back when its leases end, and has them come back without
    /// a job.
    pub(super) fn crash(&mut self) {
        if self.crashes.chance <= 0.0 {
            return;
        }
        for worker in &self.workers {
            let is_there = self.crashes.killed_at(worker.id).is_none();
            if is_there && self.crashes.random.f64() < self.crashes.chance {
                self.crashes.killed_at.insert(worker.id, self.now);
                self.outcome.crashes += 1;
            }
        }
        self.crashes.killed_at.retain(|_, killed_at| self.now - *killed_at < AWAY_SECONDS);
        let now = self.now;
        for worker in self.workers.iter_mut().filter(|worker| self.crashes.is_missed(worker.id, now)) {
            for Running { id, .. } in std::mem::take(&mut worker.running) {
                let Some(job) = self.jobs.get_mut(&id) else { continue };
                self.outcome.wasted_bytes += job.done;
                self.ledger.stop(TenantId(job.database as u32), job.wanted.bytes as u64);
                job.waits_since = job.idle_since(&self.crashes);
                (job.on, job.done) = (None, 0.0);
            }
        }
    }
}
