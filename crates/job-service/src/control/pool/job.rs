//! One job: what was asked for, which worker has it, what came of it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::control::view::{Lane, TenantId, WorkerId, Zone};

/// A job's name, the same everywhere and for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The database that asks: drawn whenever one is opened.
    pub client: u128,
    /// Its number there, greater than that of each job before it.
    pub number: u64,
}

/// One attempt at one job; no other ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What a client wants done.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The tenant with the share that it counts to.
    pub tenant: String,
    /// Of that share; above 0.
    pub weight: f64,
    /// Where the files are.
    pub location: String,
    /// Where that is; empty = everywhere.
    pub zone: String,
    /// The encoded spec.
    pub spec: Vec<u8>,
    /// Version of that encoding.
    pub spec_version: u32,
    /// What its worker must have.
    pub needs: BTreeSet<String>,
    /// What kind of work.
    pub lane: Lane,
    /// Bytes of inputs.
    pub bytes: u64,
    /// Until its database stops writers, from the submission on; all jobs of the client go by what
    /// it said last.
    pub stalls_in: Option<Duration>,
}

/// What came of an attempt, or of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The encoded result.
    Done(Vec<u8>),
    /// There is none.
    Failed(Failure),
}

impl Outcome {
    /// Of the encoded result.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Done(result) => result.len() as u64,
            Self::Failed(_) => 0,
        }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What can be done about it.
    pub kind: FailureKind,
    /// For people.
    pub message: String,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// That worker cannot; another may.
    Rejected,
    /// It was stopped.
    Cancelled,
    /// It is impossible everywhere.
    Invalid,
    /// Files could not be read or written; later or elsewhere they may be.
    Storage,
    /// Entries were lost on the way: what the inputs say does not hold, or the worker is wrong.
    NotConserved,
    /// No worker is there, the files cannot be reached from there, or no job is taken. Another one
    /// may, and later this one.
    Unavailable,
    /// An input does not hold what it should, on every worker.
    Corrupt,
}

/// How long an attempt took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From when its worker had the lease until it had read the first byte of an input.
    pub opened: Duration,
    /// From when its worker had the lease until its end.
    pub ran: Duration,
    /// What it waited for inputs after their first byte; zero where it was not measured.
    pub reading: Duration,
    /// What it waited for outputs: to take bytes, to become durable, to be read back.
    pub writing: Duration,
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What came of it.
    pub outcome: Outcome,
    /// The worker that did it; empty = none.
    pub worker: String,
    /// From its submission until it was leased.
    pub queued: Duration,
    /// What its worker measured.
    pub timings: Timings,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: JobKey,
    /// `None`: a worker says that it has the job, and its client was not heard of yet.
    pub(super) wanted: Option<Wanted>,
    pub(super) submitted: Duration,
    pub(super) state: State,
    pub(super) attempts: u32,
    /// Attempts that failed for reasons that may pass.
    pub(super) failures: u32,
    /// Of these, attempts whose worker fell silent or got no further, which says nothing of the
    /// job's location.
    pub(super) expired: u32,
    /// Answers in a row with which it was handed out and that its worker never had.
    pub(super) unheard: u32,
    /// It is left alone until then.
    pub(super) not_before: Duration,
    pub(super) refused_by: BTreeSet<WorkerId>,
    /// Where it failed for reasons that may pass: others come first.
    pub(super) failed_by: BTreeSet<WorkerId>,
    /// Why the last attempt failed.
    pub(super) failure: Option<Failure>,
    /// Since when no worker there can do it.
    pub(super) nobody_since: Option<Duration>,
}

/// An order with the numbers of its names.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) order: Order,
    pub(super) tenant: TenantId,
    pub(super) zone: Zone,
    pub(super) kind: KindId,
}

/// What decides which workers can have a job, as far as its order says that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    /// Where the files are.
    pub(super) location: String,
    /// What its worker must have.
    pub(super) needs: BTreeSet<String>,
    /// Version of its spec.
    pub(super) spec_version: u32,
}

/// A kind, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindId(pub(super) u32);

#[derive(Debug)]
pub(super) enum State {
    Waiting,
    Leased(Attempt),
    Ended { at: Duration, ended: Ended },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) worker: WorkerId,
    pub(super) token: Token,
    pub(super) since: Duration,
    /// Whether the worker was told.
    pub(super) is_handed: bool,
    /// Whether the worker has ever named it.
    pub(super) is_named: bool,
    /// Whether it has said that it is at it.
    pub(super) has_begun: bool,
    /// When the worker last named it.
    pub(super) seen: Duration,
    pub(super) done_bytes: u64,
    pub(super) moved_bytes: u64,
    /// Whether it waited for a sync then.
    pub(super) is_syncing: bool,
    /// When one of the numbers last rose, or a sync last ended, or it was begun; before that, when
    /// it was handed out.
    pub(super) progressed: Duration,
}

impl Job {
    pub(super) fn new(key: JobKey, wanted: Option<Wanted>, now: Duration, state: State) -> Self {
        Self {
            key,
            wanted,
            submitted: now,
            state,
            attempts: 0,
            failures: 0,
            expired: 0,
            unheard: 0,
            not_before: Duration::ZERO,
            refused_by: BTreeSet::new(),
            failed_by: BTreeSet::new(),
            failure: None,
            nobody_since: None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.wanted.as_ref().map_or(0, |wanted| wanted.order.bytes)
    }

    /// Of its spec and its result, which are in memory as long as it is.
    pub(super) fn held_bytes(&self) -> u64 {
        let spec = self.wanted.as_ref().map_or(0, |wanted| wanted.order.spec.len());
        let result = match &self.state {
            State::Ended { ended, .. } => ended.outcome.bytes(),
            State::Waiting | State::Leased(_) => 0,
        };
        spec as u64 + result
    }

    /// Where its files are, if its client has said so.
    pub(super) fn location(&self) -> Option<&str> {
        self.wanted.as_ref().map(|wanted| wanted.order.location.as_str())
    }

    /// A job without a client yet is deep work.
    pub(super) fn lane(&self) -> Lane {
        self.wanted.as_ref().map_or(Lane::Deep, |wanted| wanted.order.lane)
    }

    pub(super) fn attempt(&self) -> Option<&Attempt> {
        match &self.state {
            State::Leased(attempt) => Some(attempt),
            State::Waiting | State::Ended { .. } => None,
        }
    }

    /// It waits again.
    pub(super) fn release(&mut self) {
        self.state = State::Waiting;
        self.nobody_since = None;
    }
}
