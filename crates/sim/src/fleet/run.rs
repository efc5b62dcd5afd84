//! One run: databases fill up, a decider gives out their jobs, workers work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firn_job_service::control::{
    Decision, JobId, Lane, Ledger, Running, TenantId, View, Waiting, Worker, WorkerId, fifo, least_loaded,
    random, schedule,
};

use super::crashes::Crashes;
use super::database::{Database, Wanted};
use super::home::{Own, patience_for};
use super::oracle::Oracle;
use super::workers::{workers, zone_of};

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// Every step anew, with nothing lost by moving; a bound.
    Ideal,
    /// The best of several ways, tried with what users will write and which workers will be killed.
    /// A scheduler under the same rules that knows what none can.
    Oracle,
    /// The control plane.
    Schedule,
    /// Random.
    Random,
    /// First come, first served.
    Fifo,
    /// Level 0 first, then as above, to the least loaded.
    LeastLoaded,
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Databases, each a tenant.
    pub databases: u32,
    /// Workers.
    pub workers: u32,
    /// Jobs of a worker at a time.
    pub slots: u32,
    /// Zones that databases and workers are spread over.
    pub zones: u32,
    /// Simulated seconds.
    pub seconds: u32,
    /// Scales what users write.
    pub load: f64,
    /// Jobs that one more tenant wants done at every moment, saying that its writers stand still; 0
    /// = there is no such tenant.
    pub flood: u32,
    /// Weight of a second tenant of that kind, where the first has 1; 0 = there is no second.
    pub heavy: f64,
    /// How many times in an hour that it works each worker is killed, and away for a minute.
    pub crashes: f64,
    /// MiB of inputs in a second that a database reads which does a job itself, since it has waited
    /// for too long. 0 = databases wait for ever, as they do of the ideal decider.
    pub own: f64,
    /// Decides everything else.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Seconds that writers of all databases together stood still.
    pub stalled_seconds: f64,
    /// The same, of the database that it was worst for.
    pub stalled_seconds_max: f64,
    /// Jobs done.
    pub jobs: u64,
    /// Those of them that databases did themselves.
    pub own_jobs: u64,
    /// Bytes of inputs that were read for those.
    pub own_bytes: f64,
    /// Longest time that a job waited for a worker, over all its attempts, including jobs that
    /// never got one.
    pub waited_seconds_max: f64,
    /// Bytes of inputs that were read in vain.
    pub wasted_bytes: f64,
    /// Share of all slots that were busy.
    pub busy: f64,
    /// Bytes of its users that a database has taken, of those they wanted it to take; the least of
    /// all databases.
    pub taken_min: f64,
    /// Bytes of inputs that were read for the tenants that want jobs done at every moment, the
    /// heavy one last. All else is of the others.
    pub flood_bytes: [f64; 2],
    /// How many workers were killed.
    pub crashes: u64,
}

pub(super) const STEP: f64 = 0.1;

#[derive(Clone)]
pub(super) struct Job {
    pub(super) database: usize,
    pub(super) wanted: Wanted,
    pub(super) submitted: f64,
    /// When its database waits no longer.
    pub(super) late_at: f64,
    /// Since when no worker has it; what it waited before.
    pub(super) waits_since: Option<f64>,
    pub(super) waited: f64,
    /// Bytes that are read, and the worker that has it, with the time until its first byte.
    pub(super) done: f64,
    pub(super) on: Option<(WorkerId, f64)>,
    pub(super) leased: f64,
}

impl Job {
    /// Since when no worker works on it: the worker that has it may have been killed.
    pub(super) fn idle_since(&self, crashes: &Crashes) -> Option<f64> {
        let killed_at = || crashes.killed_at(self.on?.0).map(|at| at.max(self.leased));
        self.waits_since.or_else(killed_at)
    }

    /// How long no worker has worked on it until `now`, in all.
    pub(super) fn waited(&self, crashes: &Crashes, now: f64) -> f64 {
        self.waited + self.idle_since(crashes).map_or(0.0, |since| now - since)
    }
}

#[derive(Clone)]
pub(super) struct Fleet {
    pub(super) plan: Plan,
    pub(super) databases: Vec<Database>,
    pub(super) workers: Vec<Worker>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// What databases do themselves, in the order of its coming.
    pub(super) own: Vec<Own>,
    next: u64,
    pub(super) now: f64,
    pub(super) ledger: Ledger,
    pub(super) crashes: Crashes,
    pub(super) outcome: Outcome,
}

/// Runs `plan` with `decider`; a function of both.
pub fn run(plan: &Plan, decider: Decider) -> Outcome {
    let zone = |index: u32| zone_of(index, plan.zones);
    let database =
        |index: u32| Database::new(plan.seed.wrapping_mul(1000).wrapping_add(u64::from(index)), zone(index));
    let flooding_count = if plan.flood == 0 { 0 } else { 1 + usize::from(plan.heavy > 0.0) };
    let flooding = std::iter::repeat_with(|| Database::flooding(plan.flood, zone(0))).take(flooding_count);
    let mut fleet = Fleet {
        plan: *plan,
        databases: (0..plan.databases).map(database).chain(flooding).collect(),
        workers: workers(plan.workers, plan.slots, plan.zones, plan.seed),
        jobs: BTreeMap::new(),
        own: Vec::new(),
        next: 0,
        now: 0.0,
        ledger: Ledger::default(),
        crashes: Crashes::new(plan.crashes, plan.seed),
        outcome: Outcome::default(),
    };
    if flooding_count > 1 {
        fleet.ledger.set_weight(TenantId(plan.databases + 1), plan.heavy);
    }
    let steps = (f64::from(plan.seconds) / STEP) as u64;
    if decider == Decider::Oracle {
        Oracle::new(&fleet.databases, plan, steps).run(&mut fleet, steps);
        return fleet.finish(steps);
    }
    for step in 0..steps {
        fleet.begin_step(step);
        match decider {
            Decider::Ideal => fleet.work_ideally(),
            _ => {
                fleet.work_at_home();
                fleet.decide(decider, step);
                fleet.work();
            }
        }
    }
    fleet.finish(steps)
}

impl Fleet {
    fn begin_step(&mut self, step: u64) {
        self.now = step as f64 * STEP;
        let load = self.plan.load;
        self.databases.iter_mut().for_each(|database| database.pass(STEP, load));
        self.crash();
        self.submit();
    }

    /// One step in which jobs go where the control plane would have them go if it saw what `seen`
    /// makes of what it is told.
    pub(super) fn step_seeing(&mut self, step: u64, seen: &dyn Fn(&mut View, &[Database])) {
        self.begin_step(step);
        self.work_at_home();
        if self.jobs.values().any(|job| job.on.is_none()) {
            let mut view = self.view();
            self.ledger.set_waiting(&view.waiting.iter().map(|job| job.tenant).collect());
            seen(&mut view, &self.databases);
            self.obey(schedule(&view));
        }
        self.work();
    }

    /// Seconds that writers of all databases together stood still until now.
    pub(super) fn stalled_seconds(&self) -> f64 {
        self.databases.iter().map(|database| database.stalled_seconds).sum()
    }

    fn submit(&mut self) {
        for (index, database) in self.databases.iter_mut().enumerate() {
            while let Some(wanted) = database.want() {
                // Deep work is begun after L0 work.
                let before = self.jobs.values().filter(|job| job.database == index);
                let before = before.filter(|job| job.wanted.lane == Lane::L0 || wanted.lane == Lane::Deep);
                let bytes = wanted.bytes + before.map(|job| job.wanted.bytes).sum::<f64>();
                let job = Job {
                    database: index,
                    wanted,
                    submitted: self.now,
                    late_at: self.now + patience_for(bytes),
                    waits_since: Some(self.now),
                    waited: 0.0,
                    done: 0.0,
                    on: None,
                    leased: 0.0,
                };
                self.jobs.insert(JobId(self.next), job);
                self.next += 1;
            }
        }
    }

    fn view(&self) -> View {
        let waiting = self.jobs.iter().filter(|(_, job)| job.on.is_none()).map(|(id, job)| {
            let database = &self.databases[job.database];
            Waiting {
                id: *id,
                tenant: TenantId(job.database as u32),
                lane: job.wanted.lane,
                bytes: job.wanted.bytes as u64,
                zone: database.zone,
                waited: Duration::from_secs_f64(self.now - job.submitted),
                stalls_in: database.stalls_in(self.plan.load),
                refused_by: BTreeSet::new(),
            }
        });
        let workers = self.workers_there().cloned().collect();
        View { waiting: waiting.collect(), workers, owed: self.ledger.owed() }
    }

    /// Workers that are there, as far as the decider knows.
    fn workers_there(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter().filter(|worker| !self.crashes.is_missed(worker.id, self.now))
    }

    fn decide(&mut self, decider: Decider, step: u64) {
        let is_free = self.workers_there().any(|worker| worker.free() > 0);
        if self.jobs.values().all(|job| job.on.is_some()) || (!is_free && decider != Decider::Schedule) {
            return;
        }
        let view = self.view();
        self.ledger.set_waiting(&view.waiting.iter().map(|job| job.tenant).collect());
        let decisions = match decider {
            Decider::Random => random(&view, self.plan.seed ^ step),
            Decider::Fifo => fifo(&view),
            Decider::LeastLoaded => least_loaded(&view),
            Decider::Schedule | Decider::Ideal | Decider::Oracle => schedule(&view),
        };
        self.obey(decisions);
    }

    fn obey(&mut self, decisions: Vec<Decision>) {
        for decision in decisions {
            match decision {
                Decision::Lease { job, worker } => self.lease(job, worker),
                Decision::Preempt { job, worker, .. } => self.preempt(job, worker),
            }
        }
    }

    fn lease(&mut self, id: JobId, worker: WorkerId) {
        let (Some(job), Some(worker)) =
            (self.jobs.get_mut(&id), self.workers.iter_mut().find(|one| one.id == worker))
        else {
            return;
        };
        let (lane, bytes) = (job.wanted.lane, job.wanted.bytes as u64);
        let zone = self.databases[job.database].zone;
        let (tenant, waited) =
            (TenantId(job.database as u32), Duration::from_secs_f64(self.now - job.submitted));
        worker.running.push(Running { id, tenant, waited, lane, zone, bytes, bytes_done: 0 });
        job.on = Some((worker.id, worker.speed(zone).open.as_secs_f64()));
        job.leased = self.now;
        job.late_at = job.late_at.max(self.now + patience_for(job.wanted.bytes));
        job.waited += job.waits_since.take().map_or(0.0, |since| self.now - since);
        self.ledger.lease(TenantId(job.database as u32), bytes);
    }

    fn preempt(&mut self, id: JobId, worker: WorkerId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            self.outcome.wasted_bytes += job.done;
            self.ledger.stop(TenantId(job.database as u32), job.wanted.bytes as u64);
            (job.on, job.done, job.waits_since) = (None, 0.0, Some(self.now));
        }
        let mine = self.workers.iter_mut().filter(|one| one.id == worker);
        mine.for_each(|worker| worker.running.retain(|running| running.id != id));
    }

    fn work(&mut self) {
        let mut finished = Vec::new();
        for worker in self.workers.iter_mut().filter(|worker| self.crashes.killed_at(worker.id).is_none()) {
            for running in &mut worker.running {
                self.outcome.busy += STEP;
                let Some(job) = self.jobs.get_mut(&running.id) else { continue };
                let Some((_, opens_in)) = &mut job.on else { continue };
                if *opens_in > 0.0 {
                    *opens_in -= STEP;
                    continue;
                }
                let zone = self.databases[job.database].zone;
                let speed = if worker.zone.is_near(zone) { worker.near } else { worker.far };
                job.done += speed.bytes_per_second * STEP;
                running.bytes_done = job.done as u64;
                if job.done >= job.wanted.bytes {
                    finished.push(running.id);
                }
            }
            worker.running.retain(|running| !finished.contains(&running.id));
        }
        finished.into_iter().for_each(|id| self.done(id));
    }

    /// Slots, the fastest first, each for a step with the job that has least slack.
    fn work_ideally(&mut self) {
        let mut speeds: Vec<f64> = self
            .workers
            .iter()
            .filter(|worker| self.crashes.killed_at(worker.id).is_none())
            .flat_map(|worker| (0..worker.slots).map(|_| worker.near.bytes_per_second))
            .collect();
        speeds.sort_by(|a, b| b.total_cmp(a));
        let fastest = speeds.first().copied().unwrap_or(1.0);
        let load = self.plan.load;
        let slack = |job: &Job| {
            let left = (job.wanted.bytes - job.done) / fastest;
            match (job.wanted.lane, self.databases[job.database].stalls_in(load)) {
                (Lane::L0, Some(stalls_in)) => stalls_in.as_secs_f64() - left,
                _ => 1e6 + job.submitted,
            }
        };
        let mut order: Vec<(f64, JobId)> = self.jobs.iter().map(|(id, job)| (slack(job), *id)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut finished = Vec::new();
        for ((_, id), speed) in order.into_iter().zip(speeds) {
            self.outcome.busy += STEP;
            if let Some(job) = self.jobs.get_mut(&id) {
                job.waited += job.waits_since.take().map_or(0.0, |since| self.now - since);
                job.done += speed * STEP;
                if job.done >= job.wanted.bytes {
                    finished.push(id);
                }
            }
        }
        finished.into_iter().for_each(|id| self.done(id));
    }

    fn done(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        let database = &mut self.databases[job.database];
        database.done(job.wanted);
        if !database.is_flooding() {
            self.outcome.jobs += 1;
            self.outcome.waited_seconds_max = self.outcome.waited_seconds_max.max(job.waited);
        }
    }

    fn finish(mut self, steps: u64) -> Outcome {
        for job in self.jobs.values().filter(|job| !self.databases[job.database].is_flooding()) {
            let waited = job.waited(&self.crashes, self.now);
            self.outcome.waited_seconds_max = self.outcome.waited_seconds_max.max(waited);
        }
        let stalled = self.databases.iter().map(|database| database.stalled_seconds);
        let ordinary = self.databases.iter().filter(|one| !one.is_flooding());
        let taken = ordinary.map(|one| one.written / (one.written + one.refused).max(1.0));
        let mut flooding = self.databases.iter().filter(|one| one.is_flooding()).map(|one| one.written);
        let flood_bytes = [(); 2].map(|()| flooding.next().unwrap_or_default());
        let slots: u32 = self.workers.iter().map(|worker| worker.slots).sum();
        Outcome {
            stalled_seconds: stalled.clone().sum(),
            stalled_seconds_max: stalled.fold(0.0, f64::max),
            taken_min: taken.fold(1.0, f64::min),
            flood_bytes,
            busy: self.outcome.busy / (f64::from(slots) * steps as f64 * STEP),
            ..self.outcome
        }
    }
}
