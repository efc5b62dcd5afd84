//! The hashed engine as an engine.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::{
    ColdStats, DatabaseCopy, Engine, Error, ErrorKind, HashStats, Hashed, HashedSession, KEYSPACE_DEFAULT,
    KeyspaceId, KeyspaceSettings, KeyspaceStats, Ordered, Position, Result, Session, Snapshot, Stats,
    ValueSource, WriteOptions,
};
use firn_format::hybrid::SEGMENT_HEADER_BYTES;
use firn_format::manifest::Change;
use firn_maintenance::{step, wait_until};
use firn_storage::StorageLock;

use crate::database::Database;
use crate::keyspaces::{Keyspace, SLOT_IN_KEY, id_of_keyspace, with_slots_of};
use crate::recovery::open;
use crate::session::HashSession;
use crate::settings::HashOptions;

/// Longest name of a keyspace.
const NAME_BYTES_MAX: usize = 255;

/// A key-value store without order: a hash index over a log whose newest part is changed where it
/// lies.
///
/// Shared between threads by `Arc`; each opens sessions of its own.
/// 1. One hashed engine holds its directory: a second opener gets `Conflict`.
/// 2. What was acknowledged is found by the next opening, as the durability asked for promises.
///    "Prefix" means of each session: of two sessions that did not wait for each other, the later
///    write may be recovered without the earlier.
/// 3. Dropping it closes it.
#[derive(Debug)]
pub struct HashLog {
    pub(crate) database: Arc<Database>,
    lock: Mutex<Option<Box<dyn StorageLock>>>,
}

impl HashLog {
    /// Opens or creates the database of `options`. Blocks for recovery, which reads the whole log.
    ///
    /// # Errors
    /// `Conflict` if another process has it open; `Invalid` for settings out of range, a directory
    /// without a database, a newer format, or a keyspace whose operator is not registered;
    /// `Corrupt` with file and offset when something durable is damaged, or the database is one of
    /// the ordered engine.
    pub fn open(options: &HashOptions) -> Result<Arc<Self>> {
        let (database, lock) = open(options)?;
        Ok(Arc::new(Self { database, lock: Mutex::new(Some(lock)) }))
    }

    /// Does one unit of background work on this thread; returns whether there was any. For
    /// [`crate::Background::Manual`].
    ///
    /// # Errors
    /// What the unit failed with.
    pub fn step(&self) -> Result<bool> {
        step(&*self.database)
    }

    fn shut_down(&self) -> Result<()> {
        let database = &*self.database;
        database.maintenance.schedule.stop();
        if let Some(pool) = &database.maintenance.pool {
            pool.shutdown();
        }
        match database.maintenance.failure.get() {
            Some(failure) => Err(failure.clone()),
            None => {
                database.checkpoint()?;
                let mut manifest = database.manifest.lock().unwrap_or_else(PoisonError::into_inner);
                let given = Change::PositionsGiven { position: database.snapshots.given() };
                database.commit(&mut manifest, &[given])
            }
        }
    }
}

impl Drop for HashLog {
    fn drop(&mut self) {
        // There is no caller to return the error to; the redo log keeps what was acknowledged.
        let _ignored = self.close();
    }
}

impl Database {
    /// What this engine alone counts.
    fn hash_stats(&self) -> HashStats {
        let (segments, _) = self.device.bases();
        let flushed = self.store.log.markers.flushed.load(Ordering::Acquire);
        let words = segments.first().map_or(0, |first| flushed.saturating_sub(*first));
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (counters, cold) = (&self.counters, &self.store.cold);
        let (cold_segments, _) = cold.device.bases();
        let cold_words = cold_segments.first().map_or(0, |first| cold.end().saturating_sub(*first));
        let (runs, growths) = (cold.runs(), self.store.index.growths());
        HashStats {
            index_bytes: self.store.index.bytes(),
            index_entry_count: self.store.index.entry_count(),
            growth_count: growths.begun.load(std::sync::atomic::Ordering::Relaxed),
            growth_wait_count: growths.waits.count(),
            growth_wait_us_max: growths.waits.longest_us(),
            stop_wait_count: self.store.epochs.stop_waits().count(),
            stop_wait_us_max: self.store.epochs.stop_waits().longest_us(),
            resident_bytes: self.store.log.used_bytes(),
            cache_bytes: self.store.cache.as_ref().map_or(0, crate::read_cache::ReadCache::bytes),
            segment_count: segments.len() as u64,
            segment_bytes: 8 * words + (SEGMENT_HEADER_BYTES * segments.len()) as u64,
            flush_write_bytes_total: count(&counters.flush_bytes),
            value_write_bytes_total: count(&self.values.written_bytes),
            compaction_read_bytes_total: count(&counters.compacted_bytes),
            compaction_copy_bytes_total: count(&counters.copied_bytes),
            cold: ColdStats {
                segment_count: cold_segments.len() as u64,
                segment_bytes: 8 * cold_words + (SEGMENT_HEADER_BYTES * cold_segments.len()) as u64,
                run_entry_count: runs.iter().map(|run| run.entry_count()).sum(),
                run_bytes: runs.iter().map(|run| run.file_bytes()).sum(),
                run_write_bytes_total: count(&counters.run_bytes),
                memory_bytes: cold.memory_bytes(),
            },
            checkpoint_count: count(&counters.checkpoints),
        }
    }
}

impl Engine for HashLog {
    fn session(&self) -> Box<dyn Session> {
        Box::new(HashSession::new(&self.database))
    }

    fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<KeyspaceId> {
        let database = &*self.database;
        database.check_writes()?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let found = name.len();
            return Err(Error::invalid(format!(
                "a keyspace name has 1 to {NAME_BYTES_MAX} bytes, not {found}"
            )));
        }
        let mut manifest = database.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) = database.keyspaces.find(name) {
            if settings.has_slot_in_key && existing.id.0 & SLOT_IN_KEY == 0 {
                let message = format!(
                    "keyspace {name:?} has slots by the hashes of its keys, and keys that say their slots are wanted: \
                     copy the database to a new directory with `firn copy --engine hashlog`"
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            if existing.settings.fits(&settings) {
                return Ok(existing.id);
            }
            let message = format!("keyspace {name:?} exists with other settings");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let number = u32::try_from(manifest.state().next_number).ok().filter(|number| *number < SLOT_IN_KEY);
        let number = number.ok_or_else(|| Error::invalid("there are no keyspace ids left"))?;
        let id = id_of_keyspace(number, &settings);
        let keyspace = Keyspace::new(KeyspaceId(id), name, settings, &database.env.semantics)?;
        let settings = keyspace.settings.to_text();
        let change = Change::Keyspace { id, name: name.to_owned(), settings };
        database.commit(&mut manifest, &[change])?;
        database.keyspaces.put(keyspace);
        Ok(KeyspaceId(id))
    }

    fn keyspace(&self, name: &str) -> Option<KeyspaceId> {
        self.database.keyspaces.find(name).map(|keyspace| keyspace.id)
    }

    fn keyspaces(&self) -> Vec<(String, KeyspaceId)> {
        let all = self.database.keyspaces.all();
        all.iter().map(|keyspace| (keyspace.name.clone(), keyspace.id)).collect()
    }

    fn keyspace_settings(&self, id: KeyspaceId) -> Result<KeyspaceSettings> {
        let keyspace = self.database.keyspaces.get(id)?;
        Ok(with_slots_of(id.0, keyspace.settings.clone()))
    }

    fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        let database = &*self.database;
        database.check_writes()?;
        if id == KEYSPACE_DEFAULT {
            return Err(Error::invalid("the default keyspace cannot be dropped"));
        }
        let mut manifest = database.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        database.keyspaces.check(id)?;
        database.commit(&mut manifest, &[Change::DropKeyspace { id: id.0 }])?;
        database.keyspaces.remove(id);
        Ok(())
    }

    fn set_separate_bytes(&self, id: KeyspaceId, bytes: Option<u32>) -> Result<()> {
        let database = &*self.database;
        database.check_writes()?;
        let mut manifest = database.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let old = database.keyspaces.get(id)?;
        let settings = KeyspaceSettings { separate_bytes: bytes, ..old.settings.clone() };
        let keyspace = Keyspace::new(id, &old.name, settings, &database.env.semantics)?;
        let settings = keyspace.settings.to_text();
        let change = Change::Keyspace { id: id.0, name: old.name.clone(), settings };
        database.commit(&mut manifest, &[change])?;
        database.keyspaces.put(keyspace);
        Ok(())
    }

    fn put_from(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value_bytes: u64,
        source: &mut dyn Read,
        options: WriteOptions,
    ) -> Result<Position> {
        let mut session = HashSession::new(&self.database);
        session.set_inline(true);
        session.put_from(keyspace, key, ValueSource::new(source, value_bytes), options)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        self.database.snapshot()
    }

    fn flush(&self) -> Result<()> {
        self.database.check_writes()?;
        self.database.checkpoint()
    }

    fn sync(&self) -> Result<Position> {
        self.database.check_writes()?;
        let position = self.database.snapshots.given();
        self.database.sync()?;
        Ok(position)
    }

    fn checkpointed(&self) -> Option<Position> {
        Some(Position(self.database.counters.checkpointed.load(Ordering::Acquire)))
    }

    fn wait_idle(&self) -> Result<()> {
        wait_until(&*self.database, || false)
    }

    fn copy_to(&self, path: &Path) -> Result<DatabaseCopy> {
        self.database.check_open()?;
        self.database.copy_to(path)
    }

    fn stats(&self) -> Stats {
        let database = &*self.database;
        let keyspaces = database.keyspaces.all();
        let stats_of = |keyspace: &Arc<Keyspace>| KeyspaceStats {
            id: keyspace.id.0,
            name: keyspace.name.clone(),
            ..KeyspaceStats::default()
        };
        let failure = database.maintenance.failure.get();
        let (redo, hash) = (database.store.redo.as_ref(), database.hash_stats());
        Stats {
            durability: database.env.settings.durability,
            user_write_bytes_total: database.counters.user_write_bytes.load(Ordering::Relaxed),
            log_write_bytes_total: redo.map_or(0, crate::redo::Redo::bytes_total),
            memory_bytes: hash.index_bytes + hash.resident_bytes + hash.cache_bytes + hash.cold.memory_bytes,
            memory_bytes_max: database.env.settings.memory_bytes,
            log_bytes: redo.map_or(0, crate::redo::Redo::bytes),
            stop_us_total: database.counters.stopped.stop_us(),
            stop_wall_us_total: database.counters.stopped.stop_wall_us(database.env.clock.now()),
            read_miss_count: database.counters.device_reads.load(Ordering::Relaxed)
                + database.store.cold.reads.load(Ordering::Relaxed),
            snapshot_count: database.snapshots.count(),
            write_failure: failure.map(ToString::to_string),
            keyspaces: keyspaces.iter().map(stats_of).collect(),
            hash: Some(hash),
            ..Stats::default()
        }
    }

    fn close(&self) -> Result<()> {
        if self.database.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = self.shut_down();
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        result
    }

    fn ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        None
    }

    fn hashed(self: Arc<Self>) -> Option<Arc<dyn Hashed>> {
        Some(self)
    }
}

impl Hashed for HashLog {
    fn hashed_session(&self) -> Box<dyn HashedSession> {
        Box::new(HashSession::new(&self.database))
    }
}
