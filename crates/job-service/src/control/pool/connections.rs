//! Which connections workers are heard of on, and workers that are lost with the last of theirs.
//!
//! A process that is killed has its connections closed by its system at once: long before its
//! lease is over. A network may break a connection too. Its worker comes back on another one within
//! moments, and has lost nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Pool;
use super::job::{Failure, FailureKind, Job, JobKey, Outcome, State, Timings};
use super::rows::JobState;
use crate::control::view::{JobId, WorkerId};

/// A connection of a control plane; no other one has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// The connections of one worker.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: BTreeSet<ConnectionId>,
    /// When the last of them ended.
    broken: Option<Duration>,
    /// The jobs that it had when it was given up for lost.
    lost: Option<BTreeSet<JobKey>>,
}

/// A worker that has no connection any more, as people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Since its last connection ended.
    pub since: Duration,
    /// What became of the jobs that it had then; empty = that is not decided yet.
    pub jobs: String,
}

/// Workers that are named where jobs of a lost worker went.
const NAMED_MAX: usize = 3;

impl Connections {
    /// Whether the worker had connections and all of them have ended.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }
}

impl Pool {
    /// The worker `id`, which was just heard of, said so on `connection`, which is open.
    pub fn note_connection(&mut self, now: Duration, id: u128, connection: ConnectionId) {
        let member = self.member_ids.get(&id).and_then(|id| self.members.get_mut(id));
        let Some(member) = member else { return };
        let connections = &mut member.connections;
        connections.open.insert(connection);
        if connections.lost.take().is_some() {
            self.log.push(format!("worker {} is back", member.profile.name));
        }
        if connections.broken.take().is_some() {
            self.decide(now);
        }
    }

    /// `connection` has ended. A worker without any other gets no jobs, and is given up for lost
    /// if it does not come back for [`Limits::reconnect`](super::Limits::reconnect).
    pub fn end_connection(&mut self, now: Duration, connection: ConnectionId) {
        for member in self.members.values_mut() {
            let connections = &mut member.connections;
            if connections.open.remove(&connection) && connections.open.is_empty() {
                connections.broken = Some(now);
            }
        }
    }

    /// Gives up workers that did not come back: their jobs wait for others. One that had said it
    /// takes no more jobs, and has none, has left.
    pub(super) fn lose_members(&mut self, now: Duration) {
        let patience = self.limits.reconnect;
        let is_gone = |connections: &Connections| {
            let broken = connections.broken.filter(|_| connections.lost.is_none());
            broken.is_some_and(|since| now.saturating_sub(since) >= patience)
        };
        let gone = self.members.iter().filter(|(_, member)| is_gone(&member.connections));
        let gone: Vec<WorkerId> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            self.lose(now, id);
        }
    }

    fn lose(&mut self, now: Duration, worker: WorkerId) {
        let Some(member) = self.members.get(&worker) else { return };
        let (name, is_draining) = (member.profile.name.clone(), member.profile.is_draining);
        let jobs: Vec<(JobId, JobKey)> = self.jobs.of_worker(worker).map(|(id, job)| (id, job.key)).collect();
        if jobs.is_empty() && is_draining {
            if let Some(member) = self.members.remove(&worker) {
                self.member_ids.remove(&member.profile.id);
            }
            return;
        }
        for (id, _) in &jobs {
            self.counts.expired_lost += 1;
            self.jobs.change(*id, |job| job.expired += 1);
            let message = format!("its worker {name} was lost: the connection to it broke");
            let failure = Failure { kind: FailureKind::Storage, message };
            self.attempt_failed(now, *id, worker, failure, Timings::default());
        }
        self.log.push(match jobs.len() {
            0 => format!("lost worker {name}, which had no job"),
            count => format!("lost worker {name}; {} for others", its_jobs(count, "waits", "wait")),
        });
        if let Some(member) = self.members.get_mut(&worker) {
            // What its jobs ended with says nothing of the locations of their files.
            member.doubts = Default::default();
            member.connections.lost = Some(jobs.into_iter().map(|(_, key)| key).collect());
        }
    }

    /// How people see `connections` that are broken.
    pub(super) fn lost(&self, now: Duration, connections: &Connections) -> Option<Lost> {
        let since = now.saturating_sub(connections.broken?);
        let jobs = connections.lost.as_ref().map(|keys| self.whereabouts(keys)).unwrap_or_default();
        Some(Lost { since, jobs })
    }

    /// Where the jobs of a lost worker went, in words.
    fn whereabouts(&self, keys: &BTreeSet<JobKey>) -> String {
        let (mut went, mut to, mut waiting, mut failed) = (0, BTreeSet::new(), 0, 0);
        for key in keys {
            let id = self.jobs.id(key);
            match id.and_then(|id| self.jobs.get(id)).map(|job: &Job| &job.state) {
                Some(State::Waiting) => waiting += 1,
                Some(State::Leased(attempt)) => {
                    went += 1;
                    to.extend(self.members.get(&attempt.worker).map(|member| member.profile.name.clone()));
                }
                Some(State::Ended { ended, .. }) if matches!(ended.outcome, Outcome::Done(_)) => {
                    went += 1;
                    to.insert(ended.worker.clone());
                }
                Some(State::Ended { .. }) => failed += 1,
                // Its database has taken the end, or wants it no more.
                None => match self.history.iter().rev().find(|row| row.key == *key) {
                    Some(row) if row.state == JobState::Done => {
                        went += 1;
                        to.insert(row.worker.clone());
                    }
                    Some(_) | None => failed += 1,
                },
            }
        }
        let mut named: Vec<String> = to.iter().take(NAMED_MAX).cloned().collect();
        if to.len() > NAMED_MAX {
            named.push(format!("{} more", to.len() - NAMED_MAX));
        }
        let named = named.join(", ");
        let databases = "went back to their databases";
        match keys.len() {
            0 => "it had no job".to_owned(),
            all if went == all => format!("{} to {named}", its_jobs(all, "went", "went")),
            all if waiting == all => format!("{} for another worker", its_jobs(all, "waits", "wait")),
            all if failed == all => its_jobs(all, "went back to its database", databases),
            all => {
                let parts = [
                    (went, format!("{went} went to {named}")),
                    (waiting, format!("{waiting} wait for another worker")),
                    (failed, format!("{failed} {databases}")),
                ];
                let parts: Vec<String> =
                    parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, part)| part).collect();
                format!("of its {all} jobs {}", parts.join(", "))
            }
        }
    }
}

/// "its job goes", "its 2 jobs go".
fn its_jobs(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("its job {one}"),
        _ => format!("its {count} jobs {many}"),
    }
}
