//! One keyspace of a database whose keys are in order.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::{Ordered, Position, Result, ScanRange, Snapshot, WriteOptions};

use crate::{PointKeyspace, Record, Scan};

/// One keyspace of a [`Db`](crate::Db): a [`PointKeyspace`] with the calls that need order.
///
/// Keys of different keyspaces are apart; batches, transactions and snapshots span them. A handle:
/// cheap to clone, to keep in a struct, and to send to other threads.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// struct Orders {
///     open: firn::Keyspace,
///     done: firn::Keyspace,
/// }
/// let keyspace = |name| Ok::<_, firn::Error>(db.in_keyspace(db.keyspace(name)?));
/// let orders = Orders { open: keyspace("open")?, done: keyspace("done")? };
/// orders.open.put("2026-11-30/1", "a lamp")?;
/// orders.done.put("2026-11-29/7", "a table")?;
/// assert_eq!(orders.open.range("2026-11"..)?.count_records()?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Keyspace {
    points: PointKeyspace,
    engine: Arc<dyn Ordered>,
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace").field("points", &self.points).finish_non_exhaustive()
    }
}

impl Deref for Keyspace {
    type Target = PointKeyspace;

    fn deref(&self) -> &PointKeyspace {
        &self.points
    }
}

impl Keyspace {
    /// `points` with the calls that `engine`, its database's, has more.
    pub(crate) fn over(points: PointKeyspace, engine: Arc<dyn Ordered>) -> Self {
        Self { points, engine }
    }

    /// The engine, for calls that need order.
    pub(crate) fn engine(&self) -> &Arc<dyn Ordered> {
        &self.engine
    }

    /// The same keyspace, read as of `snapshot`. Writes are not affected.
    #[must_use]
    pub fn at(&self, snapshot: &Snapshot) -> Self {
        Self::over(self.points.at(snapshot), Arc::clone(&self.engine))
    }

    /// The same keyspace, written with `options`. See [`PointKeyspace::with_options`].
    #[must_use]
    pub fn with_options(&self, options: WriteOptions) -> Self {
        Self::over(self.points.with_options(options), Arc::clone(&self.engine))
    }

    /// The same keyspace, whose values live for `ttl`. See [`PointKeyspace::with_ttl`].
    #[must_use]
    pub fn with_ttl(&self, ttl: Duration) -> Self {
        Self::over(self.points.with_ttl(ttl), Arc::clone(&self.engine))
    }

    /// Removes every key of `start..end`. Costs one record, however many keys there are.
    ///
    /// # Errors
    /// `Invalid` if `end` is not greater than `start`; else as [`put`](PointKeyspace::put).
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<Position> {
        let (start, end) = (start.as_ref(), end.as_ref());
        Blocking::new(self.engine.ordered_session()).delete_range(self.id(), start, end, self.options())
    }

    /// Keys and values of `range` in its order, as they are now (or in the snapshot), however long
    /// it takes. Any range of keys will do, or a [`ScanRange`], which can have a prefix and go
    /// downward.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// use firn::{Record, ScanRange, Scan};
    ///
    /// let towns = db.in_keyspace(db.keyspace("towns")?);
    /// for name in ["Arvika", "Boden", "Borås", "Ystad"] {
    ///     towns.put(name, "")?;
    /// }
    /// let names = |scan: Scan| -> firn::Result<Vec<String>> {
    ///     let name = |record: firn::Result<Record>| Ok(String::from_utf8_lossy(&record?.0).into_owned());
    ///     scan.map(name).collect()
    /// };
    /// assert_eq!(names(towns.range(..)?)?, ["Arvika", "Boden", "Borås", "Ystad"]);
    /// assert_eq!(names(towns.range("B".."C")?)?, ["Boden", "Borås"]);
    /// assert_eq!(names(towns.range(..="Boden")?)?, ["Arvika", "Boden"]);
    /// assert_eq!(names(towns.prefix("Bo")?)?, ["Boden", "Borås"]);
    /// assert_eq!(names(towns.range(ScanRange::with_prefix("Bo").backward())?)?, ["Borås", "Boden"]);
    /// let last = towns.range(.."C")?.next_back().expect("there are some")?;
    /// assert_eq!(last.0, "Borås".as_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](PointKeyspace::get); errors met on the way come through the iterator.
    pub fn range(&self, range: impl Into<ScanRange>) -> Result<Scan> {
        self.open(range.into(), None)
    }

    /// Keys that begin with `prefix`, upward, and their values. Files without such keys are skipped
    /// where the keyspace has a prefix extractor.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.range(ScanRange::with_prefix(prefix))
    }

    /// The smallest key and its value; `None` in an empty keyspace.
    ///
    /// # Errors
    /// As [`get`](PointKeyspace::get).
    pub fn first(&self) -> Result<Option<Record>> {
        self.open(ScanRange::all(), Some(1))?.next().transpose()
    }

    /// The greatest key and its value; `None` in an empty keyspace.
    ///
    /// # Errors
    /// As [`get`](PointKeyspace::get).
    pub fn last(&self) -> Result<Option<Record>> {
        self.open(ScanRange::all().backward(), Some(1))?.next().transpose()
    }

    fn open(&self, range: ScanRange, records: Option<usize>) -> Result<Scan> {
        let session = Blocking::new(self.engine.ordered_session());
        Scan::open(session, self.read_at(), self.id(), range, (Vec::new(), records))
    }

    /// Flushes, then rewrites `start..end` (`None` = to the end) into the deepest level that holds
    /// any of it. That gives back the space of overwritten and deleted records. Blocks until it is
    /// durable.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing was lost. Otherwise as [`put`](PointKeyspace::put).
    pub fn compact_range(&self, start: impl AsRef<[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.engine.compact_range(self.id(), start.as_ref(), end)
    }
}
