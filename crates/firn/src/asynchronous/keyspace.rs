//! One keyspace, whose calls are futures.

use std::time::Duration;

use firn_engine::{
    Change, KeyspaceId, Position, Result, Rmw, RmwAnswer, ScanRange, Snapshot, Values, WriteOptions,
};

use super::{AsyncDb, AsyncScan};
use crate::point_keyspace::{length, sum, swapped};
use crate::{Keyspace, Record};

/// One keyspace of an [`AsyncDb`]: the calls of [`Keyspace`] as futures.
///
/// A handle: cheap to clone, to keep, and to send to other tasks. What holds of futures of an
/// [`AsyncDb`] holds here: they may be dropped, and no runtime is needed.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// use std::time::Duration;
///
/// let sessions = db.keyspace("sessions")?; // creates it: a call that blocks
/// let sessions = db.futures().in_keyspace(sessions).with_ttl(Duration::from_secs(3600));
/// runtime.block_on(async {
///     sessions.put("anna", "a token").await?;
///     assert!(sessions.contains_key("anna").await?);
///     assert_eq!(sessions.add("visits", 1).await?, 1);
///     assert_eq!(sessions.last().await?.map(|(key, _)| key).as_deref(), Some(&b"visits"[..]));
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncKeyspace {
    db: AsyncDb,
    keyspace: Keyspace,
}

impl AsyncKeyspace {
    pub(super) fn over(db: AsyncDb, keyspace: Keyspace) -> Self {
        Self { db, keyspace }
    }

    /// The database it belongs to.
    pub fn database(&self) -> &AsyncDb {
        &self.db
    }

    /// The same keyspace with calls that wait.
    pub fn blocking(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Its number, for a [`Batch`](firn_engine::Batch).
    pub fn id(&self) -> KeyspaceId {
        self.keyspace.id()
    }

    /// The same keyspace, read as of `snapshot`. Writes are not affected.
    #[must_use]
    pub fn at(&self, snapshot: &Snapshot) -> Self {
        Self { db: self.db.clone(), keyspace: self.keyspace.at(snapshot) }
    }

    /// The same keyspace, written with `options`. See
    /// [`PointKeyspace::with_options`](crate::PointKeyspace::with_options).
    #[must_use]
    pub fn with_options(&self, options: WriteOptions) -> Self {
        Self { db: self.db.clone(), keyspace: self.keyspace.with_options(options) }
    }

    /// The same keyspace, whose values live for `ttl`. See
    /// [`PointKeyspace::with_ttl`](crate::PointKeyspace::with_ttl).
    #[must_use]
    pub fn with_ttl(&self, ttl: Duration) -> Self {
        Self { db: self.db.clone(), keyspace: self.keyspace.with_ttl(ttl) }
    }

    /// The value of `key`, or `None` if it has none.
    ///
    /// # Errors
    /// As [`PointKeyspace::get`](crate::PointKeyspace::get); the same for every read here.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.db.session().get(self.keyspace.read_at(), self.id(), key.as_ref()).await
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db.session().contains_key(self.keyspace.read_at(), self.id(), key.as_ref()).await
    }

    /// Values of `keys` as of one point, in their order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Values> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.db.session().multi_get(self.keyspace.read_at(), self.id(), &keys).await
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As [`PointKeyspace::put`](crate::PointKeyspace::put); the same for every write here.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        self.db.session().put(self.id(), key.as_ref(), value.as_ref(), self.keyspace.options()).await
    }

    /// Sets `key` to `value` for so long. See
    /// [`PointKeyspace::put_for`](crate::PointKeyspace::put_for).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Position> {
        let options = self.keyspace.options_for(ttl);
        self.db.session().put(self.id(), key.as_ref(), value.as_ref(), options).await
    }

    /// Removes `key`; no error if it has no value.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<Position> {
        self.db.session().delete(self.id(), key.as_ref(), self.keyspace.options()).await
    }

    /// Removes every key of `start..end`. Costs one record, however many keys there are.
    ///
    /// # Errors
    /// `Invalid` if `end` is not greater than `start`; else as [`put`](Self::put).
    pub async fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<Position> {
        let options = self.keyspace.options();
        self.db.session().delete_range(self.id(), start.as_ref(), end.as_ref(), options).await
    }

    /// Adds `operand` to `key` for the keyspace's merge operator, without reading it.
    ///
    /// # Errors
    /// `Invalid` if the keyspace has no merge operator; else as [`put`](Self::put).
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<Position> {
        self.db.session().merge(self.id(), key.as_ref(), operand.as_ref(), self.keyspace.options()).await
    }

    /// Replaces the value of `key` by what `f` makes of it, atomically; answers what the last call
    /// of `f` answered.
    ///
    /// `f` may be called more than once, by the task or on a thread of the database. It should be
    /// short, and must not write to the database. If it panics where it is called by the task, the
    /// panic passes through this future; on another thread the update fails as `Retry`. Nothing is
    /// written then.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn update<R: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        self.db.session().update(self.id(), key.as_ref(), self.keyspace.options(), f).await
    }

    /// Adds `by` to the value of `key`, atomically, and answers the sum. See
    /// [`PointKeyspace::add`](crate::PointKeyspace::add).
    ///
    /// # Errors
    /// As there.
    pub async fn add(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        sum(self.rmw(key.as_ref(), Rmw::Add(by)).await?)
    }

    /// Puts `bytes` behind the value of `key`, atomically, and answers the value's length.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<u64> {
        length(self.rmw(key.as_ref(), Rmw::Append(bytes.as_ref())).await?)
    }

    /// Puts `bytes` over the value of `key` from `offset` on, atomically, and answers the value's
    /// length. See [`PointKeyspace::set_range`](crate::PointKeyspace::set_range).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn set_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: usize,
        bytes: impl AsRef<[u8]>,
    ) -> Result<u64> {
        length(self.rmw(key.as_ref(), Rmw::SetRange { offset, bytes: bytes.as_ref() }).await?)
    }

    /// Sets the value of `key` to `new`, or removes it, if it is `expected` now; `None` = no value.
    /// Answers whether it was.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        swapped(self.rmw(key.as_ref(), Rmw::CompareAndSet { expected, new }).await?)
    }

    async fn rmw(&self, key: &[u8], rmw: Rmw<'_>) -> Result<RmwAnswer> {
        self.db.session().rmw(self.id(), key, rmw, self.keyspace.options()).await
    }

    /// Keys and values of `range` in its order, as they are now (or in the snapshot), however long
    /// it takes. Opens the scan and reads nothing yet.
    ///
    /// # Errors
    /// `Invalid` if the keyspace was dropped; `Closed` after `close`.
    pub fn range(&self, range: impl Into<ScanRange>) -> Result<AsyncScan> {
        self.open(range.into(), None)
    }

    /// Keys that begin with `prefix`, upward, and their values.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<AsyncScan> {
        self.range(ScanRange::with_prefix(prefix))
    }

    /// The smallest key and its value; `None` in an empty keyspace.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn first(&self) -> Result<Option<Record>> {
        self.open(ScanRange::all(), Some(1))?.next().await.transpose()
    }

    /// The greatest key and its value; `None` in an empty keyspace.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn last(&self) -> Result<Option<Record>> {
        self.open(ScanRange::all().backward(), Some(1))?.next().await.transpose()
    }

    fn open(&self, range: ScanRange, records: Option<usize>) -> Result<AsyncScan> {
        self.db.scan(self.keyspace.read_at(), self.id(), range, (Vec::new(), records))
    }
}
