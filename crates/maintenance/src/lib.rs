//! Background work of an engine, whatever the engine keeps.
//!
//! ```text
//!   a unit of work fails ─► failure: what storage or a job said ─► the contract's error ─► Answer
//! ```
//!
//! # Not here
//! - What there is to do, and what is done: the engine decides.
//! - Jobs and where they run: crate `firn-jobs`.

#![forbid(unsafe_code)]

mod error; // what storage and jobs said, as the contract says it
mod failure; // what is done about a failure

pub use error::{from_job, from_storage, said_by_storage};
pub use failure::{Answer, answer_to};
