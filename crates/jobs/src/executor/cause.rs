//! Why jobs are done here.

use crate::error::ErrorKind;

/// Why a job was done here that somebody elsewhere was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nobody is there, or takes jobs, or reaches the files, or can be relied on now.
    Away,
    /// Nobody there has what it needs.
    Lacking,
    /// Nobody there began it in time.
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
