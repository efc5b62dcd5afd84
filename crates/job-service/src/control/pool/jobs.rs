//! All jobs of a pool, each where it is looked for.
//!
//! ```text
//!   change, insert, remove ─► job ─► seat: what is to be known of it without looking at it
//!                                      ├─ waits: in the line of those like it, or later
//!                                      ├─ is leased: with its worker
//!                                      └─ its stage, its client, workers that refused it, whether none can do it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::counts::ByLane;
use super::job::{Job, JobKey, KindId, Outcome, State};
use crate::control::line::{Entry, Line};
use crate::control::view::{JobId, Lane, TenantId, WorkerId, Zone};

/// What jobs have in common that stand in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) client: u128,
    pub(super) tenant: TenantId,
    pub(super) lane: Lane,
    pub(super) zone: Zone,
    pub(super) kind: KindId,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Waiting,
    Running,
    Done,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Seat {
    stage: Stage,
    lane: Lane,
    client: u128,
    tenant: Option<TenantId>,
    /// Where and as what it waits, and until when it is left alone.
    waits: Option<(Group, Entry, Duration)>,
    worker: Option<WorkerId>,
    is_refused: bool,
    is_nobodys: bool,
    held_bytes: u64,
}

/// All jobs. Whatever is kept beside a job is what the job says, after each change.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    all: BTreeMap<JobId, Job>,
    ids: BTreeMap<JobKey, JobId>,
    /// Jobs that wait for a worker.
    lines: BTreeMap<Group, Line>,
    /// Jobs that wait for their time.
    later: BTreeSet<(Duration, JobId)>,
    by_worker: BTreeMap<WorkerId, BTreeSet<JobId>>,
    by_stage: BTreeMap<Stage, BTreeSet<JobId>>,
    lanes: BTreeMap<Stage, ByLane>,
    /// Jobs of each client that have not ended.
    clients: BTreeMap<u128, usize>,
    /// Jobs that wait and were refused by a worker, and jobs of which is known since when no worker
    /// can do them.
    suspects: BTreeSet<JobId>,
    /// Of all of them, and of each tenant that has any.
    share: Share,
    shares: BTreeMap<TenantId, Share>,
}

/// Of what there is room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) jobs: usize,
    /// Of their specs and results.
    pub(super) held_bytes: u64,
}

impl Jobs {
    pub(super) fn get(&self, id: JobId) -> Option<&Job> {
        self.all.get(&id)
    }

    pub(super) fn id(&self, key: &JobKey) -> Option<JobId> {
        self.ids.get(key).copied()
    }

    /// The jobs of `client` up to the number `newest`, by their numbers.
    pub(super) fn of_client(&self, client: u128, newest: u64) -> impl Iterator<Item = (u64, JobId)> {
        let keys = JobKey { client, number: 0 }..=JobKey { client, number: newest };
        self.ids.range(keys).map(|(key, id)| (key.number, *id))
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Job> {
        self.all.values()
    }

    /// What they take together.
    pub(super) fn share(&self) -> Share {
        self.share
    }

    /// What the jobs of `tenant` take.
    pub(super) fn share_of(&self, tenant: TenantId) -> Share {
        self.shares.get(&tenant).copied().unwrap_or_default()
    }

    /// Adds a job that is not here.
    pub(super) fn insert(&mut self, id: JobId, job: Job) {
        self.ids.insert(job.key, id);
        let seat = Seat::of(id, &job);
        self.enter(id, seat);
        self.all.insert(id, job);
    }

    pub(super) fn remove(&mut self, id: JobId) -> Option<Job> {
        let job = self.all.remove(&id)?;
        self.ids.remove(&job.key);
        self.leave(id, Seat::of(id, &job));
        Some(job)
    }

    /// What `change` answers, if the job is here.
    pub(super) fn change<T>(&mut self, id: JobId, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let job = self.all.get_mut(&id)?;
        let before = Seat::of(id, job);
        let answer = change(job);
        let after = Seat::of(id, job);
        if before != after {
            self.leave(id, before);
            self.enter(id, after);
        }
        Some(answer)
    }

    /// From now on the jobs whose time has come wait for a worker.
    pub(super) fn wake(&mut self, now: Duration) {
        while let Some((until, id)) = self.later.first().copied().filter(|(until, _)| *until <= now) {
            self.later.remove(&(until, id));
            if let Some((group, entry, _)) = self.all.get(&id).and_then(|job| Seat::of(id, job).waits) {
                self.lines.entry(group).or_default().insert(entry);
            }
        }
    }

    /// Jobs that wait for a worker.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&Group, &Line)> {
        self.lines.iter()
    }

    /// Jobs that wait for their time.
    pub(super) fn later(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.later.iter().filter_map(|(_, id)| Some((*id, self.all.get(id)?)))
    }

    /// Jobs that `worker` has, the oldest first.
    pub(super) fn of_worker(&self, worker: WorkerId) -> impl Iterator<Item = (JobId, &Job)> {
        let ids = self.by_worker.get(&worker).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.all.get(id)?)))
    }

    /// Jobs at `stage`, the oldest first.
    pub(super) fn in_stage(&self, stage: Stage) -> impl DoubleEndedIterator<Item = (JobId, &Job)> {
        let ids = self.by_stage.get(&stage).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.all.get(id)?)))
    }

    /// How many they are.
    pub(super) fn count(&self, stage: Stage) -> ByLane {
        self.lanes.get(&stage).copied().unwrap_or_default()
    }

    /// Clients with jobs that have not ended.
    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Jobs that wait and were refused by a worker, or of which is known since when no worker can
    /// do them.
    pub(super) fn suspects(&self) -> &BTreeSet<JobId> {
        &self.suspects
    }

    fn enter(&mut self, id: JobId, seat: Seat) {
        self.by_stage.entry(seat.stage).or_default().insert(id);
        self.lanes.entry(seat.stage).or_default().add(seat.lane, 1);
        self.share.add(seat.held_bytes);
        if let Some(tenant) = seat.tenant {
            self.shares.entry(tenant).or_default().add(seat.held_bytes);
        }
        if seat.is_alive() {
            *self.clients.entry(seat.client).or_default() += 1;
        }
        if seat.is_suspect() {
            self.suspects.insert(id);
        }
        if let Some(worker) = seat.worker {
            self.by_worker.entry(worker).or_default().insert(id);
        }
        match seat.waits {
            Some((group, entry, Duration::ZERO)) => self.lines.entry(group).or_default().insert(entry),
            Some((_, _, until)) => {
                self.later.insert((until, id));
            }
            None => {}
        }
    }

    fn leave(&mut self, id: JobId, seat: Seat) {
        if let Some(ids) = self.by_stage.get_mut(&seat.stage) {
            ids.remove(&id);
        }
        self.lanes.entry(seat.stage).or_default().sub(seat.lane, 1);
        self.share.sub(seat.held_bytes);
        if let Some(tenant) = seat.tenant
            && let Some(share) = self.shares.get_mut(&tenant)
        {
            share.sub(seat.held_bytes);
            if share.jobs == 0 {
                self.shares.remove(&tenant);
            }
        }
        if seat.is_alive()
            && let Some(count) = self.clients.get_mut(&seat.client)
        {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&seat.client);
            }
        }
        self.suspects.remove(&id);
        if let Some(worker) = seat.worker
            && let Some(ids) = self.by_worker.get_mut(&worker)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_worker.remove(&worker);
            }
        }
        let Some((group, _, until)) = seat.waits else { return };
        if !self.later.remove(&(until, id))
            && let Some(line) = self.lines.get_mut(&group)
        {
            line.remove(id);
            if line.len() == 0 {
                self.lines.remove(&group);
            }
        }
    }
}

impl Share {
    fn add(&mut self, held_bytes: u64) {
        self.jobs += 1;
        self.held_bytes += held_bytes;
    }

    fn sub(&mut self, held_bytes: u64) {
        self.jobs -= 1;
        self.held_bytes -= held_bytes;
    }
}

impl Seat {
    fn of(id: JobId, job: &Job) -> Self {
        let stage = match &job.state {
            State::Waiting => Stage::Waiting,
            State::Leased(_) => Stage::Running,
            State::Ended { ended, .. } if matches!(ended.outcome, Outcome::Done(_)) => Stage::Done,
            State::Ended { .. } => Stage::Failed,
        };
        let waits = job.wanted.as_ref().filter(|_| stage == Stage::Waiting).map(|wanted| {
            let (tenant, lane, zone, kind) = (wanted.tenant, wanted.order.lane, wanted.zone, wanted.kind);
            let group = Group { client: job.key.client, tenant, lane, zone, kind };
            let entry = Entry { id, bytes: wanted.order.bytes, submitted: job.submitted };
            (group, entry, job.not_before)
        });
        Self {
            stage,
            lane: job.lane(),
            client: job.key.client,
            tenant: job.wanted.as_ref().map(|wanted| wanted.tenant),
            waits,
            worker: job.attempt().map(|attempt| attempt.worker),
            is_refused: !job.refused_by.is_empty(),
            is_nobodys: job.nobody_since.is_some(),
            held_bytes: job.held_bytes(),
        }
    }

    fn is_alive(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Running)
    }

    fn is_suspect(&self) -> bool {
        self.stage == Stage::Waiting && (self.is_refused || self.is_nobodys)
    }
}

#[cfg(test)]
impl Jobs {
    /// Compares what is kept beside jobs with what they say.
    pub(super) fn check(&self) {
        let seats: Vec<(JobId, Seat)> = self.all.iter().map(|(id, job)| (*id, Seat::of(*id, job))).collect();
        let ids = |is_here: &dyn Fn(&Seat) -> bool| -> BTreeSet<JobId> {
            seats.iter().filter(|(_, seat)| is_here(seat)).map(|(id, _)| *id).collect()
        };
        for stage in [Stage::Waiting, Stage::Running, Stage::Done, Stage::Failed] {
            let here = ids(&|seat| seat.stage == stage);
            assert!(self.in_stage(stage).map(|(id, _)| id).eq(here.iter().copied()), "{stage:?}");
            let of = |lane| ids(&|seat| seat.stage == stage && seat.lane == lane).len() as u64;
            assert_eq!(self.count(stage), ByLane { l0: of(Lane::L0), deep: of(Lane::Deep) });
        }
        for (worker, jobs) in &self.by_worker {
            assert_eq!(*jobs, ids(&|seat| seat.worker == Some(*worker)));
        }
        assert_eq!(
            self.by_worker.values().map(BTreeSet::len).sum::<usize>(),
            ids(&|seat| seat.worker.is_some()).len()
        );
        assert_eq!(self.suspects, ids(&Seat::is_suspect));
        let of = |is_here: &dyn Fn(&Seat) -> bool| {
            let here = seats.iter().filter(|(_, seat)| is_here(seat));
            let held_bytes: Vec<u64> = here.map(|(_, seat)| seat.held_bytes).collect();
            Share { jobs: held_bytes.len(), held_bytes: held_bytes.iter().sum() }
        };
        assert_eq!(self.share, of(&|_| true));
        let tenants: BTreeSet<TenantId> = seats.iter().filter_map(|(_, seat)| seat.tenant).collect();
        assert!(self.shares.keys().eq(&tenants));
        assert!(self.shares.iter().all(|(tenant, share)| *share == of(&|seat| seat.tenant == Some(*tenant))));
        let clients: BTreeSet<u128> =
            seats.iter().filter(|(_, seat)| seat.is_alive()).map(|(_, seat)| seat.client).collect();
        assert!(self.clients.keys().eq(&clients));
        for (group, line) in &self.lines {
            let is_mine = |seat: &Seat| seat.waits.is_some_and(|(of, ..)| of == *group);
            let mine = seats
                .iter()
                .filter(|(id, seat)| is_mine(seat) && !self.later.iter().any(|(_, later)| later == id));
            let mine: Vec<Entry> = mine.filter_map(|(_, seat)| Some(seat.waits?.1)).collect();
            assert!(!mine.is_empty() && line.jobs().eq(&mine), "{group:?}");
        }
        let waiting = self.later.len() + self.lines.values().map(Line::len).sum::<usize>();
        assert_eq!(waiting, ids(&|seat| seat.waits.is_some()).len());
    }
}
