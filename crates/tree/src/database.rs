//! What a tree's sessions and background work share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_engine::{Error, ErrorKind, Result, Semantics};
use firn_maintenance::ObsoleteGc;
use firn_storage::Clock;
use firn_storage::file::log::objects::SharedLog;

use crate::blob_gc::{BlobSpace, Collecting};
use crate::blobs::BlobStore;
use crate::commit::CommitPipeline;
use crate::compact::Compacting;
use crate::edits::Edits;
use crate::error::from_storage;
use crate::files::Files;
use crate::flush::Flushing;
use crate::maintenance::{Maintenance, Unavailable};
use crate::reads::Reads;
use crate::settings::Settings;
use crate::version::Version;
use crate::version::catalog::Catalog;

/// One open database. Sessions and background threads hold it by `Arc`.
///
/// It composes owners, and owns nothing else. An operation takes those that it needs: it is a
/// method of the owner whose data it uses, a function, or a method of a context that borrows a few
/// of them, such as [`Edits`]. What owners ask of the whole database are the traits that this type
/// implements, as [`CommitEnv`](crate::commit::CommitEnv).
///
/// Lock order: `Maintenance::compacting_range`, then `Log::roll`, then those of the
/// [catalog](Catalog), then everything else.
#[derive(Debug)]
pub(crate) struct Database {
    /// Files, and where they are written to.
    pub(crate) files: Arc<Files>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) semantics: Semantics,
    pub(crate) clock: Arc<dyn Clock>,
    /// The path of every write.
    pub(crate) commit: CommitPipeline,
    /// Separated values.
    pub(crate) blobs: Arc<BlobStore>,
    /// The set of files, and what it consists of at this moment.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) reads: Arc<Reads>,
    /// What the log says, where other machines find it.
    pub(crate) shared_log: SharedLog,
    /// Background work.
    pub(crate) maintenance: Maintenance,
    pub(crate) read_only: bool,
    pub(crate) closed: AtomicBool,
    /// When, by the engine's clock.
    pub(crate) opened: Duration,
}

impl Database {
    /// `Closed` if the database is closed: a later opening may give its files to others.
    #[inline]
    pub(crate) fn check_not_closed(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(closed()),
        }
    }

    /// `Closed` if writes are refused: closed, read-only, or failed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_not_closed()?;
        if self.read_only {
            return Err(Error::new(ErrorKind::Closed, "the database is open for reading only"));
        }
        self.commit.log.check().map_err(from_storage)
    }

    /// `Closed` in place of the `Retry` of work that closing cancelled, for a caller that waited
    /// for it.
    pub(crate) fn unless_closed(&self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::Retry && self.closed.load(Ordering::Acquire) => {
                Err(Error::new(ErrorKind::Closed, "the database was closed meanwhile").because(error))
            }
            result => result,
        }
    }

    /// Refuses writes from now on, because background work failed for good.
    pub(crate) fn fail(&self, error: &Error) {
        self.maintenance.failure.get_or_init(|| error.clone());
        self.commit.log.fail(error);
        self.commit.admission.release();
    }

    /// The failure of background work, if one keeps it from going on.
    pub(crate) fn background_error(&self) -> Result<()> {
        self.maintenance.failure().map_or(Ok(()), Err)
    }

    /// Whether nothing has been written for a while.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.maintenance.rest.is_long(self.commit.log.watermark(), self.clock.now())
    }

    /// What blob GC works with.
    pub(crate) fn collecting(&self) -> Collecting<'_> {
        let Self { blobs, catalog, commit: pipeline, maintenance, .. } = self;
        Collecting { blobs, catalog, pipeline, maintenance }
    }

    /// The space of blobs, beside that of `version`.
    pub(crate) fn blob_space<'s>(
        &'s self,
        version: &'s Version,
        unavailable: &'s Unavailable<'s>,
    ) -> BlobSpace<'s> {
        let Self { blobs, commit, maintenance, .. } = self;
        BlobSpace { blobs, version, unavailable, log: &commit.log, rest: &maintenance.rest }
    }

    /// What edits of the set of files are committed with.
    pub(crate) fn edits(&self) -> Edits<'_> {
        let Self { catalog, files, blobs, commit: pipeline, reads, maintenance, .. } = self;
        Edits { catalog, files, blobs, pipeline, reads, jobs: &maintenance.jobs, env: self }
    }

    /// What freezes, merges and flushes work with.
    pub(crate) fn flushing(&self) -> Flushing<'_> {
        let Self { maintenance, settings, clock, semantics, .. } = self;
        Flushing { edits: self.edits(), maintenance, settings, clock: &**clock, semantics }
    }

    /// What compactions work with.
    pub(crate) fn compacting(&self) -> Compacting<'_> {
        let Self { maintenance, settings, clock, semantics, .. } = self;
        Compacting { edits: self.edits(), maintenance, settings, clock: &**clock, semantics }
    }

    /// What keeps obsolete files for new ones, or removes them.
    pub(crate) fn obsolete_gc(&self) -> ObsoleteGc<'_> {
        let Self { files, commit, maintenance, .. } = self;
        ObsoleteGc {
            storage: &*files.storage,
            obsolete: &files.obsolete,
            log: commit.log.recycled(),
            outputs: &files.outputs,
            jobs: &maintenance.jobs,
        }
    }

    /// Removes the files and unmaps the arenas that are kept for segments and tables to come, and
    /// those that are about to be.
    pub(crate) fn give_up_recycled(&self) {
        self.obsolete_gc().give_up();
        self.maintenance.wake();
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.maintenance.schedule.is_manual()
    }
}

/// What comes after `close` is told.
#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database is closed")
}
