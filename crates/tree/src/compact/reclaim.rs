//! Tables that range tombstones hide go without being read.
//!
//! A deletion of a large range leaves the tables below it as they are. Compaction would find out
//! what is dead in them key by key, where it passes, and on a database at rest it never does. What
//! the manifest and the tombstones say is enough. A table is *hidden* where newer range tombstones
//! together cover every key from its smallest to its greatest, for every reader that may read it.
//! What it hid itself is older than it and in its range: the same tombstones hide that. A table is
//! *spent* that holds range tombstones alone, with nothing older below them. Both go by one edit.
//!
//! As long as a hidden table lives, no compaction drops what hides it, since something older lies
//! outside its inputs. So tables found in one version may go from a later one.
//!
//! A tombstone that is still in the buffer can take nothing away: after a crash a replay needs
//! both. Where those of the buffer hide much, the keyspace is flushed through them.
//!
//! A table of which a part is hidden goes by no edit. Where it refers to separated values it
//! is small beside what it keeps there: it is rewritten once that is worth it.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_format::Sequence;
use firn_format::tombstone::FragmentList;

use crate::version::observed::PartlyHidden;
use crate::version::{Keyspace, Levels, Table};

/// What range tombstones make reclaimable in a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Reclaimable {
    /// Tables to remove: hidden by range tombstones of tables, or spent.
    pub(crate) tables: Vec<Arc<Table>>,
    /// Snapshots for which hidden tables stay.
    pub(crate) kept_for: BTreeSet<Sequence>,
    /// The buffer's range tombstones hide so much that they should be flushed now.
    pub(crate) is_flush_due: bool,
    /// Tables to rewrite: range tombstones of tables hide many of the values that they refer to;
    /// most first.
    pub(crate) partly: Vec<PartlyHidden>,
}

/// A flush, or a compaction, for the sake of what is hidden must be worth a table's size divided by
/// this,
const WORTH_SHARE: u64 = 4;

/// and at least what it writes, divided by this.
const COST_SHARE: u64 = 4;

impl PartlyHidden {
    /// Whether that is worth rewriting `bytes` of tables.
    pub(crate) fn is_worth(&self, bytes: u64) -> bool {
        self.value_bytes >= bytes / COST_SHARE
    }
}

/// Looks at the tables and range tombstones of `keyspace`, whose tables have about `table_bytes`;
/// `snapshots` are those alive, in order, read after the version that `keyspace` is of.
pub(crate) fn find_reclaimable(keyspace: &Keyspace, snapshots: &[Sequence], table_bytes: u64) -> Reclaimable {
    let levels = &keyspace.levels;
    let mut found = Reclaimable::default();
    let hidden = UnreclaimedEstimate::of(levels, &[], snapshots);
    found.kept_for = hidden.kept_for;
    found.tables = hidden.tables;
    // A table that has no entries and overlaps nothing older may be hidden as well.
    for table in spent(levels) {
        if !is_among(&found.tables, &table) {
            found.tables.push(table);
        }
    }
    let whole = found.tables.clone();
    let (partly, partly_bytes) = partly_hidden(levels, &[], snapshots, &whole, &mut found.kept_for);
    if partly_bytes >= table_bytes / WORTH_SHARE {
        found.partly = partly;
    }
    let deletes: Vec<_> = keyspace.memtables().map(|memtable| memtable.range_delete_lists()).collect();
    let mut lists: Vec<&FragmentList> =
        deletes.iter().flat_map(|deletes| deletes.lists()).map(|list| &**list).collect();
    lists.extend(keyspace.runs.iter().map(|run| &**run.range_tombstones()));
    lists.retain(|list| !list.is_empty());
    if lists.is_empty() {
        return found;
    }
    let hidden = UnreclaimedEstimate::of(levels, &lists, snapshots);
    found.kept_for.extend(hidden.kept_for.iter().copied());
    let stays = hidden.tables.iter().filter(|table| !is_among(&found.tables, table));
    let whole: u64 = stays.map(|table| table.meta().bytes + referred_bytes(table)).sum();
    let (_, with_buffer) = partly_hidden(levels, &lists, snapshots, &hidden.tables, &mut found.kept_for);
    let worth = whole + with_buffer.saturating_sub(partly_bytes);
    found.is_flush_due =
        worth >= table_bytes / WORTH_SHARE && worth >= unflushed_bytes(keyspace, &lists) / COST_SHARE;
    found
}

/// Bytes of separated values that `table` refers to.
fn referred_bytes(table: &Table) -> u64 {
    table.reader().properties().references.map_or(0, |summary| summary.value_bytes)
}

/// Tables of `levels` of which range tombstones of tables and of `lists` hide a part that is worth
/// rewriting the table. And bytes of values hidden so, in all tables but those that are hidden
/// `whole`. Adds to `kept_for` the snapshots for which something stays.
fn partly_hidden(
    levels: &Levels,
    lists: &[&FragmentList],
    snapshots: &[Sequence],
    whole: &[Arc<Table>],
    kept_for: &mut BTreeSet<Sequence>,
) -> (Vec<PartlyHidden>, u64) {
    if !levels.has_references() || lists.is_empty() && !levels.has_range_deletes() {
        return (Vec::new(), 0);
    }
    let of_tables = levels.tables().map(|(_, table)| table.reader().tombstones());
    let all: Vec<&FragmentList> =
        of_tables.chain(lists.iter().copied()).filter(|list| !list.is_empty()).collect();
    let all = FragmentList::merge(&all);
    let (mut partly, mut sum) = (Vec::new(), 0);
    for (_, table) in levels.tables().filter(|(_, table)| referred_bytes(table) > 0) {
        let meta = table.meta();
        let reader = snapshots.iter().find(|snapshot| **snapshot > meta.sequence_min).copied();
        let hidden = hidden_bytes(table, &all, reader.unwrap_or(Sequence::MAX));
        if let Some(reader) = reader
            && hidden < hidden_bytes(table, &all, Sequence::MAX)
        {
            kept_for.insert(reader);
        }
        let data_bytes = table.reader().footer().data_bytes.max(1);
        // Bytes are reckoned to the beginnings of blocks: of a table that is hidden but for a
        // key or two, all blocks may count as hidden.
        if hidden == 0 || is_among(whole, table) {
            continue;
        }
        let value_bytes = u128::from(referred_bytes(table)) * u128::from(hidden) / u128::from(data_bytes);
        let part = PartlyHidden { table: Arc::downgrade(table), value_bytes: value_bytes as u64 };
        sum += part.value_bytes;
        if part.is_worth(meta.bytes) {
            partly.push(part);
        }
    }
    partly.sort_by_key(|part| std::cmp::Reverse(part.value_bytes));
    (partly, sum)
}

/// Bytes of `table`'s data that `tombstones` below `before` hide, about: to a block at each end of
/// what they cover.
fn hidden_bytes(table: &Table, tombstones: &FragmentList, before: Sequence) -> u64 {
    let (meta, reader) = (table.meta(), table.reader());
    let end = [meta.largest.as_slice(), &[0]].concat();
    let within = tombstones.clip(&meta.smallest, Some(&end));
    let newer = within.fragments(before).filter(|fragment| fragment.newest > meta.sequence_max);
    let bytes_to = |key: &[u8]| match key > meta.largest.as_slice() {
        true => reader.footer().data_bytes,
        false => reader.bytes_before(key),
    };
    newer.map(|fragment| bytes_to(fragment.end).saturating_sub(bytes_to(fragment.start))).sum()
}

fn is_among(tables: &[Arc<Table>], table: &Arc<Table>) -> bool {
    tables.iter().any(|other| Arc::ptr_eq(other, table))
}

/// About as many bytes as a flush would write. `lists` are the buffer's range tombstones.
fn unflushed_bytes(keyspace: &Keyspace, lists: &[&FragmentList]) -> u64 {
    let is_hidden = |smallest, largest, end| covers(lists, (smallest, largest), end, Sequence::MAX);
    let runs = keyspace.runs.iter().filter(|run| {
        run.keys().is_none_or(|(smallest, largest)| !is_hidden(smallest, largest, run.span().end.sequence()))
    });
    let runs: u64 = runs.map(|run| run.live_bytes()).sum();
    runs + keyspace.memtables().map(|memtable| memtable.record_bytes() as u64).sum::<u64>()
}

/// Tables that range tombstones hide.
#[derive(Debug, Default)]
struct UnreclaimedEstimate {
    /// From every reader.
    tables: Vec<Arc<Table>>,
    /// The oldest snapshots that read a table which no newer reader reads.
    kept_for: BTreeSet<Sequence>,
}

impl UnreclaimedEstimate {
    /// The tables of `levels` that range tombstones of its tables and of `lists` hide.
    fn of(levels: &Levels, lists: &[&FragmentList], snapshots: &[Sequence]) -> Self {
        let mut hidden = Self::default();
        if lists.is_empty() && !levels.has_range_deletes() {
            return hidden;
        }
        for (_, table) in levels.tables() {
            let meta = table.meta();
            let bounds = (meta.smallest.as_slice(), meta.largest.as_slice());
            let mut above: Vec<&FragmentList> = lists.to_vec();
            if levels.has_range_deletes() {
                let tables = levels.sorted_runs().flat_map(|run| run.within(bounds.0, bounds.1));
                let newer = tables.filter(|other| {
                    other.meta().range_tombstone_count > 0 && other.meta().sequence_max > meta.sequence_max
                });
                above.extend(newer.map(|other| other.reader().tombstones()));
            }
            // The oldest snapshot that sees anything of it; what it sees of tombstones, all
            // newer readers see.
            let reader = snapshots.iter().find(|snapshot| **snapshot > meta.sequence_min);
            match reader {
                None if covers(&above, bounds, meta.sequence_max, Sequence::MAX) => {}
                Some(reader) if covers(&above, bounds, meta.sequence_max, *reader) => {}
                Some(reader) if covers(&above, bounds, meta.sequence_max, Sequence::MAX) => {
                    hidden.kept_for.insert(*reader);
                    continue;
                }
                _ => continue,
            }
            hidden.tables.push(Arc::clone(table));
        }
        hidden
    }
}

/// Whether range tombstones of `lists`, all above the sequence `above` and below `before`, together
/// cover every key from `bounds.0` to `bounds.1`, both included.
fn covers<'k>(
    lists: &[&'k FragmentList],
    bounds: (&'k [u8], &'k [u8]),
    above: Sequence,
    before: Sequence,
) -> bool {
    let (mut from, last) = bounds;
    loop {
        match lists.iter().filter_map(|list| list.covered_through(from, above, before)).max() {
            None => return false,
            Some(end) if end > last => return true,
            Some(end) => from = end,
        }
    }
}

/// Tables without entries that overlap nothing older: their range tombstones hide nothing from any
/// reader.
fn spent(levels: &Levels) -> Vec<Arc<Table>> {
    let mut spent = Vec::new();
    if !levels.has_range_deletes() {
        return spent;
    }
    for (place, run) in levels.sorted_runs().enumerate() {
        for table in run.tables.iter().filter(|table| table.meta().entry_count == 0) {
            let meta = table.meta();
            let mut older = levels.sorted_runs().skip(place + 1);
            if older.all(|run| run.within(&meta.smallest, &meta.largest).next().is_none()) {
                spent.push(Arc::clone(table));
            }
        }
    }
    spent
}

#[cfg(test)]
mod tests;
