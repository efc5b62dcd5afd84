//! Writes that outlive their machine: what the log says, on shared storage.
//!
//! ```text
//!   frames below the watermark, and the values they refer to
//!     ─► gather ─► one group, created under the next number ─► send
//!                     │ in tables: an edit says so, and it goes
//!   another machine that takes over: no group may follow
//!     ─► restore: the log's files as they were ─► recovery as always
//! ```
//! A group is acknowledged once it is created under the number after the one before. A machine that
//! takes the database over creates the next number itself, the *end*, before it takes what it has
//! read for all. From then on no machine can acknowledge what this one has not read. An end stays
//! for ever, since a number that looks free could be taken by a process that slept.
//!
//! The groups of one opening have all that its log needs; those of the opening before go once an
//! edit names the new ones.

mod gather;
mod send;

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_engine::Error;
use firn_format::Position;
use firn_format::file_name::{self, FileName};
use firn_format::group::{GROUP_HEADER_BYTES, GroupId, GroupKind};
use firn_format::key::POSITION_END;
use firn_format::manifest::Change;

use crate::version::state::NamedGroups;

pub(crate) use send::{By, not_shared};

/// The groups of one open database.
///
/// Lock order: `naming`, then the manifest, then `sending`, then `sent`.
#[derive(Debug)]
pub(crate) struct Groups {
    database: u128,
    /// Of this process's log.
    generation: u64,
    /// Base of this process's log: until groups have all that was recovered, those of the opening
    /// before are needed.
    recovered_end: Position,
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
    /// Tries to create a group that have begun.
    tries: AtomicU64,
    /// Where the last batch begins that has records of several keyspaces; 0 if there was none.
    crossing: AtomicU64,
    /// Groups that may be needed still; locked for moments.
    sent: Mutex<Sent>,
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Sending {
    /// Number of the next group.
    next: u64,
    /// The first of them goes under that number, and may be there although the place has not said
    /// so.
    pending: VecDeque<Pending>,
    /// Which try was the last, and why, if it failed.
    failed: Option<(u64, Error)>,
}

/// A group to be created.
#[derive(Debug)]
struct Pending {
    kind: GroupKind,
    /// Encoded.
    pieces: Vec<u8>,
    /// It has, with the groups before, everything below; 0 in a part, which has nothing whole.
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

/// Groups that the manifest named when this process began.
#[derive(Debug)]
pub(crate) struct Older {
    generation: u64,
    /// Groups that can go, which the end of their generation cannot.
    names: Vec<String>,
    /// Behind them.
    next: u64,
    /// Once everything below is in tables, none is needed.
    needed_to: Position,
}

/// What an edit is to say, so that files can go.
pub(crate) struct Unneeded {
    pub(crate) change: Change,
    names: Vec<String>,
    of: Of,
}

impl Unneeded {
    /// Whether groups of the opening before go. One may come to be yet that no list has shown: its
    /// process may have been killed as it asked for it.
    fn is_of_another(&self) -> bool {
        self.of != Of::Named && !self.names.is_empty()
    }
}

/// Which opening's groups go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// Those of the opening before.
    Older,
    /// Those too, as this process's are named instead.
    Unnamed,
    /// This process's.
    Named,
}

impl Groups {
    /// None yet of the log's `generation`; they begin with the first drain, at the latest, if
    /// `is_begun`.
    ///
    /// This process's log begins at `recovered_end`; `crossing` is where the last batch before
    /// begins that has records of several keyspaces in no table, or 0.
    pub(crate) fn new(
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

    /// Whether edits wait for groups.
    pub(crate) fn are_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    /// A batch that begins at `start` has records of several keyspaces. To be told before it is
    /// published.
    pub(crate) fn crosses(&self, start: Position) {
        // No ordering: a drain of the batch has seen that it was published.
        self.crossing.fetch_max(start.0, Ordering::Relaxed);
    }

    /// Whether some batch with records of several keyspaces may be undrained where the log is
    /// needed from `needed_from` on.
    fn may_divide(&self, needed_from: Position) -> bool {
        let crossing = self.crossing.load(Ordering::Relaxed);
        crossing != 0 && crossing >= needed_from.0
    }

    /// Everything below is in groups, or in tables; once they are named, another machine finds it.
    fn through(&self) -> Position {
        Position(self.through.load(Ordering::Acquire))
    }

    /// The change that names this process's groups from number `first` on.
    fn named(&self, first: u64) -> Change {
        Change::Groups { generation: self.generation, first, cut: POSITION_END }
    }

    fn id(&self, number: u64) -> GroupId {
        GroupId { database: self.database, generation: self.generation, number }
    }

    /// What an edit is to say where replay begins at `log_start`; `None` if that is nothing: which
    /// groups are needed no more, or that these are there. Once it is said:
    /// [`forget`](Self::forget).
    pub(crate) fn unneeded(&self, log_start: Position) -> Option<Unneeded> {
        if !self.is_named.load(Ordering::Acquire) {
            return self.naming_change().or_else(|| self.unneeded_older(log_start));
        }
        let sent = self.lock_sent();
        let drained = sent.own.iter().take_while(|(_, span_end)| *span_end <= log_start);
        let first = drained.last().map(|(number, _)| number + 1)?;
        drop(sent);
        Some(self.before(first))
    }

    /// Groups of the opening before, if none is needed.
    fn unneeded_older(&self, log_start: Position) -> Option<Unneeded> {
        let sent = self.lock_sent();
        let older = sent.older.as_ref().filter(|older| older.needed_to <= log_start)?;
        let (generation, first) = (older.generation, older.next);
        let change = Change::Groups { generation, first, cut: POSITION_END };
        Some(Unneeded { change, names: older.names.clone(), of: Of::Older })
    }

    /// That this process's groups are there, instead of those of the opening before; `None` if
    /// there are none, or they lack something of what was recovered.
    fn naming_change(&self) -> Option<Unneeded> {
        if self.through() < self.recovered_end {
            return None;
        }
        let sent = self.lock_sent();
        let (first, _) = sent.own.front().filter(|_| !self.is_named.load(Ordering::Acquire))?;
        let names = sent.older.iter().flat_map(|older| older.names.clone()).collect();
        Some(Unneeded { change: self.named(*first), names, of: Of::Unnamed })
    }

    /// This process's groups below number `first`.
    fn before(&self, first: u64) -> Unneeded {
        let sent = self.lock_sent();
        let before = sent.own.iter().take_while(|(number, _)| *number < first);
        let names = before.map(|(number, _)| file_name::group(self.generation, *number)).collect();
        Unneeded { change: self.named(first), names, of: Of::Named }
    }

    /// An edit says so: the names of what can be removed.
    fn forget(&self, unneeded: Unneeded) -> Vec<String> {
        let mut sent = self.lock_sent();
        match unneeded.of {
            Of::Older => (sent.older, sent.is_older_over) = (None, true),
            Of::Unnamed => {
                sent.older = None;
                self.is_named.store(true, Ordering::Release);
            }
            Of::Named => drop(sent.own.drain(..unneeded.names.len())),
        }
        unneeded.names
    }

    /// Which of the groups that the manifest has `named` may be needed.
    ///
    /// Of the groups of the opening before it names those that follow on the last one that was
    /// seen. Once all of that log is in tables, what comes late is not needed either: it was on
    /// this machine's device before it was sent.
    pub(crate) fn needed_of(&self, named: NamedGroups) -> NamedGroups {
        match self.lock_sent().is_older_over && named.generation < self.generation {
            true => NamedGroups { first: u64::MAX, ..named },
            false => named,
        }
    }

    fn lock_sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Older {
    /// Those among `files`, names and lengths, that the manifest names, as `named` says; needed as
    /// long as the log below `needed_to` is.
    pub(crate) fn among(files: &[(String, u64)], named: NamedGroups, needed_to: Position) -> Option<Self> {
        let NamedGroups { generation, first, .. } = named;
        let mut numbers: Vec<u64> = parsed(files)
            .filter(|group| group.generation == generation && group.number >= first && !group.is_end())
            .map(|group| group.number)
            .collect();
        numbers.sort_unstable();
        let next = numbers.last()? + 1;
        let names = numbers.into_iter().map(|number| file_name::group(generation, number)).collect();
        Some(Self { generation, names, next, needed_to })
    }
}

/// A group in a list.
pub(crate) struct Listed<'n> {
    name: &'n str,
    pub(crate) generation: u64,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

impl Listed<'_> {
    /// Whether it says that no group of its generation follows: it has no pieces.
    fn is_end(&self) -> bool {
        self.bytes == GROUP_HEADER_BYTES as u64
    }
}

pub(crate) fn parsed(files: &[(String, u64)]) -> impl Iterator<Item = Listed<'_>> {
    files.iter().filter_map(|(name, bytes)| match file_name::parse(name) {
        Some(FileName::Group { generation, number }) => {
            Some(Listed { name, generation, number, bytes: *bytes })
        }
        _ => None,
    })
}

/// Groups among `files`, names and lengths, that no machine will read, where the manifest names
/// those of `named`. `generation` is this process's.
///
/// The end of an earlier generation stays: it keeps a process that slept from going on.
pub(crate) fn stale(files: &[(String, u64)], named: Option<NamedGroups>, generation: u64) -> BTreeSet<&str> {
    let (of, first) = named.map_or((0, 0), |named| (named.generation, named.first));
    let is_stale = |group: &Listed<'_>| match group.generation.cmp(&of) {
        Less => !group.is_end(),
        Equal => group.number < first && !group.is_end(),
        // Its process never named them, and never will: this one has written an edit since.
        Greater => group.generation < generation,
    };
    parsed(files).filter(is_stale).map(|group| group.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_once_they_have_all_that_was_recovered() {
        let older =
            Older { generation: 1, names: vec![file_name::group(1, 0)], next: 1, needed_to: Position(100) };
        let groups = Groups::new((7, 2), true, Some(older), (Position(100), Position(0)));
        groups.lock_sent().own.push_back((0, Position(50)));
        groups.through.store(50, Ordering::Release);
        // A drain that needs the first half alone.
        assert!(groups.unneeded(Position(0)).is_none());
        groups.through.store(100, Ordering::Release);
        let naming = groups.unneeded(Position(0)).unwrap();
        assert_eq!(naming.change, Change::Groups { generation: 2, first: 0, cut: POSITION_END });
        assert_eq!(groups.forget(naming), [file_name::group(1, 0)]);
        assert!(groups.unneeded(Position(0)).is_none() && groups.unneeded(Position(50)).is_some());
    }

    #[test]
    fn of_an_opening_before_ends_stay_and_the_rest_goes_once_all_is_in_tables() {
        let header = GROUP_HEADER_BYTES as u64;
        let files =
            [(1, 3, 500), (1, 4, header), (2, 5, 500), (2, 6, 500), (2, 7, header), (3, 0, 500), (4, 0, 500)]
                .map(|(generation, number, bytes)| (file_name::group(generation, number), bytes));
        let named = NamedGroups { generation: 2, first: 6, cut: POSITION_END };
        let older = Older { generation: 2, names: Vec::new(), next: 6, needed_to: Position(0) };
        let groups = Groups::new((7, 3), true, Some(older), (Position(0), Position(0)));
        let stale_now = |groups: &Groups| -> Vec<String> {
            let stale = stale(&files, Some(groups.needed_of(named)), 3);
            stale.into_iter().map(str::to_owned).collect()
        };
        let (first, second) = (file_name::group(1, 3), file_name::group(2, 5));
        assert_eq!(stale_now(&groups), [first.clone(), second.clone()]);
        let over = groups.unneeded(Position(0)).unwrap();
        assert!(groups.forget(over).is_empty());
        assert_eq!(stale_now(&groups), [first, second, file_name::group(2, 6)]);
    }
}
