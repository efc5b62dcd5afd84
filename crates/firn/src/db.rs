//! One database: an engine, where its files lie, and who does its background work.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::blocking::Blocking;
use firn_engine::{
    Batch, BatchLimit, Change, Checkpoint, CompactionFilter, Engine, Error, KEYSPACE_DEFAULT, KeyspaceId,
    KeyspaceSettings, MergeOperator, Ordered, Position, PrefixExtractor, ReadAt, Result, ScanBatch,
    ScanRange, Semantics, Snapshot, Stats, WriteOptions,
};
use firn_storage::place::{Local, LocalOptions};
use firn_storage::{Clock, Spawn, Storage, SystemClock, ThreadSpawn};
use firn_tree::{Background, Tree, TreeOptions};

use crate::Settings;

/// A database in this process. Cheap to share (`&Db` or `Arc<Db>`) between threads.
///
/// The calls here block, use the default keyspace, and borrow a session from a pool; a loop that does millions of
/// them is faster on a [`session`](Self::session) of its own. Dropping the last handle closes the database.
///
/// 1. What a write acknowledged survives what the database's durability names.
/// 2. One process has a directory open for writing at a time.
pub struct Db {
    engine: Arc<dyn Ordered>,
    idle: Mutex<Vec<Blocking>>,
    spawn: Arc<ThreadSpawn>,
}

/// How a database is opened: settings are data, everything else is a component.
#[derive(Debug)]
pub struct Builder {
    path: PathBuf,
    settings: Settings,
    semantics: Semantics,
    storage: Option<Arc<dyn Storage>>,
    clock: Arc<dyn Clock>,
    create: bool,
    read_only: bool,
}

impl Builder {
    /// Replaces all settings.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Whether a missing database is created. Default yes.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens beside other readers and changes nothing on disk; excludes a writer. Default no.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Registers a merge operator; keyspaces name it.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.semantics = self.semantics.with_merge_operator(operator);
        self
    }

    /// Registers a compaction filter; keyspaces name it.
    #[must_use]
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Self {
        self.semantics = self.semantics.with_compaction_filter(filter);
        self
    }

    /// Registers a prefix extractor; keyspaces name it.
    #[must_use]
    pub fn prefix_extractor(mut self, extractor: Arc<dyn PrefixExtractor>) -> Self {
        self.semantics = self.semantics.with_prefix_extractor(extractor);
        self
    }

    /// Puts the files elsewhere than in a local directory; the path is then only a name.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Takes time from `clock`.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Opens the database. Blocks for recovery.
    ///
    /// # Errors
    /// `Conflict` if another process has it open; `Invalid` for settings out of range, a directory that is no
    /// database, a newer format, or an operator that is not registered; `Corrupt` with file and offset.
    pub fn open(self) -> Result<Db> {
        self.settings.validate()?;
        let storage = match self.storage {
            Some(storage) => storage,
            None => {
                let create = self.create && !self.read_only;
                let local =
                    Local::open(&self.path, LocalOptions { create }).map_err(firn_tree::storage_error)?;
                Arc::new(local)
            }
        };
        let spawn = Arc::new(ThreadSpawn::new());
        let tree = Tree::open(TreeOptions {
            storage,
            settings: self.settings.to_tree(),
            semantics: self.semantics,
            clock: self.clock,
            background: Background::Threads(Arc::clone(&spawn) as Arc<dyn Spawn>),
            seed: u64::from(std::process::id()),
            create: self.create,
            read_only: self.read_only,
        })?;
        Ok(Db { engine: tree, idle: Mutex::default(), spawn })
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in the directory `path` with default settings, creating it if there is none.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Opens with settings and components of one's own.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder {
            path: path.as_ref().to_owned(),
            settings: Settings::default(),
            semantics: Semantics::new(),
            storage: None,
            clock: Arc::new(SystemClock::new()),
            create: true,
            read_only: false,
        }
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

    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.with_session(|session| session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key.as_ref()))
    }

    /// Sets `key` to `value`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        let options = WriteOptions::default();
        self.with_session(|session| session.put(KEYSPACE_DEFAULT, key.as_ref(), value.as_ref(), options))
    }

    /// Removes `key`.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Position> {
        self.with_session(|session| session.delete(KEYSPACE_DEFAULT, key.as_ref(), WriteOptions::default()))
    }

    /// Applies all of `batch` or none of it.
    pub fn write(&self, batch: &Batch) -> Result<Position> {
        self.with_session(|session| session.write(batch, WriteOptions::default()))
    }

    /// Replaces the value of `key` by what `f` makes of it, atomically; answers what the last call of `f` answered.
    pub fn update<R: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        let options = WriteOptions::default();
        self.with_session(|session| session.update(KEYSPACE_DEFAULT, key.as_ref(), options, f))
    }

    /// Removes every key of `start..end`.
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<Position> {
        self.engine.delete_range(KEYSPACE_DEFAULT, start.as_ref(), end.as_ref())
    }

    /// Keys and values of `range` in its order, as they are now, however long the iteration takes.
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        let mut session = self.session();
        let scan = session.session().scan(ReadAt::Latest, KEYSPACE_DEFAULT, range)?;
        Ok(Scan { session, scan, batch: ScanBatch::new(), next: 0 })
    }

    /// The keyspace called `name`, created with default settings if there is none.
    pub fn keyspace(&self, name: &str) -> Result<KeyspaceId> {
        match self.engine.keyspace(name) {
            Some(id) => Ok(id),
            None => self.engine.create_keyspace(name, KeyspaceSettings::default()),
        }
    }

    /// A point in time whose data stays readable while the snapshot lives.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.engine.snapshot()
    }

    /// A consistent copy at `path`, which opens as a database of its own.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<Checkpoint> {
        self.engine.checkpoint(path.as_ref())
    }

    /// Writes everything acknowledged so far to tables.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Counters and sizes.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Makes everything durable and ends; later calls are refused. Errors that dropping would hide show here.
    pub fn close(&self) -> Result<()> {
        let closed = self.engine.close();
        let panicked = self.spawn.join_all();
        closed?;
        match panicked.first() {
            None => Ok(()),
            Some(name) => Err(Error::bug(format!("background thread {name} panicked"))),
        }
    }

    fn with_session<T>(&self, call: impl FnOnce(&mut Blocking) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = idle.unwrap_or_else(|| self.session());
        let answer = call(&mut session);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        answer
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ignored = self.close();
    }
}

/// Records of a scan, one after the other; owns what it reads.
pub struct Scan {
    session: Blocking,
    scan: Box<dyn firn_engine::Scan>,
    batch: ScanBatch,
    next: usize,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.batch.records().nth(self.next) {
                self.next += 1;
                return Some(Ok((key.to_vec(), value.to_vec())));
            }
            if self.batch.is_finished() {
                return None;
            }
            self.next = 0;
            let limit = BatchLimit { records: 256, ..BatchLimit::default() };
            if let Err(error) = self.session.next_batch(&mut *self.scan, limit, &mut self.batch) {
                self.batch.clear();
                self.batch.finish();
                return Some(Err(error));
            }
        }
    }
}
