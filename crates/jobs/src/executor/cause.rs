//! Why jobs are done here.

use crate::error::ErrorKind;

/// Why a job that an executor elsewhere was to do was done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No executor there is connected, takes jobs, reaches the files, or is relied on now.
    Away,
    /// No executor there has what the job needs.
    Lacking,
    /// No executor there began it in time.
    Unbegun,
    /// It was begun there, and not done in time.
    Late,
    /// It failed there, and may wait there to be tried again.
    Failed,
    /// Its inputs are damaged, it is said there.
    Damaged,
    /// What came of it there was wrong.
    Wrong,
    /// What came of it there could not be looked at.
    Unseen,
}

impl Cause {
    /// All of them, as they are told.
    pub const ALL: [Self; 8] = [
        Self::Away,
        Self::Lacking,
        Self::Unbegun,
        Self::Late,
        Self::Failed,
        Self::Damaged,
        Self::Wrong,
        Self::Unseen,
    ];

    /// As metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Lacking => "lacking",
            Self::Unbegun => "unbegun",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::Damaged => "damaged",
            Self::Wrong => "wrong",
            Self::Unseen => "unseen",
        }
    }

    /// Of a job that was refused, or failed, with an error of this kind.
    pub(super) fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Rejected => Self::Lacking,
            ErrorKind::Unavailable => Self::Away,
            ErrorKind::Corrupt => Self::Damaged,
            ErrorKind::Cancelled
            | ErrorKind::Invalid
            | ErrorKind::Storage
            | ErrorKind::NotConserved
            | ErrorKind::Panicked => Self::Failed,
        }
    }
}
