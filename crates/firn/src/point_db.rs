//! One database over any engine: what needs no order of keys.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::{
    Batch, Change, DatabaseCopy, Engine, Error, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Position,
    ReadAt, Result, Snapshot, Stats, Values, WriteOptions,
};
use firn_storage::{Clock, Priority, Spawn, ThreadSpawn};

use crate::EngineKind;

/// A database in this process, over an engine that may keep its keys in no order.
///
/// A handle: cheap to clone, to keep, and to send to other threads; all clones are one database.
/// The calls here block, use the default keyspace, and borrow a session from a pool. A loop that
/// does millions of them is faster on a [`session`](Self::session) of its own. Dropping the last
/// handle closes the database. In a function that the database calls on a thread of its own, as a
/// pending update, another thread then closes it, soon after that function has returned.
///
/// [`Db`](crate::Db) has the same calls and those that need order; [`ordered`](Self::ordered) leads
/// there.
///
/// 1. An acknowledged write survives what the database's durability names.
/// 2. One process has a directory open for writing at a time.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// use firn::{Change, PointDb};
///
/// fn visits(db: &PointDb, page: &str) -> firn::Result<u64> {
///     let number = |value: &[u8]| value.try_into().map_or(0, u64::from_le_bytes);
///     db.update(page, move |value| {
///         let visits = value.map_or(0, number) + 1;
///         (Change::Put(visits.to_le_bytes().to_vec()), visits)
///     })
/// }
/// assert_eq!((visits(&db, "home")?, visits(&db, "home")?), (1, 2));
/// let found = db.multi_get(&["home", "away"])?;
/// assert!(found.get(0).is_some() && found.get(1).is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PointDb {
    shared: Arc<Shared>,
}

struct Shared {
    kind: EngineKind,
    engine: Arc<dyn Engine>,
    idle: Mutex<Vec<Blocking>>,
    spawn: Arc<ThreadSpawn>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for PointDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PointDb").finish_non_exhaustive()
    }
}

impl PointDb {
    /// A database over `engine`, which is of this `kind` and whose background threads `spawn`
    /// began.
    pub(crate) fn new(
        kind: EngineKind,
        engine: Arc<dyn Engine>,
        spawn: Arc<ThreadSpawn>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { shared: Arc::new(Shared { kind, engine, idle: Mutex::default(), spawn, clock }) }
    }

    /// Which engine keeps the database.
    pub fn engine_kind(&self) -> EngineKind {
        self.shared.kind
    }

    /// Blocks this thread for `time`.
    pub(crate) fn pause(&self, time: Duration) {
        self.shared.clock.sleep(time);
    }

    /// The engine itself: sessions that do not block, snapshots, statistics.
    pub fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.shared.engine)
    }

    /// A blocking session of the caller's own: the fast way to do many operations on one thread.
    pub fn session(&self) -> Blocking {
        Blocking::new(self.shared.engine.session())
    }

    /// The value of `key`. See [`PointKeyspace::get`](crate::PointKeyspace::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.pooled().get(ReadAt::Latest, KEYSPACE_DEFAULT, key.as_ref())
    }

    /// Whether `key` has a value. See
    /// [`PointKeyspace::contains_key`](crate::PointKeyspace::contains_key).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.pooled().contains_key(ReadAt::Latest, KEYSPACE_DEFAULT, key.as_ref())
    }

    /// Values of `keys` as of one point, in their order. See
    /// [`PointKeyspace::multi_get`](crate::PointKeyspace::multi_get).
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Values> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.pooled().multi_get(ReadAt::Latest, KEYSPACE_DEFAULT, &keys)
    }

    /// Sets `key` to `value`. See [`PointKeyspace::put`](crate::PointKeyspace::put).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        let (key, value, options) = (key.as_ref(), value.as_ref(), WriteOptions::default());
        self.pooled().put(KEYSPACE_DEFAULT, key, value, options)
    }

    /// Sets `key` to `value` for so long. See
    /// [`PointKeyspace::put_for`](crate::PointKeyspace::put_for).
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<Position> {
        let options = WriteOptions { expires_at_ms: self.expiry_after(ttl), ..WriteOptions::default() };
        self.pooled().put(KEYSPACE_DEFAULT, key.as_ref(), value.as_ref(), options)
    }

    /// Removes `key`. See [`PointKeyspace::delete`](crate::PointKeyspace::delete).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Position> {
        let options = WriteOptions::default();
        self.pooled().delete(KEYSPACE_DEFAULT, key.as_ref(), options)
    }

    /// Replaces the value of `key` by what `f` makes of it, atomically. See
    /// [`PointKeyspace::update`](crate::PointKeyspace::update).
    pub fn update<R: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        let options = WriteOptions::default();
        self.pooled().update(KEYSPACE_DEFAULT, key.as_ref(), options, f)
    }

    /// Applies all of `batch` or none of it, whichever keyspaces it touches.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// let (people, by_mail) = (db.keyspace("people")?, db.keyspace("by mail")?);
    /// let mut batch = firn::Batch::new();
    /// batch.put(people, b"1", b"Anna").put(by_mail, b"anna@example.org", b"1");
    /// db.write(&batch)?;
    /// assert!(db.in_keyspace(by_mail).contains_key("anna@example.org")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` for an empty batch; else as [`PointKeyspace::put`](crate::PointKeyspace::put).
    pub fn write(&self, batch: &Batch) -> Result<Position> {
        self.write_with(batch, WriteOptions::default())
    }

    /// As [`write`](Self::write) with a durability of its own. Expiry is the operations', not the
    /// batch's.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<Position> {
        self.pooled().write(batch, options)
    }

    /// When a value expires that is to live for `ttl` from now on: milliseconds since the Unix
    /// epoch by the database's clock, for [`Batch::put_until`] and
    /// [`WriteOptions::expires_at_ms`].
    ///
    /// Parts of a millisecond are rounded up. A time too far away for the clock is the latest that
    /// there is. The answer is never 0, which would mean that the value does not expire.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// use std::time::Duration;
    ///
    /// let (id, soon) = (firn::KEYSPACE_DEFAULT, db.expiry_after(Duration::from_secs(60)));
    /// let mut batch = firn::Batch::new();
    /// batch.put_until(id, b"code", b"1234", soon).put(id, b"name", b"anna");
    /// db.write(&batch)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn expiry_after(&self, ttl: Duration) -> u64 {
        let ttl_ms = ttl.as_nanos().div_ceil(1_000_000);
        let ttl_ms = u64::try_from(ttl_ms).unwrap_or(u64::MAX);
        self.shared.clock.unix_ms().saturating_add(ttl_ms).max(1)
    }

    /// The keyspace called `name`, created with default settings if there is none. Read and write
    /// it by [`in_keyspace`](Self::in_keyspace); in a batch it goes by this number.
    ///
    /// # Errors
    /// As [`create_keyspace`](Self::create_keyspace), if there is none.
    pub fn keyspace(&self, name: &str) -> Result<KeyspaceId> {
        match self.shared.engine.keyspace(name) {
            Some(id) => Ok(id),
            None => self.shared.engine.create_keyspace(name, KeyspaceSettings::default()),
        }
    }

    /// Creates a keyspace, durable on return; the one there is if it has the same name and
    /// settings.
    ///
    /// # Errors
    /// `Conflict` if the name exists with other settings; `Invalid` if an operator it names is not
    /// registered; `Closed` where writes are.
    pub fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<KeyspaceId> {
        self.shared.engine.create_keyspace(name, settings)
    }

    /// Changes from how many bytes on values of a keyspace are separated, durably; `None`: as
    /// the database's settings say.
    ///
    /// New values follow at once, older ones when a compaction meets them;
    /// [`Keyspace::compact_range`](crate::Keyspace::compact_range) meets all. At least 32.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace, or for fewer than 32 bytes; `Closed` where writes
    /// are.
    pub fn set_separate_bytes(&self, id: KeyspaceId, bytes: Option<u32>) -> Result<()> {
        self.shared.engine.set_separate_bytes(id, bytes)
    }

    /// Names and ids of all keyspaces, by id; the default one is called `default`.
    pub fn keyspaces(&self) -> Vec<(String, KeyspaceId)> {
        self.shared.engine.keyspaces()
    }

    /// What a keyspace was created with, and what was changed since.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace.
    pub fn keyspace_settings(&self, id: KeyspaceId) -> Result<KeyspaceSettings> {
        self.shared.engine.keyspace_settings(id)
    }

    /// Drops a keyspace with all its data, durable on return.
    ///
    /// # Errors
    /// `Invalid` for the default keyspace and for one that is not there; `Closed` where writes are.
    pub fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        self.shared.engine.drop_keyspace(id)
    }

    /// A point in time whose data stays readable while the snapshot lives. Read it with
    /// [`PointKeyspace::at`](crate::PointKeyspace::at).
    ///
    /// What it sees is not compacted away, so a snapshot that is kept for long takes space.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// db.put("k", "old")?;
    /// let before = db.snapshot()?;
    /// db.put("k", "new")?;
    /// assert_eq!(db.in_default().at(&before).get("k")?.as_deref(), Some(&b"old"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.shared.engine.snapshot()
    }

    /// A consistent copy at `path`, which opens as a database of its own. `path` must be missing or
    /// empty. Immutable files are linked; where `path` is on another file system they are copied.
    /// What lies on shared storage is copied too: all of the copy lies at `path`.
    ///
    /// # Errors
    /// `Invalid` if `path` holds something; `Retry` when the disk is full; `Closed` where writes
    /// are. What was made is removed then, but for the directory itself; where that fails too, the
    /// message says so.
    pub fn copy_to(&self, path: impl AsRef<Path>) -> Result<DatabaseCopy> {
        self.shared.engine.copy_to(path.as_ref())
    }

    /// Makes every write acknowledged so far durable at `Disk` and answers the position through
    /// which it is.
    ///
    /// # Errors
    /// `Closed` with the cause if the sync fails: then nothing is written any more.
    pub fn sync(&self) -> Result<Position> {
        self.shared.engine.sync()
    }

    /// Writes everything acknowledged so far to tables. Never needed for durability: it shortens
    /// the next opening.
    ///
    /// # Errors
    /// `Retry` when the disk is full; `Closed` where writes are.
    pub fn flush(&self) -> Result<()> {
        self.shared.engine.flush()
    }

    /// Waits until no background work is left.
    ///
    /// # Errors
    /// What background work failed with, if it failed for good.
    pub fn wait_idle(&self) -> Result<()> {
        self.shared.engine.wait_idle()
    }

    /// Counters and sizes. Printed they are grouped and in units for people; programs read the
    /// fields.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// db.put("k", "v")?;
    /// let stats = db.stats();
    /// assert!(stats.to_string().contains("memtable 1 record") && stats.memory_bytes > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.shared.engine.stats()
    }

    /// Makes everything durable and ends; waits for background work to end. Later calls are refused
    /// through all handles, sessions and scans. A read that another thread is in the midst of may
    /// still answer, and until then another opening is a `Conflict`. Errors that dropping would
    /// hide show here.
    ///
    /// # Errors
    /// `Invalid` in a function that the database calls on a thread of its own, as a pending update
    /// or a compaction filter: closing would wait for it. What making durable fails with.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }

    /// A session from the pool: as many exist as threads were ever in here at once.
    pub(crate) fn pooled(&self) -> Pooled<'_> {
        let idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Pooled { session: Some(idle.unwrap_or_else(|| self.session())), pool: &self.shared.idle }
    }
}

/// A session that goes back to the pool, unless the thread panics while it has it.
pub(crate) struct Pooled<'p> {
    /// `None` once it has gone back.
    session: Option<Blocking>,
    pool: &'p Mutex<Vec<Blocking>>,
}
impl Deref for Pooled<'_> {
    type Target = Blocking;

    fn deref(&self) -> &Blocking {
        self.session.as_ref().expect("a session that has not gone back")
    }
}

impl DerefMut for Pooled<'_> {
    fn deref_mut(&mut self) -> &mut Blocking {
        self.session.as_mut().expect("a session that has not gone back")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        // What a panic left of a session is not for others.
        if let Some(session) = self.session.take()
            && !std::thread::panicking()
        {
            self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}

impl Shared {
    fn close(&self) -> Result<()> {
        if self.spawn.is_own_thread() {
            let message = "a function that the database calls cannot close it, since closing waits for that \
                           function: close it elsewhere, or drop the handle";
            return Err(Error::invalid(message));
        }
        close(&*self.engine, &self.spawn)
    }
}

fn close(engine: &dyn Engine, spawn: &ThreadSpawn) -> Result<()> {
    let closed = engine.close();
    let panicked = spawn.join_all();
    closed?;
    match panicked.first() {
        None => Ok(()),
        Some(name) => Err(Error::bug(format!("background thread {name} panicked"))),
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A caller that needs the result calls `close`.
        if !self.spawn.is_own_thread() {
            let _ignored = close(&*self.engine, &self.spawn);
            return;
        }
        // Closing waits for what this thread is doing, so another one does it.
        let (engine, spawn) = (Arc::clone(&self.engine), Arc::clone(&self.spawn));
        let body = Box::new(move || {
            let _ignored = close(&*engine, &spawn);
        });
        if ThreadSpawn::new().spawn("firn-close".to_owned(), Priority::Normal, body).is_err() {
            // The system gives no thread. The database stays open until the process ends; its log
            // has what was acknowledged.
            std::mem::forget(Arc::clone(&self.engine));
        }
    }
}
