//! The upper levels: runs that refer to records in the log, and merges that only write such
//! references.

mod entry;
mod index;
mod run;
mod merge;
pub(crate) mod met;
pub(crate) mod freeze;
pub(crate) mod pick;
pub(crate) mod drain;
mod drain_small; // of many keyspaces at once

pub(crate) use entry::{RunEntry, prefix_word};
pub(crate) use merge::{MERGE_INPUTS_MAX, MergeTask, Progress};
pub(crate) use run::{Filtering, FrozenEntries, Run, RunCursor};
