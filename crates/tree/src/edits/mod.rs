//! Edits of the set of files: outputs become part of the database, all of them or none.
//!
//! [`env`] is what an edit asks of the database around it.

mod being_written;
mod commit;
mod commit_together; // of several keyspaces
mod env;
mod keyspaces; // made, changed, dropped
mod retire;

use firn_jobs::submit::Submitter;

use crate::blobs::BlobStore;
use crate::commit::CommitPipeline;
use crate::files::Files;
use crate::reads::Reads;
use crate::version::catalog::Catalog;

pub(crate) use being_written::BeingWritten;
pub(crate) use commit::{Edit, Supersedes, flushed_with};
pub(crate) use env::EditEnv;
pub(crate) use retire::{drop_dead_segments, retire_below};

/// What edits are committed with: the owners of what they change, and of what has to be durable
/// before them.
#[derive(Clone, Copy)]
pub(crate) struct Edits<'d> {
    pub(crate) catalog: &'d Catalog,
    pub(crate) files: &'d Files,
    pub(crate) blobs: &'d BlobStore,
    pub(crate) pipeline: &'d CommitPipeline,
    pub(crate) reads: &'d Reads,
    /// Whose outputs are committed.
    pub(crate) jobs: &'d Submitter,
    pub(crate) env: &'d dyn EditEnv,
}
