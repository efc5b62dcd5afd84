//! The rule that decides: the schedule, or what it is compared with.

use super::baseline::{fifo, least_loaded, random};
use super::schedule::schedule;
use super::view::{Decision, View};

/// A rule by which jobs go to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// What stalls soonest for its length, each where it is done first.
    #[default]
    Urgency,
    /// Level 0 first, then the oldest; to the worker with fewest jobs.
    LeastLoaded,
    /// The oldest to the first worker that is free.
    Fifo,
    /// Any to any.
    Random,
}

impl Scheduler {
    /// All of them, the default first.
    pub const ALL: [Self; 4] = [Self::Urgency, Self::LeastLoaded, Self::Fifo, Self::Random];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Urgency => "urgency",
            Self::LeastLoaded => "least-loaded",
            Self::Fifo => "fifo",
            Self::Random => "random",
        }
    }

    /// The one called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheduler| scheduler.name() == name)
    }

    /// What to do in `view`; `seed` is for rules that draw, and MUST differ from one decision to
    /// the next. Pure. Looks at every job; the default rule then goes on as [`schedule`] says.
    pub fn decide(self, view: &View, seed: u64) -> Vec<Decision> {
        match self {
            Self::Urgency => schedule(view),
            Self::LeastLoaded => least_loaded(view),
            Self::Fifo => fifo(view),
            Self::Random => random(view, seed),
        }
    }
}
