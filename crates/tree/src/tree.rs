//! The tree as an engine.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::{
    Checkpoint, Engine, Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered,
    OrderedSession, Position, Result, Session, Snapshot, Stats, ValueSource, WriteOptions,
};
use firn_format::manifest::Change;
use firn_maintenance::{step, wait_until};
use firn_storage::StorageLock;

use crate::background::{Inputs, drain_through};
use crate::blob_gc::set_separate_bytes;
use crate::database::Database;
use crate::error::from_storage;
use crate::log::Log;
use crate::memtable::{Gaps, Memtable};
use crate::open::open;
use crate::session::TreeSession;
use crate::settings::TreeOptions;
use crate::version::set::check_separate_bytes;
use crate::version::set::to_text;
use crate::version::{Definition, Keyspace, Levels, Version};

/// An ordered key-value store: an LSM tree whose log, memtable and upper levels are the same bytes.
///
/// Shared between threads by `Arc`; each opens sessions of its own.
/// 1. One tree holds its directory: a second opener gets `Conflict`.
/// 2. What was acknowledged is found by the next opening, as the durability asked for promises.
/// 3. Dropping the tree closes it.
#[derive(Debug)]
pub struct Tree {
    pub(crate) shared: Arc<Database>,
    lock: Mutex<Option<Box<dyn StorageLock>>>,
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
        Ok(Arc::new(Self { shared, lock: Mutex::new(Some(lock)) }))
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

    fn log(&self) -> &Log {
        &self.shared.commit.log
    }

    /// `Closed` in place of the `Retry` of work that closing cancelled, for a caller that waited
    /// for it.
    fn unless_closed(&self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::Retry && self.shared.closed.load(Ordering::Acquire) => {
                Err(Error::new(ErrorKind::Closed, "the database was closed meanwhile").because(error))
            }
            result => result,
        }
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
        if name.is_empty() || name.len() > KEYSPACE_NAME_BYTES_MAX {
            let max = KEYSPACE_NAME_BYTES_MAX;
            return Err(Error::invalid(format!("a keyspace name has 1 to {max} bytes, not {}", name.len())));
        }
        check_separate_bytes(settings.separate_bytes)?;
        let mut manifest = shared.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) =
            shared.catalog.version.load().live().find(|keyspace| keyspace.definition.name == name)
        {
            if existing.definition.settings.fits(&settings) {
                let id = existing.id();
                drop(manifest);
                // The call that makes it may not have added its memtable yet.
                shared.add_memtable(id);
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
            Arc::new(Definition::new(id, name, settings, (shared.settings.compression, &shared.semantics))?);
        if definition.settings.separate_bytes.is_some() {
            shared.values.want();
        }
        let start = shared.commit.log.active().base();
        manifest
            .commit(&[
                Change::Keyspace { id, name: name.to_owned(), settings: to_text(&definition.settings) },
                Change::DrainedThrough { keyspace: id, position: start },
            ])
            .map_err(from_storage)?;
        shared.catalog.change_version(|version| {
            let keyspace_count = version.live().count() + 1;
            let gaps = Arc::new(Gaps::new(&shared.reads.balance.gap_budget));
            let bytes = shared.settings.engine.buffer_bytes;
            let keyspace = Keyspace {
                definition: Arc::clone(&definition),
                memtable: Arc::new(Memtable::with_part_of(bytes, keyspace_count, gaps)),
                memtable_start: start,
                frozen: Vec::new(),
                runs: Vec::new(),
                levels: Levels::none(),
                stale_count: 0,
                drained_through: start,
                observed: Arc::default(),
            };
            let index = id as usize;
            if version.keyspaces.len() <= index {
                version.keyspaces.resize(index + 1, None);
            }
            version.keyspaces[index] = Some(Arc::new(keyspace));
        });
        drop(manifest);
        shared.add_memtable(id);
        Ok(KeyspaceId(id))
    }

    fn set_separate_bytes(&self, id: KeyspaceId, bytes: Option<u32>) -> Result<()> {
        self.shared.check_open()?;
        let Database { values, catalog, semantics, .. } = &*self.shared;
        set_separate_bytes(values, catalog, semantics, id, bytes)
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

    fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        let shared = &self.shared;
        shared.check_open()?;
        if id == KEYSPACE_DEFAULT {
            return Err(Error::invalid("the default keyspace cannot be dropped"));
        }
        let mut values = shared.values.plan_dropped_values(&shared.catalog, id.0)?;
        let mut manifest = shared.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = shared.catalog.version.load_full();
        version.keyspace(id.0)?;
        let idle = shared.idle_beside(&version, id)?;
        let mut changes = vec![Change::DropKeyspace { id: id.0 }];
        let deaths = values.changes(&manifest.state().values, &shared.values.map(), &mut changes)?;
        changes.extend(
            idle.iter().map(|(keyspace, position)| Change::DrainedThrough {
                keyspace: *keyspace,
                position: *position,
            }),
        );
        manifest.commit(&changes).map_err(from_storage)?;
        let map = shared.values.install(&mut values, &deaths);
        shared.catalog.change_version(|version| {
            version.values = map.unwrap_or_else(|| Arc::clone(&version.values));
            if let Some(dropped) = version.keyspaces.get_mut(id.0 as usize).and_then(Option::take) {
                for (_, table) in dropped.levels.tables() {
                    table.leave_no_file();
                    table.retire();
                }
            }
            for (keyspace, position) in &idle {
                if let Some(Some(slot)) = version.keyspaces.get_mut(*keyspace as usize) {
                    Arc::make_mut(slot).drained_through = *position;
                }
            }
        });
        // No replay needs these segments, so that no sync need carry them.
        shared.commit.log.forget_below(manifest.state().log_start());
        drop(manifest);
        drop(version);
        shared.forget_memtable(id.0);
        shared.drop_dead_segments();
        // The cause of a refused drain may be gone with the keyspace, and so is the space it took.
        shared.retry_drains();
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is closed"));
        }
        Ok(self.shared.catalog.snapshots.take(|| self.log().watermark()))
    }

    fn flush(&self) -> Result<()> {
        self.shared.check_open()?;
        let through = self.shared.commit.freeze_through()?;
        self.unless_closed(drain_through(&self.shared, through))
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
        self.shared.give_up_spares();
        wait_until(&*self.shared, || false)?;
        let set_aside =
            Inputs::of(&self.shared).damage().why.or_else(|| Inputs::of(&self.shared).failures().why);
        set_aside.map_or(Ok(()), Err)
    }

    fn checkpoint(&self, path: &Path) -> Result<Checkpoint> {
        self.shared.check_open()?;
        self.shared
            .checkpoint(path)
            .map_err(|error| self.shared.catalog.explained(error, self.shared.files.is_shared()))
    }

    fn stats(&self) -> Stats {
        self.shared.stats()
    }

    fn close(&self) -> Result<()> {
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = self.shared.shut_down();
        self.shared.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner).end();
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Calls that still wait for room or for a pace return now; no later event would wake them.
        self.shared.commit.admission.release();
        self.shared.commit.admission.end();
        result
    }

    fn ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Some(self)
    }
}

/// Longest keyspace name.
const KEYSPACE_NAME_BYTES_MAX: usize = 255;

impl Ordered for Tree {
    fn ordered_session(&self) -> Box<dyn OrderedSession> {
        Box::new(TreeSession::new(Arc::clone(&self.shared)))
    }

    fn compact_range(&self, keyspace: KeyspaceId, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        self.flush()?;
        self.unless_closed(self.shared.compact_range(keyspace.0, start, end))?;
        self.shared.give_up_spares();
        Ok(())
    }
}

impl Database {
    /// Keyspaces other than `dropped` that have less log to replay than the manifest says, and from
    /// where. Without this the segments of the dropped keyspace would stay until another one
    /// drains.
    fn idle_beside(&self, version: &Version, dropped: KeyspaceId) -> Result<Vec<(u32, Position)>> {
        let end = self.commit.log.active().base();
        if self.commit.log.advance().map_err(from_storage)? < end {
            // A writer still copies into a segment before it, for any keyspace.
            return Ok(Vec::new());
        }
        let others = version.live().filter(|keyspace| keyspace.id() != dropped.0);
        let starts =
            others.map(|keyspace| (keyspace.id(), keyspace.undrained_from(end), keyspace.drained_through));
        Ok(starts.filter(|(_, start, known)| start > known).map(|(id, start, _)| (id, start)).collect())
    }

    /// Lets records of keyspace `id`, which the version knows, go to the active segment.
    fn add_memtable(&self, id: u32) {
        // A roll that has not seen the keyspace yet ends before, and later ones see it.
        let (_rolling, active) = self.commit.log.hold_active();
        if let Ok(keyspace) = self.catalog.version.load().keyspace(id) {
            active.carried().add(id, &keyspace.memtable);
        }
    }

    /// Refuses records of keyspace `id`, which was dropped, from now on.
    fn forget_memtable(&self, id: u32) {
        // A roll that has not seen the drop ends before.
        let (_rolling, active) = self.commit.log.hold_active();
        active.carried().forget(id);
    }

    /// Ends background work and makes what was acknowledged durable.
    fn shut_down(&self) -> Result<()> {
        self.maintenance.control.cancel();
        self.commit.admission.release();
        self.values.give_up_unfinished();
        self.maintenance.jobs.end();
        self.maintenance.schedule.stop();
        for pool in self.reads.pool.iter().chain(&self.reads.share_pool) {
            pool.shutdown();
        }
        if self.read_only {
            return Ok(());
        }
        self.give_up_spares();
        self.bury()?;
        self.commit.log.check().map_err(from_storage)?;
        let end = self.commit.log.end().map_err(from_storage)?;
        self.commit.log.cut_file(end).map_err(from_storage)?;
        self.commit.log.sync_through(end).map_err(from_storage)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        manifest
            .commit(&[Change::CleanEnd { position: end }, Change::Tick { ms: self.now_ms() }])
            .map_err(from_storage)
    }
}

#[cfg(test)]
pub(crate) mod tests;
