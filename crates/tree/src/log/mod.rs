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

pub(crate) use map::SegmentMap;
pub(crate) use memtable_set::MemtableSet;
pub(crate) use order::{Log, LogStart, capacity_for};
pub(crate) use segment::Segment;
