//! One database over an engine that keeps its keys in order.

use std::ops::Deref;
use std::sync::Arc;

use firn_engine::blocking::{Blocking, OrderedBlocking};
use firn_engine::{
    KEYSPACE_DEFAULT, KeyspaceId, Ordered, OrderedBatch, Position, Result, ScanRange, WriteOptions,
};

use crate::{Keyspace, PointDb, Record, Scan};

/// A database in this process, whose keys are in order.
///
/// A handle, as [`PointDb`] is, which has the calls that need no order: those of its methods that
/// stand below under *Methods from Deref* are calls of this type. Cheap to clone, to keep, and to
/// send to other threads; dropping the last handle of either kind closes the database.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// db.put("b", "2")?;
/// db.put("a", "1")?;
/// let other = db.clone();
/// std::thread::spawn(move || other.put("c", "3")).join().expect("it ends")?;
///
/// assert_eq!(db.first()?, Some((b"a".to_vec(), b"1".to_vec())));
/// let keys: Vec<_> = db.range("b"..)?.map(|record| Ok(record?.0)).collect::<firn::Result<_>>()?;
/// assert_eq!(keys, [b"b", b"c"]);
/// db.delete_range("a", "c")?;
/// assert_eq!(db.range(..)?.count_records()?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    points: PointDb,
    engine: Arc<dyn Ordered>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}

impl Deref for Db {
    type Target = PointDb;

    fn deref(&self) -> &PointDb {
        &self.points
    }
}

impl PointDb {
    /// The same database with the calls that need order; `None` if its engine keeps none.
    pub fn ordered(&self) -> Option<Db> {
        self.engine().ordered().map(|engine| Db::over(self.clone(), engine))
    }
}

impl Db {
    /// `points` with the calls that `engine`, which is the same one, has more.
    pub(crate) fn over(points: PointDb, engine: Arc<dyn Ordered>) -> Self {
        Self { points, engine }
    }

    /// The engine itself: sessions that do not block, snapshots, statistics.
    pub fn engine(&self) -> Arc<dyn Ordered> {
        Arc::clone(&self.engine)
    }

    /// A blocking session of the caller's own: the fast way to do many operations on one thread.
    pub fn session(&self) -> OrderedBlocking {
        Blocking::new(self.engine.ordered_session())
    }

    /// The keyspace `id`, to read and write it: all other calls are calls of the default keyspace.
    pub fn in_keyspace(&self, id: KeyspaceId) -> Keyspace {
        Keyspace::over(self.points.in_keyspace(id), Arc::clone(&self.engine))
    }

    /// The default keyspace, to read it at a snapshot or to write it with options.
    pub fn in_default(&self) -> Keyspace {
        self.in_keyspace(KEYSPACE_DEFAULT)
    }

    /// Removes every key of `start..end`. See [`Keyspace::delete_range`].
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<Position> {
        self.in_default().delete_range(start, end)
    }

    /// Keys and values of `range` in its order. See [`Keyspace::range`].
    pub fn range(&self, range: impl Into<ScanRange>) -> Result<Scan> {
        self.in_default().range(range)
    }

    /// Keys that begin with `prefix`, upward, and their values. See [`Keyspace::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.in_default().prefix(prefix)
    }

    /// The smallest key and its value. See [`Keyspace::first`].
    pub fn first(&self) -> Result<Option<Record>> {
        self.in_default().first()
    }

    /// The greatest key and its value. See [`Keyspace::last`].
    pub fn last(&self) -> Result<Option<Record>> {
        self.in_default().last()
    }

    /// Applies all of `batch`, range deletes included, or none of it, whichever keyspaces it
    /// touches.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let db = firn::Db::builder("example").storage(storage).open()?;
    /// use firn::{KEYSPACE_DEFAULT, OrderedBatch, WriteOptions};
    ///
    /// db.put("day/1", "old")?;
    /// let mut batch = OrderedBatch::default();
    /// batch.delete_range(KEYSPACE_DEFAULT, b"day/", b"day0").put(KEYSPACE_DEFAULT, b"day/2", b"new");
    /// db.write_ordered(&batch, WriteOptions::default())?;
    /// assert_eq!(db.range(..)?.count_records()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`PointDb::write_with`].
    pub fn write_ordered(&self, batch: &OrderedBatch, options: WriteOptions) -> Result<Position> {
        self.session().write_ordered(batch, options)
    }
}
