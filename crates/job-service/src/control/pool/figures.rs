//! A pool in numbers, for whoever watches it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Pool;
use super::counts::{ByLane, Counts};
use super::job::{Job, Outcome, State};
use super::member::Member;

/// A pool in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Jobs that wait, by lane.
    pub waiting: ByLane,
    /// Jobs that a worker has.
    pub running: ByLane,
    /// Jobs that have a result, which their clients have not taken yet.
    pub done: ByLane,
    /// Jobs that have none, which their clients have not heard of yet.
    pub failed: ByLane,
    /// Bytes of inputs of jobs that wait.
    pub waiting_bytes: u64,
    /// How long the oldest of them waits.
    pub waiting_max: Duration,
    /// Bytes of inputs of jobs that wait, by tenant; those that are not counted by name have no name here.
    pub waiting_bytes_by_tenant: BTreeMap<Option<String>, u64>,
    /// Clients that were heard of lately.
    pub clients: usize,
    /// Workers, by what can be had of them.
    pub workers: Workers,
    /// What has happened.
    pub counts: Counts,
}

/// Workers, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// They take jobs.
    pub ready: u64,
    /// They take no more jobs.
    pub draining: u64,
    /// They were not heard of for longer than a lease.
    pub silent: u64,
    /// Jobs at a time that those who are ready do.
    pub slots: u64,
}

impl Pool {
    /// What is here now, and has been.
    pub fn figures(&self, now: Duration) -> Figures {
        let mut figures =
            Figures { clients: self.clients.len(), counts: self.counts.clone(), ..Figures::default() };
        for job in self.jobs.values() {
            figures.add_job(job, now);
        }
        for member in self.members.values() {
            figures.workers.add(member, now, self.limits.lease);
        }
        figures
    }
}

impl Figures {
    fn add_job(&mut self, job: &Job, now: Duration) {
        let order = job.wanted.as_ref().map(|wanted| &wanted.order);
        let group = match &job.state {
            State::Waiting => &mut self.waiting,
            State::Leased(_) => &mut self.running,
            State::Ended { ended, .. } if matches!(ended.outcome, Outcome::Done(_)) => &mut self.done,
            State::Ended { .. } => &mut self.failed,
        };
        group.add(job.lane(), 1);
        let (State::Waiting, Some(order)) = (&job.state, order) else { return };
        self.waiting_bytes += order.bytes;
        self.waiting_max = self.waiting_max.max(now.saturating_sub(job.submitted));
        let tenant = self.counts.names(&order.tenant).then(|| order.tenant.clone());
        *self.waiting_bytes_by_tenant.entry(tenant).or_default() += order.bytes;
    }
}

impl Workers {
    fn add(&mut self, member: &Member, now: Duration, lease: Duration) {
        if now.saturating_sub(member.heard) > lease {
            self.silent += 1;
        } else if member.profile.is_draining {
            self.draining += 1;
        } else {
            self.ready += 1;
            self.slots += u64::from(member.profile.slots);
        }
    }
}
