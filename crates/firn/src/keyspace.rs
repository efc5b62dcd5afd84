//! One keyspace of a database, as calls see it.

use std::io::{Read, Write};

use firn_engine::{
    Batch, Change, Error, KeyspaceId, Position, ReadAt, Result, ScanRange, Snapshot, Values, WriteOptions,
};

use crate::{Db, Scan};

/// One keyspace of a [`Db`]: where reads look, as of which point, and how writes are done.
///
/// A few machine words that borrow the database; made anew for each use ([`Db::in_keyspace`]) or
/// kept while the database lives. Calls block, and borrow a session from the database's pool.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::place::Memory::new());
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
#[derive(Clone, Copy, Debug)]
pub struct Keyspace<'d> {
    db: &'d Db,
    id: KeyspaceId,
    at: ReadAt<'d>,
    options: WriteOptions,
}

impl<'d> Keyspace<'d> {
    pub(crate) fn new(db: &'d Db, id: KeyspaceId) -> Self {
        Self { db, id, at: ReadAt::Latest, options: WriteOptions::default() }
    }

    /// The database it belongs to.
    pub fn database(&self) -> &'d Db {
        self.db
    }

    /// Its number, for [`Batch`]es and sessions.
    pub fn id(&self) -> KeyspaceId {
        self.id
    }

    /// The same keyspace, read as of `snapshot`. Writes are not affected.
    #[must_use]
    pub fn at(mut self, snapshot: &'d Snapshot) -> Self {
        self.at = ReadAt::Snapshot(snapshot);
        self
    }

    /// The same keyspace, written with `options`: another durability, an expiry.
    #[must_use]
    pub fn with_options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }

    /// The value of `key`, or `None` if it has none.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Invalid` if the keyspace was dropped. The same for every
    /// read here.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.db.with_session(|session| session.get(self.at, self.id, key.as_ref()))
    }

    /// Values of `keys` as of one point, in their order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Values> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.db.with_session(|session| session.multi_get(self.at, self.id, &keys))
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// The same for every write here:
    /// - `Invalid` for a key or value beyond its limit, or a dropped keyspace.
    /// - `Retry` when the disk is full.
    /// - `NotDurable` where that shows only after the write, or shared storage is away.
    /// - `Closed` after [`Db::close`], when opened for reading only, and after a failed sync.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        self.db.with_session(|session| session.put(self.id, key.as_ref(), value.as_ref(), self.options))
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
    /// # let storage = std::sync::Arc::new(firn::storage::place::Memory::new());
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
        self.db.ordered().put_from(self.id, key.as_ref(), value_bytes, source, self.options)
    }

    /// Writes the value of `key` to `out`, a few MiB at a time, as it was when the call began or in
    /// the snapshot. Answers its length, or `None` if the key has no value; nothing is written
    /// then.
    ///
    /// # Errors
    /// `Retry` if the value expires meanwhile; `Invalid` if `out` refuses it, with its error as the
    /// cause. Otherwise as [`get`](Self::get). A part of the value may be written then.
    pub fn read_into(&self, key: impl AsRef<[u8]>, out: &mut dyn Write) -> Result<Option<u64>> {
        let mut read = |snapshot: &Snapshot| {
            self.db.with_session(|session| session.read_into(snapshot, self.id, key.as_ref(), out))
        };
        match self.at {
            ReadAt::Latest => read(&self.db.snapshot()?),
            ReadAt::Snapshot(snapshot) => read(snapshot),
        }
    }

    /// Removes `key`; no error if it has no value.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Position> {
        self.db.with_session(|session| session.delete(self.id, key.as_ref(), self.options))
    }

    /// Adds `operand` to `key` for the keyspace's merge operator, without reading it.
    ///
    /// # Errors
    /// `Invalid` if the keyspace has no merge operator; else as [`put`](Self::put).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<Position> {
        self.db.with_session(|session| session.merge(self.id, key.as_ref(), operand.as_ref(), self.options))
    }

    /// Replaces the value of `key` by what `f` makes of it, atomically; answers what the last call
    /// of `f` answered.
    ///
    /// `f` may be called more than once, on this thread. It must not write to the database, nor
    /// wait for another update of the key: such an update waits for this one. A panic of `f`, or of
    /// a merge operator, passes through this call; nothing is written then, and the database goes
    /// on.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn update<R: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        self.db.with_session(|session| session.update(self.id, key.as_ref(), self.options, f))
    }

    /// Removes every key of `start..end`. Costs one record, however many keys there are.
    ///
    /// # Errors
    /// `Invalid` if `end` is not greater than `start`; else as [`put`](Self::put).
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<Position> {
        let mut batch = Batch::new();
        batch.delete_range(self.id, start.as_ref(), end.as_ref());
        if batch.is_empty() {
            return Err(Error::invalid("a range to delete must end after it starts"));
        }
        self.db.with_session(|session| session.write(&batch, self.options))
    }

    /// Keys and values of `range` in its order, as they are now (or in the snapshot), however long
    /// it takes.
    ///
    /// # Errors
    /// As [`get`](Self::get); errors met on the way come through the iterator.
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        Scan::open(self.db.session(), self.at, self.id, range)
    }

    /// Flushes, then rewrites `start..end` (`None` = to the end) into the deepest level that holds
    /// any of it. That gives back the space of overwritten and deleted records. Blocks until it is
    /// durable.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing was lost. Otherwise as [`put`](Self::put).
    pub fn compact_range(&self, start: impl AsRef<[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.db.ordered().compact_range(self.id, start.as_ref(), end)
    }
}
