//! What a decision is made of, and what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A job, by the number that the pool gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// Jobs that share one weight: of a database, or of several of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// Where files or a worker are: within a zone bytes are near. 0 is everywhere, which is near to all
/// zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone(pub u32);

impl Zone {
    /// The zone of files or workers that name none.
    pub const EVERYWHERE: Self = Self(0);

    /// Whether what is in `other` is near to what is here.
    pub fn is_near(self, other: Self) -> bool {
        self == other || [self, other].contains(&Self::EVERYWHERE)
    }
}

/// Two kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The job takes runs out of level 0, which writers wait for. Some slots are kept for such
    /// jobs, and a deep job may be stopped for one.
    L0,
    /// Every other job; may be stopped.
    Deep,
}

/// A job that no worker has.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Which one.
    pub id: JobId,
    /// Its tenant.
    pub tenant: TenantId,
    /// What kind.
    pub lane: Lane,
    /// Bytes of inputs.
    pub bytes: u64,
    /// Where they are.
    pub zone: Zone,
    /// Since it was submitted.
    pub waited: Duration,
    /// Until its database stops writers, if nothing is done; `None` if that is not in sight. See
    /// [`Pressure`](super::Pressure).
    pub stalls_in: Option<Duration>,
    /// Workers that cannot do it, or failed at it.
    pub refused_by: BTreeSet<WorkerId>,
}

/// A job that a worker has.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Which one.
    pub id: JobId,
    /// Its tenant.
    pub tenant: TenantId,
    /// Since it was submitted.
    pub waited: Duration,
    /// What kind.
    pub lane: Lane,
    /// Where its files are.
    pub zone: Zone,
    /// Bytes of inputs.
    pub bytes: u64,
    /// How many of them are done, as its last heartbeat said.
    pub bytes_done: u64,
}

/// How fast one job is read, merged and written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Bytes of inputs a second.
    pub bytes_per_second: f64,
    /// Before the first byte.
    pub open: Duration,
}

/// What a worker does for other control planes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Slots that are not to be had because of that.
    pub slots: u32,
    /// Of these, those with deep work that gives way to L0 work: how long each has run.
    pub gives_way: Vec<Duration>,
}

/// A worker that beats.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// Which one.
    pub id: WorkerId,
    /// Where it is.
    pub zone: Zone,
    /// Jobs at a time.
    pub slots: u32,
    /// What it has.
    pub running: Vec<Running>,
    /// What it has of others.
    pub elsewhere: Elsewhere,
    /// With files that are near to its zone, as measured.
    pub near: Speed,
    /// With others.
    pub far: Speed,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// In the order in which they were submitted.
    pub waiting: Vec<Waiting>,
    /// By number.
    pub workers: Vec<Worker>,
    /// Bytes that tenants were promised and not given, for each unit of their weights. Less than 0
    /// is what they were given beyond their share. A tenant that is not here is owed nothing. See
    /// [`Ledger`](super::Ledger).
    pub owed: BTreeMap<TenantId, f64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The worker gets the job. Where it has no free slot it is L0 work, and stops what it does for
    /// others.
    Lease {
        /// Which.
        job: JobId,
        /// By which worker.
        worker: WorkerId,
    },
    /// The worker stops the job, which waits again.
    Preempt {
        /// Which.
        job: JobId,
        /// The worker that has it.
        worker: WorkerId,
        /// What is to have its place.
        l0: JobId,
    },
}

impl Worker {
    /// Slots that are free.
    pub fn free(&self) -> u32 {
        self.slots.saturating_sub(self.elsewhere.slots).saturating_sub(self.running.len() as u32)
    }

    /// How fast it is with files in `zone`.
    pub fn speed(&self, zone: Zone) -> Speed {
        if self.zone.is_near(zone) { self.near } else { self.far }
    }
}
