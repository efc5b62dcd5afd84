//! What has happened since the start, counted.

use std::collections::BTreeMap;

use super::job::{FailureKind, Job, Outcome, State};
use crate::control::view::Lane;

/// Tenants that are counted by name; later ones are counted together.
pub const TENANTS_MAX: usize = 100;

/// What has happened in a pool since it was made. Everything here only rises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that were taken from clients, by lane.
    pub submitted: ByLane,
    /// Jobs that were refused because there were too many.
    pub refused: u64,
    /// Jobs that have a result, by lane.
    pub done: ByLane,
    /// Jobs that ended without one, by lane.
    pub failed: ByLane,
    /// Jobs that had not ended when their clients gave them up or were gone, by lane.
    pub abandoned: ByLane,
    /// Attempts that were given to workers.
    pub leased: u64,
    /// Attempts of which the worker was not heard of, or did not name them, for the time of a
    /// lease.
    pub expired_silent: u64,
    /// Attempts of workers that were lost with their connections.
    pub expired_lost: u64,
    /// Attempts that got nowhere.
    pub expired_stuck: u64,
    /// Attempts that were given back because their workers did not begin them for the time of a
    /// lease: no failure.
    pub expired_unbegun: u64,
    /// Attempts that were stopped for more urgent ones.
    pub preempted: u64,
    /// Attempts that workers gave up, by why.
    pub given_up: ByFailure,
    /// Bytes of inputs that were leased, by tenant.
    tenants: BTreeMap<String, u64>,
    /// And of all tenants that are not in there.
    other_tenants: u64,
}

/// A number for each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByLane {
    /// Of L0 work.
    pub l0: u64,
    /// Of deep work.
    pub deep: u64,
}

/// A number for each kind of failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByFailure {
    /// That worker could not.
    pub rejected: u64,
    /// It was stopped.
    pub cancelled: u64,
    /// It is impossible.
    pub invalid: u64,
    /// Files could not be read or written.
    pub storage: u64,
    /// Entries were lost.
    pub not_conserved: u64,
    /// Its files could not be reached from there.
    pub unavailable: u64,
    /// An input did not hold what it should.
    pub corrupt: u64,
}

impl ByLane {
    pub(super) fn all(self) -> u64 {
        self.l0 + self.deep
    }

    pub(super) fn add(&mut self, lane: Lane, count: u64) {
        match lane {
            Lane::L0 => self.l0 += count,
            Lane::Deep => self.deep += count,
        }
    }

    pub(super) fn sub(&mut self, lane: Lane, count: u64) {
        match lane {
            Lane::L0 => self.l0 -= count,
            Lane::Deep => self.deep -= count,
        }
    }
}

impl ByFailure {
    pub(crate) fn add(&mut self, kind: FailureKind) {
        *match kind {
            FailureKind::Rejected => &mut self.rejected,
            FailureKind::Cancelled => &mut self.cancelled,
            FailureKind::Invalid => &mut self.invalid,
            FailureKind::Storage => &mut self.storage,
            FailureKind::NotConserved => &mut self.not_conserved,
            FailureKind::Unavailable => &mut self.unavailable,
            FailureKind::Corrupt => &mut self.corrupt,
        } += 1;
    }

    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("rejected", self.rejected),
            ("cancelled", self.cancelled),
            ("invalid", self.invalid),
            ("storage", self.storage),
            ("not_conserved", self.not_conserved),
            ("unavailable", self.unavailable),
            ("corrupt", self.corrupt),
        ]
    }
}

impl Counts {
    /// A job with a client is here: it has come, or its client has been heard of.
    pub(super) fn submit(&mut self, job: &Job) {
        self.submitted.add(job.lane(), 1);
        self.end(job);
    }

    /// A job has ended, if it has and its client was heard of.
    pub(super) fn end(&mut self, job: &Job) {
        match &job.state {
            State::Ended { ended, .. } if job.wanted.is_some() => match ended.outcome {
                Outcome::Done(_) => self.done.add(job.lane(), 1),
                Outcome::Failed(_) => self.failed.add(job.lane(), 1),
            },
            _ => {}
        }
    }

    /// Its client asks for a job no more.
    pub(super) fn forget(&mut self, job: &Job) {
        if job.wanted.is_some() && !matches!(job.state, State::Ended { .. }) {
            self.abandoned.add(job.lane(), 1);
        }
    }

    /// A job of `bytes` of `tenant` was leased.
    pub(super) fn lease(&mut self, tenant: &str, bytes: u64) {
        self.leased += 1;
        if self.tenants.len() >= TENANTS_MAX && !self.names(tenant) {
            self.other_tenants = self.other_tenants.saturating_add(bytes);
        } else {
            let sum = self.tenants.entry(tenant.to_owned()).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Bytes of inputs that were leased to each tenant that is counted by name.
    pub fn tenants(&self) -> impl Iterator<Item = (&str, u64)> {
        self.tenants.iter().map(|(name, bytes)| (name.as_str(), *bytes))
    }

    /// Whether `tenant` is counted by name.
    pub(super) fn names(&self, tenant: &str) -> bool {
        self.tenants.contains_key(tenant)
    }

    /// Bytes of inputs that were leased to all others.
    pub fn other_tenants(&self) -> u64 {
        self.other_tenants
    }
}
