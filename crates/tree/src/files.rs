//! Where the files of a database lie, and which of them are obsolete.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_jobs::is_output_of;
use firn_jobs::submit::Submitter;
use firn_storage::backend::Reusing;
use firn_storage::file::obsolete::{Obsolete, ObsoleteFiles};
use firn_storage::{ErrorKind, Storage};

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
    pub(crate) recyclable_since_ms: AtomicU64,
}

impl Files {
    /// Files on `storage`, written through `outputs` and those of jobs.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        outputs: Arc<Reusing>,
        job_outputs: Arc<Reusing>,
        obsolete: Arc<ObsoleteFiles>,
    ) -> Self {
        Self { storage, outputs, job_outputs, obsolete, recyclable_since_ms: AtomicU64::new(0) }
    }

    /// Removes the files of tables that are kept for new ones, and all that waits for its removal,
    /// at once; whether there were any.
    pub(crate) fn remove_recycled_tables(&self) -> bool {
        let Obsolete { mut removable, mut recyclable_segments, recyclable_files, .. } = self.obsolete.take();
        removable.append(&mut recyclable_segments);
        removable.extend(recyclable_files.into_iter().map(|file| file.name));
        removable.extend(self.outputs.take_recycled());
        // What cannot be removed now is found and removed by the next opening.
        removable.iter().for_each(|name| drop(self.storage.remove(name)));
        !removable.is_empty()
    }

    /// Removes what was written under `stems`, as outputs of `jobs`. The results do not tell: there
    /// may be none, or a wrong one.
    pub(crate) fn remove_outputs(&self, jobs: &Submitter, stems: &[String]) {
        // What cannot be listed now, or comes later, is found and removed by orphan GC, or by the
        // next opening.
        jobs.leave_something();
        for (name, _) in self.storage.list().unwrap_or_default() {
            if stems.iter().any(|stem| is_output_of(&name, stem)) {
                self.remove_output(jobs, &name);
            }
        }
    }

    /// Removes an output of `jobs` that no edit names. At once: removals that wait count as space
    /// that was freed, and the job that failed for want of space would be tried again for ever.
    pub(crate) fn remove_output(&self, jobs: &Submitter, name: &str) {
        // What cannot be removed now is found and removed by orphan GC, or by the next opening.
        if self.storage.remove(name).is_err_and(|error| error.kind != ErrorKind::NotFound) {
            jobs.leave_something();
        }
    }

    /// Whether tables of several keyspaces may lie in one file: where no other machine reads them.
    pub(crate) fn may_share_tables(&self) -> bool {
        !self.is_shared()
    }

    /// Whether other machines may have the storage open.
    pub(crate) fn is_shared(&self) -> bool {
        self.storage.shared_part().is_some()
    }
}
