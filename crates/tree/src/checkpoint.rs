//! A consistent copy of the database: immutable files, linked.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use firn_engine::{Checkpoint, Position, Result};
use firn_format::file_name;
use firn_format::manifest::{Change, ManifestEdit};

use crate::error::from_storage;
use crate::shared::Shared;

impl Shared {
    /// Makes `path` a database with everything acknowledged so far and nothing that is written later.
    ///
    /// The active segment is ended first, so that only files that never grow again are linked. Blocks for a log
    /// sync and for the links.
    pub(crate) fn checkpoint(&self, path: &Path) -> Result<Checkpoint> {
        let cut = self.log.advance()?;
        self.freeze_all()?;
        let end = self.log.active().base();
        self.log.sync_through(end.min(self.log.advance()?))?;
        // No edit is committed while the files of this version are linked, so none of them can go.
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.version.load_full();
        let segments: Vec<_> = version.segments.segments().iter().filter(|segment| segment.base() < end).collect();
        let mut names: Vec<String> = segments.iter().map(|segment| segment.name().to_owned()).collect();
        let tables = version.live().flat_map(|keyspace| keyspace.levels.tables());
        names.extend(tables.map(|(_, table)| table.meta().file.clone()));
        let place = self.storage.link_into(&names, path).map_err(from_storage)?;
        let mut changes = manifest.state().restated();
        let log_end = segments.last().map_or(end, |segment| segment.position(segment.region().published()));
        changes.push(Change::LogCut { position: log_end, generation: manifest.state().generation });
        let edit = ManifestEdit { number: 1, base: true, epoch: manifest.state().generation, changes };
        place.publish(&file_name::manifest_edit(1), &edit.encode()).map_err(from_storage)?;
        drop(manifest);
        let position = log_end.max(cut);
        Ok(Checkpoint { path: path.to_owned(), position: Position(position.0) })
    }
}
