//! The tree as an engine.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use firn_engine::{
    DatabaseCopy, Engine, Error, Ingestion, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered,
    OrderedSession, Position, Result, Session, Snapshot, Stats, ValueSource, WriteOptions,
};
use firn_format::manifest::Change;
use firn_maintenance::{step, wait_until};

use crate::background::{Inputs, flush_through, remove_obsolete};
use crate::copy::copy_to;
use crate::database::Database;
use crate::error::from_storage;
use crate::ingest::TreeIngestion;
use crate::log::Log;
use crate::open::open;
use crate::session::TreeSession;
use crate::settings::TreeOptions;
use crate::stats::stats;
use crate::write::retry_flushes;

/// An ordered key-value store: an LSM tree whose log, memtable and upper levels are the same bytes.
///
/// Shared between threads by `Arc`; each opens sessions of its own.
/// 1. One tree holds its directory: a second opener gets `Conflict`.
/// 2. What was acknowledged is found by the next opening, as the durability asked for promises.
/// 3. Dropping the tree closes it. Its directory is free then, once reads have ended that other
///    threads are in the midst of.
#[derive(Debug)]
pub struct Tree {
    pub(crate) shared: Arc<Database>,
}

impl Tree {
    /// Opens or creates the database of `options`. Blocks for recovery: about a second for 1 GiB of
    /// log.
    ///
    /// # Errors
    /// `Conflict` if another process has it open; `Invalid` for settings out of range, a directory
    /// without a database, a newer format, or a keyspace whose operator is not registered;
    /// `Corrupt` with file and offset when something durable is damaged.
    pub fn open(options: TreeOptions) -> Result<Arc<Self>> {
        let (shared, lock) = open(&options)?;
        shared.catalog.change_version(|version| version.lock = Some(Arc::from(lock)));
        Ok(Arc::new(Self { shared }))
    }

    /// Does one unit of background work on this thread; returns whether there was any. For
    /// [`crate::Background::Manual`].
    ///
    /// # Errors
    /// What the unit failed with.
    pub fn step(&self) -> Result<bool> {
        step(&*self.shared)
    }

    /// Ends the active log segment and freezes memtables, without waiting for anything. For tests.
    pub fn freeze(&self) -> Result<()> {
        self.shared.check_open()?;
        self.shared.commit.freeze_all()
    }

    /// Ends background work and makes what was acknowledged durable.
    fn shut_down(&self) -> Result<()> {
        let shared = &*self.shared;
        shared.maintenance.control.cancel();
        shared.commit.admission.release();
        shared.blobs.give_up_unfinished();
        shared.maintenance.jobs.end();
        shared.maintenance.schedule.stop();
        for pool in shared.reads.pool.iter().chain(&shared.reads.share_pool) {
            pool.shutdown();
        }
        if shared.read_only {
            return Ok(());
        }
        shared.give_up_recycled();
        remove_obsolete(shared);
        let log = self.log();
        log.check().map_err(from_storage)?;
        let end = log.end().map_err(from_storage)?;
        log.cut_file(end).map_err(from_storage)?;
        log.sync_through(end).map_err(from_storage)?;
        let mut manifest = shared.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        manifest
            .commit(&[Change::CleanEnd { position: end }, Change::Tick { ms: shared.catalog.now_ms() }])
            .map_err(from_storage)
    }

    fn log(&self) -> &Log {
        &self.shared.commit.log
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // There is no caller to return the error to; the log keeps what was acknowledged.
        let _ignored = self.close();
    }
}

impl Engine for Tree {
    fn session(&self) -> Box<dyn Session> {
        Box::new(TreeSession::new(Arc::clone(&self.shared)))
    }

    fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<KeyspaceId> {
        let shared = &self.shared;
        shared.check_open()?;
        shared.edits().create_keyspace(&shared.semantics, name, settings)
    }

    fn set_separate_bytes(&self, id: KeyspaceId, bytes: Option<u32>) -> Result<()> {
        self.shared.check_open()?;
        self.shared.edits().set_separate_bytes(&self.shared.semantics, id, bytes)
    }

    fn put_from(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value_bytes: u64,
        source: &mut dyn Read,
        options: WriteOptions,
    ) -> Result<Position> {
        let mut session = TreeSession::new(Arc::clone(&self.shared));
        session.set_inline(true);
        session.put_from(keyspace, key, ValueSource::new(source, value_bytes), options)
    }

    fn keyspace(&self, name: &str) -> Option<KeyspaceId> {
        let version = self.shared.catalog.version.load();
        version
            .live()
            .find(|keyspace| keyspace.definition.name == name)
            .map(|keyspace| KeyspaceId(keyspace.id()))
    }

    fn keyspaces(&self) -> Vec<(String, KeyspaceId)> {
        let version = self.shared.catalog.version.load();
        version.live().map(|keyspace| (keyspace.definition.name.clone(), KeyspaceId(keyspace.id()))).collect()
    }

    fn keyspace_settings(&self, id: KeyspaceId) -> Result<KeyspaceSettings> {
        let version = self.shared.catalog.version.load();
        version.keyspace(id.0).map(|keyspace| keyspace.definition.settings.clone())
    }

    fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        let shared = &self.shared;
        shared.check_open()?;
        if id == KEYSPACE_DEFAULT {
            return Err(Error::invalid("the default keyspace cannot be dropped"));
        }
        shared.edits().drop_keyspace(id)?;
        shared.maintenance.forget_keyspace(id.0);
        // The cause of a refused flush may be gone with the keyspace, and so is the space it took.
        retry_flushes(&shared.maintenance);
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot> {
        self.shared.check_not_closed()?;
        Ok(self.shared.catalog.snapshots.take(|| self.log().watermark()))
    }

    fn flush(&self) -> Result<()> {
        self.shared.check_open()?;
        let through = self.shared.commit.freeze_through()?;
        self.shared.unless_closed(flush_through(&self.shared, through))
    }

    fn sync(&self) -> Result<Position> {
        self.shared.check_open()?;
        let through = self.log().advance().map_err(from_storage)?;
        self.log().sync_through(through).map_err(from_storage)?;
        Ok(self.log().durable_through())
    }

    fn wait_idle(&self) -> Result<()> {
        wait_until(&*self.shared, || false)?;
        // Files that are kept for new ones are removed too, so that only live files are left.
        self.shared.give_up_recycled();
        wait_until(&*self.shared, || false)?;
        let set_aside =
            Inputs::of(&self.shared).damage().why.or_else(|| Inputs::of(&self.shared).failures().why);
        set_aside.map_or(Ok(()), Err)
    }

    fn copy_to(&self, path: &Path) -> Result<DatabaseCopy> {
        self.shared.check_open()?;
        let Database { commit: pipeline, catalog, blobs, .. } = &*self.shared;
        copy_to(pipeline, catalog, blobs, path)
            .map_err(|error| self.shared.catalog.explained(error, self.shared.files.is_shared()))
    }

    fn stats(&self) -> Stats {
        stats(&self.shared)
    }

    fn close(&self) -> Result<()> {
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = self.shut_down();
        self.shared.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner).end();
        // Reads under way have the version before, and with it the lock.
        self.shared.catalog.change_version(|version| version.lock = None);
        // Calls that still wait for room or for a pace return now; no later event would wake them.
        self.shared.commit.admission.release();
        self.shared.commit.admission.end();
        result
    }

    fn ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Some(self)
    }
}

impl Ordered for Tree {
    fn ordered_session(&self) -> Box<dyn OrderedSession> {
        Box::new(TreeSession::new(Arc::clone(&self.shared)))
    }

    fn ingest(&self, keyspace: KeyspaceId) -> Result<Box<dyn Ingestion>> {
        Ok(Box::new(TreeIngestion::begin(Arc::clone(&self.shared), keyspace)?))
    }

    fn compact_range(&self, keyspace: KeyspaceId, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        self.flush()?;
        self.shared.unless_closed(self.shared.compacting().compact_range(
            &*self.shared,
            keyspace.0,
            start,
            end,
        ))?;
        self.shared.give_up_recycled();
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
