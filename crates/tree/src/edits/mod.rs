//! Edits of the set of files: outputs become part of the database, all of them or none.

mod being_written;
mod commit;
mod commit_together; // of several keyspaces

pub(crate) use being_written::BeingWritten;
pub(crate) use commit::{Edit, Supersedes, drained_with};
