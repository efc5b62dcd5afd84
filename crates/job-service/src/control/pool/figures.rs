//! A pool in numbers, for metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Pool;
use super::counts::{ByLane, Counts};
use super::jobs::Stage;
use super::member::Member;
use crate::control::view::TenantId;

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
    /// Bytes of inputs of jobs that wait, by tenant; tenants that are not counted by name have no
    /// name here.
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
    /// Their connections broke, and they have not come back.
    pub lost: u64,
    /// Jobs at a time that the ready workers do.
    pub slots: u64,
}

impl Pool {
    /// What is here now, and has been.
    pub fn figures(&self, now: Duration) -> Figures {
        let [waiting, running, done, failed] =
            [Stage::Waiting, Stage::Running, Stage::Done, Stage::Failed].map(|stage| self.jobs.count(stage));
        let total = self.waiting(now);
        let mut figures = Figures {
            waiting,
            running,
            done,
            failed,
            waiting_bytes: total.bytes,
            waiting_max: total.longest,
            clients: self.clients.len(),
            counts: self.counts.clone(),
            ..Figures::default()
        };
        for (name, tenant) in self.tenants.iter() {
            let Some(bytes) = total.by_tenant.get(&TenantId(tenant)) else { continue };
            let name = self.counts.names(name).then(|| name.clone());
            let sum = figures.waiting_bytes_by_tenant.entry(name).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        for member in self.members.values() {
            figures.workers.add(member, now, self.limits.lease);
        }
        figures
    }

    /// Jobs that wait, without a look at each.
    pub(super) fn waiting(&self, now: Duration) -> WaitingTotal {
        let mut total = WaitingTotal::default();
        for (group, line) in self.jobs.lines() {
            let bytes = u64::try_from(line.bytes()).unwrap_or(u64::MAX);
            total.add(group.tenant, bytes, now.saturating_sub(line.oldest().unwrap_or(now)));
        }
        for (_, job) in self.jobs.later() {
            let tenant = job.wanted.as_ref().map_or(TenantId(0), |wanted| wanted.tenant);
            total.add(tenant, job.bytes(), now.saturating_sub(job.submitted));
        }
        total
    }
}

/// Jobs that wait, in numbers.
#[derive(Debug, Default)]
pub(super) struct WaitingTotal {
    /// Of inputs.
    pub(super) bytes: u64,
    /// Since the oldest was submitted.
    pub(super) longest: Duration,
    by_tenant: BTreeMap<TenantId, u64>,
}

impl WaitingTotal {
    fn add(&mut self, tenant: TenantId, bytes: u64, waited: Duration) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.longest = self.longest.max(waited);
        let sum = self.by_tenant.entry(tenant).or_default();
        *sum = sum.saturating_add(bytes);
    }
}

impl Workers {
    fn add(&mut self, member: &Member, now: Duration, lease: Duration) {
        if member.connections.is_broken() {
            self.lost += 1;
        } else if now.saturating_sub(member.heard) > lease {
            self.silent += 1;
        } else if member.profile.is_draining {
            self.draining += 1;
        } else {
            self.ready += 1;
            self.slots += u64::from(member.profile.slots);
        }
    }
}
