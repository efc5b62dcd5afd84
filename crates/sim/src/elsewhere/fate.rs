//! What becomes of a job that is given away.

use fastrand::Rng;
use firn_jobs::ErrorKind;

use super::spoil::Spoil;

/// What a worker, or the way to it, does with one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is done and answered.
    Serve,
    /// It is not taken.
    Refuse(ErrorKind),
    /// It is taken, and comes to nothing.
    Fail(ErrorKind),
    /// It is done, or half done, and the worker is not there to tell.
    GoAway,
    /// It arrives with a flipped bit.
    GarbleSpec,
    /// It is done, and the answer arrives with a flipped bit.
    GarbleResult,
    /// It is neither done nor answered.
    Silent,
    /// It is done and answered long after it was given up.
    Late,
    /// If it is a GC, it is done or answered wrongly.
    Spoil(Spoil),
}

pub(super) const REFUSALS: [ErrorKind; 2] = [ErrorKind::Rejected, ErrorKind::Unavailable];

pub(super) const FAILURES: [ErrorKind; 6] = [
    ErrorKind::Rejected,
    ErrorKind::Cancelled,
    ErrorKind::Invalid,
    ErrorKind::Storage,
    ErrorKind::NotConserved,
    ErrorKind::Unavailable,
];

impl Fate {
    /// More than half of all jobs are done as they should be.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(..24) {
            0..13 => Self::Serve,
            13 => Self::Refuse(REFUSALS[rng.usize(..REFUSALS.len())]),
            14 => Self::Fail(FAILURES[rng.usize(..FAILURES.len())]),
            15 => Self::GoAway,
            16 => Self::GarbleSpec,
            17 => Self::GarbleResult,
            18 => Self::Silent,
            19 | 20 => Self::Late,
            _ => Self::Spoil(Spoil::ALL[rng.usize(..Spoil::ALL.len())]),
        }
    }
}
