//! What a database knows of its files, by which crate `firn-maintenance` tells orphans: outputs of
//! attempts at jobs that nothing waits for, and log objects of earlier openings.
//!
//! Such a log object goes as those do that the opening found.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use firn_engine::Result;
use firn_jobs::submit::AbandonedNames;
use firn_maintenance::{KnownFiles, Removal, is_abandoned};
use firn_storage::file::log::objects::stale;

use crate::counters::count;
use crate::database::Database;
use crate::error::from_storage;
use crate::version::state::State;

/// Looks for outputs that nothing waits for, for log objects of earlier openings, and for uploads
/// of either, and removes them. Blocks for two lists, and for a request or two under the manifest's
/// lock.
///
/// # Errors
/// `Closed`: another machine has taken the database over.
pub(super) fn remove_orphans(database: &Database) -> Result<()> {
    database.files.obsolete.retry_now();
    database.maintenance.wake();
    let on = Removal { storage: &*database.files.storage, clock: &*database.clock };
    let removed = database.maintenance.orphan_gc.run(database, on, || database.maintenance.is_stopping())?;
    count(&database.maintenance.counters.orphan_remove_count, removed.files);
    count(&database.maintenance.counters.upload_abort_count, removed.uploads);
    Ok(())
}

impl KnownFiles for Database {
    fn abandoned(&self) -> AbandonedNames {
        self.maintenance.output_names.abandoned()
    }

    fn held(&self) -> Option<BTreeSet<String>> {
        let mut held = self.files.obsolete.held()?;
        held.extend(self.files.outputs.recycled_names());
        Some(held)
    }

    fn judge(
        &self,
        listed: &[(String, u64)],
        abandoned: &AbandonedNames,
        judge: impl FnOnce(&dyn Fn(&str) -> bool),
    ) -> Result<bool> {
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = manifest.failure() {
            return Err(from_storage(failure));
        }
        if self.files.storage.shared_part().is_some() && !manifest.is_current() {
            return manifest.failure().map_or(Ok(false), |failure| Err(from_storage(failure)));
        }
        let state = manifest.state();
        let needed = state.log_objects.map(|named| self.shared_log.needed_of(named));
        let (named, stale) = (NamedOutputs::of(state), stale(listed, needed, state.generation));
        judge(&|name| is_abandoned(name, abandoned, |name| named.contains(name)) || stale.contains(name));
        Ok(true)
    }
}

/// Outputs that edits have named, and none has removed.
pub(crate) struct NamedOutputs<'s> {
    state: &'s State,
    /// Files that `state` has tables in, except for tables that have a file of their own.
    shared: BTreeSet<&'s str>,
    /// Files of blob segments that `state` has.
    segments: BTreeSet<&'s str>,
}

impl<'s> NamedOutputs<'s> {
    /// After the edits up to `state`.
    pub(crate) fn of(state: &'s State) -> Self {
        let segments = state.blobs.segments.values();
        let segments = segments.map(|known| known.meta.file.as_str()).collect();
        Self { state, shared: state.shared_files(), segments }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.state.tables.contains_key(name) || self.shared.contains(name) || self.segments.contains(name)
    }
}
