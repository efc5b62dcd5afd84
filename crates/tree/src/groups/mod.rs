//! Writes that outlive their machine: what the log says, on shared storage.
//!
//! ```text
//!   frames below the watermark, and the values they refer to ─► gather ─► one group, created under the next number ─► send
//!                                                                              │ in tables: an edit says so, and it goes
//!   another machine that takes over: no group may follow ─► restore: the log's files as they were ─► recovery as always
//! ```
//! A group is acknowledged once it is created under the number after the one before. Whoever takes the database over creates the next number
//! himself, the *end*, before he believes that he has read all: from then on nobody can acknowledge what he has not read. An end stays for
//! ever, since a number that looks free could be taken by whoever slept.
//!
//! The groups of one opening have all that its log needs; those of the opening before go once an edit names the new ones.

mod gather;
mod restore;
mod send;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_format::Position;
use firn_format::file_name::{self, FileName};
use firn_format::group::GroupId;
use firn_format::manifest::Change;

pub(crate) use restore::{recover_restored, restore};
pub(crate) use send::not_shared;

/// The groups of one open database.
///
/// Lock order: `naming`, then the manifest, then `sending`, then `sent`.
#[derive(Debug)]
pub(crate) struct Groups {
    database: u128,
    /// Of this process's log.
    generation: u64,
    /// Groups are made, and edits wait for them.
    is_begun: AtomicBool,
    /// The manifest names them.
    is_named: AtomicBool,
    /// Held until an edit names them.
    naming: Mutex<()>,
    /// Held while a group is created.
    sending: Mutex<Sending>,
    /// Everything below is in groups, or in tables. Changes under `sending`.
    through: AtomicU64,
    /// Those that may be needed still; locked for moments.
    sent: Mutex<Sent>,
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Sending {
    /// Number of the next group.
    next: u64,
    /// Those bytes under that number, if the place has not said that they are there.
    pending: Option<Pending>,
}

/// A group to be created.
#[derive(Debug)]
struct Pending {
    bytes: Vec<u8>,
    /// It has everything from where the group before ended to here.
    through: Position,
    /// Behind the span of the last segment that it has a part of.
    span_end: Position,
}

#[derive(Debug, Default)]
struct Sent {
    /// Numbers of this process's, and behind which position of the log each is needed no more.
    own: VecDeque<(u64, Position)>,
    older: Option<Older>,
}

/// Groups that the manifest named when this process began.
#[derive(Debug)]
pub(crate) struct Older {
    generation: u64,
    /// All but the last, which may be the end of its generation.
    names: Vec<String>,
    /// Number of that one.
    last: u64,
    /// Once everything below is in tables, none is needed.
    needed_to: Position,
}

/// What an edit is to say, so that files can go.
pub(crate) struct Unneeded {
    pub(crate) change: Change,
    names: Vec<String>,
    is_older: bool,
}

impl Groups {
    /// None yet of the log's `generation`.
    pub(crate) fn new((database, generation): (u128, u64), older: Option<Older>) -> Self {
        Self {
            database,
            generation,
            is_begun: AtomicBool::new(false),
            is_named: AtomicBool::new(false),
            naming: Mutex::default(),
            sending: Mutex::default(),
            through: AtomicU64::new(0),
            sent: Mutex::new(Sent { own: VecDeque::new(), older }),
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Whether edits wait for groups.
    pub(crate) fn are_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    /// Everything below is in groups, or in tables; once they are named, another machine finds it.
    fn through(&self) -> Position {
        Position(self.through.load(Ordering::Acquire))
    }

    fn id(&self, number: u64) -> GroupId {
        GroupId { database: self.database, generation: self.generation, number }
    }

    /// What need not be kept where replay begins at `log_start`; `None` if that is nothing.
    ///
    /// It goes once an edit says so: [`forget`](Self::forget).
    pub(crate) fn unneeded(&self, log_start: Position) -> Option<Unneeded> {
        let sent = self.lock_sent();
        if !self.is_named.load(Ordering::Acquire) {
            let older = sent.older.as_ref().filter(|older| older.needed_to <= log_start)?;
            let change = Change::Groups { generation: older.generation, first: older.last };
            return Some(Unneeded { change, names: older.names.clone(), is_older: true });
        }
        let drained = sent.own.iter().take_while(|(_, span_end)| *span_end <= log_start);
        let numbers: Vec<u64> = drained.map(|(number, _)| *number).collect();
        let first = numbers.last()? + 1;
        let names = numbers.iter().map(|number| file_name::group(self.generation, *number)).collect();
        let change = Change::Groups { generation: self.generation, first };
        Some(Unneeded { change, names, is_older: false })
    }

    /// An edit says so: the names of what can be removed.
    pub(crate) fn forget(&self, unneeded: Unneeded) -> Vec<String> {
        let mut sent = self.lock_sent();
        match unneeded.is_older {
            true => sent.older = None,
            false => drop(sent.own.drain(..unneeded.names.len())),
        }
        unneeded.names
    }

    fn lock_sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Older {
    /// Those among `files` that the manifest names: of `generation`, from number `first` on; needed as long as the log below `needed_to` is.
    pub(crate) fn among<'n>(
        files: impl Iterator<Item = &'n str>,
        (generation, first): (u64, u64),
        needed_to: Position,
    ) -> Option<Self> {
        let number = |name: &str| match file_name::parse(name) {
            Some(FileName::Group { generation: of, number }) if of == generation && number >= first => {
                Some(number)
            }
            _ => None,
        };
        let mut numbers: Vec<u64> = files.filter_map(number).collect();
        numbers.sort_unstable();
        let last = numbers.pop()?;
        let names = numbers.into_iter().map(|number| file_name::group(generation, number)).collect();
        Some(Self { generation, names, last, needed_to })
    }
}

/// Groups among `files` that nobody will read, where the manifest names those of `named`: its generation and the first number.
///
/// The last of each earlier generation stays: it may be the end, which keeps somebody who slept from going on. `generation` is this process's.
pub(crate) fn stale<'n>(
    files: impl Iterator<Item = &'n str> + Clone,
    named: Option<(u64, u64)>,
    generation: u64,
) -> Vec<&'n str> {
    let parsed = files.filter_map(|name| match file_name::parse(name) {
        Some(FileName::Group { generation, number }) => Some((name, generation, number)),
        _ => None,
    });
    let last = |of: u64| parsed.clone().filter(|(_, it, _)| *it == of).map(|(_, _, number)| number).max();
    let (named, first) = named.unwrap_or_default();
    let is_stale = |of: u64, number: u64| match of.cmp(&named) {
        std::cmp::Ordering::Less => last(of) != Some(number),
        std::cmp::Ordering::Equal => number < first,
        // Its process never named them, and never will: this one has written an edit since.
        std::cmp::Ordering::Greater => of < generation,
    };
    parsed.clone().filter(|(_, of, number)| is_stale(*of, *number)).map(|(name, ..)| name).collect()
}
