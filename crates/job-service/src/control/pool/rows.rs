//! What people see.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Pool;
use super::connections::{Fate, Lost};
use super::job::{Job, JobKey, Outcome, State, Timings};
use super::jobs::Stage;
use super::member::Member;
use crate::control::view::{JobId, Lane, WorkerId};

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// No worker has it.
    Waiting,
    /// A worker has it.
    Running,
    /// It has a result.
    Done,
    /// It has none and gets none.
    Failed,
}

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    /// Which.
    pub key: JobKey,
    /// Its tenant; empty where only its worker has told of it.
    pub tenant: String,
    /// Of its tenant's share, as its database said; 0 where only its worker has told of it.
    pub weight: f64,
    /// What kind.
    pub lane: Lane,
    /// Bytes of inputs.
    pub bytes: u64,
    /// How many of them are read.
    pub done_bytes: u64,
    /// Where it is.
    pub state: JobState,
    /// The worker that has it, or had it.
    pub worker: String,
    /// So many times it was given to a worker.
    pub attempts: u32,
    /// Since it was submitted, or from then on until its end.
    pub age: Duration,
    /// Why the last attempt failed, if one has.
    pub failure: String,
    /// Where its files are.
    pub location: String,
    /// Until its database stops its writers, by what it said last, if the job has not ended; `None`
    /// = that is not in sight.
    pub stalls_in: Option<Duration>,
    /// From its submission until the attempt that counts was leased, or until now.
    pub queued: Duration,
    /// How long that attempt took, or has taken until now. When its first input was open is known
    /// once it has ended.
    pub timings: Timings,
}

/// One worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerRow {
    /// As it calls itself.
    pub name: String,
    /// Where it is.
    pub zone: String,
    /// Jobs at a time.
    pub slots: u32,
    /// Jobs now.
    pub running: u32,
    /// Since it was heard of.
    pub quiet: Duration,
    /// Bytes of inputs a second with files that are near; `None` = no job has been long enough to
    /// tell.
    pub near_bytes_per_second: Option<f64>,
    /// With others.
    pub far_bytes_per_second: Option<f64>,
    /// It takes no work any more.
    pub is_draining: bool,
    /// Jobs done.
    pub jobs_done: u64,
    /// Its program.
    pub build: String,
    /// Where its latest jobs failed, how often one after the other, and why; empty = nowhere.
    pub failing: String,
    /// Its connection broke, and it is given up for lost if it does not come back; `None` = it is
    /// there, or was never heard of on a connection that is known.
    pub lost: Option<Lost>,
}

/// What there is to see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Jobs that ended lately first, then the others as they came. Of waiting, running and ended
    /// jobs as many as were asked for: the oldest, and of ended ones the latest.
    pub jobs: Vec<JobRow>,
    /// Jobs that wait, all of them.
    pub waiting_count: u64,
    /// Bytes of their inputs.
    pub waiting_bytes: u64,
    /// How long the oldest of them waits.
    pub waiting_max: Duration,
    /// Jobs that a worker has, all of them.
    pub running_count: u64,
    /// In the order in which they came.
    pub workers: Vec<WorkerRow>,
}

impl Pool {
    /// What is here now, with at most `jobs_max` jobs that wait, as many that run, and as many that
    /// ended. Looks at and copies no more than these.
    pub fn rows(&self, now: Duration, jobs_max: usize) -> Rows {
        let total = self.waiting(now);
        let mut rows = Rows {
            waiting_count: self.jobs.count(Stage::Waiting).all(),
            waiting_bytes: total.bytes,
            waiting_max: total.longest,
            running_count: self.jobs.count(Stage::Running).all(),
            ..Rows::default()
        };
        let latest = |stage| self.jobs.in_stage(stage).rev().take(jobs_max);
        let mut ended: Vec<(JobId, &Job)> = latest(Stage::Done).chain(latest(Stage::Failed)).collect();
        ended.sort_by_key(|(id, _)| *id);
        let ended = ended.split_off(ended.len().saturating_sub(jobs_max));
        let oldest = |stage| self.jobs.in_stage(stage).take(jobs_max);
        let mut present: Vec<(JobId, &Job)> = oldest(Stage::Waiting).chain(oldest(Stage::Running)).collect();
        present.sort_by_key(|(id, _)| *id);
        let present = present.into_iter().map(|(_, job)| {
            let stalls_at = self.clients.get(&job.key.client).and_then(|client| client.stalls_at);
            let stalls_in = stalls_at.map(|at| at.saturating_sub(now));
            JobRow { stalls_in, ..row(job, &self.members, now) }
        });
        // What its client has not taken yet is the latest.
        let before = self.history.jobs.len().saturating_sub(jobs_max - ended.len());
        rows.jobs = self.history.jobs.range(before..).cloned().collect();
        rows.jobs.extend(ended.into_iter().map(|(_, job)| row(job, &self.members, now)));
        rows.jobs.extend(present);
        let running = |id| self.jobs.of_worker(id).count() as u32;
        let workers = self.members.iter();
        let row = |(id, member): (&WorkerId, &Member)| {
            let lost = member.connections.shown(now, |key| self.fate(key));
            WorkerRow { lost, ..worker_row(member, now, running(*id)) }
        };
        rows.workers = workers.map(row).collect();
        rows
    }
}

impl Pool {
    /// What became of a job that a lost worker had.
    fn fate(&self, key: &JobKey) -> Fate {
        let name = |id| self.members.get(id).map(|member| member.profile.name.clone());
        match self.jobs.id(key).and_then(|id| self.jobs.get(id)).map(|job| &job.state) {
            Some(State::Waiting) => Fate::Waits,
            Some(State::Leased(attempt)) => Fate::WentTo(name(&attempt.worker).unwrap_or_default()),
            Some(State::Ended { ended, .. }) => match ended.outcome {
                Outcome::Done(_) => Fate::WentTo(ended.worker.clone()),
                Outcome::Failed(_) => Fate::WentBack,
            },
            // Its database has taken the end, or wants it no more.
            None => match self.history.jobs.iter().rev().find(|row| row.key == *key) {
                Some(row) if row.state == JobState::Done => Fate::WentTo(row.worker.clone()),
                Some(_) | None => Fate::WentBack,
            },
        }
    }
}

fn worker_row(member: &Member, now: Duration, running: u32) -> WorkerRow {
    WorkerRow {
        name: member.profile.name.clone(),
        zone: member.profile.zone.clone(),
        slots: member.profile.slots,
        running,
        quiet: now.saturating_sub(member.heard),
        near_bytes_per_second: member.near.measured(),
        far_bytes_per_second: member.far.measured(),
        is_draining: member.profile.is_draining,
        jobs_done: member.jobs_done,
        build: member.profile.build.clone(),
        failing: member.doubts.shown(),
        lost: None,
    }
}

/// `job` as people see it.
pub(super) fn row(job: &Job, members: &BTreeMap<WorkerId, Member>, now: Duration) -> JobRow {
    let order = job.wanted.as_ref().map(|wanted| &wanted.order);
    let name = |id: &WorkerId| members.get(id).map(|member| member.profile.name.clone()).unwrap_or_default();
    let (state, worker, done_bytes, until) = match &job.state {
        State::Waiting => (JobState::Waiting, String::new(), 0, now),
        State::Leased(attempt) => (JobState::Running, name(&attempt.worker), attempt.done_bytes, now),
        State::Ended { at, ended } => match &ended.outcome {
            Outcome::Done(_) => (JobState::Done, ended.worker.clone(), job.bytes(), *at),
            Outcome::Failed(_) => (JobState::Failed, ended.worker.clone(), 0, *at),
        },
    };
    let (queued, timings) = match &job.state {
        State::Waiting => (now.saturating_sub(job.submitted), Timings::default()),
        State::Leased(attempt) => {
            let ran = now.saturating_sub(attempt.since);
            (attempt.since.saturating_sub(job.submitted), Timings { ran, ..Timings::default() })
        }
        State::Ended { ended, .. } => (ended.queued, ended.timings),
    };
    JobRow {
        key: job.key,
        tenant: order.map(|order| order.tenant.clone()).unwrap_or_default(),
        weight: order.map_or(0.0, |order| order.weight),
        lane: job.lane(),
        bytes: job.bytes(),
        done_bytes,
        state,
        worker,
        attempts: job.attempts,
        age: until.saturating_sub(job.submitted),
        failure: job.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default(),
        location: order.map(|order| order.location.clone()).unwrap_or_default(),
        stalls_in: None,
        queued,
        timings,
    }
}
