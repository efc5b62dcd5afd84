//! What the database consists of at one moment, and the record of how it came to be.
//!
//! [`Version`] is the immutable set that readers hold; [`state`] is the part of it that outlives
//! the process; `content` has it written down, edit by edit; [`snapshots`] are the sequences
//! readers have named.

pub(crate) mod table;
pub(crate) mod levels;
pub(crate) mod state;
pub(crate) mod blobs_state;
mod before; // what an edit changes, as it was
mod content; // what the manifest carries
pub(crate) mod catalog;
pub(crate) mod snapshots;
pub(crate) mod observed;
pub(crate) mod open_tables;
pub(crate) mod set;

pub(crate) use content::Manifest;
pub(crate) use levels::{Levels, SortedRun};
pub(crate) use set::{Definition, Frozen, Keyspace, Version};
pub(crate) use snapshots::Snapshots;
pub(crate) use table::Table;
