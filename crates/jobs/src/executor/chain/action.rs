//! What a chain may do next, and why, as values.

use std::time::Duration;

use super::trust::Concern;
use crate::error::ErrorKind;
use crate::executor::cause::Cause;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing, until something happens or time goes by.
    Wait,
    /// The job is handed to an executor.
    Hand(u64, To, Reason),
    /// The job waits: a link may be back soon, or the rate of deep work allows it.
    Hold(u64),
    /// The job's attempt is asked to stop. It goes on until it says that it has.
    Stop(u64),
    /// The job is answered as cancelled. An attempt that still runs is given up.
    Cancel(u64),
    /// The attempt at a link came to nothing; the job is gone on with.
    GiveUp(u64, Why),
    /// What a link has answered is looked at until then.
    Check(u64, Duration),
    /// The last executor does what a link has done, too.
    Reexecute(u64),
    /// What both have done is compared until then.
    Compare(u64, Duration),
    /// The job has its result.
    Finish(u64, Result),
    /// The job waits at its link, and is taken back: idle processors may take so long.
    TakeBack(u64, Duration),
    /// It takes longer on idle processors than was expected, and may until then: there is less left
    /// than all of it would take at a link.
    Extend(u64, Duration),
    /// It was not done on idle processors, and is gone on with; whether it took too long there.
    GiveAway(u64, bool),
}

/// Which executor a job is handed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Link {
        link: usize,
        /// It is to find out whether the link can be relied on.
        is_probe: bool,
    },
    Last,
    /// Idle processors, which may take so long.
    Idle(Duration),
}

/// Why a job is handed to an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is the first link that is relied on, or that may be by now.
    First,
    /// No link has what the job needs.
    Lacking,
    /// No link is asked for it now, and it does not wait.
    NoLink,
    /// Its turn has come, or it has waited for too long, or writers will stop.
    Turn,
}

/// Why an attempt at a link came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It was refused or failed with an error of this kind.
    Failed(ErrorKind),
    /// It was begun, and not done in time.
    Late,
    /// No worker began it in time.
    Unbegun {
        /// It was tried in vain there, and waited to be tried again.
        was_tried: bool,
    },
    /// What was answered is wrong.
    Wrong,
    /// The storage refused a look at what was answered.
    Unseen,
    /// The look took too long.
    CheckLate,
}

/// Which result a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Result {
    /// The last executor's, good or bad.
    Last,
    /// That of idle processors.
    Idle,
    /// A link's, which was looked at.
    Checked,
    /// A link's: the last executor has come to the same.
    Same,
    /// A link's: it was not done again in the end, or not compared.
    NotCompared,
    /// The last executor's: the link has come to something else.
    Differs,
    /// The last executor's: a file of the link could not be looked at.
    LinkUnseen,
}

impl Why {
    pub(super) fn cause(self) -> Cause {
        match self {
            Self::Failed(kind) => Cause::of(kind),
            Self::Late => Cause::Late,
            Self::Unbegun { was_tried: false } => Cause::Unbegun,
            Self::Unbegun { was_tried: true } => Cause::Failed,
            Self::Wrong => Cause::Wrong,
            Self::Unseen | Self::CheckLate => Cause::Unseen,
        }
    }

    pub(super) fn concern(self) -> Concern {
        match self {
            Self::Failed(kind) => Concern::of(kind),
            // An executor that serves many databases is no worse for a queue.
            Self::Unbegun { .. } => Concern::Queue,
            Self::Late | Self::Wrong | Self::Unseen | Self::CheckLate => Concern::Service,
        }
    }
}
