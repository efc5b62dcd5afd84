//! Claims, and what was found of them.

use serde::Serialize;

/// What a figure says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As much as is claimed, or more.
    AsClaimed,
    /// Less than that, and at least the floor.
    FloorReached,
    /// Less than the floor.
    FloorMissed,
    /// Less than what is claimed, but better than what it is compared with.
    SameDirection,
    /// No better than what it is compared with.
    NotSeen,
    /// It could not be measured.
    Failed,
}

impl Verdict {
    /// As reports write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::AsClaimed => "as claimed",
            Self::FloorReached => "floor reached",
            Self::FloorMissed => "floor missed",
            Self::SameDirection => "same direction",
            Self::NotSeen => "not seen",
            Self::Failed => "failed",
        }
    }
}

/// One claim, with its source, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The part of the experiment.
    pub part: String,
    /// What is claimed, and where.
    pub claim: String,
    /// What was found: how many times it is, by the median of all repetitions, and both with
    /// medians and extremes; why nothing was, if so.
    pub figure: String,
    /// What that says.
    pub verdict: Verdict,
}
