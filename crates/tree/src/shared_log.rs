//! The log of a tree on shared storage: what its log objects ask of the database, and what asks for
//! them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use firn_engine::{Error, Result};
use firn_format::Position;
use firn_format::manifest::Change;
use firn_storage::Storage;
use firn_storage::file::log::objects::{By, NameEnv, NamedObjects, SendEnv};

use crate::blobs::{BlobStore, ValueCollector};
use crate::database::Database;
use crate::edits::flushed_with;
use crate::error::from_storage;
use crate::log::{Log, MemtableSet, SegmentMap};
use crate::version::Manifest;
use crate::version::state::State;

impl SendEnv for Database {
    type Carried = MemtableSet;
    type Referred = BlobStore;
    type Collector = ValueCollector;

    fn log(&self) -> &Log {
        &self.commit.log
    }

    fn storage(&self) -> &dyn Storage {
        &*self.files.storage
    }

    fn segments(&self) -> Arc<SegmentMap> {
        Arc::clone(&self.catalog.version.load().segments)
    }

    fn collector(&self) -> ValueCollector {
        ValueCollector::new(&self.blobs)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn is_stopping(&self) -> bool {
        self.maintenance.is_stopping()
    }

    fn fail(&self, cause: &firn_storage::Error) {
        Database::fail(self, &from_storage(cause.clone()));
    }
}

impl NameEnv for Database {
    type Content = State;

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(named: NamedObjects) -> Change {
        State::naming(named)
    }

    fn remove(&self, names: Vec<String>, may_follow: bool) {
        if may_follow {
            self.maintenance.orphan_gc.expect(self.clock.now());
        }
        names.into_iter().for_each(|name| self.files.obsolete.remove_later(name));
        self.maintenance.wake();
    }
}

impl Database {
    /// Refuses writes that are to outlive the machine where nothing does.
    pub(crate) fn check_shared(&self) -> Result<()> {
        match self.files.storage.shared_part() {
            Some(_) => Ok(()),
            None => Err(not_shared(&self.files.storage.describe())),
        }
    }

    /// Returns when another machine that takes the database over finds everything below `end`, and
    /// an edit says where. It is on this machine's device then, too.
    ///
    /// # Errors
    /// `Invalid` where no other machine reaches the storage. `Retry` where the backend refuses, or
    /// does not say, for long: what is published goes there with the next call. `Closed` if another
    /// machine has taken the database over; any other failure poisons the log.
    pub(crate) fn share_through(&self, end: Position) -> Result<()> {
        if self.shared_log.has(end) {
            return Ok(());
        }
        self.check_shared()?;
        self.shared_log.share_through(self, end, By::Writer).map_err(from_storage)
    }

    /// Sends what a flush of `keyspace` through `end` leaves in the log alone.
    pub(crate) fn send_before_flush(&self, keyspace: u32, end: Position) -> Result<()> {
        let version = self.catalog.version.load();
        let takes_all = flushed_with(&version, keyspace, end).len() == version.live().count();
        let needed_from = version.log_needed_from();
        drop(version);
        match takes_all {
            true => Ok(()),
            false => self.shared_log.send_before_flush(self, end, needed_from).map_err(from_storage),
        }
    }
}

/// The error of a call that asks for `Shared` durability at `backend`.
pub(crate) fn not_shared(backend: &str) -> Error {
    Error::invalid(format!(
        "durability `shared` needs a backend that other machines reach, and {backend} is not divided: name a shared location, or ask for `disk`"
    ))
}
