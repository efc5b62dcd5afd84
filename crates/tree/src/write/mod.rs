//! What writes ask of a whole database.
//!
//! [`env`] answers what the path of a write ([`commit`](crate::commit)) asks of it. [`wait`] is
//! for writers without room, [`forecast`] tells when writers will stop. [`update`] is the atomic
//! read-modify-write.

mod env;
mod forecast;
pub(crate) mod update;
mod wait;
