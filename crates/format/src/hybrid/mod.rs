//! The hybrid log: records that lie on a device much as they lie in memory.
//!
//! [`record`] is the layout in words, [`image`] what becomes of it on a device, [`segment`] the
//! file, [`cold_run`] what finds the records of a cold log, [`Extent`] what of a log other machines
//! reach.

pub mod record;
pub mod image;
pub mod redo;
pub mod segment;
pub mod cold_run;
mod extent;

pub use extent::{Extent, LogKind};
pub use record::{ADDRESS_BITS, ADDRESS_MAX, ADDRESS_MIN, COLD_MIN, Link, Shape, State};
pub use segment::{SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SegmentHeader};
