//! The range tombstones that a walk may meet.

use std::sync::Arc;

use firn_format::Sequence;

use crate::buffer::Run;
use crate::memtable::RangeDeletes;
use crate::version::Table;

/// The range tombstones of one place.
pub(super) enum Tombstones {
    Memtable(Arc<RangeDeletes>),
    Run(Arc<Run>),
    Table(Arc<Table>),
}

impl Tombstones {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Tombstones::Memtable(lists) => lists.is_empty(),
            Tombstones::Run(run) => run.range_tombstones().is_empty(),
            Tombstones::Table(table) => table.reader().tombstones().is_empty(),
        }
    }

    fn newest_covering(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        match self {
            Tombstones::Memtable(lists) => lists.newest_covering(key, before),
            Tombstones::Run(run) => run.range_tombstones().newest_covering(key, before),
            Tombstones::Table(table) => table.reader().tombstones().newest_covering(key, before),
        }
    }
}

/// Sequence of the newest range tombstone over `key` that is seen before `before`.
pub(super) fn covering(tombstones: &[Tombstones], key: &[u8], before: Sequence) -> Option<Sequence> {
    tombstones.iter().filter_map(|place| place.newest_covering(key, before)).max()
}
