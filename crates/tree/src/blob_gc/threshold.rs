//! From which length on values lie beside the tree.

use std::sync::{Arc, PoisonError};

use firn_engine::{KeyspaceId, KeyspaceSettings, Result, Semantics};
use firn_format::manifest::Change;

use crate::blobs::BlobStore;
use crate::error::from_storage;
use crate::version::catalog::Catalog;
use crate::version::set::{Definition, check_separate_bytes, to_text};

/// Changes that of the keyspace `id`, durably. Values that are written from now on follow it,
/// others when a compaction meets them. `semantics` has the operators that keyspaces may name.
///
/// # Errors
/// `Invalid` if there is no such keyspace, or the number is too small; what writing the edit says.
pub(crate) fn set_separate_bytes(
    blobs: &BlobStore,
    catalog: &Catalog,
    semantics: &Semantics,
    id: KeyspaceId,
    bytes: Option<u32>,
) -> Result<()> {
    check_separate_bytes(bytes)?;
    let mut manifest = catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
    let version = catalog.version.load_full();
    let old = &version.keyspace(id.0)?.definition;
    if old.settings.separate_bytes == bytes {
        return Ok(());
    }
    let settings = KeyspaceSettings { separate_bytes: bytes, ..old.settings.clone() };
    let made = Definition::new(id.0, &old.name, settings, (blobs.settings.compression, semantics))?;
    let definition = Arc::new(made);
    if bytes.is_some() {
        blobs.want();
    }
    let settings = to_text(&definition.settings);
    manifest
        .commit(&[Change::Keyspace { id: id.0, name: definition.name.clone(), settings }])
        .map_err(from_storage)?;
    catalog.change_version(|version| {
        if let Some(Some(keyspace)) = version.keyspaces.get_mut(id.0 as usize) {
            Arc::make_mut(keyspace).definition = definition;
        }
    });
    Ok(())
}
