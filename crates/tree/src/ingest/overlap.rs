//! What lies among the keys of tables that come, and where these may lie.

use std::sync::Arc;

use firn_engine::Result;
use firn_format::Sequence;
use firn_format::manifest::TableMeta;
use firn_format::tombstone::FragmentList;
use firn_jobs::Cursor;

use crate::error::from_storage;
use crate::log::SegmentMap;
use crate::version::levels::LEVEL_MAX;
use crate::version::{Keyspace, Levels, Table};

/// Whether the buffer of `keyspace` has a record with a key of `tables` or between them, older than
/// `before`. Readers would find it first. All that is older is published.
pub(super) fn is_in_buffer(
    keyspace: &Keyspace,
    records: &Arc<SegmentMap>,
    before: Sequence,
    tables: &[Arc<Table>],
) -> Result<bool> {
    for memtable in keyspace.memtables().filter(|memtable| !memtable.is_empty()) {
        let cursor = memtable.cursor(before, Arc::clone(records));
        if meets(cursor, &memtable.range_deletes(before), tables)? {
            return Ok(true);
        }
    }
    for run in &keyspace.runs {
        if meets(run.cursor(before, Arc::clone(records)), run.range_tombstones(), tables)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `cursor` has an entry, or `tombstones` a range, among the keys of one of `tables`.
fn meets(mut cursor: impl Cursor, tombstones: &FragmentList, tables: &[Arc<Table>]) -> Result<bool> {
    for TableMeta { smallest, largest, .. } in tables.iter().map(|table| table.meta()) {
        cursor.seek(smallest).map_err(from_storage)?;
        let end = [largest.as_slice(), &[0]].concat();
        if cursor.entry().is_some_and(|entry| entry.key <= largest.as_slice())
            || !tombstones.clip(smallest, Some(&end)).is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The deepest level that a table of `meta` may lie in, all of whose entries are newer than what
/// `levels` hold, and whether there is something of its keys below. Not a level of which
/// `is_target` says that a compaction may be about to put other tables of its keys there.
pub(super) fn place(levels: &Levels, meta: &TableMeta, is_target: impl Fn(u32) -> bool) -> (u32, bool) {
    let TableMeta { smallest, largest, .. } = meta;
    if levels.level0.iter().any(|run| run.within(smallest, largest).next().is_some()) {
        return (0, true);
    }
    let mut place = 0;
    for level in 1..=LEVEL_MAX {
        let run = levels.deeper.get(level - 1);
        if run.is_some_and(|run| run.within(smallest, largest).next().is_some()) {
            return (place, true);
        }
        if !is_target(level as u32) {
            place = level as u32;
        }
    }
    (place, false)
}
