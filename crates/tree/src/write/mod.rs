//! What writes ask of a whole database.
//!
//! [`env`] answers what the path of a write ([`commit`](crate::commit)) asks of it, and what edits
//! do. [`wait`] is for writers without room. [`update`] is the atomic read-modify-write.

mod env;
pub(crate) mod update;
mod wait;

pub(crate) use wait::{refused_room, retry_flushes};
