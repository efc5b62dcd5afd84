//! Files that background work found damaged: it leaves them as they are, and goes on with all others.
//!
//! ```text
//!   a job meets bytes that are not what was written ─► its input is set aside ─┬─ no compaction takes the table, nor what overlaps it
//!                                                                              ├─ no collection takes the value segment
//!                                                                              └─ statistics tell which file it is, and where
//! ```
//! To rewrite such a file would either lose what cannot be read of it or give wrong bytes a right checksum. Reads go on
//! answering from whatever of it is whole, and writes go on too: they do not need it. A table goes in the end if range tombstones hide all
//! of it, a value segment if all of its values die. The next opening knows nothing of this and tries once again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use firn_engine::{Error, ErrorKind};
use firn_format::value::SegmentNumber;

use super::busy::Busy;
use super::{Schedule, Task};
use crate::database::Database;
use crate::values::Home;

/// What was set aside, and why.
#[derive(Debug, Default)]
pub(super) struct Damage {
    tables: BTreeMap<String, Error>,
    segments: BTreeMap<SegmentNumber, Error>,
}

/// Value segments that no collection is to choose.
#[derive(Clone, Debug)]
pub(crate) struct Unavailable<'b> {
    /// Being collected,
    pub(crate) collecting: Cow<'b, BTreeSet<SegmentNumber>>,
    /// or damaged.
    pub(crate) damaged: Cow<'b, BTreeMap<SegmentNumber, Error>>,
}

impl Unavailable<'_> {
    pub(crate) fn into_owned(self) -> Unavailable<'static> {
        Unavailable {
            collecting: Cow::Owned(self.collecting.into_owned()),
            damaged: Cow::Owned(self.damaged.into_owned()),
        }
    }
}

impl Busy {
    /// Tables that no compaction is to choose: somebody works on them, or they are set aside.
    pub(super) fn tables_not_to_choose(&self) -> Cow<'_, BTreeSet<String>> {
        if self.damage.tables.is_empty() {
            return Cow::Borrowed(&self.tables);
        }
        Cow::Owned(self.tables.iter().chain(self.damage.tables.keys()).cloned().collect())
    }

    /// Whether the table `file` is set aside.
    pub(super) fn is_set_aside(&self, file: &str) -> bool {
        self.damage.tables.contains_key(file)
    }

    /// What value segments a collection cannot have.
    pub(super) fn unavailable_segments(&self) -> Unavailable<'_> {
        Unavailable {
            collecting: Cow::Borrowed(&self.collecting),
            damaged: Cow::Borrowed(&self.damage.segments),
        }
    }
}

impl Schedule {
    /// Value segments that are being collected, and those that no collection can read.
    pub(crate) fn unavailable_segments(&self) -> Unavailable<'static> {
        self.lock().unavailable_segments().into_owned()
    }
}

impl Database {
    /// Sets aside what `task` could not read, which failed with `error`; `false` if that does not say which of its inputs is damaged, or nothing is.
    pub(super) fn set_aside(&self, task: &Task, error: &Error) -> bool {
        let (ErrorKind::Corrupt, Some(place)) = (error.kind(), error.place()) else { return false };
        match task {
            Task::Compact { choice, .. } => {
                let inputs = choice.inputs.iter().map(|(_, _, table)| table.meta().file.clone());
                let mut set_aside: Vec<String> = inputs.clone().filter(|file| *file == place.file).collect();
                if set_aside.is_empty() && self.is_value_segment(&place.file) {
                    // Any of them may refer to the value.
                    set_aside = inputs.collect();
                }
                let is_known = !set_aside.is_empty();
                let set_aside = set_aside.into_iter().map(|file| (file, error.clone()));
                self.schedule.lock().damage.tables.extend(set_aside);
                is_known
            }
            Task::Collect { victims } => {
                let map = self.values.map();
                let is_named = |number: &&SegmentNumber| matches!(map.known(**number), Some(Home::Sealed(sealed)) if sealed.meta.file == place.file);
                let Some(number) = victims.iter().find(is_named) else { return false };
                self.schedule.lock().damage.segments.insert(*number, error.clone());
                true
            }
            // One that range tombstones hide; what dies with it cannot be read.
            Task::Reclaim { keyspace } => {
                let version = self.version.load_full();
                let Ok(state) = version.keyspace(*keyspace) else { return false };
                let is_known = state.levels.tables().any(|(_, table)| table.meta().file == place.file);
                if is_known {
                    self.schedule.lock().damage.tables.insert(place.file.clone(), error.clone());
                }
                is_known
            }
            _ => false,
        }
    }

    fn is_value_segment(&self, file: &str) -> bool {
        let map = self.values.map();
        map.homes().any(|(_, home)| matches!(home, Home::Sealed(sealed) if sealed.meta.file == file))
    }

    /// How many files are set aside that still live, and the first reason.
    pub(crate) fn damage(&self) -> (u64, Option<Error>) {
        let (tables, segments) = {
            let busy = self.schedule.lock();
            if busy.damage.tables.is_empty() && busy.damage.segments.is_empty() {
                return (0, None);
            }
            (busy.damage.tables.clone(), busy.damage.segments.clone())
        };
        let version = self.version.load_full();
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
        let living: Vec<&Error> = tables.chain(segments).collect();
        (living.len() as u64, living.first().map(|why| (*why).clone()))
    }
}
