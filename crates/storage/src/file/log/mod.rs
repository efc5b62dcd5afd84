//! The log: segments whose arenas are what an engine reads, and whose files have the same bytes.
//!
//! ```text
//!   reserve (fetch-add) ─► copy ─► index ─► publish ─► watermark ─► group commit ─► device
//!        segment.rs       (the engine)     segment.rs  order.rs   group_commit.rs  synced.rs
//! ```
//!
//! Stages in reading order: `segment` (one arena and its file), `map` (from a position to its
//! segment), `recycled` (what dead segments leave to the next), `factory` (what makes new ones).
//! Then [`room`] (what of the disk is kept free), `order` (reservation, roll, watermark),
//! `group_commit` (from the arena to the file), `synced` (to the device). [`objects`] sends the
//! same log to where other machines find it.

mod segment;
mod map;
mod recycled;
mod factory;
pub mod room;
mod order;
mod group_commit;
mod synced;
pub mod objects;

pub use self::map::SegmentMap;
pub use self::order::{Log, LogStart, NextSegment, Referred, capacity_for};
pub use self::recycled::RecycledSegments;
pub use self::segment::Segment;

#[cfg(test)]
mod tests;
