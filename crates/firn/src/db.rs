//! One database: an engine and the threads of its background work.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::blocking::Blocking;
use firn_engine::{
    Batch, Change, Checkpoint, Engine, Error, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered,
    Position, Result, ScanRange, Snapshot, Stats, Values, WriteOptions,
};
use firn_storage::ThreadSpawn;

use crate::{Builder, Keyspace, Scan};

/// A database in this process. Cheap to share (`&Db` or `Arc<Db>`) between threads.
///
/// The calls here block, use the default keyspace, and borrow a session from a pool. A loop that
/// does millions of them is faster on a [`session`](Self::session) of its own. Dropping the last
/// handle closes the database.
///
/// 1. An acknowledged write survives what the database's durability names.
/// 2. One process has a directory open for writing at a time.
pub struct Db {
    engine: Arc<dyn Ordered>,
    idle: Mutex<Vec<Blocking>>,
    spawn: Arc<ThreadSpawn>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in the directory `path` with default settings, creating it if there is
    /// none.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Opens with settings and components of one's own.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// A database over `engine`, whose background threads `spawn` began.
    pub(crate) fn new(engine: Arc<dyn Ordered>, spawn: Arc<ThreadSpawn>) -> Self {
        Self { engine, idle: Mutex::default(), spawn }
    }

    /// The engine itself: sessions that do not block, snapshots, statistics.
    pub fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine) as Arc<dyn Engine>
    }

    /// The ordered half of the engine.
    pub fn ordered(&self) -> &Arc<dyn Ordered> {
        &self.engine
    }

    /// A blocking session of the caller's own: the fast way to do many operations on one thread.
    pub fn session(&self) -> Blocking {
        Blocking::new(self.engine.session())
    }

    /// The keyspace `id`, to read and write it: all calls below are calls of the default keyspace.
    pub fn in_keyspace(&self, id: KeyspaceId) -> Keyspace<'_> {
        Keyspace::new(self, id)
    }

    /// The default keyspace, to read it at a snapshot or to write it with options.
    pub fn in_default(&self) -> Keyspace<'_> {
        self.in_keyspace(KEYSPACE_DEFAULT)
    }

    /// The value of `key`. See [`Keyspace::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.in_default().get(key)
    }

    /// Values of `keys` as of one point, in their order. See [`Keyspace::multi_get`].
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Values> {
        self.in_default().multi_get(keys)
    }

    /// Sets `key` to `value`. See [`Keyspace::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        self.in_default().put(key, value)
    }

    /// Removes `key`. See [`Keyspace::delete`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Position> {
        self.in_default().delete(key)
    }

    /// Replaces the value of `key` by what `f` makes of it, atomically. See [`Keyspace::update`].
    pub fn update<R: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        self.in_default().update(key, f)
    }

    /// Removes every key of `start..end`. See [`Keyspace::delete_range`].
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<Position> {
        self.in_default().delete_range(start, end)
    }

    /// Keys and values of `range` in its order. See [`Keyspace::scan`].
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        self.in_default().scan(range)
    }

    /// Applies all of `batch` or none of it, whichever keyspaces it touches.
    ///
    /// # Errors
    /// `Invalid` for an empty batch; else as [`Keyspace::put`].
    pub fn write(&self, batch: &Batch) -> Result<Position> {
        self.write_with(batch, WriteOptions::default())
    }

    /// As [`write`](Self::write) with a durability of its own. Expiry is the operations', not the
    /// batch's.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<Position> {
        self.with_session(|session| session.write(batch, options))
    }

    /// The keyspace called `name`, created with default settings if there is none.
    ///
    /// # Errors
    /// As [`create_keyspace`](Self::create_keyspace), if there is none.
    pub fn keyspace(&self, name: &str) -> Result<KeyspaceId> {
        match self.engine.keyspace(name) {
            Some(id) => Ok(id),
            None => self.engine.create_keyspace(name, KeyspaceSettings::default()),
        }
    }

    /// Creates a keyspace, durable on return; the one there is if it has the same name and
    /// settings.
    ///
    /// # Errors
    /// `Conflict` if the name exists with other settings; `Invalid` if an operator it names is not
    /// registered; `Closed` where writes are.
    pub fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<KeyspaceId> {
        self.engine.create_keyspace(name, settings)
    }

    /// Changes from how many bytes on values of a keyspace lie beside the tree, durably; `None`: as
    /// the database's settings say.
    ///
    /// New values follow at once, older ones when a compaction meets them;
    /// [`Keyspace::compact_range`] meets all. At least 32.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace, or for fewer than 32 bytes; `Closed` where writes
    /// are.
    pub fn set_separate_bytes(&self, id: KeyspaceId, bytes: Option<u32>) -> Result<()> {
        self.engine.set_separate_bytes(id, bytes)
    }

    /// Names and ids of all keyspaces, by id; the default one is called `default`.
    pub fn keyspaces(&self) -> Vec<(String, KeyspaceId)> {
        self.engine.keyspaces()
    }

    /// Drops a keyspace with all its data, durable on return.
    ///
    /// # Errors
    /// `Invalid` for the default keyspace and for one that is not there; `Closed` where writes are.
    pub fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        self.engine.drop_keyspace(id)
    }

    /// A point in time whose data stays readable while the snapshot lives. Read it with
    /// [`Keyspace::at`].
    ///
    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.engine.snapshot()
    }

    /// A consistent copy at `path`, which opens as a database of its own. Immutable files are
    /// linked, so `path` must be missing or empty, on the same file system. What lies on shared
    /// storage is copied: all of the copy lies at `path`.
    ///
    /// # Errors
    /// `Invalid` if `path` holds something; `Retry` when the disk is full; `Closed` where writes
    /// are. What was made is removed then, but for the directory itself; where that fails too, the
    /// message says so.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<Checkpoint> {
        self.engine.checkpoint(path.as_ref())
    }

    /// Makes every write acknowledged so far durable at `Disk` and answers the position through
    /// which it is.
    ///
    /// # Errors
    /// `Closed` with the cause if the sync fails: then nothing is written any more.
    pub fn sync(&self) -> Result<Position> {
        self.engine.sync()
    }

    /// Writes everything acknowledged so far to tables. Never needed for durability: it shortens
    /// the next opening.
    ///
    /// # Errors
    /// `Retry` when the disk is full; `Closed` where writes are.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Waits until no background work is left.
    ///
    /// # Errors
    /// What background work failed with, if it failed for good.
    pub fn wait_idle(&self) -> Result<()> {
        self.engine.wait_idle()
    }

    /// Counters and sizes.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Makes everything durable and ends; later calls are refused. Errors that dropping would hide
    /// show here.
    pub fn close(&self) -> Result<()> {
        let closed = self.engine.close();
        let panicked = self.spawn.join_all();
        closed?;
        match panicked.first() {
            None => Ok(()),
            Some(name) => Err(Error::bug(format!("background thread {name} panicked"))),
        }
    }

    /// Calls with a session from the pool: as many exist as threads were ever in here at once.
    pub(crate) fn with_session<T>(&self, call: impl FnOnce(&mut Blocking) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = idle.unwrap_or_else(|| self.session());
        let answer = call(&mut session);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        answer
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // A caller that needs the result calls `close`.
        let _ignored = self.close();
    }
}
