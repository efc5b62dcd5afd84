//! Writes that outlive their machine: what the log says, on shared storage.
//!
//! ```text
//!   synced frames, and the blobs they refer to
//!     ─► gather ─► one log object, created under the next number ─► send
//!                     │ an edit names the first that is needed ─► name
//!                     │ in tables: the next edit says so, and it goes
//!   another machine that takes over: no log object may follow
//!     ─► restore: the log's files as they were ─► recovery as always
//! ```
//! [`SharedLog`] is the writing end. What it needs of an engine it asks by two traits: [`SendEnv`],
//! and [`NameEnv`] for the edits. [`restore`] is the reading end and needs a manifest alone. What a
//! list shows is told by [`stale`] and [`Older`].
//!
//! A log object is acknowledged once it is created under the number after the one before. A machine
//! that takes the database over creates the next number itself, the *end*, before it takes what it
//! has read for all. From then on no machine can acknowledge what this one has not read. An end
//! stays for ever, since a number that looks free could be taken by a process that slept.
//!
//! The log objects of one opening have all that its log needs; those of the opening before go once
//! an edit names the new ones.

mod env; // what all of it asks of an engine
mod gather;
mod send;
mod name; // edits that say which are needed
mod listed; // those that a list shows
mod restore; // files of the log, made of them

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;
use firn_format::Position;
use firn_format::log_object::{LogObjectId, LogObjectKind};

pub use env::{Collector, NameEnv, SendEnv};
pub use listed::{Older, stale};
pub use name::Unneeded;
pub use restore::{Restored, restore};
pub use send::By;

#[cfg(test)]
mod tests;

/// The log of one open database on shared storage.
///
/// An engine owns one beside its log. All of it is for any number of threads; the ones that wait
/// for an object share it. Blocks for syncs, requests and edits, as each method says.
///
/// 1. *Numbers have no gap, and one object is created at a time* (`send_pending`, under `sending`).
/// 2. *A number has one content*: what was not taken stays pending with its bytes, and what is
///    there is compared (`create`). So an object that is sent twice counts once.
/// 3. *Nothing is sent that this machine's device lacks* (`send_through`): its own log never has
///    less than another machine finds.
/// 4. *An edit names objects only if they have all that was recovered* (`naming_change`). Until
///    then those of the opening before are needed.
/// 5. *An object goes only after an edit that does not need it* (`remove_unneeded`), and the end of
///    a generation never (`stale`).
/// 6. *After a failure of unknown outcome nothing is acknowledged*: the engine refuses writes
///    ([`SendEnv::fail`], from `create`).
///
/// Lock order: `naming`, then the manifest, then `sending`, then `sent`.
#[derive(Debug)]
pub struct SharedLog {
    database: u128,
    /// Of this process's log.
    generation: u64,
    /// Base of this process's log: until log objects have all that was recovered, those of the
    /// opening before are needed.
    recovered_end: Position,
    /// Log objects are made, and edits wait for them.
    is_begun: AtomicBool,
    /// The manifest names them.
    is_named: AtomicBool,
    /// Held until an edit names them.
    naming: Mutex<()>,
    /// Held while a log object is created.
    sending: Mutex<Sending>,
    /// Everything below is in log objects, or in tables. Changes under `sending`.
    through: AtomicU64,
    /// Tries to create a log object that have begun.
    tries: AtomicU64,
    /// Where the last batch begins that has records of several keyspaces; 0 if there was none.
    crossing: AtomicU64,
    /// Log objects that may be needed still; locked for moments.
    sent: Mutex<Sent>,
    /// Log objects that were created.
    pub count: AtomicU64,
    /// Bytes of them.
    pub bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Sending {
    /// Number of the next log object.
    next: u64,
    /// The first of them goes under that number, and may be there although the backend has not said
    /// so.
    pending: VecDeque<Pending>,
    /// Which try was the last, and why, if it failed.
    failed: Option<(u64, Error)>,
}

/// A log object to be created.
#[derive(Debug)]
struct Pending {
    kind: LogObjectKind,
    /// Encoded.
    pieces: Vec<u8>,
    /// It has, with the log objects before, everything below; 0 in a part, which has nothing whole.
    through: Position,
    /// Behind the span of the last segment that it has a part of.
    span_end: Position,
}

#[derive(Debug, Default)]
struct Sent {
    /// Numbers of this process's, and behind which position of the log each is needed no more.
    own: VecDeque<(u64, Position)>,
    older: Option<Older>,
    /// An edit says that none of the generation before is needed.
    is_older_over: bool,
}

/// Log objects that an edit names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedObjects {
    /// Of the log.
    pub generation: u64,
    /// Number of the first that is needed.
    pub first: u64,
    /// What lies from here on in the log does not count: an opening since did not find it.
    pub cut: Position,
}

impl SharedLog {
    /// None yet of the log's `generation`; they begin with the first flush, at the latest, if
    /// `is_begun`.
    ///
    /// This process's log begins at `recovered_end`; `crossing` is where the last batch before
    /// begins that has records of several keyspaces in no table, or 0.
    pub fn new(
        (database, generation): (u128, u64),
        is_begun: bool,
        older: Option<Older>,
        (recovered_end, crossing): (Position, Position),
    ) -> Self {
        Self {
            database,
            generation,
            recovered_end,
            is_begun: AtomicBool::new(is_begun),
            is_named: AtomicBool::new(false),
            naming: Mutex::default(),
            sending: Mutex::default(),
            through: AtomicU64::new(0),
            tries: AtomicU64::new(0),
            crossing: AtomicU64::new(crossing.0),
            sent: Mutex::new(Sent { own: VecDeque::new(), older, is_older_over: false }),
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Whether edits wait for log objects.
    pub fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    /// A batch that begins at `start` has records of several keyspaces. To be told before it is
    /// published.
    pub fn crosses(&self, start: Position) {
        // No ordering: a flush of the batch has seen that it was published.
        self.crossing.fetch_max(start.0, Ordering::Relaxed);
    }

    /// Whether some batch with records of several keyspaces may be unflushed where the log is
    /// needed from `needed_from` on.
    fn may_divide(&self, needed_from: Position) -> bool {
        let crossing = self.crossing.load(Ordering::Relaxed);
        crossing != 0 && crossing >= needed_from.0
    }

    /// The manifest names them.
    fn is_named(&self) -> bool {
        self.is_named.load(Ordering::Acquire)
    }

    /// Whether another machine that takes the database over finds everything below `end`.
    pub fn has(&self, end: Position) -> bool {
        self.is_named() && self.through() >= end
    }

    /// Everything below is in log objects, or in tables; once they are named, another machine finds
    /// it.
    fn through(&self) -> Position {
        Position(self.through.load(Ordering::Acquire))
    }

    fn id(&self, number: u64) -> LogObjectId {
        LogObjectId { database: self.database, generation: self.generation, number }
    }

    fn lock_sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
