//! What is done about the log that no pressure asks for: segments that only the manifest still
//! names, and a database at rest.
//!
//! ```text
//!   nothing in a segment is needed, and the manifest   ─► an edit says that it is flushed
//!   begins a replay below it
//!   nothing is written for a while, and the log takes  ─► all is frozen and flushed, a small
//!   more than a new one does, or its records refer to     segment begins
//!   more
//!   writers wait for room on the disk, or are refused  ─► the same
//!   for want of it
//! ```

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use firn_engine::Result;
use firn_format::Position;
use firn_format::manifest::Change;

use super::choose::Choosing;
use crate::commit::roll::Freeze;
use crate::database::Database;
use crate::edits::drop_dead_segments;
use crate::error::from_storage;
use crate::maintenance::Task;
use crate::version::Version;

/// At rest an edit of the manifest is worth so much.
const FORGOTTEN_BYTES_MIN: u64 = 1 << 20;

/// What the log may take at rest: the smallest segment, and as much again in what is left of
/// others.
const REST_LOG_BYTES: u64 = 8 << 20;

impl Choosing<'_> {
    /// Making the log shorter, where that costs little.
    pub(super) fn choose_to_shorten(&self) -> Option<Task> {
        // Looked at each time, so that it is known since when.
        let is_at_rest = self.database.is_at_rest();
        let may_begin = self.busy.backoff.may_use_kept_room(self.now)
            && self.busy.backoff.may_try(Task::ShortenLog.unit(), self.now);
        if self.busy.claims.is_shortening || !may_begin || self.database.commit.log.poison().is_some() {
            return None;
        }
        let forgettable =
            forgettable(self.database, self.version, self.database.commit.log.unpublished_from());
        let is_due = forgettable.is_some_and(|(_, length, bytes)| {
            length >= 2 * self.database.settings.engine.log_segment_bytes
                || is_at_rest && bytes >= FORGOTTEN_BYTES_MIN
        });
        let is_wanted = || is_at_rest || self.database.commit.is_short_of_disk();
        (is_due || is_wanted() && is_to_be_short(self.database, self.version)).then_some(Task::ShortenLog)
    }
}

/// Whether a log without new writes is longer than it need be, and was not made short yet.
fn is_to_be_short(database: &Database, version: &Version) -> bool {
    let files: u64 = version.segments.segments().iter().map(|segment| segment.file_bytes()).sum();
    let is_any = || version.live().any(|keyspace| keyspace.unflushed_from(Position(u64::MAX)).0 < u64::MAX);
    let values = values_written(database) - database.maintenance.rest.values_at.load(Ordering::Relaxed);
    // What the buffer hides of those only a flush finds, and it writes references alone.
    (files > REST_LOG_BYTES || values > REST_LOG_BYTES && is_any())
        && database.maintenance.rest.short_at.load(Ordering::Relaxed) != database.commit.log.watermark().0
        // Where the disk is full nothing else may make room in memory.
        && (database.commit.has_memory_for(database.commit.log.first_capacity()) || database.commit.is_short_of_disk())
}

fn values_written(database: &Database) -> u64 {
    database.maintenance.rest.found_blobs + database.blobs.counters.written_bytes.load(Ordering::Relaxed)
}

/// Makes the log shorter: what no record needs goes, and what is in it at rest, or where the
/// disk is short, is flushed.
///
/// # Errors
/// `Retry` when the disk is full: it is tried again in a while.
pub(super) fn shorten_log(database: &Database) -> Result<()> {
    // Segments that are sealed and not wholly written have holders until they are.
    database
        .commit
        .log
        .write_through(database.commit.log.advance().map_err(from_storage)?)
        .map_err(from_storage)?;
    forget_log(database)?;
    if (database.is_at_rest() || database.commit.is_short_of_disk())
        && is_to_be_short(database, &database.catalog.version.load())
    {
        let base = database.commit.log.active().base();
        database.commit.roll(base, Freeze::AtRest)?;
        let through = database.commit.log.settled_base();
        database
            .commit
            .log
            .write_through(database.commit.log.advance().map_err(from_storage)?)
            .map_err(from_storage)?;
        database.maintenance.flush_through(through);
        database.maintenance.rest.values_at.store(values_written(database), Ordering::Relaxed);
        database.maintenance.rest.short_at.store(database.commit.log.watermark().0, Ordering::Relaxed);
        // The roll moved the watermark: that was no write.
        database.maintenance.rest.seen.lock().unwrap_or_else(PoisonError::into_inner).end =
            database.commit.log.watermark();
    }
    drop_dead_segments(&database.catalog, &database.commit.log);
    Ok(())
}

/// Where a replay could begin, if the manifest has it begin in an older segment that no record
/// needs. With what the segments below count for, and what they take.
///
/// All below `indexed` was in memtables before `version` was loaded.
fn forgettable(database: &Database, version: &Version, indexed: Position) -> Option<(Position, u64, u64)> {
    let needed = version.log_needed_from().min(indexed);
    let segments = version.segments.segments();
    let end = segments.iter().rev().map(|segment| segment.base()).find(|base| *base <= needed)?;
    let replayed = version.live().map(|keyspace| keyspace.flushed_through).min()?;
    let below = || segments.iter().filter(|segment| segment.span_end() <= end);
    let length = below().map(|segment| database.commit.length_of(segment)).sum();
    let bytes = below().map(|segment| segment.file_bytes()).sum();
    (end > replayed && bytes > 0).then_some((end, length, bytes))
}

/// Says in the manifest that nothing is unflushed where that is so, and lets go of the segments
/// there.
fn forget_log(database: &Database) -> Result<()> {
    let mut manifest = database.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
    database.commit.log.advance().map_err(from_storage)?;
    // Before the version, which tells which memtables are empty.
    let indexed = database.commit.log.unpublished_from();
    let Some((end, ..)) = forgettable(database, &database.catalog.version.load(), indexed) else {
        return Ok(());
    };
    let ids = database.catalog.version.load().ids();
    // All of them have everything below in tables, so that no replay begins below: that needs
    // no sync.
    database.commit.log.covered_through(end);
    let flushed = ids.iter().map(|id| Change::FlushedThrough { keyspace: *id, position: end });
    manifest.commit(&flushed.collect::<Vec<_>>()).map_err(from_storage)?;
    database.commit.log.forget_below(end);
    database.catalog.change_version(|version| {
        for slot in version.keyspaces.iter_mut().flatten() {
            if ids.contains(&slot.id()) {
                let keyspace = std::sync::Arc::make_mut(slot);
                keyspace.flushed_through = keyspace.flushed_through.max(end);
            }
        }
    });
    drop(manifest);
    drop_dead_segments(&database.catalog, &database.commit.log);
    database.commit.admission.release();
    Ok(())
}
