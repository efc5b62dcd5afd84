//! Keyspaces that are made, changed and dropped: an edit each.

use std::sync::{Arc, PoisonError};

use firn_engine::{Error, ErrorKind, KeyspaceId, KeyspaceSettings, Result, Semantics};
use firn_format::Position;
use firn_format::manifest::Change;

use super::{Edits, drop_dead_segments};
use crate::error::from_storage;
use crate::memtable::{Gaps, Memtable};
use crate::version::set::check_separate_bytes;
use crate::version::{Definition, Keyspace, Levels, Version};

/// Longest keyspace name.
const NAME_BYTES_MAX: usize = 255;

impl Edits<'_> {
    /// The keyspace `name`, made with `settings` if there is none. They name operators of
    /// `semantics`.
    ///
    /// # Errors
    /// `Invalid` where name or settings cannot be; `Conflict` if it is there with others; what
    /// writing the edit says.
    pub(crate) fn create_keyspace(
        &self,
        semantics: &Semantics,
        name: &str,
        settings: KeyspaceSettings,
    ) -> Result<KeyspaceId> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let max = NAME_BYTES_MAX;
            return Err(Error::invalid(format!("a keyspace name has 1 to {max} bytes, not {}", name.len())));
        }
        check_separate_bytes(settings.separate_bytes)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) =
            self.catalog.version.load().live().find(|keyspace| keyspace.definition.name == name)
        {
            if existing.definition.settings.fits(&settings) {
                let id = existing.id();
                drop(manifest);
                // The call that makes it may not have added its memtable yet.
                self.add_memtable(id);
                return Ok(KeyspaceId(id));
            }
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("keyspace {name:?} exists with other settings"),
            ));
        }
        let id = u32::try_from(manifest.state().next_number)
            .map_err(|_| Error::invalid("there are no keyspace ids left"))?;
        let definition =
            Arc::new(Definition::new(id, name, settings, (self.blobs.settings.compression, semantics))?);
        if definition.settings.separate_bytes.is_some() {
            self.blobs.want();
        }
        let start = self.pipeline.log.active().base();
        manifest
            .commit(&[
                Change::Keyspace { id, name: name.to_owned(), settings: definition.settings.to_text() },
                Change::FlushedThrough { keyspace: id, position: start },
            ])
            .map_err(from_storage)?;
        self.catalog.change_version(|version| {
            let keyspace_count = version.live().count() + 1;
            let gaps = Arc::new(Gaps::new(&self.reads.balance.gap_budget));
            let bytes = self.blobs.settings.engine.buffer_bytes;
            let keyspace = Keyspace {
                definition: Arc::clone(&definition),
                memtable: Arc::new(Memtable::with_part_of(bytes, keyspace_count, gaps)),
                memtable_start: start,
                frozen: Vec::new(),
                runs: Vec::new(),
                levels: Levels::none(),
                obsolete_count: 0,
                flushed_through: start,
                ingested_through: Position::default(),
                observed: Arc::default(),
            };
            let index = id as usize;
            if version.keyspaces.len() <= index {
                version.keyspaces.resize(index + 1, None);
            }
            version.keyspaces[index] = Some(Arc::new(keyspace));
        });
        drop(manifest);
        self.add_memtable(id);
        Ok(KeyspaceId(id))
    }

    /// Changes from which length on values of the keyspace `id` are separated, durably.
    /// Values that are written from now on follow it, others when a compaction meets them.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace, or the number is too small; what writing the edit
    /// says.
    pub(crate) fn set_separate_bytes(
        &self,
        semantics: &Semantics,
        id: KeyspaceId,
        bytes: Option<u32>,
    ) -> Result<()> {
        check_separate_bytes(bytes)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.catalog.version.load_full();
        let old = &version.keyspace(id.0)?.definition;
        if old.settings.separate_bytes == bytes {
            return Ok(());
        }
        let settings = KeyspaceSettings { separate_bytes: bytes, ..old.settings.clone() };
        let made = Definition::new(id.0, &old.name, settings, (self.blobs.settings.compression, semantics))?;
        let definition = Arc::new(made);
        if bytes.is_some() {
            self.blobs.want();
        }
        let settings = definition.settings.to_text();
        manifest
            .commit(&[Change::Keyspace { id: id.0, name: definition.name.clone(), settings }])
            .map_err(from_storage)?;
        self.catalog.change_version(|version| {
            if let Some(Some(keyspace)) = version.keyspaces.get_mut(id.0 as usize) {
                Arc::make_mut(keyspace).definition = definition;
            }
        });
        Ok(())
    }

    /// Drops the keyspace `id` with all that it holds.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace; what reading tables, heads of values and writing the
    /// edit say.
    pub(crate) fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        let mut values = self.blobs.plan_dropped_blobs(self.catalog, id.0)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.catalog.version.load_full();
        version.keyspace(id.0)?;
        let idle = self.idle_beside(&version, id)?;
        let mut changes = vec![Change::DropKeyspace { id: id.0 }];
        let liveness = values.changes(&manifest.state().blobs, &self.blobs.map(), &mut changes)?;
        changes.extend(
            idle.iter().map(|(keyspace, position)| Change::FlushedThrough {
                keyspace: *keyspace,
                position: *position,
            }),
        );
        manifest.commit(&changes).map_err(from_storage)?;
        let map = self.blobs.install(&mut values, &liveness);
        self.catalog.change_version(|version| {
            version.blobs = map.unwrap_or_else(|| Arc::clone(&version.blobs));
            if let Some(dropped) = version.keyspaces.get_mut(id.0 as usize).and_then(Option::take) {
                for (_, table) in dropped.levels.tables() {
                    table.leave_no_file();
                    table.retire();
                }
            }
            for (keyspace, position) in &idle {
                if let Some(Some(slot)) = version.keyspaces.get_mut(*keyspace as usize) {
                    Arc::make_mut(slot).flushed_through = *position;
                }
            }
        });
        // No replay needs these segments, so that no sync need carry them.
        self.pipeline.log.forget_below(manifest.state().log_start());
        drop(manifest);
        drop(version);
        self.forget_memtable(id.0);
        drop_dead_segments(self.catalog, &self.pipeline.log);
        Ok(())
    }

    /// Keyspaces other than `dropped` that have less log to replay than the manifest says, and from
    /// where. Without this the segments of the dropped keyspace would stay until another one
    /// flushes.
    fn idle_beside(&self, version: &Version, dropped: KeyspaceId) -> Result<Vec<(u32, Position)>> {
        let end = self.pipeline.log.active().base();
        if self.pipeline.log.advance().map_err(from_storage)? < end {
            // A writer still copies into a segment before it, for any keyspace.
            return Ok(Vec::new());
        }
        let others = version.live().filter(|keyspace| keyspace.id() != dropped.0);
        let starts =
            others.map(|keyspace| (keyspace.id(), keyspace.unflushed_from(end), keyspace.flushed_through));
        Ok(starts.filter(|(_, start, known)| start > known).map(|(id, start, _)| (id, start)).collect())
    }

    /// Lets records of keyspace `id`, which the version knows, go to the active segment.
    fn add_memtable(&self, id: u32) {
        // A roll that has not seen the keyspace yet ends before, and later ones see it.
        let (_rolling, active) = self.pipeline.log.hold_active();
        if let Ok(keyspace) = self.catalog.version.load().keyspace(id) {
            active.carried().add(id, &keyspace.memtable);
        }
    }

    /// Refuses records of keyspace `id`, which was dropped, from now on.
    fn forget_memtable(&self, id: u32) {
        // A roll that has not seen the drop ends before.
        let (_rolling, active) = self.pipeline.log.hold_active();
        active.carried().forget(id);
    }
}
