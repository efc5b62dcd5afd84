//! One keyspace of a database whose keys are in order.

use std::ops::Deref;
use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::{Ordered, Position, Result, ScanRange, Snapshot, WriteOptions};

use crate::{PointKeyspace, Scan};

/// One keyspace of a [`Db`](crate::Db): a [`PointKeyspace`] with the calls that need order.
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

    /// The same keyspace, read as of `snapshot`. Writes are not affected.
    #[must_use]
    pub fn at(&self, snapshot: &Snapshot) -> Self {
        Self::over(self.points.at(snapshot), Arc::clone(&self.engine))
    }

    /// The same keyspace, written with `options`: another durability, an expiry.
    #[must_use]
    pub fn with_options(&self, options: WriteOptions) -> Self {
        Self::over(self.points.with_options(options), Arc::clone(&self.engine))
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
    /// it takes.
    ///
    /// # Errors
    /// As [`get`](PointKeyspace::get); errors met on the way come through the iterator.
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        let session = Blocking::new(self.engine.ordered_session());
        Scan::open(session, self.read_at(), self.id(), range)
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
