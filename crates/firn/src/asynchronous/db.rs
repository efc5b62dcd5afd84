//! A database whose calls are futures.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{
    Batch, Change, KEYSPACE_DEFAULT, KeyspaceId, OrderedBatch, Position, ReadAt, Result, ScanRange, Snapshot,
    Values, WriteOptions,
};

use super::sessions::{InUse, Sessions};
use super::{AsyncKeyspace, AsyncScan};
use crate::{Db, Record};

/// A database for tasks: the calls of [`Db`] as futures.
///
/// A handle as [`Db`] is: cheap to clone, to keep, and to send; all handles of both kinds are one
/// database. Futures run on any executor, or on none, and hold no thread while they wait: for a
/// device, for durability, or for room. What needs no waiting is done in the first poll.
///
/// - **Order.** A call begins when its future is first polled. Of calls that are under way at once
///   none is before the other; one that was awaited is before those that follow.
/// - **Dropped futures.** Each call may be dropped at any time. A read leaves nothing behind. A
///   write whose future was dropped is done whole or not at all; only a read shows which.
///   [`AsyncScan`] loses no record.
/// - **Calls that block** are those of [`blocking`](Self::blocking), as `flush`, `close` or the
///   creation of keyspaces: leave them to a thread where the runtime has one for that.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # let opened = firn::Db::builder("example").storage(storage).open()?;
/// let db = opened.futures();
/// runtime.block_on(async {
///     let writer = db.clone();
///     let task = tokio::spawn(async move {
///         for number in 0..100_u32 {
///             writer.put(number.to_be_bytes(), "a value").await?;
///         }
///         firn::Result::Ok(())
///     });
///     task.await.expect("it ends")?;
///     let mut scan = db.range(50_u32.to_be_bytes()..)?;
///     let mut count = 0;
///     while let Some(record) = scan.next().await {
///         let (_key, value) = record?;
///         assert_eq!(value, b"a value");
///         count += 1;
///     }
///     assert_eq!(count, 50);
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncDb {
    db: Db,
    sessions: Arc<Sessions>,
}

impl std::fmt::Debug for AsyncDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncDb").finish_non_exhaustive()
    }
}

impl Db {
    /// The same database with calls that are futures.
    ///
    /// Clone the answer rather than asking again: its clones share the sessions they use.
    pub fn futures(&self) -> AsyncDb {
        AsyncDb { db: self.clone(), sessions: Arc::new(Sessions::new(self.engine())) }
    }
}

impl AsyncDb {
    /// The same database with calls that wait.
    pub fn blocking(&self) -> &Db {
        &self.db
    }

    pub(super) fn session(&self) -> InUse<'_> {
        self.sessions.take()
    }

    /// A scan of `range`, which keeps a session of its own. See [`crate::Scan::open`].
    pub(super) fn scan(
        &self,
        at: ReadAt<'_>,
        id: KeyspaceId,
        range: ScanRange,
        over: (crate::scan::ends::Written, Option<usize>),
    ) -> Result<AsyncScan> {
        AsyncScan::open(self.sessions.fresh(), at, id, range, over)
    }

    /// The keyspace `id`, to read and write it: all other calls are calls of the default keyspace.
    pub fn in_keyspace(&self, id: KeyspaceId) -> AsyncKeyspace {
        AsyncKeyspace::over(self.clone(), self.db.in_keyspace(id))
    }

    /// The default keyspace, to read it at a snapshot or to write it with options.
    pub fn in_default(&self) -> AsyncKeyspace {
        self.in_keyspace(KEYSPACE_DEFAULT)
    }

    /// The value of `key`. See [`PointKeyspace::get`](crate::PointKeyspace::get).
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.session().get(ReadAt::Latest, KEYSPACE_DEFAULT, key.as_ref()).await
    }

    /// Whether `key` has a value. See
    /// [`PointKeyspace::contains_key`](crate::PointKeyspace::contains_key).
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.session().contains_key(ReadAt::Latest, KEYSPACE_DEFAULT, key.as_ref()).await
    }

    /// Values of `keys` as of one point, in their order. See
    /// [`PointKeyspace::multi_get`](crate::PointKeyspace::multi_get).
    pub async fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Values> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.session().multi_get(ReadAt::Latest, KEYSPACE_DEFAULT, &keys).await
    }

    /// Sets `key` to `value`. See [`PointKeyspace::put`](crate::PointKeyspace::put).
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        let options = WriteOptions::default();
        self.session().put(KEYSPACE_DEFAULT, key.as_ref(), value.as_ref(), options).await
    }

    /// Sets `key` to `value` for so long. See
    /// [`PointKeyspace::put_for`](crate::PointKeyspace::put_for).
    pub async fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Position> {
        let options = WriteOptions { expires_at_ms: self.db.expiry_after(ttl), ..WriteOptions::default() };
        self.session().put(KEYSPACE_DEFAULT, key.as_ref(), value.as_ref(), options).await
    }

    /// Removes `key`. See [`PointKeyspace::delete`](crate::PointKeyspace::delete).
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<Position> {
        self.session().delete(KEYSPACE_DEFAULT, key.as_ref(), WriteOptions::default()).await
    }

    /// Removes every key of `start..end`. See
    /// [`Keyspace::delete_range`](crate::Keyspace::delete_range).
    pub async fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<Position> {
        let options = WriteOptions::default();
        self.session().delete_range(KEYSPACE_DEFAULT, start.as_ref(), end.as_ref(), options).await
    }

    /// Replaces the value of `key` by what `f` makes of it, atomically. See
    /// [`AsyncKeyspace::update`].
    pub async fn update<R: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        self.session().update(KEYSPACE_DEFAULT, key.as_ref(), WriteOptions::default(), f).await
    }

    /// Applies all of `batch` or none of it, whichever keyspaces it touches. See
    /// [`PointDb::write`](crate::PointDb::write).
    pub async fn write(&self, batch: &Batch) -> Result<Position> {
        self.write_with(batch, WriteOptions::default()).await
    }

    /// As [`write`](Self::write) with a durability of its own.
    pub async fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<Position> {
        self.session().write(batch, options).await
    }

    /// As [`write_with`](Self::write_with) of a batch that may delete ranges.
    pub async fn write_ordered(&self, batch: &OrderedBatch, options: WriteOptions) -> Result<Position> {
        self.session().write_ordered(batch, options).await
    }

    /// Keys and values of `range` in its order. Opens the scan and reads nothing yet. See
    /// [`Keyspace::range`](crate::Keyspace::range).
    ///
    /// # Errors
    /// `Closed` after `close`.
    pub fn range(&self, range: impl Into<ScanRange>) -> Result<AsyncScan> {
        self.in_default().range(range)
    }

    /// Keys that begin with `prefix`, upward, and their values.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<AsyncScan> {
        self.in_default().prefix(prefix)
    }

    /// The smallest key and its value.
    pub async fn first(&self) -> Result<Option<Record>> {
        self.in_default().first().await
    }

    /// The greatest key and its value.
    pub async fn last(&self) -> Result<Option<Record>> {
        self.in_default().last().await
    }

    /// A point in time whose data stays readable while the snapshot lives. Read it with
    /// [`AsyncKeyspace::at`]. Does not block.
    ///
    /// # Errors
    /// `Closed` after `close`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.db.snapshot()
    }
}
