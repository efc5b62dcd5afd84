//! The record at a position.

use firn_format::{Position, log::Record};
use firn_storage::file::log::SegmentMap;

/// A source of the records that memtables and runs refer to.
pub trait Records: Send + Sync {
    /// The published record at `position`; `None` if no live segment holds one there.
    fn record(&self, position: Position) -> Option<Record<'_>>;

    /// Begins to load the record at `position`, which will be asked for soon and has perhaps so
    /// many `bytes`; may do nothing.
    #[inline]
    fn begin_load(&self, _position: Position, _bytes: usize) {}
}

impl<C: Send + Sync> Records for SegmentMap<C> {
    #[inline]
    fn record(&self, position: Position) -> Option<Record<'_>> {
        self.record(position)
    }

    #[inline]
    fn begin_load(&self, position: Position, bytes: usize) {
        self.begin_load(position, bytes);
    }
}
