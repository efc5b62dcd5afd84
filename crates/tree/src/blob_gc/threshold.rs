//! From which length on values lie beside the tree.

use std::sync::{Arc, PoisonError};

use firn_engine::{KeyspaceId, KeyspaceSettings, Result};
use firn_format::manifest::Change;

use crate::database::Database;
use crate::error::from_storage;
use crate::version::set::{Definition, check_separate_bytes, to_text};

impl Database {
    /// Changes that of the keyspace `id`, durably. Values that are written from now on follow it,
    /// others when a compaction meets them.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace, or the number is too small; what writing the edit
    /// says.
    pub(crate) fn set_separate_bytes(&self, id: KeyspaceId, bytes: Option<u32>) -> Result<()> {
        check_separate_bytes(bytes)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.catalog.version.load_full();
        let old = &version.keyspace(id.0)?.definition;
        if old.settings.separate_bytes == bytes {
            return Ok(());
        }
        let settings = KeyspaceSettings { separate_bytes: bytes, ..old.settings.clone() };
        let definition = Arc::new(Definition::new(
            id.0,
            &old.name,
            settings,
            (self.settings.compression, &self.semantics),
        )?);
        if bytes.is_some() {
            self.values.want();
        }
        let settings = to_text(&definition.settings);
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
}
