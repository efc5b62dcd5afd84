//! What the pipeline asks of the database around it.

use firn_engine::Result;
use firn_format::Position;

use super::Condition;

/// The database as the pipeline sees it. A write that finds room, has no pace and writes one
/// keyspace calls none of this.
pub(crate) trait CommitEnv {
    /// Whether a compaction is in progress, which may make room on the disk.
    fn is_compacting(&self) -> bool;

    /// A frame that starts at `start` has records of several keyspaces.
    fn crosses(&self, start: Position);

    /// Whether `condition` holds of what lies below `end`, all of which is published.
    fn holds(&self, condition: &Condition<'_>, end: Position) -> Result<bool>;

    /// Works the pace out again from the space that separated values take.
    fn renew_space_pace(&self);

    /// Blocks until a stopped writer should try again.
    ///
    /// # Errors
    /// `Retry` where no room can be made now; `Closed` when the database closes or has failed.
    fn wait_to_retry(&self) -> Result<()>;

    /// Blocks until shared storage has everything below `end`.
    fn put_on_shared_storage(&self, end: Position) -> Result<()>;
}
