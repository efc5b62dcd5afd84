//! Bulk ingestion: much sorted data, past the log.

use firn_engine::{Position, Result};

use crate::{Db, Keyspace};

/// Sorted records on their way into a keyspace, from [`Keyspace::ingest`]: the fast way to load
/// much.
///
/// Records go straight to tables, and long values to blob segments, in the form that the keyspace
/// asks for. That saves the log, the memtable and, where the range was empty, all compactions: each
/// byte is written once. That is about three times as fast as batches of 1 000 records, and about
/// as fast where values are separated. Memory does not grow with what is ingested.
///
/// No reader sees a record before [`finish`](Self::finish), and all see all of them afterwards; a
/// crash leaves all or none. They count as written at `finish`: newer than every write before,
/// older than every later one, and in no snapshot that was taken before. Dropped without `finish`,
/// an ingestion leaves nothing. Everything else goes on meanwhile, and the database stays open.
///
/// An ingestion is into one keyspace. Several cannot be ingested into at one moment: of two
/// ingestions one is visible before the other, and after a crash perhaps alone.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// let words = db.in_keyspace(db.keyspace("words")?);
/// words.put("b", "before")?;
/// let mut ingestion = words.ingest()?;
/// for key in ["a", "b", "c"] {
///     ingestion.put(key, "ingested")?;
/// }
/// assert!(ingestion.put("b", "late").is_err()); // keys rise
/// assert_eq!(words.get("a")?, None);
/// ingestion.finish()?;
/// assert_eq!(words.get("b")?.as_deref(), Some(&b"ingested"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Ingestion {
    /// Before the keyspace, which keeps the database open.
    records: Box<dyn firn_engine::Ingestion>,
    keyspace: Keyspace,
}

impl std::fmt::Debug for Ingestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingestion").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

impl Keyspace {
    /// Begins the ingestion of sorted records.
    ///
    /// # Errors
    /// `Invalid` if the keyspace was dropped; `Closed` after
    /// [`close`](crate::PointDb::close), and when opened for reading only.
    pub fn ingest(&self) -> Result<Ingestion> {
        let records = self.engine().ingest(self.id())?;
        Ok(Ingestion { records, keyspace: self.clone() })
    }

    /// Ingests all of `records`, whose keys rise; answers the position behind them.
    ///
    /// # Errors
    /// As [`Ingestion::put`] and [`Ingestion::finish`]; nothing is ingested then.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// db.in_default().ingest_all((0..1000_u32).map(|number| (number.to_be_bytes(), "value")))?;
    /// assert_eq!(db.get(17_u32.to_be_bytes())?.as_deref(), Some(&b"value"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ingest_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Position> {
        let mut ingestion = self.ingest()?;
        for (key, value) in records {
            ingestion.put(key, value)?;
        }
        ingestion.finish()
    }
}

impl Db {
    /// Begins the ingestion of sorted records into the default keyspace. See [`Keyspace::ingest`].
    ///
    /// # Errors
    /// As [`Keyspace::ingest`].
    pub fn ingest(&self) -> Result<Ingestion> {
        self.in_default().ingest()
    }
}

impl Ingestion {
    /// Adds the record of `key`, which is greater than all keys before it. It expires as the
    /// options of the keyspace's handle say ([`Keyspace::with_options`]). Blocks for the device at
    /// times.
    ///
    /// # Errors
    /// - `Invalid` for a key that is not greater than the one before (the message names both), a
    ///   key or value beyond its limit, or a dropped keyspace: the ingestion goes on.
    /// - `Retry` when the disk is full, `Closed` after [`close`](crate::PointDb::close), and others
    ///   of writing: the ingestion can only be dropped.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until(key, value, self.keyspace.options().expires_at_ms)
    }

    /// As [`put`](Self::put), of a record that counts as deleted from `expires_at_ms` (milliseconds
    /// since the Unix epoch) on; 0 = never.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: u64,
    ) -> Result<()> {
        self.records.put(key.as_ref(), value.as_ref(), expires_at_ms)
    }

    /// Makes all records visible, durable on the device, and on shared storage where the database's
    /// tables lie there. Answers the position behind them; without records it changes nothing.
    ///
    /// Blocks: for a flush where records of the keyspace that are in no table lie among the keys,
    /// then for one or two syncs, while no other write is acknowledged.
    ///
    /// # Errors
    /// Nothing is ingested then:
    /// - `Conflict` where other writers wrote among the keys each of several times that this was
    ///   tried.
    /// - `Retry` when the disk is full.
    /// - `Invalid` if the keyspace was dropped, `Closed` after [`close`](crate::PointDb::close).
    pub fn finish(self) -> Result<Position> {
        self.records.finish()
    }
}
