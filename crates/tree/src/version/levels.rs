//! Tables by age: level 0 in sorted runs, deeper levels one sorted run each.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use firn_format::key::key_prefix;

use super::Table;

/// Deepest level; the last one that exists holds most of the data.
pub(crate) const LEVEL_MAX: usize = 6;

/// Tables with disjoint keys, in key order. Bounds of neighbours may touch where a range tombstone
/// ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedRun {
    /// Grows with age order inside level 0: a greater number is newer. 0 in deeper levels.
    pub(crate) number: u64,
    pub(crate) tables: Vec<Arc<Table>>,
    /// For each table, the first bytes of its greatest key: a search looks at tables only where
    /// these do not tell.
    fences: Vec<u128>,
}

/// The first 16 bytes of `key`, zero-filled: where these differ, keys are in their order.
#[inline]
fn fence(key: &[u8]) -> u128 {
    u128::from(key_prefix(key, 0)) << 64 | u128::from(key_prefix(key, 8))
}

impl SortedRun {
    /// Tables whose bounds hold `key`: one, or two where a range tombstone of the first ends at
    /// `key`.
    #[inline]
    pub(crate) fn spanning(&self, key: &[u8]) -> impl Iterator<Item = &Arc<Table>> {
        let first = self.first_not_below(key);
        self.tables[first..].iter().take_while(move |table| table.meta().smallest.as_slice() <= key)
    }

    /// The first table whose greatest key is not below `key`.
    #[inline]
    fn first_not_below(&self, key: &[u8]) -> usize {
        let word = fence(key);
        let first = self.fences.partition_point(|fence| *fence < word);
        match self.fences.get(first) {
            Some(equal) if *equal == word => {
                let unclear = self.tables.get(first..).unwrap_or_default();
                first + unclear.partition_point(|table| table.meta().largest.as_slice() < key)
            }
            _ => first,
        }
    }

    /// Which tables may hold keys of `start..end`.
    pub(crate) fn between(&self, start: &[u8], end: Option<&[u8]>) -> Range<usize> {
        let first = self.first_not_below(start);
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

    /// The same, found by a search.
    pub(crate) fn within<'s>(
        &'s self,
        smallest: &[u8],
        largest: &'s [u8],
    ) -> impl Iterator<Item = &'s Arc<Table>> {
        let first = self.first_not_below(smallest);
        self.tables[first..].iter().take_while(move |table| table.meta().smallest.as_slice() <= largest)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta().bytes).sum()
    }

    fn add(&mut self, table: Arc<Table>) {
        let smallest = &table.meta().smallest;
        let place = self.tables.partition_point(|other| other.meta().smallest <= *smallest);
        self.fences.insert(place, fence(&table.meta().largest));
        self.tables.insert(place, table);
    }

    fn remove(&mut self, file: &str) -> Option<Arc<Table>> {
        let place = self.tables.iter().position(|table| table.meta().file == file)?;
        self.fences.remove(place);
        Some(self.tables.remove(place))
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
    /// How many tables refer to separated values.
    references: usize,
    /// In how many tables something expires.
    expiring: usize,
    /// How many tables came or went since the database was opened.
    changes: u64,
}

impl Levels {
    /// No tables. All that have none share it.
    pub(crate) fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Levels>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

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

    /// Whether some table refers to separated values.
    pub(crate) fn has_references(&self) -> bool {
        self.references > 0
    }

    /// Whether something in some table expires.
    pub(crate) fn has_expiring(&self) -> bool {
        self.expiring > 0
    }

    /// A number that is another one whenever the tables are others or in other places.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Every table with its level and the number of its sorted run, which is 0 in deeper levels.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (u32, u64, &Arc<Table>)> {
        let level0 = self.level0.iter().flat_map(|run| run.tables.iter().map(|table| (0, run.number, table)));
        let deeper = (1..)
            .zip(&self.deeper)
            .flat_map(|(level, run)| run.tables.iter().map(move |table| (level, 0, table)));
        level0.chain(deeper)
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
        self.changes += 1;
        self.range_deletes += usize::from(table.meta().range_tombstone_count > 0);
        self.references += usize::from(table.refers());
        self.expiring += usize::from(table.expires());
        if level == 0 {
            let index = match self.level0.iter().position(|sorted| sorted.number <= run) {
                Some(index) if self.level0[index].number == run => index,
                found => {
                    let index = found.unwrap_or(self.level0.len());
                    self.level0.insert(index, SortedRun { number: run, ..SortedRun::default() });
                    index
                }
            };
            self.level0[index].add(table);
            return;
        }
        let index = level as usize - 1;
        if self.deeper.len() <= index {
            self.deeper.resize_with(index + 1, SortedRun::default);
        }
        self.deeper[index].add(table);
    }

    /// Takes the table called `file` out, with its level and sorted run.
    pub(crate) fn remove(&mut self, file: &str) -> Option<Arc<Table>> {
        for run in self.level0.iter_mut().chain(&mut self.deeper) {
            if let Some(table) = run.remove(file) {
                self.changes += 1;
                self.range_deletes -= usize::from(table.meta().range_tombstone_count > 0);
                self.references -= usize::from(table.refers());
                self.expiring -= usize::from(table.expires());
                self.level0.retain(|run| !run.tables.is_empty());
                return Some(table);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::compact::pick::tests::table;

    /// Keys that only their last byte tells apart, beside short ones.
    fn key(random: &mut fastrand::Rng) -> Vec<u8> {
        let long = [&[random.u8(..3); 16][..], &[random.u8(..9)]].concat();
        let least = if random.bool() { 16 } else { 0 };
        long[..random.usize(least..=17)].to_vec()
    }

    #[test]
    fn a_search_finds_what_looking_at_every_table_finds() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let keys: BTreeSet<Vec<u8>> = (0..30).map(|_| key(&mut random)).collect();
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let mut levels = Levels::default();
            // Bounds of neighbours touch at times.
            let step = random.usize(1..=2);
            let mut bounds: Vec<_> = keys.windows(2).step_by(step).collect();
            random.shuffle(&mut bounds);
            for (number, pair) in bounds.iter().enumerate() {
                levels.add(1, 0, table(number.to_string(), &pair[0], &pair[1], 1, 0.0));
            }
            let gone = random.usize(..bounds.len()).to_string();
            assert!(levels.remove(&gone).is_some() && levels.remove(&gone).is_none());
            let run = &levels.deeper[0];
            assert!(run.tables.is_sorted_by_key(|table| (&table.meta().smallest, &table.meta().largest)));
            for _ in 0..50 {
                let (start, end) = (key(&mut random), key(&mut random));
                let spans =
                    |table: &&Arc<Table>| table.meta().smallest <= start && start <= table.meta().largest;
                let expected: Vec<_> =
                    run.tables.iter().filter(spans).map(|table| &table.meta().file).collect();
                let found: Vec<_> = run.spanning(&start).map(|table| &table.meta().file).collect();
                assert_eq!(found, expected, "seed {seed}: {start:?}");
                let first = run.tables.iter().position(|table| table.meta().largest >= start);
                let first = first.unwrap_or(run.tables.len());
                let after = run.tables.iter().filter(|table| table.meta().smallest < end).count();
                assert_eq!(run.between(&start, Some(&end)), first..after.max(first), "seed {seed}");
            }
        }
    }
}
