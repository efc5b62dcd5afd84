//! What comes of a unit of background work that failed.
//!
//! ```text
//!   a unit fails ─► answer_to
//!      ├─ Retried:  it is tried again, after 1 s to 30 s          ─► `background_refusal`
//!      ├─ SetAside: its inputs are left alone, or it rests as
//!      │            a unit that is retried, where it has none     ─► `set_aside`, `damage`
//!      └─ Poisoned: nothing is written any more                   ─► `write_failure`
//! ```

use firn_engine::{Error, ErrorKind};

use crate::error::said_by_storage;

/// What is done about a failure of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may pass: the unit is tried again, and writes go on.
    Retried,
    /// It is the same each time: the unit is not tried again with these inputs, and all else goes
    /// on.
    SetAside,
    /// What is on the device is unknown, or this process is not the writer any more: nothing is
    /// written from now on.
    Poisoned,
}

/// What is done about a unit of background work that failed with `error`. A unit that fails has
/// changed nothing, unless its edit may be durable: that is told as `Closed`.
///
/// | what failed | storage's kind | the contract's kind | answer |
/// |---|---|---|---|
/// | no room: `ENOSPC`, `EDQUOT` | `Full` | `Retry` | retried |
/// | no descriptor, no memory, not now: `EMFILE`, `ENFILE`, `ENOMEM`, `EINTR`, `EAGAIN` | `Refused` | `Retry` | retried |
/// | a file server or a store that is away | `Refused`, `Undecided` | `Retry` | retried |
/// | an operator or a filter that panics; a job that was cancelled | – | `Retry` | retried |
/// | a write that is done, and not as durable as asked | – | `NotDurable` | retried |
/// | a lost race with another opener | `Locked` | `Conflict` | retried |
/// | wrong bytes, of an input or of an output that was read back | `Corrupt` | `Corrupt` | set aside |
/// | a file that is missing, or there already | `NotFound`, `Exists`, `Invalid` | `Invalid` | set aside |
/// | a job's answer that is none, an edit that does not fit: found before anything changed | – | `Bug` | set aside |
/// | the device or the system fails to read or write: `EIO`, `EROFS` | `Io` | `Closed` | set aside |
/// | a failed sync | `Unsynced` | `Closed` | poisoned |
/// | an edit of unknown fate, a log that is poisoned, another writer | – | `Closed` | poisoned |
///
/// A panic outside of operators and filters is no error that comes here: it is a lost invariant,
/// and poisons.
pub fn answer_to(error: &Error) -> Answer {
    match (error.kind(), said_by_storage(error)) {
        (ErrorKind::Retry | ErrorKind::NotDurable | ErrorKind::Conflict, _) => Answer::Retried,
        (ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Bug, _)
        | (ErrorKind::Closed, Some(firn_storage::ErrorKind::Io)) => Answer::SetAside,
        (ErrorKind::Closed, _) => Answer::Poisoned,
    }
}

#[cfg(test)]
mod tests;
