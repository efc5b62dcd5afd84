//! Between which keys a scan goes, and from which side.

use firn_engine::{Direction, ScanRange};
use firn_jobs::{Cursor, MergeCursor};
use firn_storage::Result;

use super::source::Source;
use crate::memtable::Gap;

/// The keys of a scan, in the direction of its walk.
pub(super) struct Bounds {
    start: Vec<u8>,
    /// The first key behind it; `None` = to the last key.
    end: Option<Vec<u8>>,
    pub(super) direction: Direction,
}

impl Bounds {
    pub(super) fn of(range: &ScanRange) -> Self {
        let (start, end) = range.bounds();
        Self { start, end, direction: range.direction }
    }

    /// Start and end.
    pub(super) fn keys(&self) -> (&[u8], Option<&[u8]>) {
        (&self.start, self.end.as_deref())
    }

    /// Whether `key` lies before the end: a walk forward ends at the first key that does not.
    #[inline]
    pub(super) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Whether `key` is the start or lies behind it: a walk backward ends at the first key that is
    /// neither.
    #[inline]
    pub(super) fn is_from_start(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice()
    }

    /// Whether a walk that stands at `key` has not ended there.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => self.is_before_end(key),
            Direction::Backward => self.is_from_start(key),
        }
    }

    /// Moves `cursor` to where the walk begins.
    pub(super) fn seek_beginning(&self, cursor: &mut MergeCursor<Source>) -> Result<()> {
        match (self.direction, &self.end) {
            (Direction::Forward, _) if self.start.is_empty() => cursor.seek_first(),
            (Direction::Forward, _) => cursor.seek(&self.start),
            (Direction::Backward, None) => cursor.seek_last(),
            (Direction::Backward, Some(end)) => cursor.seek_before(end),
        }
    }

    /// Moves `cursor` past `gap`; `false`, and the cursor stays, if the walk ends within it.
    pub(super) fn seek_past(&self, gap: &Gap, cursor: &mut MergeCursor<Source>) -> Result<bool> {
        match (self.direction, gap.end()) {
            (Direction::Forward, Some(end)) if self.is_before_end(end) => cursor.seek(end)?,
            (Direction::Backward, _) if gap.start() > self.start.as_slice() => {
                cursor.seek_before(gap.start())?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
