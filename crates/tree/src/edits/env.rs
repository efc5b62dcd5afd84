//! What an edit asks of the database around it: the shared log, where other machines find what is
//! in no table.

use firn_engine::Result;
use firn_format::Position;
use firn_format::manifest::Change;

use crate::version::Manifest;

/// The database as edits of flushes see it. Others ask nothing of it.
pub(crate) trait EditEnv {
    /// Sends what a flush of `keyspace` through `end` leaves in the log alone.
    ///
    /// # Errors
    /// What sending says: the flush is not to be committed.
    fn send_before_flush(&self, keyspace: u32, end: Position) -> Result<()>;

    /// Sends the log below `end`, which is on this machine's device, if any of it was sent before.
    ///
    /// # Errors
    /// As [`send_before_flush`](Self::send_before_flush).
    fn send_through(&self, end: Position) -> Result<()>;

    /// Commits the `changes` of a flush to `manifest`. The same edit says what is needed no more of
    /// the shared log, and that goes.
    ///
    /// # Errors
    /// What writing the edit says.
    fn commit_flush(&self, manifest: &mut Manifest, changes: Vec<Change>) -> Result<()>;
}
