//! The path of a write: admission, one frame in the log, index entries, the watermark.
//!
//! [`pipeline`] is the path and explains it. [`frame`] is what it writes. `pressure` slows writers
//! before memory runs out, by the engines' [pace](firn_engine::pace). [`room`] notes what they want
//! of the disk, [`forecast`] when they will stop; `separate` has large values written as blobs.
//! [`held`] is a place in the log that readers do not get past. [`env`] is what the pipeline asks
//! of the database around it: so it is tested without one.

pub(crate) mod env;
pub(crate) mod forecast;
pub(crate) mod frame;
pub(crate) mod pipeline;
mod disk;
mod held;
mod log_length;
mod memory;
mod next_segment;
mod pressure;
pub(crate) mod roll;
pub(crate) mod room;
mod separate;

pub(crate) use env::CommitEnv;
pub(crate) use frame::{Blobs, Condition, Frame, Item};
pub(crate) use held::HeldFrame;
pub(crate) use pipeline::{Appended, CommitPipeline};
