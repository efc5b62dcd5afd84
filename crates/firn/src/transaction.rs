//! Reads and writes of several keys that are done together, or not at all.
//!
//! ```text
//!   transaction() ─► get, range: own writes, else the database at one point ──► reads
//!                 └► put, delete: kept ──► commit: one batch, if no read was overwritten
//! ```
//! Nothing is locked, so nothing waits for a transaction. One that fails as `Conflict` is done
//! again from its first read; `transact` does that.

mod writes;

use std::time::Duration;

use firn_engine::{
    Batch, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, OrderedBatch, OrderedReadSet, Position, ReadAt,
    ReadRange, ReadSet, Result, ScanRange, Snapshot, WriteOptions,
};

use self::writes::Writes;
use crate::scan::ends::Written;
use crate::{Db, PointDb, Scan};

/// Attempts after which the next one waits first.
pub(crate) const AT_ONCE: u32 = 3;
/// How long it waits then; twice as long each further time.
const PAUSE_FIRST: Duration = Duration::from_micros(50);
/// How long it waits at most.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A transaction over a [`PointDb`]: reads as of one point, and writes that wait for
/// [`commit`](Self::commit).
///
/// Its calls read and write the default keyspace; [`in_keyspace`](Self::in_keyspace) leads to
/// others. Dropping it does nothing of it. While it is held it keeps the database open. It reads at
/// most [`ReadSet::KEYS_MAX`] keys.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// use firn::ErrorKind;
///
/// db.put("stock", "1")?;
/// let mut sale = db.transaction()?;
/// assert_eq!(sale.get("stock")?.as_deref(), Some(&b"1"[..]));
/// sale.put("stock", "0");
/// db.put("stock", "5")?; // meanwhile
/// let refused = sale.commit().expect_err("what it read was written");
/// assert_eq!(refused.kind(), ErrorKind::Conflict);
/// assert_eq!(db.get("stock")?.as_deref(), Some(&b"5"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PointTransaction {
    db: PointDb,
    reads: ReadSet,
    writes: Writes,
}

impl PointDb {
    /// Begins a transaction at what is there now.
    ///
    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub fn transaction(&self) -> Result<PointTransaction> {
        Ok(self.transaction_at(self.snapshot()?))
    }

    fn transaction_at(&self, snapshot: Snapshot) -> PointTransaction {
        PointTransaction { db: self.clone(), reads: ReadSet::new(snapshot), writes: Writes::default() }
    }

    /// Does `f` in a transaction and commits it; again from the beginning as long as others write
    /// what it read. Answers what `f` answered last.
    ///
    /// `Err` of `f` undoes, `Ok` commits, whatever is in it: `Ok(Err(e))` commits too. `f` may be
    /// called several times.
    ///
    /// After some attempts it waits before each, up to 10 ms. Of transactions that disturb each
    /// other one always succeeds.
    ///
    /// # Errors
    /// What `f` says, and nothing is written then; as [`PointTransaction::commit`] else, but for
    /// `Conflict`.
    pub fn transact<R>(&self, mut f: impl FnMut(&mut PointTransaction) -> Result<R>) -> Result<R> {
        self.repeat(|| {
            let mut transaction = self.transaction()?;
            let answer = f(&mut transaction)?;
            Ok((answer, transaction.commit()))
        })
    }

    /// Calls `attempt` until what it committed is no conflict.
    fn repeat<R>(&self, mut attempt: impl FnMut() -> Result<(R, Result<Position>)>) -> Result<R> {
        let (mut attempts, mut pause) = (0, PAUSE_FIRST);
        loop {
            let (answer, committed) = attempt()?;
            match committed {
                Ok(_) => return Ok(answer),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
            attempts += 1;
            if attempts > AT_ONCE {
                self.pause(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

impl PointTransaction {
    /// The keyspace `id` in this transaction.
    pub fn in_keyspace(&mut self, id: KeyspaceId) -> PointTransactionKeyspace<'_> {
        PointTransactionKeyspace { transaction: self, id }
    }

    /// The value of `key`: what this transaction has written, else what was there when it began.
    ///
    /// # Errors
    /// As [`PointKeyspace::get`](crate::PointKeyspace::get); `Invalid` where it reads too many
    /// keys.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.in_keyspace(KEYSPACE_DEFAULT).get(key)
    }

    /// Whether `key` has a value. See [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.in_keyspace(KEYSPACE_DEFAULT).contains_key(key)
    }

    /// Sets `key` to `value`, once this is committed.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.in_keyspace(KEYSPACE_DEFAULT).put(key, value);
    }

    /// As [`put`](Self::put), of a value that lives for `ttl` from now on, committed or not. See
    /// [`PointKeyspace::put_for`](crate::PointKeyspace::put_for).
    pub fn put_for(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) {
        self.in_keyspace(KEYSPACE_DEFAULT).put_for(key, value, ttl);
    }

    /// Removes `key`, once this is committed.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.in_keyspace(KEYSPACE_DEFAULT).delete(key);
    }

    /// Does all writes together if nothing that was read has been written since. Answers where
    /// they stand in the order of writes; without a write, where the reads do.
    ///
    /// # Errors
    /// `Conflict` if something was written: nothing is done, and all of it may be done again in
    /// another transaction. Else as [`PointKeyspace::put`](crate::PointKeyspace::put).
    pub fn commit(self) -> Result<Position> {
        self.commit_with(WriteOptions::default())
    }

    /// As [`commit`](Self::commit) with a durability of its own. Expiry is the writes'.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(self, options: WriteOptions) -> Result<Position> {
        let Self { db, reads, writes } = self;
        match writes.batch() {
            // All was read at one point.
            None => Ok(reads.position()),
            Some(batch) => db.pooled().write_if(&batch, reads, options),
        }
    }

    /// What this transaction has set `key` to, `None` within if it removed it.
    pub(crate) fn written(&self, id: KeyspaceId, key: &[u8]) -> Option<Option<&[u8]>> {
        self.writes.get(id, key)
    }

    /// Counts `key` as read, and answers as of which point it is to be.
    pub(crate) fn note_read(&mut self, id: KeyspaceId, key: &[u8]) -> Result<ReadAt<'_>> {
        self.reads.add(id, key)?;
        Ok(self.reads.read_at())
    }
}

/// One keyspace in a [`PointTransaction`].
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// let (from, to) = (db.keyspace("from")?, db.keyspace("to")?);
/// db.in_keyspace(from).put("k", "v")?;
/// db.transact(|transaction| {
///     let value = transaction.in_keyspace(from).get("k")?.unwrap_or_default();
///     transaction.in_keyspace(from).delete("k");
///     transaction.in_keyspace(to).put("k", value);
///     Ok(())
/// })?;
/// assert!(db.in_keyspace(to).contains_key("k")?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PointTransactionKeyspace<'t> {
    transaction: &'t mut PointTransaction,
    id: KeyspaceId,
}

impl PointTransactionKeyspace<'_> {
    /// See [`PointTransaction::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        if let Some(written) = self.transaction.written(self.id, key) {
            return Ok(written.map(<[u8]>::to_vec));
        }
        let db = self.transaction.db.clone();
        db.pooled().get(self.transaction.note_read(self.id, key)?, self.id, key)
    }

    /// See [`PointTransaction::contains_key`].
    ///
    /// # Errors
    /// As there.
    pub fn contains_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if let Some(written) = self.transaction.written(self.id, key) {
            return Ok(written.is_some());
        }
        let db = self.transaction.db.clone();
        db.pooled().contains_key(self.transaction.note_read(self.id, key)?, self.id, key)
    }

    /// See [`PointTransaction::put`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_until(key, value, 0);
    }

    /// See [`PointTransaction::put_for`].
    pub fn put_for(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) {
        let expires_at_ms = self.transaction.db.expiry_after(ttl);
        self.put_until(key, value, expires_at_ms);
    }

    /// As [`put`](Self::put), of a value that expires at `expires_at_ms`, in milliseconds since the
    /// Unix epoch; 0 = never.
    pub fn put_until(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expires_at_ms: u64) {
        self.transaction.writes.put(self.id, key.as_ref(), value.as_ref(), expires_at_ms);
    }

    /// See [`PointTransaction::delete`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.transaction.writes.delete(self.id, key.as_ref());
    }
}

/// A transaction over a [`Db`]: a [`PointTransaction`] that scans, too. While it is held it keeps
/// the database open.
///
/// All of a range that was scanned counts as read, so a transaction that scans a queue conflicts
/// with all that put something into it, at its far end too. Look for the key outside, and read it
/// alone inside:
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// db.put("job/1", "paint the door")?;
/// db.put("job/2", "mend the roof")?;
/// // Takes the first job; of several that do so at once each takes another one.
/// let taken = loop {
///     let Some((key, _)) = db.prefix("job/")?.next().transpose()? else { break None };
///     let taken = db.transact(|transaction| {
///         let Some(value) = transaction.get(&key)? else { return Ok(None) }; // it was taken meanwhile
///         transaction.delete(&key);
///         transaction.put([&b"taken/"[..], &key].concat(), &value);
///         Ok(Some(value))
///     })?;
///     if taken.is_some() {
///         break taken;
///     }
/// };
/// assert_eq!(taken.as_deref(), Some(&b"paint the door"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Transaction {
    points: PointTransaction,
    ordered: Db,
    ranges: Vec<ReadRange>,
}

impl std::ops::Deref for Transaction {
    type Target = PointTransaction;

    fn deref(&self) -> &PointTransaction {
        &self.points
    }
}

impl std::ops::DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PointTransaction {
        &mut self.points
    }
}

impl Db {
    /// Begins a transaction at what is there now.
    ///
    /// # Errors
    /// `Closed` after [`close`](PointDb::close).
    pub fn transaction(&self) -> Result<Transaction> {
        Ok(self.transaction_at(self.snapshot()?))
    }

    /// A transaction that reads at `snapshot`.
    pub(crate) fn transaction_at(&self, snapshot: Snapshot) -> Transaction {
        let points = PointDb::transaction_at(self, snapshot);
        Transaction { points, ordered: self.clone(), ranges: Vec::new() }
    }

    /// Does `f` in a transaction and commits it; again from the beginning as long as others write
    /// what it read. `Err` of `f` undoes, `Ok` commits, whatever is in it. See
    /// [`PointDb::transact`].
    ///
    /// # Errors
    /// As there.
    pub fn transact<R>(&self, mut f: impl FnMut(&mut Transaction) -> Result<R>) -> Result<R> {
        self.repeat(|| {
            let mut transaction = self.transaction()?;
            let answer = f(&mut transaction)?;
            Ok((answer, transaction.commit()))
        })
    }
}

impl Transaction {
    /// The keyspace `id` in this transaction.
    pub fn in_keyspace(&mut self, id: KeyspaceId) -> TransactionKeyspace<'_> {
        TransactionKeyspace { transaction: self, id }
    }

    /// Keys and values of `range` in its order: what was there when the transaction began, with
    /// what it has written until now. All of the range counts as read, however far the scan is
    /// walked. The scan owns what it reads: later writes of the transaction do not show in it.
    ///
    /// # Errors
    /// As [`Keyspace::range`](crate::Keyspace::range); `Invalid` for more than
    /// [`OrderedReadSet::RANGES_MAX`] ranges.
    pub fn range(&mut self, range: impl Into<ScanRange>) -> Result<Scan> {
        self.in_keyspace(KEYSPACE_DEFAULT).range(range)
    }

    /// Keys that begin with `prefix`, upward, and their values. See [`range`](Self::range).
    ///
    /// # Errors
    /// As there.
    pub fn prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.range(ScanRange::with_prefix(prefix))
    }

    /// Does all writes together if nothing that was read has been written since, in scanned ranges
    /// too. See [`PointTransaction::commit`].
    ///
    /// # Errors
    /// As there.
    pub fn commit(self) -> Result<Position> {
        self.commit_with(WriteOptions::default())
    }

    /// As [`commit`](Self::commit) with a durability of its own.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(self, options: WriteOptions) -> Result<Position> {
        let ordered = self.ordered.clone();
        let (batch, reads) = self.into_write()?;
        match batch {
            None => Ok(reads.keys().position()),
            Some(batch) => ordered.session().write_ordered_if(&batch, reads, options),
        }
    }

    /// What is to be written, if anything is, and what has to hold then.
    pub(crate) fn into_write(self) -> Result<(Option<OrderedBatch>, OrderedReadSet)> {
        let Self { points: PointTransaction { reads, writes, .. }, ranges, .. } = self;
        let mut reads = OrderedReadSet::from(reads);
        ranges.into_iter().try_for_each(|range| reads.add_range(range))?;
        Ok((writes.batch().map(Batch::into), reads))
    }

    /// Counts `range` as read, and answers as of which point it is to be, and what lies over it.
    pub(crate) fn note_range(&mut self, id: KeyspaceId, range: &ScanRange) -> Result<(ReadAt<'_>, Written)> {
        let Self { points, ranges, .. } = self;
        let (start, end) = range.bounds();
        let read = ReadRange { keyspace: id, start, end };
        if !ranges.contains(&read) {
            OrderedReadSet::check_ranges(ranges.len() + 1)?;
            ranges.push(read);
        }
        Ok((points.reads.read_at(), points.writes.within(id, range)))
    }
}

/// One keyspace in a [`Transaction`].
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// let (rooms, bookings) = (db.keyspace("rooms")?, db.keyspace("bookings")?);
/// db.in_keyspace(rooms).put("5", "by the sea")?;
/// let is_booked = db.transact(|transaction| {
///     // No other one books the room meanwhile: all of the range counts as read.
///     let mut booked = transaction.in_keyspace(bookings).prefix("5/")?;
///     if transaction.in_keyspace(rooms).get("5")?.is_none() || booked.next().transpose()?.is_some() {
///         return Ok(false);
///     }
///     transaction.in_keyspace(bookings).put("5/anna", "");
///     Ok(true)
/// })?;
/// assert!(is_booked);
/// assert_eq!(db.in_keyspace(bookings).range(..)?.count_records()?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TransactionKeyspace<'t> {
    transaction: &'t mut Transaction,
    id: KeyspaceId,
}

impl TransactionKeyspace<'_> {
    fn points(&mut self) -> PointTransactionKeyspace<'_> {
        self.transaction.points.in_keyspace(self.id)
    }

    /// See [`PointTransaction::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.points().get(key)
    }

    /// See [`PointTransaction::contains_key`].
    ///
    /// # Errors
    /// As there.
    pub fn contains_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.points().contains_key(key)
    }

    /// See [`PointTransaction::put`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.points().put(key, value);
    }

    /// See [`PointTransaction::put_for`].
    pub fn put_for(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) {
        self.points().put_for(key, value, ttl);
    }

    /// See [`PointTransactionKeyspace::put_until`].
    pub fn put_until(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expires_at_ms: u64) {
        self.points().put_until(key, value, expires_at_ms);
    }

    /// See [`PointTransaction::delete`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.points().delete(key);
    }

    /// See [`Transaction::range`].
    ///
    /// # Errors
    /// As there.
    pub fn range(&mut self, range: impl Into<ScanRange>) -> Result<Scan> {
        let range = range.into();
        let session = self.transaction.ordered.session();
        let (at, written) = self.transaction.note_range(self.id, &range)?;
        Scan::open(session, at, self.id, range, (written, None))
    }

    /// See [`Transaction::prefix`].
    ///
    /// # Errors
    /// As there.
    pub fn prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.range(ScanRange::with_prefix(prefix))
    }
}
