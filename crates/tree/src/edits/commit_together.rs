//! The commit of what happens to several keyspaces at once: one edit has all of it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use firn_engine::{Error, Result};
use firn_format::Position;
use firn_format::manifest::Change;

use super::commit::{Added, Edit};
use super::{Edits, retire_below};
use crate::error::from_storage;
use crate::version::{Keyspace, Version};
use firn_maintenance::{Answer, answer_to};

impl Edits<'_> {
    /// As [`commit`](Self::commit) of each of `edits`, all durable and visible together. They say
    /// nothing of values, and their backend is not shared with other machines. Edits whose
    /// keyspaces were dropped meanwhile are left out.
    ///
    /// New tables that lie in shared files are dead there if they are left out, or if nothing was
    /// changed.
    ///
    /// # Errors
    /// As of [`commit`](Self::commit), for all of them.
    pub(crate) fn commit_together(&self, edits: &[Edit]) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let mut added: Vec<Added> = Vec::new();
        let committed = edits
            .iter()
            .try_for_each(|edit| {
                added.push(self.open_added(edit)?);
                Ok(())
            })
            .and_then(|()| self.commit_opened_together(edits, &added));
        if committed.as_ref().is_err_and(|error| answer_to(error) != Answer::Poisoned) {
            added.iter().flatten().for_each(|(_, _, table)| table.is_refused());
        }
        committed
    }

    fn commit_opened_together(&self, edits: &[Edit], added: &[Added]) -> Result<()> {
        let end = edits.iter().filter_map(|edit| Some(edit.flushed.as_ref()?.1)).max();
        // The name of the file must not be lost where the edit that uses it is not.
        self.files.storage.sync_dir().map_err(from_storage)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.catalog.version.load_full();
        let (live, gone): (Vec<_>, Vec<_>) =
            edits.iter().zip(added).partition(|(edit, _)| version.keyspace(edit.keyspace).is_ok());
        let mut flushed = BTreeMap::new();
        let mut changes: Vec<Change> = live.iter().flat_map(|(edit, _)| edit.table_changes()).collect();
        if let Some(end) = end {
            flushed = flushed_by(&version, live.iter().map(|(edit, _)| *edit), end)?;
            // See `order_before_log`.
            match takes_all(&version, &flushed, end) {
                true => self.pipeline.log.covered_through(end),
                false => self.pipeline.log.sync_through(end).map_err(from_storage)?,
            }
            let through = |(id, position): (&u32, &Position)| Change::FlushedThrough {
                keyspace: *id,
                position: *position,
            };
            changes.extend(flushed.iter().map(through));
            changes.push(Change::DurableThrough { position: self.pipeline.log.durable_through() });
            changes.push(Change::Tick { ms: self.catalog.now_ms() });
        }
        manifest.commit(&changes).map_err(from_storage)?;
        if let Some(end) = end.filter(|end| takes_all(&version, &flushed, *end)) {
            self.pipeline.log.forget_below(end);
        }
        let watermark = self.pipeline.log.watermark();
        self.catalog.change_version(|version| {
            for (id, position) in &flushed {
                let Some(Some(keyspace)) = version.keyspaces.get_mut(*id as usize) else { continue };
                if keyspace.flushed_through < *position {
                    Arc::make_mut(keyspace).flushed_through = *position;
                }
            }
            for (edit, added) in &live {
                let Some(Some(keyspace)) = version.keyspaces.get_mut(edit.keyspace as usize) else {
                    continue;
                };
                edit.apply(added, Arc::make_mut(keyspace));
            }
            // A reader that sees the runs gone sees the memory of their records gone.
            if end.is_some() {
                retire_below(version, watermark);
            }
        });
        drop((manifest, version));
        live.iter().flat_map(|(edit, _)| &edit.removed).for_each(|table| table.retire());
        gone.iter().flat_map(|(_, added)| *added).for_each(|(_, _, table)| table.is_refused());
        self.pipeline.balance_memory();
        Ok(())
    }
}

/// Whether nothing below `end` is needed of the log, by what is `flushed`.
fn takes_all(version: &Version, flushed: &BTreeMap<u32, Position>, end: Position) -> bool {
    flushed.values().filter(|position| **position >= end).count() == version.live().count()
}

/// Positions below which everything of a keyspace is in tables once `edits` are made, at most
/// `end`. Of their keyspaces, and of others that have nothing unflushed below `end`.
fn flushed_by<'e>(
    version: &Version,
    edits: impl Iterator<Item = &'e Edit>,
    end: Position,
) -> Result<BTreeMap<u32, Position>> {
    let others = |keyspace: &&Arc<Keyspace>| keyspace.unflushed_from(end) >= end;
    let mut flushed: BTreeMap<u32, Position> =
        version.live().filter(others).map(|keyspace| (keyspace.id(), end)).collect();
    for edit in edits {
        let keyspace = version.keyspace(edit.keyspace)?;
        let (starts, _) = edit.flushed.as_ref().ok_or_else(|| Error::bug("no flush among flushes"))?;
        flushed.insert(edit.keyspace, keyspace.unflushed_without(starts, end).min(end));
    }
    Ok(flushed)
}
