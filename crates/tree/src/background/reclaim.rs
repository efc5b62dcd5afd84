//! Removing tables that range tombstones hide, and flushing the tombstones that would.

use std::sync::Arc;

use firn_engine::Result;
use firn_format::Position;
use firn_format::table::ReferenceSet;
use firn_maintenance::Schedule;

use super::choose::Choosing;
use crate::blob_gc::references_of;
use crate::commit::roll::Freeze;
use crate::compact::reclaim::find_reclaimable;
use crate::database::Database;
use crate::edits::{Edit, Supersedes};
use crate::maintenance::{Claims, TaskKind, Unit};
use crate::memtable::Memtable;
use crate::version::{Keyspace, Table};

/// Tables that no other task may choose until this is dropped.
struct Claimed<'s> {
    schedule: &'s Schedule<Claims, Unit>,
    tables: Vec<Arc<Table>>,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut busy = self.schedule.lock();
        for table in &self.tables {
            busy.claims.tables.taken.remove(&table.meta().file);
        }
    }
}

impl Choosing<'_> {
    /// A keyspace that no task looks at and that may have tables to remove.
    pub(super) fn choose_look(&self) -> Option<u32> {
        if self.busy.is_held() {
            return None;
        }
        let is_due = |keyspace: &&Arc<Keyspace>| {
            !self.busy.claims.tables.reclaiming.contains(&keyspace.id())
                && self.busy.backoff.may_try((TaskKind::Reclaim, keyspace.id()), self.now)
                && keyspace
                    .observed
                    .reclaim_checks
                    .is_due(keyspace, self.now, || self.database.catalog.snapshots.sequences())
        };
        self.version.live().find(is_due).map(|keyspace| keyspace.id())
    }
}

/// Removes the tables of `keyspace` that range tombstones hide from every reader, without reading
/// them. Has the buffer flushed where its range tombstones hide much.
///
/// # Errors
/// `Retry` when the disk is full: it is tried again in a while.
pub(super) fn reclaim(database: &Database, keyspace: u32) -> Result<()> {
    Reclaim { database, keyspace }.run()
}

/// Removing tables of one keyspace.
struct Reclaim<'d> {
    database: &'d Database,
    keyspace: u32,
}

impl<'d> Reclaim<'d> {
    fn run(&self) -> Result<()> {
        let version = self.database.catalog.version.load_full();
        let Ok(state) = version.keyspace(self.keyspace) else { return Ok(()) };
        state.observed.reclaim_checks.begin(state, self.database.clock.now());
        // Snapshots after the version: one that is taken later sees every range tombstone of this
        // version's tables.
        let found = find_reclaimable(
            state,
            &self.database.catalog.snapshots.sequences(),
            self.database.settings.engine.table_bytes,
        );
        let mut done = self.remove_tables(&found.tables);
        if found.is_flush_due {
            done = done.and_then(|all| Ok(self.flush_soon(state)? && all));
        }
        state.observed.reclaim_checks.end(found.kept_for, found.partly);
        if !matches!(done, Ok(true)) {
            state.observed.reclaim_checks.repeat(self.database.clock.now());
        }
        done.map(drop)
    }

    /// Removes those of `tables` that no task works on; whether that was all of them that still
    /// live.
    fn remove_tables(&self, tables: &[Arc<Table>]) -> Result<bool> {
        let tables: Vec<_> = tables.iter().filter(|table| self.is_removable(table)).cloned().collect();
        if tables.is_empty() {
            return Ok(true);
        }
        let (claimed, is_all) = self.claim_tables(&tables);
        if claimed.tables.is_empty() {
            return Ok(is_all);
        }
        claimed.tables.iter().for_each(|table| table.leave_no_file());
        self.database.edits().commit(Edit {
            keyspace: self.keyspace,
            removed: claimed.tables.clone(),
            added: Vec::new(),
            supersedes: Supersedes::default(),
            moved: Vec::new(),
            left: Vec::new(),
            flushed: None,
            going: references_of(claimed.tables.iter())?,
            newly_obsolete: ReferenceSet::default(),
        })?;
        self.database.commit.admission.release();
        Ok(is_all)
    }

    /// Whether the references that die with `table` can be read. For a table that is not set aside,
    /// that shows when it goes.
    fn is_removable(&self, table: &Table) -> bool {
        let is_set_aside =
            self.database.maintenance.schedule.lock().claims.tables.set_aside.contains(&table.meta().file);
        !is_set_aside || table.reader().references().is_ok()
    }

    /// Claims those of `tables` that live and that no task works on; whether that is all of them
    /// that live.
    fn claim_tables(&self, tables: &[Arc<Table>]) -> (Claimed<'d>, bool) {
        let mut busy = self.database.maintenance.schedule.lock();
        // A task that replaced a table released it after that: a table that is free and in this
        // version is there to remove.
        let version = self.database.catalog.version.load();
        let levels = version.keyspace(self.keyspace).ok().map(|state| &state.levels);
        let lives = |table: &&Arc<Table>| {
            levels.is_some_and(|levels| levels.tables().any(|(_, other)| Arc::ptr_eq(other, table)))
        };
        let live: Vec<&Arc<Table>> = tables.iter().filter(lives).collect();
        let is_free =
            |table: &&Arc<Table>| !busy.is_held() && !busy.claims.tables.taken.contains(&table.meta().file);
        let free: Vec<Arc<Table>> = live.iter().copied().filter(is_free).map(Arc::clone).collect();
        busy.claims.tables.taken.extend(free.iter().map(|table| table.meta().file.clone()));
        let is_all = free.len() == live.len();
        (Claimed { schedule: &self.database.maintenance.schedule, tables: free }, is_all)
    }

    /// Has everything of the keyspace flushed through the newest range tombstone that `state`
    /// knows; `false` if there is no room for that now.
    fn flush_soon(&self, state: &Keyspace) -> Result<bool> {
        let with_deletes = |memtable: &Arc<Memtable>| memtable.newest_range_delete().is_some();
        let through = if with_deletes(&state.memtable) {
            // Where the disk is full nothing else may make room.
            if !self.database.commit.has_memory_for(self.database.settings.engine.log_segment_bytes)
                && !self.database.commit.is_short_of_disk()
            {
                return Ok(false);
            }
            self.freeze_memtable(&state.memtable)?
        } else {
            let frozen = state.frozen.iter().find(|frozen| with_deletes(&frozen.memtable));
            let run = state.runs.iter().find(|run| run.newest_range_delete().is_some());
            let frozen = frozen.map(|frozen| frozen.span.end);
            frozen.or_else(|| run.map(|run| run.span().end)).unwrap_or_default()
        };
        self.database.maintenance.wish_flushed(state.id(), through);
        Ok(true)
    }

    /// Freezes `memtable` unless it is by now; a position behind all of its records.
    fn freeze_memtable(&self, memtable: &Arc<Memtable>) -> Result<Position> {
        loop {
            // Before the version: if another thread rolls meanwhile, the roll below does nothing.
            let base = self.database.commit.log.active().base();
            let version = self.database.catalog.version.load();
            let is_active =
                version.keyspace(self.keyspace).is_ok_and(|state| Arc::ptr_eq(&state.memtable, memtable));
            if !is_active {
                return Ok(self.database.commit.log.settled_base());
            }
            self.database.commit.roll(base, Freeze::Keyspace(self.keyspace))?;
        }
    }
}

#[cfg(test)]
mod tests;
