//! Edits of the set of files: outputs become part of the database, all of them or none.

mod being_written;
mod commit;
mod commit_together; // of several keyspaces
mod retire;

pub(crate) use being_written::BeingWritten;
pub(crate) use commit::{Edit, Supersedes, drained_with};
pub(crate) use retire::retire_below;
