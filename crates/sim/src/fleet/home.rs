//! Jobs that databases take back and do themselves, by the patience that real ones have.

use firn_job_service::control::{JobId, Lane, TenantId};
use firn_jobs::Patience;

use super::database::Wanted;
use super::run::{Fleet, Job, STEP};

/// A job that its database does.
#[derive(Clone)]
pub(super) struct Own {
    database: usize,
    wanted: Wanted,
    /// Bytes that are read.
    done: f64,
}

/// How long a job is waited for that reads `bytes`, with those before it.
pub(super) fn patience_for(bytes: f64) -> f64 {
    let patience = Patience::default();
    patience.least.as_secs_f64() + bytes / patience.bytes_per_second as f64
}

impl Fleet {
    /// Has databases that have a processor of their own take back what they have waited for too
    /// long, and work on that. Flooding databases wait. Doubts about a worker after a late job are
    /// not simulated: here all of them answer.
    pub(super) fn work_at_home(&mut self) {
        if self.plan.own <= 0.0 {
            return;
        }
        let late: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| self.is_late(job)).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.take_back(id));
        let bytes = self.plan.own * f64::from(1 << 20) * STEP;
        for index in 0..self.databases.len() {
            // One at a time, those first that writers wait for.
            let mine = || self.own.iter().enumerate().filter(|(_, own)| own.database == index);
            let Some((next, _)) = mine().min_by_key(|(_, own)| own.wanted.lane != Lane::L0) else {
                continue;
            };
            self.own[next].done += bytes;
            if self.own[next].done >= self.own[next].wanted.bytes {
                let own = self.own.remove(next);
                self.databases[index].done(own.wanted);
                self.outcome.jobs += 1;
                self.outcome.own_jobs += 1;
                self.outcome.own_bytes += own.wanted.bytes;
            }
        }
    }

    fn is_late(&self, job: &Job) -> bool {
        let (database, patience) = (&self.databases[job.database], Patience::default());
        if database.is_flooding() {
            return false;
        }
        // A database has one L0 job at a time, so none of its own is before this one.
        let waits = self.now - job.submitted >= patience.begin_max.as_secs_f64() && job.on.is_none();
        let is_near = || database.stalls_in(self.plan.load).is_some_and(|left| left <= patience.stall_near);
        self.now >= job.late_at || (waits && job.wanted.lane == Lane::L0 && is_near())
    }

    fn take_back(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        if let Some((worker, _)) = job.on {
            self.outcome.wasted_bytes += job.done;
            self.ledger.stop(TenantId(job.database as u32), job.wanted.bytes as u64);
            let mine = self.workers.iter_mut().filter(|one| one.id == worker);
            mine.for_each(|worker| worker.running.retain(|running| running.id != id));
        }
        let waited = job.waited(&self.crashes, self.now);
        self.outcome.waited_seconds_max = self.outcome.waited_seconds_max.max(waited);
        self.own.push(Own { database: job.database, wanted: job.wanted, done: 0.0 });
    }
}
