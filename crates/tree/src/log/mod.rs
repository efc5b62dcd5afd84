//! What the log of a tree carries: memtables, in which the records of its segments are indexed.

mod memtable_set;

use firn_storage::file::log;
pub(crate) use memtable_set::MemtableSet;

use crate::blobs::BlobStore;

/// The log of a tree.
pub(crate) type Log = log::Log<MemtableSet, BlobStore>;

/// How the log of a tree begins.
pub(crate) type LogStart = log::LogStart<MemtableSet>;

/// A segment of it.
pub(crate) type Segment = log::Segment<MemtableSet>;

/// The live segments of it.
pub(crate) type SegmentMap = log::SegmentMap<MemtableSet>;

impl log::Referred for BlobStore {
    fn hand_over(&self) -> firn_storage::Result<()> {
        self.hand_over()
    }

    fn sync(&self) -> firn_storage::Result<()> {
        self.sync()
    }
}
