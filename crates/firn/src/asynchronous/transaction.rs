//! Transactions for tasks.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use firn_engine::{
    Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, Position, ReadAt, Result, ScanRange, Snapshot,
    WriteOptions,
};

use super::{AsyncDb, AsyncScan};
use crate::Transaction;
use crate::transaction::AT_ONCE;

/// How often a task lets others run before an attempt, at most.
const YIELDS_MAX: u32 = 64;

/// A transaction over an [`AsyncDb`]: [`Transaction`] for tasks.
///
/// Its calls read and write the default keyspace; [`in_keyspace`](Self::in_keyspace) leads to
/// others. Several of its reads may be under way at once. Dropping it does nothing of it, and
/// dropping a future of a read does no harm. If the future of [`commit`](Self::commit) is dropped,
/// all of it is done or nothing.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # let db = firn::Db::builder("example").storage(storage).open()?.futures();
/// runtime.block_on(async {
///     db.put("a/1", "5").await?;
///     // Moves what is there, whatever others do meanwhile.
///     let moved = db
///         .transact(|transaction| async move {
///             let Some(value) = transaction.get("a/1").await? else { return Ok(false) };
///             transaction.delete("a/1");
///             transaction.put("b/1", value);
///             Ok(true)
///         })
///         .await?;
///     assert!(moved && !db.contains_key("a/1").await?);
///     assert_eq!(db.get("b/1").await?.as_deref(), Some(&b"5"[..]));
///     Ok(())
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncTransaction {
    db: AsyncDb,
    snapshot: Snapshot,
    /// Locked for moments, never while something is awaited.
    kept: Arc<Mutex<Transaction>>,
}

impl AsyncDb {
    /// Begins a transaction at what is there now. Does not block.
    ///
    /// # Errors
    /// `Closed` after `close`.
    pub fn transaction(&self) -> Result<AsyncTransaction> {
        let snapshot = self.snapshot()?;
        let kept = Arc::new(Mutex::new(self.blocking().transaction_at(snapshot.clone())));
        Ok(AsyncTransaction { db: self.clone(), snapshot, kept })
    }

    /// Does `f` in a transaction and commits it; again from the beginning as long as others write
    /// what it read. Answers what the future of `f` answered last.
    ///
    /// After some attempts it lets other tasks run before each. Of transactions that disturb each
    /// other one always succeeds. The transaction is for the future of `f` alone: it has to be
    /// dropped when that is ready.
    ///
    /// # Errors
    /// As [`PointDb::transact`](crate::PointDb::transact); `Invalid` if something still has the
    /// transaction then, and nothing is written.
    pub async fn transact<R, F: Future<Output = Result<R>>>(
        &self,
        mut f: impl FnMut(AsyncTransaction) -> F,
    ) -> Result<R> {
        let mut attempts = 0_u32;
        loop {
            let transaction = self.transaction()?;
            let answer = f(transaction.for_the_function()).await?;
            match transaction.commit().await {
                Ok(_) => return Ok(answer),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
            attempts += 1;
            for _ in 0..attempts.saturating_sub(AT_ONCE).min(YIELDS_MAX) {
                let_others_run().await;
            }
        }
    }
}

/// Is ready when it is polled again, which it asks for at once.
async fn let_others_run() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl AsyncTransaction {
    /// The keyspace `id` in this transaction.
    pub fn in_keyspace(&self, id: KeyspaceId) -> AsyncTransactionKeyspace<'_> {
        AsyncTransactionKeyspace { transaction: self, id }
    }

    /// The value of `key`: what this transaction has written, else what was there when it began.
    ///
    /// # Errors
    /// As [`PointTransaction::get`](crate::PointTransaction::get).
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.in_keyspace(KEYSPACE_DEFAULT).get(key).await
    }

    /// Whether `key` has a value. See [`get`](Self::get).
    ///
    /// # Errors
    /// As there.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.in_keyspace(KEYSPACE_DEFAULT).contains_key(key).await
    }

    /// Keys and values of `range` in its order. Opens the scan and reads nothing yet. See
    /// [`Transaction::range`].
    ///
    /// # Errors
    /// As there.
    pub fn range(&self, range: impl Into<ScanRange>) -> Result<AsyncScan> {
        self.in_keyspace(KEYSPACE_DEFAULT).range(range)
    }

    /// Keys that begin with `prefix`, upward, and their values. See [`range`](Self::range).
    ///
    /// # Errors
    /// As there.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<AsyncScan> {
        self.range(ScanRange::with_prefix(prefix))
    }

    /// Sets `key` to `value`, once this is committed.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.kept().put(key, value);
    }

    /// As [`put`](Self::put), of a value that lives for `ttl` from now on. See
    /// [`PointTransaction::put_for`](crate::PointTransaction::put_for).
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) {
        self.kept().put_for(key, value, ttl);
    }

    /// Removes `key`, once this is committed.
    pub fn delete(&self, key: impl AsRef<[u8]>) {
        self.kept().delete(key);
    }

    /// Does all writes together if nothing that was read has been written since. See
    /// [`PointTransaction::commit`](crate::PointTransaction::commit).
    ///
    /// # Errors
    /// As there.
    pub async fn commit(self) -> Result<Position> {
        self.commit_with(WriteOptions::default()).await
    }

    /// As [`commit`](Self::commit) with a durability of its own.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn commit_with(self, options: WriteOptions) -> Result<Position> {
        let Self { db, kept, .. } = self;
        let Some(kept) = Arc::into_inner(kept) else {
            return Err(Error::new(ErrorKind::Invalid, SHARED));
        };
        let (batch, reads) = kept.into_inner().unwrap_or_else(PoisonError::into_inner).into_write()?;
        match batch {
            // All was read at one point.
            None => Ok(reads.keys().position()),
            Some(batch) => db.session().write_ordered_if(&batch, reads, options).await,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Transaction> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same transaction, for the function of [`AsyncDb::transact`].
    fn for_the_function(&self) -> Self {
        Self { db: self.db.clone(), snapshot: self.snapshot.clone(), kept: Arc::clone(&self.kept) }
    }
}

/// Why a transaction is not committed that two have.
const SHARED: &str = "the transaction is in use elsewhere, so nothing of it was written: a function that is \
                      given to `transact` does not commit it, and keeps it no longer than its future runs";

/// One keyspace in an [`AsyncTransaction`].
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// let log = db.keyspace("log")?;
/// let db = db.futures();
/// runtime.block_on(async {
///     db.transact(|transaction| async move {
///         let log = transaction.in_keyspace(log);
///         let mut entries = log.range(..)?;
///         let last = entries.next_back().await.transpose()?;
///         let next = last.map_or(0, |(key, _)| key[0] + 1);
///         log.put([next], "an entry");
///         Ok(())
///     })
///     .await?;
///     assert_eq!(db.in_keyspace(log).last().await?.expect("it is there").0, [0]);
///     Ok(())
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncTransactionKeyspace<'t> {
    transaction: &'t AsyncTransaction,
    id: KeyspaceId,
}

impl AsyncTransactionKeyspace<'_> {
    /// See [`AsyncTransaction::get`].
    ///
    /// # Errors
    /// As there.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let (AsyncTransaction { db, snapshot, .. }, key) = (self.transaction, key.as_ref());
        {
            let mut kept = self.transaction.kept();
            if let Some(written) = kept.written(self.id, key) {
                return Ok(written.map(<[u8]>::to_vec));
            }
            kept.note_read(self.id, key)?;
        }
        db.session().get(ReadAt::Snapshot(snapshot), self.id, key).await
    }

    /// See [`AsyncTransaction::contains_key`].
    ///
    /// # Errors
    /// As there.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (AsyncTransaction { db, snapshot, .. }, key) = (self.transaction, key.as_ref());
        {
            let mut kept = self.transaction.kept();
            if let Some(written) = kept.written(self.id, key) {
                return Ok(written.is_some());
            }
            kept.note_read(self.id, key)?;
        }
        db.session().contains_key(ReadAt::Snapshot(snapshot), self.id, key).await
    }

    /// See [`AsyncTransaction::range`].
    ///
    /// # Errors
    /// As there.
    pub fn range(&self, range: impl Into<ScanRange>) -> Result<AsyncScan> {
        let mut kept = self.transaction.kept();
        let range = range.into();
        let (at, written) = kept.note_range(self.id, &range)?;
        self.transaction.db.scan(at, self.id, range, (written, None))
    }

    /// See [`AsyncTransaction::prefix`].
    ///
    /// # Errors
    /// As there.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<AsyncScan> {
        self.range(ScanRange::with_prefix(prefix))
    }

    /// See [`AsyncTransaction::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.transaction.kept().in_keyspace(self.id).put(key, value);
    }

    /// See [`AsyncTransaction::put_for`].
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) {
        self.transaction.kept().in_keyspace(self.id).put_for(key, value, ttl);
    }

    /// As [`put`](Self::put), of a value that expires at `expires_at_ms`, in milliseconds since the
    /// Unix epoch; 0 = never.
    pub fn put_until(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expires_at_ms: u64) {
        self.transaction.kept().in_keyspace(self.id).put_until(key, value, expires_at_ms);
    }

    /// See [`AsyncTransaction::delete`].
    pub fn delete(&self, key: impl AsRef<[u8]>) {
        self.transaction.kept().in_keyspace(self.id).delete(key);
    }
}
