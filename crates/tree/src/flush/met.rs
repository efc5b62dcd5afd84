//! Estimates, from a sample, of what records of the buffer hide in tables.
//!
//! A record that is newer than another of its key hides that one. The hidden bytes are neither live
//! nor to be had until a compaction meets both. That says little of the record's own bytes: a
//! tombstone of 40 may hide a value of a megabyte. So a sample is looked up in the tables below,
//! where that is in memory. It is of what is frozen or flushed, and of the memtable now and then.
//! Each record found stands for as many as are not looked at. What flushes found is kept with their
//! tables, in the manifest too.

use std::sync::Arc;

use firn_format::Position;
use firn_storage::file::table::Lookup;

use crate::buffer::Run;
use crate::log::SegmentMap;
use crate::version::{Levels, Table};

/// Entries of a run for each entry that is looked at, where a sample of this size is enough.
pub(crate) const SAMPLE_EVERY: usize = 61;

/// Of fewer entries more are looked at: up to so many.
const SAMPLE_MIN: usize = 64;

/// Bytes of an entry in a table that are neither key nor value, about.
const AROUND_BYTES: u64 = 12;

/// What the tables hold of a sample of records.
#[derive(Debug, Default)]
pub(crate) struct Met {
    asked: u64,
    /// Keys that older runs or tables hold too.
    held: u64,
    /// Keys with the bytes that tables hold of them, of all records that each stands for.
    hidden: Vec<(Vec<u8>, u64)>,
}

/// Of so many of `len` entries, one is looked at.
pub(crate) fn sample_step(len: usize) -> usize {
    (len / SAMPLE_MIN).clamp(1, SAMPLE_EVERY)
}

/// What `runs` hide in `older` runs and in tables.
pub(crate) fn meet(runs: &[&Run], records: &SegmentMap, older: &[Arc<Run>], levels: &Levels) -> Met {
    let mut met = Met::default();
    for run in runs {
        let step = sample_step(run.len());
        for (position, hash, is_newest) in run.sample_newest(step) {
            met.ask((position, hash, is_newest), step as u64, records, older, levels);
        }
    }
    met
}

impl Met {
    /// Looks up the record at `position`, whose key has the filter hash `hash`. `is_newest`: no
    /// newer record of its key is here. It stands for `step` records.
    pub(crate) fn ask(
        &mut self,
        (position, hash, is_newest): (Position, u32, bool),
        step: u64,
        records: &SegmentMap,
        older: &[Arc<Run>],
        levels: &Levels,
    ) {
        let Some(record) = records.record(position) else { return };
        self.asked += 1;
        if older.iter().any(|run| run.may_contain(hash)) {
            // The record of the older run hides what tables hold.
            self.held += 1;
            return;
        }
        let tables = levels.sorted_runs().flat_map(|sorted| sorted.spanning(record.key));
        for table in tables.filter(|table| table.reader().may_contain(hash)) {
            let bytes = match table.reader().peek(record.key, hash, position.sequence()) {
                Ok(Lookup::Absent) => continue,
                Ok(Lookup::Found(hit)) => (record.key.len() + hit.value().len()) as u64 + AROUND_BYTES,
                // The record is not in memory, or damaged: it counts as its neighbours do on
                // average.
                Ok(Lookup::Miss) | Err(_) => mean_bytes(table),
            };
            self.held += 1;
            if is_newest {
                self.hidden.push((record.key.to_vec(), bytes * step));
            }
            return;
        }
    }

    /// Share of the records whose keys older runs or tables hold too.
    pub(crate) fn share(&self) -> f64 {
        if self.asked == 0 { 0.0 } else { self.held as f64 / self.asked as f64 }
    }

    /// Bytes that they hide in tables, about.
    pub(crate) fn hidden_bytes(&self) -> u64 {
        self.hidden.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Of those, the ones of keys from `smallest` to `largest`, both included.
    pub(crate) fn hidden_within(&self, smallest: &[u8], largest: &[u8]) -> u64 {
        let within = |key: &[u8]| smallest <= key && key <= largest;
        self.hidden.iter().filter(|(key, _)| within(key)).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes that each record hides, on average.
    pub(crate) fn hidden_each(&self, step: u64) -> f64 {
        if self.asked == 0 { 0.0 } else { self.hidden_bytes() as f64 / (self.asked * step) as f64 }
    }
}

/// Bytes of an entry of `table`, on average.
fn mean_bytes(table: &Table) -> u64 {
    table.meta().bytes / table.meta().entry_count.max(1)
}
