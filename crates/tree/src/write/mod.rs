//! From a batch to published records: admission, one frame in the log, index entries, watermark.
//!
//! [`append`] is the path of every write; [`roll`] begins the next segment and freezes memtables.
//! [`admission`] slows writers before memory runs out, [`due`] says how long each of them waits,
//! [`foresight`] when they will stop. [`update`] is the atomic read-modify-write.

pub(crate) mod admission;
pub(crate) mod append;
pub(crate) mod commit;
pub(crate) mod due;
pub(crate) mod foresight;
pub(crate) mod log_length;
pub(crate) mod roll;
pub(crate) mod room;
pub(crate) mod update;
