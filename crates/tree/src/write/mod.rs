//! What the path of a write ([`commit`](crate::commit)) finds around it: memory, disk and log.
//!
//! [`roll`] begins the next segment and freezes memtables; [`pressure`], [`room`] and
//! [`log_length`] tell how much more memory, disk and log there may be. [`forecast`] is when
//! writers will stop. [`env`] puts them together for the pipeline. [`update`] is the atomic
//! read-modify-write.

mod env;
pub(crate) mod forecast;
pub(crate) mod log_length;
mod memory;
pub(crate) mod pressure;
pub(crate) mod roll;
pub(crate) mod room;
pub(crate) mod update;
