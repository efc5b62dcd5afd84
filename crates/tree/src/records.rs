//! The record at a position.

use firn_format::{Position, log::Record};

/// A source of the records that memtables and runs refer to.
pub trait Records: Send + Sync {
    /// The published record at `position`; `None` if no live segment holds one there.
    fn record(&self, position: Position) -> Option<Record<'_>>;

    /// Begins to load the record at `position`, which will be asked for soon and has perhaps so
    /// many `bytes`; may do nothing.
    #[inline]
    fn begin_load(&self, _position: Position, _bytes: usize) {}
}
