//! Which unit of background work comes next: the order in which kinds of work are asked for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_format::Position;
use firn_format::blob::SegmentNumber;
use firn_maintenance::RemoteLimits;

use crate::buffer::Run;
use crate::database::Database;
use crate::flush::pick::pick_merge;
use crate::maintenance::{InProgress, Task, TaskKind};
use crate::version::Version;

/// What a choice is made from: one moment of a database, and what is in progress then.
///
/// It lives under the schedule's lock, for one choice, and changes nothing on disk.
#[derive(Clone, Copy)]
pub(super) struct Choosing<'c> {
    pub(super) database: &'c Database,
    pub(super) busy: &'c InProgress,
    pub(super) version: &'c Version,
    pub(super) now: Duration,
}

impl Choosing<'_> {
    /// The most urgent unit that can be worked on at this moment. All below `watermark` is
    /// published.
    pub(super) fn choose(&self, watermark: Position) -> Option<Task> {
        if let Some(task) = self.choose_freeze(watermark) {
            return Some(task);
        }
        if let Some(task) = self.choose_for_files() {
            return Some(task);
        }
        if let Some(keyspace) = self.choose_look() {
            return Some(Task::Reclaim { keyspace });
        }
        if let Some(task) = self.choose_to_shorten() {
            return Some(task);
        }
        if let Some((flush, part)) =
            self.busy.claims.buffer.flushes.iter().find(|(flush, next)| *next < flush.parts.count())
        {
            return Some(Task::FlushPart { flush: Arc::clone(flush), part: *part });
        }
        // A thread that is alone would else flush for ever where writers never rest, and level 0
        // grow.
        if self.database.settings.background_threads == 1
            && let Some(task) = self.choose_far_behind()
        {
            return Some(task);
        }
        if self.busy.backoff.may_use_kept_room(self.now)
            && let Some(task) = self.choose_flush()
        {
            return Some(task);
        }
        if self.busy.backoff.may_write(self.now) {
            if let Some(task) = self.choose_for_hidden() {
                return Some(task);
            }
            if let Some(task) = self.choose_compaction_of_references() {
                return Some(task);
            }
            // What is copied is held twice meanwhile: many of them would leave less room for what
            // is dead.
            if !self.busy.is_held()
                && self.busy.claims.blobs.gcs < self.remote_limits().copies_max()
                && self.is_thread_left(false)
                && self.busy.backoff.may_try((TaskKind::BlobGc, 0), self.now)
                && let Some(victims) = self.choose_victims()
            {
                return Some(Task::BlobGc { victims });
            }
        }
        if let Some(task) = self.choose_merge() {
            return Some(task);
        }
        if self.busy.backoff.may_write(self.now)
            && let Some(task) = self.choose_repack()
        {
            return Some(task);
        }
        let compaction = self.choose_compaction_beside();
        compaction.or_else(|| self.choose_write_back()).or_else(|| self.choose_to_give_up())
    }

    /// Blob segments that are to be collected.
    fn choose_victims(&self) -> Option<Vec<SegmentNumber>> {
        self.database.blob_space(self.version, &self.busy.claims.blobs.unavailable()).choose()
    }

    /// Runs that become one.
    fn choose_merge(&self) -> Option<Task> {
        let may_merge = |id| self.busy.backoff.may_try((TaskKind::Merge, id), self.now);
        self.version.live().filter(|keyspace| may_merge(keyspace.id())).find_map(|keyspace| {
            let id = keyspace.id();
            let is_busy = |run: &Run| self.busy.claims.buffer.runs.contains(&(id, run.span().start));
            let runs = pick_merge(&keyspace.runs, self.database.settings.engine.merge_fan_in, is_busy)?;
            Some(Task::Merge { keyspace: id, runs })
        })
    }

    /// A flush, or a freeze, for what the buffer hides.
    fn choose_for_hidden(&self) -> Option<Task> {
        let through = |keyspace| self.busy.claims.buffer.flushed_through(keyspace);
        let may_flush_for_gc = |task: &Task| self.busy.backoff.may_try(task.unit(), self.now);
        let of_values = self.choose_flush_for_gc(through).filter(may_flush_for_gc);
        of_values.or_else(|| self.choose_to_flush(through).filter(may_flush_for_gc))
    }

    /// What is to be done about files, whatever is in them.
    fn choose_for_files(&self) -> Option<Task> {
        if !self.database.files.obsolete.is_empty() {
            return Some(Task::RemoveObsolete);
        }
        if !self.busy.claims.blobs.has_written_back
            && let Some(task) = self.choose_write_back()
        {
            return Some(task);
        }
        let may_write =
            |work| self.busy.backoff.may_write(self.now) && self.busy.backoff.may_try((work, 0), self.now);
        if !self.busy.claims.blobs.is_bringing_values()
            && may_write(TaskKind::Values)
            && !self.database.blobs.to_be_sealed().is_empty()
        {
            return Some(Task::SealBlobs);
        }
        if !self.busy.claims.is_merging_log_objects
            && may_write(TaskKind::LogObjects)
            && self.database.shared_log.has_too_many(self.database)
        {
            return Some(Task::MergeLogObjects);
        }
        (self.busy.backoff.may_try((TaskKind::Files, 0), self.now) && self.is_orphan_gc_due())
            .then_some(Task::RemoveOrphans)
    }

    fn choose_write_back(&self) -> Option<Task> {
        let may_try = self.busy.backoff.may_try((TaskKind::Files, 0), self.now);
        (may_try && !self.busy.claims.blobs.is_bringing_values() && self.database.blobs.is_write_back_due())
            .then_some(Task::WriteBackBlobs)
    }

    /// Whether outputs that nothing waits for are to be looked for. Only workers that the owner
    /// gave leave such outputs, and openings that had too much to remove, or could not have seen
    /// all.
    fn is_orphan_gc_due(&self) -> bool {
        (self.database.maintenance.jobs.chain.is_some() || self.database.maintenance.orphan_gc.is_left())
            && !self.busy.claims.is_removing_orphans
            && self.is_thread_left(false)
            && self.database.maintenance.orphan_gc.is_due(
                self.now,
                self.database.maintenance.jobs.ended_count(),
                self.database.maintenance.jobs.left_count(),
            )
    }

    /// Whether another thread may wait for a job elsewhere that takes runs out of level 0
    /// (`is_l0`), which writers wait for, or for anything else that may take long.
    pub(super) fn is_thread_left(&self, is_l0: bool) -> bool {
        let claims = &self.busy.claims;
        let waiting = claims.blobs.gcs + claims.tables.compacting + usize::from(claims.is_removing_orphans);
        self.remote_limits().is_thread_left(waiting, is_l0)
    }

    /// Whether a worker elsewhere is free, as far as is known. It is given a compaction while the
    /// buffer fills too, since no flush runs there.
    pub(super) fn is_worker_free(&self) -> bool {
        self.remote_limits().is_worker_free(self.busy.claims.tables.compacting)
    }

    /// Whether a compaction that is chosen now begins soon, where executors elsewhere do
    /// compactions. A compaction that waits there keeps its tables from being chosen with what
    /// comes into level 0 meanwhile. So it rewrites as much of the base level for less of level 0.
    /// Tables that only change their level wait for their turn as well.
    pub(super) fn is_begun_soon(&self, is_l0: bool) -> bool {
        self.remote_limits().is_begun_soon(is_l0, self.busy.claims.tables.unbegun())
    }

    fn remote_limits(&self) -> RemoteLimits<'_> {
        self.database.maintenance.remote_limits(self.database.settings.background_threads)
    }

    /// Giving up what is kept for segments and tables to come, if nothing has been written in a
    /// while.
    fn choose_to_give_up(&self) -> Option<Task> {
        let recyclable_since =
            Duration::from_millis(self.database.files.recyclable_since_ms.load(Ordering::Relaxed));
        let rests = || self.now.saturating_sub(recyclable_since) >= RECYCLED_REST;
        let is_any =
            self.database.files.outputs.recycled_bytes() + self.database.commit.log.recycled().bytes() > 0;
        (is_any && rests()).then_some(Task::GiveUpRecycled)
    }
}

/// How long arenas and files wait for new segments and tables after the last segment or table died.
const RECYCLED_REST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
