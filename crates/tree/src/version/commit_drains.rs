//! The commit of drains of several keyspaces: one edit has all of them.

use std::sync::{Arc, PoisonError};

use firn_engine::{Error, Result};
use firn_format::Position;
use firn_format::manifest::Change;

use super::commit::Edit;
use super::{Keyspace, Version};
use crate::buffer::freeze::retire_below;
use crate::database::Database;
use crate::error::from_storage;

impl Database {
    /// As [`commit`](Self::commit) of each of `edits`, all durable and visible together. They are drains of different keyspaces, say
    /// nothing of values, and their place is not shared. Those whose keyspaces were dropped meanwhile are left out: their
    /// tables are garbage.
    ///
    /// # Errors
    /// As of [`commit`](Self::commit), for all of them.
    pub(crate) fn commit_drains(&self, edits: &[Edit]) -> Result<()> {
        let ends = edits.iter().filter_map(|edit| Some(edit.drained.as_ref()?.1));
        let Some(end) = ends.max() else { return Ok(()) };
        let opened = edits.iter().map(|edit| self.open_added(edit));
        let added: Vec<_> = opened.collect::<Result<_>>()?;
        // The name of the file must not be lost where the edit that uses it is not.
        self.storage.sync_dir().map_err(from_storage)?;
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.version.load_full();
        let live: Vec<_> =
            edits.iter().zip(&added).filter(|(edit, _)| version.keyspace(edit.keyspace).is_ok()).collect();
        let drained = drained_by(&version, live.iter().map(|(edit, _)| *edit), end)?;
        let takes_all = drained.iter().filter(|(_, position)| *position >= end).count() == version.live().count();
        // See `order_before_log`.
        match takes_all {
            true => self.log.covered_through(end),
            false => self.log.sync_through(end)?,
        }
        let mut changes: Vec<Change> = live.iter().flat_map(|(edit, _)| edit.table_changes()).collect();
        let through = |(id, position): &(u32, Position)| Change::DrainedThrough { keyspace: *id, position: *position };
        changes.extend(drained.iter().map(through));
        changes.push(Change::DurableThrough { position: self.log.durable_through() });
        changes.push(Change::Tick { ms: self.now_ms() });
        manifest.commit(&changes)?;
        if takes_all {
            self.log.forget_below(end);
        }
        let watermark = self.log.watermark();
        self.change_version(|version| {
            for (id, position) in &drained {
                let Some(Some(keyspace)) = version.keyspaces.get_mut(*id as usize) else { continue };
                let keyspace = Arc::make_mut(keyspace);
                keyspace.drained_through = keyspace.drained_through.max(*position);
            }
            for (edit, added) in &live {
                let Some(Some(keyspace)) = version.keyspaces.get_mut(edit.keyspace as usize) else { continue };
                edit.apply(added, Arc::make_mut(keyspace));
            }
            // Whoever sees the runs gone sees the memory of their records gone.
            retire_below(version, watermark);
        });
        drop(manifest);
        // Nobody will know the tables of keyspaces that are gone.
        let gone = edits.iter().zip(&added).filter(|(edit, _)| version.keyspace(edit.keyspace).is_err());
        gone.flat_map(|(_, added)| added).for_each(|(_, _, table)| table.retire());
        drop(version);
        self.balance_memory();
        Ok(())
    }
}

/// Positions below which everything of a keyspace is in tables once `edits` are made, at most `end`: of their keyspaces, and of others that have
/// nothing undrained below `end`.
fn drained_by<'e>(
    version: &Version,
    edits: impl Iterator<Item = &'e Edit>,
    end: Position,
) -> Result<Vec<(u32, Position)>> {
    let others = |keyspace: &&Arc<Keyspace>| keyspace.undrained_from(end) >= end;
    let mut drained: std::collections::BTreeMap<u32, Position> =
        version.live().filter(others).map(|keyspace| (keyspace.id(), end)).collect();
    for edit in edits {
        let keyspace = version.keyspace(edit.keyspace)?;
        let (starts, _) = edit.drained.as_ref().ok_or_else(|| Error::bug("no drain among drains"))?;
        drained.insert(edit.keyspace, keyspace.undrained_without(starts, end).min(end));
    }
    Ok(drained.into_iter().collect())
}
