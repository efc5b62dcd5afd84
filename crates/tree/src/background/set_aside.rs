//! Files that background work leaves as they are, while it goes on with all others.
//!
//! ```text
//!   a job meets bytes that are not what was written, ─┐
//!   or that cannot be read: that input                ├─► set aside
//!   a job fails each time, whatever the cause,        │      ├─ no compaction takes the table,
//!   in a plainer form too: all of its inputs         ─┘      │  nor what overlaps it
//!                                                            ├─ no collection takes the segment
//!                                                            └─ statistics tell the file, and why
//! ```
//! To rewrite a damaged file would either lose what cannot be read of it or give wrong bytes a
//! right checksum. To do once more what fails each time would do nothing else. Reads go on
//! answering from what is whole of the file; writes go on too, since they do not need it. A table
//! goes in the end if range tombstones hide all of it, a value segment if all of its values die.
//! The next opening knows nothing of this and tries once again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use firn_engine::{Error, ErrorKind};
use firn_format::value::SegmentNumber;

use super::{Claims, Maintenance, Task};
use crate::database::Database;
use crate::error::said_by_storage;
use crate::values::Home;

/// What was set aside, and why.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    tables: BTreeMap<String, Why>,
    segments: BTreeMap<SegmentNumber, Why>,
}

/// Why a file was set aside.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    error: Error,
    cause: Cause,
}

/// What it says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It cannot be read whole.
    Damaged,
    /// Work on it fails; it need not be wrong.
    Failed,
}

/// Value segments that no collection is to choose.
#[derive(Clone, Debug)]
pub(crate) struct Unavailable<'b> {
    /// Being collected,
    pub(crate) collecting: Cow<'b, BTreeSet<SegmentNumber>>,
    /// or set aside.
    pub(crate) set_aside: Cow<'b, BTreeMap<SegmentNumber, Why>>,
}

impl Unavailable<'_> {
    pub(crate) fn into_owned(self) -> Unavailable<'static> {
        Unavailable {
            collecting: Cow::Owned(self.collecting.into_owned()),
            set_aside: Cow::Owned(self.set_aside.into_owned()),
        }
    }
}

/// How many living files are set aside, and the first reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) count: u64,
    pub(crate) why: Option<Error>,
}

impl Claims {
    /// Tables that no compaction is to choose: a task works on them, or they are set aside.
    pub(super) fn tables_not_to_choose(&self) -> Cow<'_, BTreeSet<String>> {
        if self.set_aside.tables.is_empty() {
            return Cow::Borrowed(&self.tables);
        }
        Cow::Owned(self.tables.iter().chain(self.set_aside.tables.keys()).cloned().collect())
    }

    /// Whether the table `file` is set aside.
    pub(super) fn is_set_aside(&self, file: &str) -> bool {
        self.set_aside.tables.contains_key(file)
    }

    /// What value segments a collection cannot have.
    pub(super) fn unavailable_segments(&self) -> Unavailable<'_> {
        Unavailable {
            collecting: Cow::Borrowed(&self.collecting),
            set_aside: Cow::Borrowed(&self.set_aside.segments),
        }
    }
}

impl Maintenance {
    /// Value segments that are being collected, and those that no collection can read.
    pub(crate) fn unavailable_segments(&self) -> Unavailable<'static> {
        self.schedule.lock().claims.unavailable_segments().into_owned()
    }
}

/// Whether `error`, met in reading the file that it names, says that this file cannot be read
/// whole.
fn is_unreadable(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt || said_by_storage(error) == Some(firn_storage::ErrorKind::Io)
}

impl Database {
    /// Whether `error` says which of the inputs of `task` cannot be read, so that no other way of
    /// doing it helps.
    pub(crate) fn names_an_input<'i>(
        &self,
        mut inputs: impl Iterator<Item = &'i str>,
        error: &Error,
    ) -> bool {
        let Some(place) = error.place().filter(|_| is_unreadable(error)) else { return false };
        inputs.any(|input| input == place.file) || self.is_value_segment(&place.file)
    }

    /// Sets aside the inputs of `task`, which fails each time with `error`: the input that this
    /// names, or else all of them. `false` if there are none, or they have nothing to do with it.
    pub(super) fn set_inputs_aside(&self, task: &Task, error: &Error) -> bool {
        let named = error.place().filter(|_| is_unreadable(error)).map(|place| place.file.as_str());
        // The device fails to write: that says nothing of what was read.
        let is_elsewhere = said_by_storage(error) == Some(firn_storage::ErrorKind::Io);
        match task {
            Task::Compact { choice, .. } => {
                let inputs = || choice.inputs.iter().map(|(_, _, table)| table.meta().file.as_str());
                let is_named = |file: &&str| Some(*file) == named;
                if let Some(file) = inputs().find(is_named) {
                    self.set_tables_aside([file], error, Cause::Damaged)
                } else if named.is_some_and(|file| self.is_value_segment(file)) {
                    // Any of them may refer to the value.
                    self.set_tables_aside(inputs(), error, Cause::Damaged)
                } else {
                    !is_elsewhere && self.set_tables_aside(inputs(), error, Cause::Failed)
                }
            }
            Task::Collect { victims } => {
                let map = self.values.map();
                let is_named = |number: &&SegmentNumber| matches!(map.known(**number), Some(Home::Sealed(sealed)) if Some(sealed.meta.file.as_str()) == named);
                let why = |cause| Why { error: error.clone(), cause };
                let mut busy = self.maintenance.schedule.lock();
                let segments = &mut busy.claims.set_aside.segments;
                if let Some(number) = victims.iter().find(is_named) {
                    segments.insert(*number, why(Cause::Damaged));
                } else if is_elsewhere {
                    return false;
                } else {
                    segments.extend(victims.iter().map(|number| (*number, why(Cause::Failed))));
                }
                true
            }
            // The other tables are copied without it.
            Task::Repack { tables } => {
                let mut inputs = tables.iter().map(|(.., table)| table.meta().file.as_str());
                match inputs.find(|file| Some(*file) == named) {
                    Some(file) => self.set_tables_aside([file], error, Cause::Damaged),
                    None => false,
                }
            }
            // A table that range tombstones hide: what dies with it cannot be read.
            Task::Reclaim { keyspace } => {
                let version = self.catalog.version.load_full();
                let Ok(state) = version.keyspace(*keyspace) else { return false };
                let mut tables = state.levels.tables().map(|(_, table)| table.meta().file.as_str());
                match tables.find(|file| Some(*file) == named) {
                    Some(file) => self.set_tables_aside([file], error, Cause::Damaged),
                    None => false,
                }
            }
            _ => false,
        }
    }

    fn set_tables_aside<'i>(
        &self,
        files: impl IntoIterator<Item = &'i str>,
        error: &Error,
        cause: Cause,
    ) -> bool {
        let files = files.into_iter().map(|file| (file.to_owned(), Why { error: error.clone(), cause }));
        self.maintenance.schedule.lock().claims.set_aside.tables.extend(files);
        true
    }

    fn is_value_segment(&self, file: &str) -> bool {
        let map = self.values.map();
        map.homes().any(|(_, home)| matches!(home, Home::Sealed(sealed) if sealed.meta.file == file))
    }

    /// Files that were found damaged and still live.
    pub(crate) fn damage(&self) -> Told {
        self.told(Cause::Damaged)
    }

    /// Files that still live, and were set aside since work on them fails.
    pub(crate) fn failed_inputs(&self) -> Told {
        self.told(Cause::Failed)
    }

    fn told(&self, cause: Cause) -> Told {
        let (tables, segments) = {
            let busy = &self.maintenance.schedule.lock().claims;
            if busy.set_aside.tables.is_empty() && busy.set_aside.segments.is_empty() {
                return Told::default();
            }
            (busy.set_aside.tables.clone(), busy.set_aside.segments.clone())
        };
        let version = self.catalog.version.load_full();
        let names: BTreeSet<&str> = version
            .live()
            .flat_map(|keyspace| keyspace.levels.tables())
            .map(|(_, table)| table.meta().file.as_str())
            .collect();
        let map = self.values.map();
        let tables = tables.iter().filter(|(file, _)| names.contains(file.as_str())).map(|(_, why)| why);
        let segments = segments
            .iter()
            .filter(|(number, _)| matches!(map.known(**number), Some(Home::Sealed(_))))
            .map(|(_, why)| why);
        let living: Vec<&Why> = tables.chain(segments).filter(|why| why.cause == cause).collect();
        Told { count: living.len() as u64, why: living.first().map(|why| why.error.clone()) }
    }
}
