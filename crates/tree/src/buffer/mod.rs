//! The upper levels: runs that refer to records in the log, and merges that only write such
//! references.

mod entry;
mod index;
pub(crate) mod run;
pub(crate) mod merge;

pub(crate) use entry::{RunEntry, prefix_word};
pub(crate) use merge::{MERGE_INPUTS_MAX, MergeTask, Progress};
pub(crate) use run::{Filtering, FrozenEntries, Run, RunCursor};
