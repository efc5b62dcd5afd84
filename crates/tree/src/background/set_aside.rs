//! Inputs of tasks that are set aside: which, and what that keeps from being chosen.
//!
//! ```text
//!   set aside ─┬─ no compaction takes the table, nor what overlaps it
//!              └─ no GC takes the segment
//! ```
//! When a file is set aside, and why, is told in crate `firn-maintenance`, module `damaged`. A
//! table goes in the end if range tombstones hide all of it, a blob segment if all of its values
//! die.

use std::collections::BTreeSet;

use firn_engine::Error;
use firn_format::blob::SegmentNumber;
use firn_maintenance::{Cause, Report, is_of_device, unreadable_file};

use crate::blobs::{BlobStore, Home};
use crate::database::Database;
use crate::maintenance::{Maintenance, Task};
use crate::version::catalog::Catalog;

/// Files that tasks read, as far as they were set aside or are to be.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'d> {
    maintenance: &'d Maintenance,
    catalog: &'d Catalog,
    blobs: &'d BlobStore,
}

impl<'d> Inputs<'d> {
    pub(crate) fn of(database: &'d Database) -> Self {
        let Database { maintenance, catalog, blobs, .. } = database;
        Self { maintenance, catalog, blobs }
    }

    /// Sets aside the inputs of `task`, which fails each time with `error`: the input that this
    /// names, or else all of them. `false` if there are none, or they have nothing to do with it.
    pub(super) fn set_aside(&self, task: &Task, error: &Error) -> bool {
        let named = unreadable_file(error);
        // The device fails to write: that says nothing of what was read.
        let is_elsewhere = is_of_device(error);
        match task {
            Task::Compact { choice, .. } => {
                let inputs = || choice.inputs.iter().map(|(_, _, table)| table.meta().file.as_str());
                let is_named = |file: &&str| Some(*file) == named;
                if let Some(file) = inputs().find(is_named) {
                    self.set_tables_aside([file], error, Cause::Damaged)
                } else if named.is_some_and(|file| self.blobs.map().has_sealed(file)) {
                    // Any of them may refer to the value.
                    self.set_tables_aside(inputs(), error, Cause::Damaged)
                } else {
                    !is_elsewhere && self.set_tables_aside(inputs(), error, Cause::Failed)
                }
            }
            Task::BlobGc { victims } => {
                let map = self.blobs.map();
                let is_named = |number: &&SegmentNumber| matches!(map.known(**number), Some(Home::Sealed(sealed)) if Some(sealed.meta.file.as_str()) == named);
                let segments = &mut self.maintenance.schedule.lock().claims.blobs.set_aside;
                if let Some(number) = victims.iter().find(is_named) {
                    segments.add([*number], error, Cause::Damaged);
                } else if is_elsewhere {
                    return false;
                } else {
                    segments.add(victims.iter().copied(), error, Cause::Failed);
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
        let files = files.into_iter().map(str::to_owned);
        self.maintenance.schedule.lock().claims.tables.set_aside.add(files, error, cause);
        true
    }

    /// Files that were found damaged and still live.
    pub(crate) fn damage(&self) -> Report {
        self.report(Cause::Damaged)
    }

    /// Files that still live, and were set aside since work on them fails.
    pub(crate) fn failures(&self) -> Report {
        self.report(Cause::Failed)
    }

    fn report(&self, cause: Cause) -> Report {
        let (tables, segments) = {
            let claims = &self.maintenance.schedule.lock().claims;
            if claims.tables.set_aside.is_empty() && claims.blobs.set_aside.is_empty() {
                return Report::default();
            }
            (claims.tables.set_aside.clone(), claims.blobs.set_aside.clone())
        };
        let version = self.catalog.version.load_full();
        let names: BTreeSet<&str> = version
            .live()
            .flat_map(|keyspace| keyspace.levels.tables())
            .map(|(_, table)| table.meta().file.as_str())
            .collect();
        let map = self.blobs.map();
        let is_sealed = |number: &SegmentNumber| matches!(map.known(*number), Some(Home::Sealed(_)));
        tables.report(cause, |file| names.contains(file.as_str())).and(segments.report(cause, is_sealed))
    }
}
