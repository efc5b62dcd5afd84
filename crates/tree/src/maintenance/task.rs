//! What there is to do in the background, as data.

use std::sync::Arc;

use firn_format::Position;
use firn_format::blob::SegmentNumber;

use super::{Choice, Flush, OfKeyspace};
use crate::version::Table;

/// One unit of background work.
#[derive(Debug)]
pub(crate) enum Task {
    /// The oldest frozen memtable of each of these becomes a run; at least one.
    Freeze { keyspaces: Vec<u32> },
    /// Runs of a keyspace, adjacent in age, become one; by the starts of their spans, newest first.
    Merge { keyspace: u32, runs: Vec<Position> },
    /// The oldest runs of a keyspace become tables; newest first.
    Flush { keyspace: u32, runs: Vec<Position> },
    /// The runs of several keyspaces that hold little become tables; newest first.
    FlushSmall { flushes: Vec<(u32, Vec<Position>)> },
    /// One key range of a flush that another thread began.
    FlushPart { flush: Arc<Flush>, part: usize },
    /// Tables are rewritten or moved.
    Compact { keyspace: u32, choice: Choice },
    /// Tables of several keyspaces that hold little are rewritten or moved, in one edit.
    CompactSmall { choices: Vec<OfKeyspace> },
    /// Tables of a keyspace that range tombstones hide are removed.
    Reclaim { keyspace: u32 },
    /// The device is asked to begin writing values, so that sealing waits less.
    WriteBackBlobs,
    /// Tables that lie in shared files, most of which is dead, are copied to a new one.
    Repack { tables: Vec<Moving> },
    /// Blob segments that take nothing more are sealed.
    SealBlobs,
    /// What the buffer of a keyspace hides is brought to light: its memtable is frozen, or all is
    /// flushed through there.
    FlushForGc { keyspace: u32, through: Position },
    /// What lives in blob segments goes to a new one.
    BlobGc { victims: Vec<SegmentNumber> },
    /// Files that nothing refers to are removed.
    RemoveObsolete,
    /// Outputs that nothing waits for are looked for and removed.
    RemoveOrphans,
    /// What was put on shared storage in many log objects is put there in few.
    MergeLogObjects,
    /// The cache makes room for what will be written next.
    Balance,
    /// The log gives up what no record needs, and at rest what it holds is flushed.
    ShortenLog,
    /// What dead segments and tables left, and no new file took in a while, goes back to the
    /// system.
    GiveUpRecycled,
}

/// A table that moves to another file: keyspace, level, sorted run, table.
pub(crate) type Moving = (u32, u32, u64, Arc<Table>);
