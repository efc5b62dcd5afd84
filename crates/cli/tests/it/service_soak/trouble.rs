//! What can befall a fleet, what comes next, and what has happened.

use std::collections::BTreeMap;
use std::fmt;

use super::answers::{Attempts, Jobs};

/// What befalls a process, a machine or the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    WorkerKilled,
    WorkerStopped,
    /// Wants a network of its own.
    WorkerCutOff,
    /// By up to 40 hours; it wants the library that fakes time, as those of others do.
    WorkerClockJumped,
    /// By up to 40 hours.
    PlaneClockJumped,
    /// By as much as a store's rules let it: a store denies everything to a clock that is further
    /// off.
    DatabaseClockJumped,
    PlaneKilled,
    /// For longer than a lease lasts; counted when it goes on.
    PlaneStopped,
    DatabaseKilled,
    /// While the machine that has it stands still.
    TakenOver,
    /// While the machine that has it is at work.
    FoughtFor,
    StoreRestarted,
    /// For a while, and read all the same.
    StoreFull,
    /// The same.
    StoreReadOnly,
}

impl Trouble {
    /// All kinds, and how many of forty draws are each.
    const ALL: [(Self, u32); 14] = [
        (Self::WorkerKilled, 4),
        (Self::WorkerStopped, 3),
        (Self::WorkerCutOff, 3),
        (Self::WorkerClockJumped, 2),
        (Self::PlaneClockJumped, 1),
        (Self::DatabaseClockJumped, 1),
        (Self::PlaneKilled, 2),
        (Self::PlaneStopped, 1),
        (Self::DatabaseKilled, 1),
        (Self::TakenOver, 1),
        (Self::FoughtFor, 1),
        (Self::StoreRestarted, 1),
        (Self::StoreFull, 1),
        (Self::StoreReadOnly, 1),
    ];

    /// Trouble that any machine can make.
    pub(super) const ANYWHERE: [Self; 10] = [
        Self::WorkerKilled,
        Self::WorkerStopped,
        Self::PlaneKilled,
        Self::PlaneStopped,
        Self::DatabaseKilled,
        Self::TakenOver,
        Self::FoughtFor,
        Self::StoreRestarted,
        Self::StoreFull,
        Self::StoreReadOnly,
    ];
    /// Trouble that wants the library that fakes time.
    pub(super) const CLOCKS: [Self; 3] =
        [Self::WorkerClockJumped, Self::PlaneClockJumped, Self::DatabaseClockJumped];

    fn words(self) -> &'static str {
        match self {
            Self::WorkerKilled => "workers killed",
            Self::WorkerStopped => "workers stopped",
            Self::WorkerCutOff => "workers cut off",
            Self::WorkerClockJumped => "jumps of a worker's clock",
            Self::PlaneClockJumped => "of a control plane's",
            Self::DatabaseClockJumped => "of a database's",
            Self::PlaneKilled => "control planes killed",
            Self::PlaneStopped => "control planes stopped",
            Self::DatabaseKilled => "databases killed",
            Self::TakenOver => "databases taken over asleep",
            Self::FoughtFor => "at work",
            Self::StoreRestarted => "restarts of the store",
            Self::StoreFull => "times that it was full",
            Self::StoreReadOnly => "read only",
        }
    }
}

/// What comes next: each kind that is possible once, in any order, and from then on by their
/// weights.
pub(super) struct Deck {
    possible: Vec<Trouble>,
    /// Trouble that did not come yet.
    owed: Vec<Trouble>,
}

impl Deck {
    /// Of all kinds but those of `left_out`.
    pub(super) fn without(left_out: &[Trouble], seed: u64) -> Self {
        let kinds = Trouble::ALL.iter().map(|(kind, _)| *kind);
        let possible: Vec<Trouble> = kinds.filter(|kind| !left_out.contains(kind)).collect();
        let mut owed = possible.clone();
        fastrand::Rng::with_seed(seed).shuffle(&mut owed);
        Self { possible, owed }
    }

    /// What comes next, if anything.
    pub(super) fn draw(&mut self, random: &mut fastrand::Rng) -> Option<Trouble> {
        if !self.owed.is_empty() {
            return if random.u32(0..3) == 0 { self.owed.pop() } else { None };
        }
        let mut die = random.u32(0..40);
        for (kind, weight) in Trouble::ALL {
            if die < weight {
                return Some(kind).filter(|kind| self.possible.contains(kind));
            }
            die -= weight;
        }
        None
    }

    /// `kind` did not happen, and comes later if it is still owed.
    pub(super) fn put_off(&mut self, kind: Trouble, tally: &Tally) {
        if tally.count(kind) == 0 && !self.owed.contains(&kind) {
            self.owed.insert(0, kind);
        }
    }

    /// Whether each kind that is possible has happened.
    pub(super) fn is_over(&self, tally: &Tally) -> bool {
        self.possible.iter().all(|kind| tally.count(*kind) > 0)
    }
}

/// What has happened so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    jobs_before: Jobs,
    jobs_now: Jobs,
    happened: BTreeMap<Trouble, u64>,
    /// Workers that went on after having stood still for longer than a lease.
    pub(super) past_lease: u64,
    /// Known once a control plane ends.
    pub(super) attempts: Attempts,
}

impl Tally {
    /// What all databases have told of jobs.
    pub(super) fn jobs(&self) -> Jobs {
        self.jobs_before.clone() + self.jobs_now.clone()
    }

    /// Jobs that workers have done.
    pub(super) fn done_elsewhere(&self) -> u64 {
        self.jobs().elsewhere
    }

    /// No worker's answer was wrong, as far as databases and control planes have told.
    pub(super) fn expect_right_answers(&self) {
        let jobs = self.jobs();
        assert!(jobs.are_right(), "{:?}: {self}", jobs.wrong);
        assert_eq!(self.attempts.wrong(), 0, "{self}");
    }

    /// How often `kind` has happened.
    pub(super) fn count(&self, kind: Trouble) -> u64 {
        self.happened.get(&kind).copied().unwrap_or(0)
    }

    pub(super) fn note(&mut self, kind: Trouble) {
        *self.happened.entry(kind).or_default() += 1;
    }

    /// What the database tells since it was opened.
    pub(super) fn set_jobs(&mut self, jobs: Jobs) {
        let before = std::mem::replace(&mut self.jobs_now, jobs);
        // Another reason may have been told since.
        self.jobs_now.wrong.extend(before.wrong);
    }

    /// The database that was open is gone, and the next one counts from 0.
    pub(super) fn carry_jobs_over(&mut self) {
        self.jobs_before = self.jobs();
        self.jobs_now = Jobs::default();
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.jobs())?;
        Trouble::ALL
            .iter()
            .try_for_each(|(kind, _)| write!(f, ", {} {}", self.count(*kind), kind.words()))?;
        write!(f, ", {} workers resumed past their lease, {}", self.past_lease, self.attempts)
    }
}
