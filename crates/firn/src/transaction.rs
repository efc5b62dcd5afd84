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
    Batch, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, OrderedReadSet, Position, ReadRange, ReadSet, Result,
    ScanRange, WriteOptions,
};

use self::writes::Writes;
use crate::{Db, PointDb, Scan};

/// Attempts after which the next one waits first.
const AT_ONCE: u32 = 3;
/// How long it waits then; twice as long each further time.
const PAUSE_FIRST: Duration = Duration::from_micros(50);
/// How long it waits at most.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A transaction over a [`PointDb`]: reads as of one point, and writes that wait for
/// [`commit`](Self::commit).
///
/// Its calls read and write the default keyspace; [`in_keyspace`](Self::in_keyspace) leads to
/// others. Dropping it does nothing of it. It reads at most [`ReadSet::KEYS_MAX`] keys.
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
        let reads = ReadSet::new(self.snapshot()?);
        Ok(PointTransaction { db: self.clone(), reads, writes: Writes::default() })
    }

    /// Does `f` in a transaction and commits it; again from the beginning as long as others write
    /// what it read. Answers what `f` answered last.
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

    fn get_in(&mut self, id: KeyspaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(written) = self.writes.get(id, key) {
            return Ok(written.map(<[u8]>::to_vec));
        }
        self.reads.add(id, key)?;
        self.db.pooled().get(self.reads.read_at(), id, key)
    }
}

/// One keyspace in a [`PointTransaction`].
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
        self.transaction.get_in(self.id, key.as_ref())
    }

    /// See [`PointTransaction::contains_key`].
    ///
    /// # Errors
    /// As there.
    pub fn contains_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// See [`PointTransaction::put`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_until(key, value, 0);
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

/// A transaction over a [`Db`]: a [`PointTransaction`] that scans, too.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// db.put("job/1", "paint the door")?;
/// db.put("job/2", "mend the roof")?;
/// // Takes the first job; of several that do so at once each takes another one.
/// let taken = db.transact(|transaction| {
///     let first = transaction.prefix("job/")?.next().transpose()?;
///     let Some((key, value)) = first else { return Ok(None) };
///     transaction.delete(&key);
///     transaction.put([&b"taken/"[..], &key].concat(), &value);
///     Ok(Some(value))
/// })?;
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
        Ok(Transaction { points: (**self).transaction()?, ordered: self.clone(), ranges: Vec::new() })
    }

    /// Does `f` in a transaction and commits it; again from the beginning as long as others write
    /// what it read. See [`PointDb::transact`].
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
        let Self { points: PointTransaction { reads, writes, .. }, ordered, ranges } = self;
        let Some(batch) = writes.batch() else { return Ok(reads.position()) };
        let mut reads = OrderedReadSet::from(reads);
        ranges.into_iter().try_for_each(|range| reads.add_range(range))?;
        ordered.session().write_ordered_if(&Batch::into(batch), reads, options)
    }
}

/// One keyspace in a [`Transaction`].
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
        let Transaction { points, ordered, ranges } = &mut *self.transaction;
        let (start, end) = range.bounds();
        let read = ReadRange { keyspace: self.id, start, end };
        if !ranges.contains(&read) {
            OrderedReadSet::check_ranges(ranges.len() + 1)?;
            ranges.push(read);
        }
        let over = (points.writes.within(self.id, &range), None);
        Scan::open(ordered.session(), points.reads.read_at(), self.id, range, over)
    }

    /// See [`Transaction::prefix`].
    ///
    /// # Errors
    /// As there.
    pub fn prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.range(ScanRange::with_prefix(prefix))
    }
}
