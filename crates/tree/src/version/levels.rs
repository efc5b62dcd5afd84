//! Tables by age: level 0 in sorted runs, deeper levels one sorted run each.

use std::ops::Range;
use std::sync::Arc;

use super::Table;

/// Deepest level; the last one that exists holds most of the data.
pub(crate) const LEVEL_MAX: usize = 6;

/// Tables with disjoint keys, in key order. Bounds of neighbours may touch where a range tombstone ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedRun {
    /// Grows with age order inside level 0: a greater number is newer. 0 in deeper levels.
    pub(crate) number: u64,
    pub(crate) tables: Vec<Arc<Table>>,
}

impl SortedRun {
    /// Tables whose bounds hold `key`: one, or two where a range tombstone of the first ends at `key`.
    #[inline]
    pub(crate) fn spanning(&self, key: &[u8]) -> impl Iterator<Item = &Arc<Table>> {
        let first = self.tables.partition_point(|table| table.meta().largest.as_slice() < key);
        self.tables[first..].iter().take_while(move |table| table.meta().smallest.as_slice() <= key)
    }

    /// Which tables may hold keys of `start..end`.
    pub(crate) fn between(&self, start: &[u8], end: Option<&[u8]>) -> Range<usize> {
        let first = self.tables.partition_point(|table| table.meta().largest.as_slice() < start);
        let after = end.map_or(self.tables.len(), |end| {
            self.tables.partition_point(|table| table.meta().smallest.as_slice() < end)
        });
        first..after.max(first)
    }

    /// Tables whose bounds touch `smallest..=largest`.
    pub(crate) fn overlapping<'s>(
        &'s self,
        smallest: &'s [u8],
        largest: &'s [u8],
    ) -> impl Iterator<Item = &'s Arc<Table>> {
        self.tables.iter().filter(move |table| table.overlaps(smallest, largest))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta().bytes).sum()
    }

    pub(crate) fn sort(&mut self) {
        self.tables.sort_by(|a, b| a.meta().smallest.cmp(&b.meta().smallest));
    }
}

/// The tables of one keyspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    /// Newest first.
    pub(crate) level0: Vec<SortedRun>,
    /// `deeper[0]` is level 1; as many as exist.
    pub(crate) deeper: Vec<SortedRun>,
    /// How many tables hold range tombstones.
    range_deletes: usize,
}

impl Levels {
    /// Every sorted run, newest first.
    pub(crate) fn sorted_runs(&self) -> impl Iterator<Item = &SortedRun> {
        self.level0.iter().chain(&self.deeper)
    }

    /// The sorted run at `place` of [`sorted_runs`](Self::sorted_runs).
    pub(crate) fn sorted_run(&self, place: usize) -> Option<&SortedRun> {
        match place.checked_sub(self.level0.len()) {
            None => self.level0.get(place),
            Some(deeper) => self.deeper.get(deeper),
        }
    }

    /// Whether some table holds range tombstones.
    pub(crate) fn has_range_deletes(&self) -> bool {
        self.range_deletes > 0
    }

    /// Every table with its level.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (u32, &Arc<Table>)> {
        let level0 = self.level0.iter().flat_map(|run| run.tables.iter().map(|table| (0, table)));
        let deeper = (1..)
            .zip(&self.deeper)
            .flat_map(|(level, run)| run.tables.iter().map(move |table| (level, table)));
        level0.chain(deeper)
    }

    /// Adds a table; `run` is its sorted run's number in level 0.
    pub(crate) fn add(&mut self, level: u32, run: u64, table: Arc<Table>) {
        self.range_deletes += usize::from(table.meta().range_tombstone_count > 0);
        if level == 0 {
            let index = match self.level0.iter().position(|sorted| sorted.number <= run) {
                Some(index) if self.level0[index].number == run => index,
                found => {
                    let index = found.unwrap_or(self.level0.len());
                    self.level0.insert(index, SortedRun { number: run, tables: Vec::new() });
                    index
                }
            };
            self.level0[index].tables.push(table);
            self.level0[index].sort();
            return;
        }
        let index = level as usize - 1;
        if self.deeper.len() <= index {
            self.deeper.resize_with(index + 1, SortedRun::default);
        }
        self.deeper[index].tables.push(table);
        self.deeper[index].sort();
    }

    /// Takes the table called `file` out, with its level and sorted run.
    pub(crate) fn remove(&mut self, file: &str) -> Option<Arc<Table>> {
        for run in self.level0.iter_mut().chain(&mut self.deeper) {
            if let Some(index) = run.tables.iter().position(|table| table.meta().file == file) {
                let table = run.tables.remove(index);
                self.range_deletes -= usize::from(table.meta().range_tombstone_count > 0);
                self.level0.retain(|run| !run.tables.is_empty());
                return Some(table);
            }
        }
        None
    }
}
