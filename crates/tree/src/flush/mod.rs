//! From a memtable to tables: freezing makes a run of it, a flush writes the oldest runs out.

pub(crate) mod run;
mod small; // of many keyspaces at once
pub(crate) mod freeze;
pub(crate) mod met;
pub(crate) mod pick;
