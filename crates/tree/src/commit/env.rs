//! What the pipeline asks of the database around it.

use std::sync::Arc;
use std::sync::MutexGuard;

use firn_engine::{KeyspaceId, Result};
use firn_format::{Position, Sequence};

use crate::log::Segment;
use crate::log::order::NextSegment;

/// The database as the pipeline sees it. A write that finds room, has no pace and writes one
/// keyspace calls none of this.
pub(crate) trait CommitEnv {
    /// Whether a frame would be refused for want of room, before anything of it is written.
    fn is_stopped(&self) -> bool;

    /// Whether a removal of `bytes` may go to the segment at `base`, where the disk is nearly full;
    /// if not it waits for a flush.
    ///
    /// # Errors
    /// `Retry` where nothing can make room.
    fn may_remove(&self, base: Position, bytes: usize) -> Result<bool>;

    /// Has the next segment follow the one at `base`, which has no room for a frame of `bytes`.
    ///
    /// # Errors
    /// `Retry` when the disk is full. A frame that `removes` more than it brings finds room longer.
    fn begin_next(&self, base: Position, bytes: usize, removes: impl Fn() -> bool) -> Result<Rolled>;

    /// A segment for one frame of `bytes`, which no other thread sees; `None` if the buffer is
    /// full.
    ///
    /// # Errors
    /// As [`begin_next`](Self::begin_next).
    fn begin_large(&self, bytes: usize, removes: bool) -> Result<Option<LargeSegment<'_>>>;

    /// Another segment is active: the pace follows, and background work looks again.
    fn rolled(&self);

    /// A frame that starts at `start` has records of several keyspaces.
    fn crosses(&self, start: Position);

    /// The newest version of `key` below `end`, all of which is published.
    fn newest_below(&self, keyspace: KeyspaceId, key: &[u8], end: Position) -> Result<Option<Sequence>>;

    /// Works the pace out again from the size of the buffer and the length of the log.
    fn renew_pace(&self);

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

/// What [`CommitEnv::begin_next`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rolled {
    /// Another segment is active now.
    Next,
    /// The buffer is full; the active segment stays as it is.
    Stopped,
}

/// A segment that is not active yet, and the right to make it so.
pub(crate) struct LargeSegment<'l> {
    pub(crate) segment: Arc<Segment>,
    pub(crate) roll: MutexGuard<'l, NextSegment>,
}
