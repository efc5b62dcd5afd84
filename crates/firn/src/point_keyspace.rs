//! One keyspace of a database, as calls see it that need no order.

use std::io::{Read, Write};
use std::time::Duration;

use firn_engine::{
    Change, Error, KEYSPACE_DEFAULT, KeyspaceId, Position, ReadAt, Result, Rmw, RmwAnswer, Snapshot, Values,
    WriteOptions,
};

use crate::PointDb;

/// One keyspace of a [`PointDb`]: where reads look, as of which point, and how writes are done.
///
/// A handle: cheap to clone, to keep, and to send to other threads ([`PointDb::in_keyspace`]). It
/// keeps the database open. Calls block, and borrow a session from the database's pool.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// use firn::{Durability, WriteOptions};
///
/// let orders = db.in_keyspace(db.keyspace("orders")?);
/// orders.put("17", "open")?;
/// let before = db.snapshot()?;
/// let on_disk = WriteOptions { durability: Some(Durability::Disk), ..WriteOptions::default() };
/// orders.with_options(on_disk).put("17", "paid")?;
/// assert_eq!(orders.get("17")?.as_deref(), Some(&b"paid"[..]));
/// assert_eq!(orders.at(&before).get("17")?.as_deref(), Some(&b"open"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PointKeyspace {
    db: PointDb,
    id: KeyspaceId,
    at: Option<Snapshot>,
    options: WriteOptions,
    /// How long its values live; `None` = as the options say.
    ttl: Option<Duration>,
}

impl PointDb {
    /// The keyspace `id`, to read and write it: other calls of a [`PointDb`] are calls of the
    /// default keyspace.
    pub fn in_keyspace(&self, id: KeyspaceId) -> PointKeyspace {
        PointKeyspace::new(self.clone(), id)
    }

    /// The default keyspace, to read it at a snapshot or to write it with options.
    pub fn in_default(&self) -> PointKeyspace {
        self.in_keyspace(KEYSPACE_DEFAULT)
    }
}

impl PointKeyspace {
    pub(crate) fn new(db: PointDb, id: KeyspaceId) -> Self {
        Self { db, id, at: None, options: WriteOptions::default(), ttl: None }
    }

    /// The database it belongs to.
    pub fn database(&self) -> &PointDb {
        &self.db
    }

    /// Its number, for a [`Batch`](firn_engine::Batch) and for sessions.
    pub fn id(&self) -> KeyspaceId {
        self.id
    }

    /// The same keyspace, read as of `snapshot`. Writes are not affected.
    #[must_use]
    pub fn at(&self, snapshot: &Snapshot) -> Self {
        Self { at: Some(snapshot.clone()), ..self.clone() }
    }

    /// The same keyspace, written with `options`: another durability, a moment of expiry. Replaces
    /// all that was said of writes before, a [TTL](Self::with_ttl) too.
    #[must_use]
    pub fn with_options(&self, options: WriteOptions) -> Self {
        Self { options, ttl: None, ..self.clone() }
    }

    /// The same keyspace, whose values live for `ttl`: each value that is written through it, by
    /// whichever call, expires so long after that call. Its durability stays.
    ///
    /// The database's clock decides. Operands of [`merge`](Self::merge) do not expire. See
    /// [`put_for`](Self::put_for) for one value.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use firn::storage::ManualClock;
    /// # let storage = Arc::new(firn::storage::backend::Memory::new());
    ///
    /// let clock = Arc::new(ManualClock::new(0)); // a program leaves out the clock
    /// let db = firn::Db::builder("example").clock(clock.clone())
    /// #   .storage(storage)
    ///     .open()?;
    /// let sessions = db.in_keyspace(db.keyspace("sessions")?).with_ttl(Duration::from_secs(3600));
    /// sessions.put("anna", "a token")?;
    /// sessions.put_for("bo", "another one", Duration::from_secs(60))?;
    /// clock.advance(Duration::from_secs(60));
    /// assert!(sessions.contains_key("anna")? && !sessions.contains_key("bo")?);
    /// clock.advance(Duration::from_secs(3540));
    /// assert!(!sessions.contains_key("anna")?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_ttl(&self, ttl: Duration) -> Self {
        let options = WriteOptions { expires_at_ms: 0, ..self.options };
        Self { options, ttl: Some(ttl), ..self.clone() }
    }

    /// The value of `key`, or `None` if it has none.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Invalid` if the keyspace was dropped; `Closed` after
    /// [`PointDb::close`]. The same for every read here.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.db.pooled().get(self.read_at(), self.id, key.as_ref())
    }

    /// Whether `key` has a value. Cheaper than [`get`](Self::get): copies nothing of the value, and
    /// does not read one that is separated unless merge operands lie over it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db.pooled().contains_key(self.read_at(), self.id, key.as_ref())
    }

    /// When the value of `key` expires, in milliseconds since the Unix epoch: `Some(0)` = never,
    /// `None` = it has none. Of a value that operands were merged into the answer is `Some(0)`.
    ///
    /// [`multi_get`](Self::multi_get) answers values and this as of one point
    /// ([`Values::expires_at_ms`]). Costs as much as a [`get`](Self::get).
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// use std::time::Duration;
    ///
    /// let codes = db.in_default();
    /// codes.put_for("anna", "1234", Duration::from_secs(60))?;
    /// codes.put("bo", "5678")?;
    /// assert!(codes.expires_at_ms("anna")?.is_some_and(|at_ms| at_ms > 0));
    /// assert_eq!((codes.expires_at_ms("bo")?, codes.expires_at_ms("cy")?), (Some(0), None));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn expires_at_ms(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let values = self.db.pooled().multi_get(self.read_at(), self.id, &[key.as_ref()])?;
        Ok(values.get(0).map(|_| values.expires_at_ms(0)))
    }

    /// Values of `keys` as of one point, in their order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Values> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.db.pooled().multi_get(self.read_at(), self.id, &keys)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// The same for every write here:
    /// - `Invalid` for a key or value beyond its limit, or a dropped keyspace.
    /// - `Retry` when the disk is full.
    /// - `NotDurable` where that shows only after the write, or shared storage is away.
    /// - `Closed` after [`PointDb::close`], when opened for reading only, and after a failed sync.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        self.db.pooled().put(self.id, key.as_ref(), value.as_ref(), self.options())
    }

    /// Sets `key` to `value` for `ttl`: then it counts as deleted, and the space that it takes is
    /// given back. Whatever [`with_ttl`](Self::with_ttl) says.
    ///
    /// The database's clock decides. Parts of a millisecond are rounded up; what is too long to
    /// count is the longest time there is. With a `ttl` of zero the value is gone at once. A later
    /// [`put`](Self::put) of the key does not expire.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<Position> {
        self.db.pooled().put(self.id, key.as_ref(), value.as_ref(), self.options_for(ttl))
    }

    /// Sets `key` to the `value_bytes` that `source` yields until its end. For large values: a few
    /// MiB at a time are in memory. The value appears as a whole once the source has ended, or not
    /// at all; other writes go on meanwhile. From 4 MiB on the keyspace needs `separate_bytes`.
    ///
    /// # Errors
    /// `Invalid` where the source fails, ends early or has more, or where such a value would be
    /// held in memory (the message names the setting). Otherwise as [`put`](Self::put).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// use firn::KeyspaceSettings;
    ///
    /// let beside = KeyspaceSettings { separate_bytes: Some(64 << 10), ..KeyspaceSettings::default() };
    /// let films = db.in_keyspace(db.create_keyspace("films", beside)?);
    /// let (bytes, mut source) = (5 << 20, std::io::repeat(7).take(5 << 20)); // or a file and its length
    /// # use std::io::Read;
    /// films.put_from("summer", bytes, &mut source)?;
    /// let mut copy = std::io::sink(); // or a file
    /// assert_eq!(films.read_into("summer", &mut copy)?, Some(bytes));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_from(
        &self,
        key: impl AsRef<[u8]>,
        value_bytes: u64,
        source: &mut dyn Read,
    ) -> Result<Position> {
        self.db.engine().put_from(self.id, key.as_ref(), value_bytes, source, self.options())
    }

    /// Writes the value of `key` to `out`, a few MiB at a time, as it was when the call began or in
    /// the snapshot. Answers its length, or `None` if the key has no value; nothing is written
    /// then.
    ///
    /// # Errors
    /// `Retry` if the value expires meanwhile; `Invalid` if `out` refuses it, with its error as the
    /// cause. Otherwise as [`get`](Self::get). A part of the value may be written then.
    pub fn read_into(&self, key: impl AsRef<[u8]>, out: &mut dyn Write) -> Result<Option<u64>> {
        let mut read = |snapshot: &Snapshot| self.db.pooled().read_into(snapshot, self.id, key.as_ref(), out);
        match &self.at {
            None => read(&self.db.snapshot()?),
            Some(snapshot) => read(snapshot),
        }
    }

    /// Adds `by` to the value of `key`, atomically, and answers the sum. The value is an `i64` in 8
    /// bytes, the lowest first; a key without a value has 0. The new value does not expire, unless
    /// [`with_ttl`](Self::with_ttl) says so; the same for [`append`](Self::append),
    /// [`set_range`](Self::set_range) and [`compare_and_set`](Self::compare_and_set).
    ///
    /// # Errors
    /// `Invalid` if the value has not 8 bytes, or the sum is beyond 64 bits; nothing is written
    /// then. Otherwise as [`put`](Self::put).
    pub fn add(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        sum(self.rmw(key.as_ref(), Rmw::Add(by))?)
    }

    /// Puts `bytes` behind the value of `key`, atomically, and answers the value's length.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<u64> {
        length(self.rmw(key.as_ref(), Rmw::Append(bytes.as_ref()))?)
    }

    /// Puts `bytes` over the value of `key` from `offset` on, atomically, and answers the value's
    /// length. A value that ends before is filled with zeros up to there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn set_range(&self, key: impl AsRef<[u8]>, offset: usize, bytes: impl AsRef<[u8]>) -> Result<u64> {
        length(self.rmw(key.as_ref(), Rmw::SetRange { offset, bytes: bytes.as_ref() })?)
    }

    /// Sets the value of `key` to `new`, or removes it, if it is `expected` now; `None` = no value.
    /// Answers whether it was.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        swapped(self.rmw(key.as_ref(), Rmw::CompareAndSet { expected, new })?)
    }

    fn rmw(&self, key: &[u8], rmw: Rmw<'_>) -> Result<RmwAnswer> {
        self.db.pooled().rmw(self.id, key, rmw, self.options())
    }

    /// The point that reads see.
    pub(crate) fn read_at(&self) -> ReadAt<'_> {
        self.at.as_ref().map_or(ReadAt::Latest, ReadAt::Snapshot)
    }

    /// How a write is done that begins now.
    pub(crate) fn options(&self) -> WriteOptions {
        self.ttl.map_or(self.options, |ttl| self.options_for(ttl))
    }

    /// How a value is written now that is to live for `ttl`.
    pub(crate) fn options_for(&self, ttl: Duration) -> WriteOptions {
        WriteOptions { expires_at_ms: self.db.expiry_after(ttl), ..self.options }
    }

    /// Removes `key`; no error if it has no value.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Position> {
        self.db.pooled().delete(self.id, key.as_ref(), self.options())
    }

    /// Adds `operand` to `key` for the keyspace's merge operator, without reading it.
    ///
    /// A read puts together all operands since the last compaction, so that merges and reads of one
    /// key by turns cost the square of their number. For keys that are read often use
    /// [`add`](Self::add) or [`update`](Self::update).
    ///
    /// # Errors
    /// `Invalid` if the keyspace has no merge operator; else as [`put`](Self::put).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<Position> {
        self.db.pooled().merge(self.id, key.as_ref(), operand.as_ref(), self.options())
    }

    /// Replaces the value of `key` by what `f` makes of it, atomically; answers what the last call
    /// of `f` answered.
    ///
    /// `f` may be called more than once, on this thread. It must not write to the database, nor
    /// wait for another update of the key: such an update waits for this one. The new value does
    /// not expire, whenever the old one was to, unless [`with_ttl`](Self::with_ttl) says so. A
    /// panic of `f`, or of a merge operator, passes through this call; nothing is written then, and
    /// the database goes on.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn update<R: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        self.db.pooled().update(self.id, key.as_ref(), self.options(), f)
    }
}

/// The answer of an addition.
pub(crate) fn sum(answer: RmwAnswer) -> Result<i64> {
    match answer {
        RmwAnswer::Sum(sum) => Ok(sum),
        answer => Err(unexpected(answer)),
    }
}

/// The answer of a swap.
pub(crate) fn swapped(answer: RmwAnswer) -> Result<bool> {
    match answer {
        RmwAnswer::Swapped(swapped) => Ok(swapped),
        answer => Err(unexpected(answer)),
    }
}

/// The answer of a change that makes a value longer.
pub(crate) fn length(answer: RmwAnswer) -> Result<u64> {
    match answer {
        RmwAnswer::Length(bytes) => Ok(bytes),
        answer => Err(unexpected(answer)),
    }
}

fn unexpected(answer: RmwAnswer) -> Error {
    Error::bug(format!("a named change answered {answer:?}, which is another one's answer"))
}
