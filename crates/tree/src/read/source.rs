//! The sources that a walk merges: a cursor for each place that may hold keys of its range.

use std::ops::Range;
use std::sync::Arc;

use firn_engine::{Direction, ScanRange};
use firn_format::Sequence;
use firn_format::key::Entry;
use firn_jobs::{Cursor, RunCursor, Tables};
use firn_storage::Result;
use firn_storage::file::table::{CursorOptions, TableReader};

use super::tombstones::Tombstones;
use crate::buffer;
use crate::log::SegmentMap;
use crate::memtable::MemtableCursor;
use crate::version::{Keyspace, Levels, SortedRun, Version};

/// A cursor over one place. The merge asks its sources for every key: to find out which kind a
/// source is costs a branch and no call.
pub(super) enum Source {
    Memtable(MemtableCursor<SegmentMap>),
    Buffer(buffer::RunCursor<Arc<SegmentMap>>),
    /// A sorted run of tables.
    Tables(RunCursor<RunTables>),
    /// Those tables of a sorted run that may hold keys with the range's prefix.
    Chosen(RunCursor<Vec<Arc<TableReader>>>),
}

impl Source {
    /// The cursor, if it is a memtable's.
    pub(super) fn as_memtable(&self) -> Option<&MemtableCursor<SegmentMap>> {
        match self {
            Source::Memtable(cursor) => Some(cursor),
            Source::Buffer(_) | Source::Tables(_) | Source::Chosen(_) => None,
        }
    }
}

/// Which of a keyspace's memtables, newest first, have a source: the others were empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walked {
    bits: u64,
}

impl Walked {
    fn add(&mut self, index: usize) {
        // Nothing is noted of a memtable too far back, as if it had been empty: it is then looked
        // at as a whole.
        self.bits |= 1_u64.checked_shl(index as u32).unwrap_or(0);
    }

    pub(super) fn has(self, index: usize) -> bool {
        1_u64.checked_shl(index as u32).is_some_and(|bit| self.bits & bit != 0)
    }
}

/// Cursors over all places of `keyspace` that may hold keys of `range`, newest first, and the range
/// tombstones there. Has processor or device begin with what all of the tables will be asked for
/// first.
pub(super) fn sources(
    version: &Version,
    keyspace: &Keyspace,
    before: Sequence,
    range: &ScanRange,
) -> (Vec<Source>, Vec<Tombstones>, Walked) {
    let records = &version.segments;
    let prefix = prefix_hash(keyspace, range);
    let levels = &keyspace.levels;
    let places = 1 + keyspace.frozen.len() + keyspace.runs.len() + levels.sorted_runs().count();
    let (mut sources, mut tombstones) = (Vec::with_capacity(places), Vec::new());
    let first_reads = first_reads(keyspace);
    ask_for_tables(keyspace, range, &first_reads);
    let mut walked = Walked::default();
    for (index, memtable) in keyspace.memtables().enumerate() {
        if !memtable.is_empty() {
            walked.add(index);
            sources.push(Source::Memtable(memtable.cursor(before, Arc::clone(records))));
            tombstones.push(Tombstones::Memtable(memtable.range_delete_lists()));
        }
    }
    for run in &keyspace.runs {
        if prefix.is_some_and(|hash| run.range_tombstones().is_empty() && !run.may_contain_prefix(hash)) {
            continue;
        }
        sources.push(Source::Buffer(run.cursor(before, Arc::clone(records))));
        tombstones.push(Tombstones::Run(Arc::clone(run)));
    }
    add_tables(keyspace, (range, prefix), &first_reads, &mut sources, &mut tombstones);
    tombstones.retain(|place| !place.is_empty());
    (sources, tombstones, walked)
}

/// Adds the cursors of tables that may hold keys of `range`, and their range tombstones.
fn add_tables(
    keyspace: &Keyspace,
    (range, prefix): (&ScanRange, Option<u32>),
    first_reads: &[u32],
    sources: &mut Vec<Source>,
    tombstones: &mut Vec<Tombstones>,
) {
    let (start, end) = range.bounds();
    let held = Arc::new(Held { levels: Arc::clone(&keyspace.levels) });
    let mut level0_seeks = 0;
    for (place, sorted) in keyspace.levels.sorted_runs().enumerate() {
        let first_read_bytes = first_reads.get(place).copied().unwrap_or(0);
        let options = CursorOptions { first_read_bytes, ..CursorOptions::SCAN };
        let tables = sorted.between(&start, end.as_deref());
        if keyspace.levels.has_range_deletes() {
            let wanted = sorted.tables[tables.clone()].iter();
            tombstones.extend(wanted.map(|table| Tombstones::Table(Arc::clone(table))));
        }
        if let Some(hash) = prefix {
            let readers = sorted.tables[tables].iter().map(|table| table.reader());
            let chosen: Vec<_> =
                readers.filter(|reader| reader.may_contain_prefix(hash)).map(Arc::clone).collect();
            if !chosen.is_empty() {
                sources.push(Source::Chosen(RunCursor::new(chosen, options)));
            }
        } else if !tables.is_empty() {
            level0_seeks += usize::from(place < keyspace.levels.level0.len());
            let held = Arc::clone(&held);
            sources.push(Source::Tables(RunCursor::new(RunTables { held, place, tables }, options)));
        }
    }
    keyspace.observed.seeks.add(level0_seeks, !first_reads.is_empty());
}

/// Asks every table that holds the walk's first key for what it will read there.
fn ask_for_tables(keyspace: &Keyspace, range: &ScanRange, first_reads: &[u32]) {
    let (start, end) = range.bounds();
    let first = match range.direction {
        Direction::Forward => start,
        Direction::Backward => match end {
            Some(end) => end,
            None => return,
        },
    };
    for (place, sorted) in keyspace.levels.sorted_runs().enumerate() {
        let bytes = first_reads.get(place).copied().unwrap_or(0);
        sorted.spanning(&first).for_each(|table| table.reader().ask_for(&first, bytes));
    }
}

/// A scan's hold on the levels, with a count of its own. The count of the levels is one for all
/// threads, which would contend for it once for each sorted run.
struct Held {
    levels: Arc<Levels>,
}

/// Tables of one sorted run, held through the levels: a scan over many takes few holds.
pub(super) struct RunTables {
    held: Arc<Held>,
    /// Which of the sorted runs.
    place: usize,
    /// Which of its tables.
    tables: Range<usize>,
}

impl Tables for RunTables {
    fn get(&self, index: usize) -> Option<&Arc<TableReader>> {
        let tables = self.held.levels.sorted_run(self.place)?.tables.get(self.tables.clone())?;
        tables.get(index).map(|table| table.reader())
    }

    fn count(&self) -> usize {
        self.tables.len()
    }
}

/// Filter hash of the scan's prefix, where the keyspace's extractor makes filters answer for
/// exactly that prefix.
fn prefix_hash(keyspace: &Keyspace, range: &ScanRange) -> Option<u32> {
    let prefix = range.prefix.as_deref()?;
    let extractor = keyspace.definition.prefix_extractor.as_ref()?;
    // Every key with the scan's prefix must have it as its extracted prefix. That holds if the
    // prefix itself does and the extractor looks no further, which longer keys show.
    let longer = [prefix, &[0xff]].concat();
    let exact = extractor.prefix_bytes(prefix) == Some(prefix.len())
        && extractor.prefix_bytes(&longer) == Some(prefix.len());
    exact.then(|| firn_format::filter::filter_hash(prefix))
}

/// Bytes that a scan's first reads take of all sorted runs of a keyspace together, where data is
/// larger than memory.
const FIRST_READS_BYTES: u64 = 32 << 10;

/// Bytes of each sorted run's first read: its share of what a short scan needs. Empty where tables
/// are read in place.
fn first_reads(keyspace: &Keyspace) -> Vec<u32> {
    if keyspace.levels.tables().all(|(_, table)| table.reader().reads_in_place()) {
        return Vec::new();
    }
    let bytes: Vec<u64> = keyspace.levels.sorted_runs().map(SortedRun::bytes).collect();
    let total = bytes.iter().sum::<u64>().max(1);
    bytes
        .iter()
        .map(|run| (FIRST_READS_BYTES as u128 * u128::from(*run) / u128::from(total)) as u32)
        .collect()
}

/// Hands a call on to the cursor of whatever place it is.
macro_rules! each {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Memtable($cursor) => $call,
            Source::Buffer($cursor) => $call,
            Source::Tables($cursor) => $call,
            Source::Chosen($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        each!(self, cursor => cursor.entry())
    }

    fn seek_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }
}
