//! Where the files of a database lie, and which of them are obsolete.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_storage::Storage;
use firn_storage::file::obsolete::{Obsolete, ObsoleteFiles};
use firn_storage::place::Reusing;

/// The storage of a database, and the ways in which files come to it and go.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) storage: Arc<dyn Storage>,
    /// The same storage, where tables that are written here take the files of obsolete ones.
    pub(crate) outputs: Arc<Reusing>,
    /// The same for compactions and other jobs, which leave room for what the buffer holds.
    pub(crate) job_outputs: Arc<Reusing>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// When the last segment or table died whose file could be kept, in ms of the clock.
    pub(crate) spares_offered_ms: AtomicU64,
}

impl Files {
    /// Files on `storage`, written through `outputs` and those of jobs.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        outputs: Arc<Reusing>,
        job_outputs: Arc<Reusing>,
        obsolete: Arc<ObsoleteFiles>,
    ) -> Self {
        Self { storage, outputs, job_outputs, obsolete, spares_offered_ms: AtomicU64::new(0) }
    }

    /// Removes the files of tables that are kept for new ones, and all that waits for its removal,
    /// at once; whether there were any.
    pub(crate) fn remove_spare_tables(&self) -> bool {
        let Obsolete { mut removable, mut offered, offered_files, .. } = self.obsolete.take();
        removable.append(&mut offered);
        removable.extend(offered_files.into_iter().map(|file| file.name));
        removable.extend(self.outputs.take_spares());
        // What cannot be removed now is found and removed by the next opening.
        removable.iter().for_each(|name| drop(self.storage.remove(name)));
        !removable.is_empty()
    }

    /// Whether other machines may have the storage open.
    pub(crate) fn is_shared(&self) -> bool {
        self.storage.shared_part().is_some()
    }
}
