//! The log: segments whose arenas are the memtable's and the runs' data.
//!
//! ```text
//!   reserve (fetch-add) ─► copy ─► index ─► publish ─► watermark ─► group write ─► sync
//!        segment.rs        (write/)         segment.rs  order.rs     group.rs      group.rs
//! ```
//!
//! Stages in reading order: [`segment`] (one arena and its file), [`map`] (from a position to its
//! segment), [`spare`] (what dead segments leave to the next). Then [`room`] (what of the disk is
//! kept free), [`order`] (reservation, roll, watermark), [`group`] (from the arena to the file and
//! the device).

pub(crate) mod segment;
mod memtable_set;
pub(crate) mod map;
pub(crate) mod spare;
pub(crate) mod room;
pub(crate) mod order;
pub(crate) mod group;

pub(crate) use memtable_set::MemtableSet;
pub(crate) use order::capacity_for;

use crate::blobs::Values;

/// The log of a tree.
pub(crate) type Log = order::Log<MemtableSet, Values>;

/// How the log of a tree begins.
pub(crate) type LogStart = order::LogStart<MemtableSet>;

/// A segment of it, with the memtables that its records are indexed in.
pub(crate) type Segment = segment::Segment<MemtableSet>;

/// The live segments of it.
pub(crate) type SegmentMap = map::SegmentMap<MemtableSet>;

impl order::Referred for Values {
    fn hand_over(&self) -> firn_storage::Result<()> {
        self.hand_over()
    }

    fn sync(&self) -> firn_storage::Result<()> {
        self.sync()
    }
}
