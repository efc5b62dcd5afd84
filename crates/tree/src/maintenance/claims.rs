//! What is being worked on: each piece by one task at a time.

mod blobs;
mod buffer;
mod tables;

pub(crate) use self::blobs::{BlobClaims, Unavailable};
pub(crate) use self::buffer::BufferClaims;
pub(crate) use self::tables::TableClaims;
use super::Task;

/// What tasks in progress have claimed, by what it is.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) buffer: BufferClaims,
    pub(crate) tables: TableClaims,
    pub(crate) blobs: BlobClaims,
    pub(crate) is_removing_orphans: bool,
    pub(crate) is_merging_log_objects: bool,
    pub(crate) is_shortening: bool,
}

impl Claims {
    pub(crate) fn claim(&mut self, task: &Task) {
        self.blobs.has_written_back = matches!(task, Task::WriteBackBlobs);
        match task {
            Task::Freeze { keyspaces } => self.buffer.freezing.extend(keyspaces),
            Task::Merge { keyspace, runs } => self.buffer.claim_runs(*keyspace, runs),
            Task::Flush { keyspace, runs } => self.buffer.claim_flush(*keyspace, runs),
            Task::FlushSmall { flushes } => {
                flushes.iter().for_each(|(keyspace, runs)| self.buffer.claim_flush(*keyspace, runs));
            }
            Task::FlushPart { flush, .. } => drop(self.buffer.take_part(flush)),
            Task::Compact { keyspace, choice } => {
                self.tables.claim_compaction(*keyspace, choice);
                self.blobs.is_blob_gc_next = true;
            }
            Task::CompactSmall { choices } => {
                self.tables.claim_small(choices);
                self.blobs.is_blob_gc_next = true;
            }
            Task::Reclaim { keyspace } => drop(self.tables.reclaiming.insert(*keyspace)),
            Task::Repack { tables } => self.tables.claim_repack(tables),
            Task::WriteBackBlobs => self.blobs.is_writing_back = true,
            Task::SealBlobs => self.blobs.is_sealing = true,
            Task::BlobGc { victims } => self.blobs.claim_gc(victims),
            Task::RemoveOrphans => self.is_removing_orphans = true,
            Task::MergeLogObjects => self.is_merging_log_objects = true,
            Task::ShortenLog => self.is_shortening = true,
            Task::FlushForGc { .. } | Task::RemoveObsolete | Task::Balance | Task::GiveUpRecycled => {}
        }
    }

    pub(crate) fn release(&mut self, task: &Task) {
        match task {
            Task::Freeze { keyspaces } => self.buffer.freezing.retain(|id| !keyspaces.contains(id)),
            Task::Merge { keyspace, runs } => self.buffer.release_runs(*keyspace, runs),
            Task::Flush { keyspace, runs } => self.buffer.release_flush(*keyspace, runs),
            Task::FlushSmall { flushes } => {
                flushes.iter().for_each(|(keyspace, runs)| self.buffer.release_flush(*keyspace, runs));
            }
            Task::Compact { choice, .. } => self.tables.release_compaction(choice),
            Task::CompactSmall { choices } => self.tables.release_small(choices),
            Task::Reclaim { keyspace } => drop(self.tables.reclaiming.remove(keyspace)),
            Task::Repack { tables } => self.tables.release_repack(tables),
            Task::WriteBackBlobs => self.blobs.is_writing_back = false,
            Task::SealBlobs => self.blobs.is_sealing = false,
            Task::BlobGc { victims } => self.blobs.release_gc(victims),
            Task::RemoveOrphans => self.is_removing_orphans = false,
            Task::MergeLogObjects => self.is_merging_log_objects = false,
            Task::ShortenLog => self.is_shortening = false,
            Task::FlushPart { .. }
            | Task::FlushForGc { .. }
            | Task::RemoveObsolete
            | Task::Balance
            | Task::GiveUpRecycled => {}
        }
    }
}
