//! A store that sessions drive.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{
    Hashed, Ingestion, KeyspaceId, KeyspaceSettings, OrderedSession, Position, Result, Session, Snapshot,
    Stats, WriteOptions,
};

/// What a copy contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseCopy {
    /// Where it lies; opens as a database of its own.
    pub path: PathBuf,
    /// Every write with a smaller position is in it, no other is.
    pub position: Position,
}

/// A key-value store. Shared between threads; each thread opens [`Session`]s of its own.
///
/// Calls here may block; they are for control, not for the data path.
pub trait Engine: Send + Sync {
    /// A new session.
    fn session(&self) -> Box<dyn Session>;

    /// Creates a keyspace, durable on return. If one of that name exists with equal settings,
    /// returns its id; `separate_bytes`, which may have been changed, is not compared.
    ///
    /// # Errors
    /// `Conflict` if the name exists with other settings; `Invalid` if a name in `settings` has no
    /// code.
    fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<KeyspaceId>;

    /// The keyspace called `name`.
    fn keyspace(&self, name: &str) -> Option<KeyspaceId>;

    /// Names and ids of all keyspaces, by id.
    fn keyspaces(&self) -> Vec<(String, KeyspaceId)>;

    /// What a keyspace was created with, and what was changed since. One created with these in
    /// another database behaves as it does here.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace.
    fn keyspace_settings(&self, id: KeyspaceId) -> Result<KeyspaceSettings>;

    /// Drops a keyspace with all its data, durable on return; the default one cannot be dropped.
    fn drop_keyspace(&self, id: KeyspaceId) -> Result<()>;

    /// Changes from how many bytes on values of a keyspace are separated, durably; `None`: as
    /// the engine's settings say. New values follow at once, and older ones when they are
    /// rewritten. Changes no answer.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace.
    fn set_separate_bytes(&self, id: KeyspaceId, bytes: Option<u32>) -> Result<()>;

    /// Sets `key` to the `value_bytes` that `source` has from here to its end, without holding all
    /// of them in memory. Acknowledged as a write is.
    ///
    /// The value is there as a whole or not at all. It takes its place among the writes of its key
    /// when the source has ended. Blocks as long as the source does; other calls do not wait
    /// meanwhile. [`close`](Self::close) does not wait either: this call is then answered with
    /// `Closed`.
    ///
    /// # Errors
    /// `Invalid` where the source fails, ends early or has more. `Invalid` also where such values
    /// would be held in memory: the message names the setting. Else as [`Session::put`]. After an
    /// error nothing is written.
    fn put_from(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value_bytes: u64,
        source: &mut dyn Read,
        options: WriteOptions,
    ) -> Result<Position>;

    /// A snapshot of everything acknowledged so far.
    fn snapshot(&self) -> Result<Snapshot>;

    /// Writes everything acknowledged so far to tables and returns when that is durable.
    fn flush(&self) -> Result<()>;

    /// Makes every acknowledged write durable at `Disk` and returns the position through which it
    /// is.
    fn sync(&self) -> Result<Position>;

    /// Every write before this position survives loss of power, whatever was asked of it, since a
    /// checkpoint has it: of the writes of each session those are the first ones. A write's
    /// position is the one that its session was given, which grows with each. After an opening
    /// this is what the last checkpoint of the process before has: of what that process wrote at
    /// `checkpoint`, the writes before it are there, and no others. `None` where the engine takes
    /// no checkpoints. Does not block.
    fn checkpointed(&self) -> Option<Position> {
        None
    }

    /// Waits until no background work is left; with `flush` before it, until the database is
    /// flushed.
    ///
    /// # Errors
    /// What keeps background work from going on. `Corrupt` if background work left a file that it
    /// found damaged ([`Stats::damage`]); all else is done then.
    fn wait_idle(&self) -> Result<()>;

    /// A consistent copy of the database at `path`. Immutable files are linked where `path` is on
    /// the same file system, else copied.
    fn copy_to(&self, path: &std::path::Path) -> Result<DatabaseCopy>;

    /// Counters and sizes.
    fn stats(&self) -> Stats;

    /// Stops background work, makes everything acknowledged durable, refuses later writes. Reads
    /// may go on, of what was there then; where they do, another opening of the same files is a
    /// `Conflict` until those under way have ended.
    ///
    /// Idempotent. Dropping the last handle does the same and ignores the error.
    fn close(&self) -> Result<()>;

    /// The ordered half of the contract, if this engine keeps keys in order.
    fn ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>>;

    /// The half of the contract for scans by hash, if this engine finds keys by their hashes.
    fn hashed(self: Arc<Self>) -> Option<Arc<dyn Hashed>> {
        None
    }
}

/// An engine that keeps keys in order.
pub trait Ordered: Engine {
    /// A new session that scans and deletes ranges.
    fn ordered_session(&self) -> Box<dyn OrderedSession>;

    /// Rewrites `start..end` (`None` = to the end) into the last level and returns when that is
    /// durable. After a failure, or the end of the process, a part of it stays: one from the
    /// range's beginning on, or what prepares for it.
    fn compact_range(&self, keyspace: KeyspaceId, start: &[u8], end: Option<&[u8]>) -> Result<()>;

    /// Begins the ingestion of sorted records into `keyspace`: the fast way to load much.
    ///
    /// # Errors
    /// `Invalid` for an unknown keyspace; `Closed` after `close`, or when opened for reading only.
    fn ingest(&self, keyspace: KeyspaceId) -> Result<Box<dyn Ingestion>>;
}
