//! Whether something was written between two points: what a transaction asks when it commits.
//!
//! Only places that may hold a record of that time are looked at. Where the later point is near the
//! earlier one, those are memtables.

use std::sync::Arc;

use firn_engine::{OrderedReadSet, ReadRange, Result};
use firn_format::key::key_hash;
use firn_format::tombstone::FragmentList;
use firn_format::{Position, Sequence};
use firn_jobs::Cursor;
use firn_storage::file::table::{CursorOptions, Lookup, ReadMode, TableCursor};

use crate::error::from_storage;
use crate::reads::Reads;
use crate::version::{Keyspace, Version};

/// Records that were written from `since` on, and lie below `before`.
#[derive(Clone, Copy)]
struct Between {
    since: Sequence,
    before: Sequence,
}

impl Between {
    fn has(self, sequence: Option<Sequence>) -> bool {
        sequence.is_some_and(|sequence| self.since <= sequence && sequence < self.before)
    }
}

impl Reads {
    /// Whether no key of `reads` was written from `since` on, below `end`. All below `end` is
    /// published. May wait for the device.
    ///
    /// # Errors
    /// What reading says; `Invalid` for a keyspace that is not there.
    pub(crate) fn are_unwritten(
        &self,
        version: &Version,
        reads: &OrderedReadSet,
        (since, end): (Position, Position),
    ) -> Result<bool> {
        let between = Between { since: since.sequence(), before: end.sequence() };
        for (keyspace, key) in reads.keys().keys() {
            if is_key_written(version, version.keyspace(keyspace.0)?, key, between)? {
                return Ok(false);
            }
        }
        for range in reads.ranges() {
            if is_range_written(version, version.keyspace(range.keyspace.0)?, range, between)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_key_written(version: &Version, keyspace: &Keyspace, key: &[u8], between: Between) -> Result<bool> {
    let Between { since, before } = between;
    let (hash, records) = ((key_hash(key) >> 32) as u32, &*version.segments);
    for memtable in keyspace.memtables() {
        let newest = memtable.newest(hash, key, before, records).map(|(trailer, _)| trailer.sequence());
        if between.has(newest) || between.has(memtable.newest_covering_range_delete(key, before)) {
            return Ok(true);
        }
    }
    for run in keyspace.runs.iter().filter(|run| run.span().end.sequence() > since) {
        let newest = run.newest(hash, key, before, records).map(|(trailer, _)| trailer.sequence());
        if between.has(newest) || between.has(run.newest_covering_range_delete(key, before)) {
            return Ok(true);
        }
    }
    for table in keyspace.levels.sorted_runs().flat_map(|run| run.spanning(key)) {
        if table.meta().sequence_max < since {
            continue;
        }
        let reader = table.reader();
        let newest = match reader.newest(key, hash, before, ReadMode::Blocking).map_err(from_storage)? {
            Lookup::Found(hit) => Some(hit.sequence()),
            Lookup::Absent | Lookup::Miss => None,
        };
        if between.has(newest) || between.has(reader.tombstones().newest_covering(key, before)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_range_written(
    version: &Version,
    keyspace: &Keyspace,
    range: &ReadRange,
    between: Between,
) -> Result<bool> {
    let Between { since, before } = between;
    let (start, end) = (range.start.as_slice(), range.end.as_deref());
    for memtable in keyspace.memtables() {
        let deletes = memtable.range_delete_lists();
        let mut cursor = memtable.cursor(before, Arc::clone(&version.segments));
        if deletes.lists().iter().any(|list| is_cut(list, range, between))
            || meets(&mut cursor, range, between)?
        {
            return Ok(true);
        }
    }
    for run in keyspace.runs.iter().filter(|run| run.span().end.sequence() > since) {
        let mut cursor = run.cursor(before, Arc::clone(&version.segments));
        if is_cut(run.range_tombstones(), range, between) || meets(&mut cursor, range, between)? {
            return Ok(true);
        }
    }
    for sorted in keyspace.levels.sorted_runs() {
        for table in &sorted.tables[sorted.between(start, end)] {
            if table.meta().sequence_max < since {
                continue;
            }
            let mut cursor = TableCursor::new(Arc::clone(table.reader()), CursorOptions::SCAN);
            if is_cut(table.reader().tombstones(), range, between) || meets(&mut cursor, range, between)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether `cursor` comes to a record of the range that was written between.
fn meets(cursor: &mut impl Cursor, range: &ReadRange, between: Between) -> Result<bool> {
    cursor.seek(&range.start).map_err(from_storage)?;
    while let Some(entry) = cursor.entry() {
        if range.end.as_deref().is_some_and(|end| entry.key >= end) {
            return Ok(false);
        }
        if between.has(Some(entry.sequence)) {
            return Ok(true);
        }
        cursor.next().map_err(from_storage)?;
    }
    Ok(false)
}

/// Whether a range delete of `list` that was written between reaches into the range.
fn is_cut(list: &FragmentList, range: &ReadRange, between: Between) -> bool {
    list.spans().any(|span| {
        span.end > range.start.as_slice()
            && range.end.as_deref().is_none_or(|end| span.start < end)
            && between.has(Some(span.sequence))
    })
}
