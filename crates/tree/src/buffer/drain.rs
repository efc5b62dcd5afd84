//! Draining: the oldest runs are written out as tables of level 0.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::{Error, Result};
use firn_format::tombstone::FragmentList;
use firn_format::{Position, Sequence};
use firn_jobs::{Cursor, KeyRange, MergeCursor, Output, compact_source};

use super::Run;
use super::freeze::runs_of;
use crate::Records;
use crate::compact::pick::base_level;
use crate::compact::run::{from_job, span_of};
use crate::database::Database;
use crate::log::SegmentMap;
use crate::stats::count;
use crate::version::Levels;
use crate::version::commit::Edit;

/// Tables of the base level between two cuts of a drain, in multiples of the table size.
const PARTITION_TABLES: u64 = 4;

impl Database {
    /// Writes runs of `keyspace` (the oldest, by the starts of their spans, newest first) out as one sorted run.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing changed, outputs are removed.
    pub(crate) fn drain(&self, keyspace: u32, starts: &[Position]) -> Result<()> {
        let begun = self.clock.now();
        let version = self.version.load_full();
        let Ok(state) = version.keyspace(keyspace) else { return Ok(()) };
        let runs = runs_of(state, starts)?;
        let end =
            runs.iter().map(|run| run.span().end).max().ok_or_else(|| Error::bug("a drain of no runs"))?;
        let cursor = |run: &Arc<Run>| -> Box<dyn Cursor> {
            Box::new(run.cursor(Sequence::MAX, Arc::clone(&version.segments)))
        };
        let mut source = MergeCursor::new(runs.iter().map(cursor).collect());
        let tombstones: Vec<&FragmentList> = runs.iter().map(|run| &**run.range_tombstones()).collect();
        let tombstones = FragmentList::merge(&tombstones);
        let older = state.levels.tables().map(|(_, table)| span_of(table)).collect();
        let form = self.output_form(state, 0, self.partition_splits(&state.levels));
        let stem = self.next_stem();
        let output = Output { storage: &*self.storage, semantics: &self.semantics, form: &form, stem: &stem };
        let rules = self.rules(state, older);
        let result =
            compact_source(&mut source, &tombstones, &KeyRange::all(), &rules, &output, &self.control)
                .map_err(from_job)?;
        let outputs = result.tables;
        let bytes: u64 = outputs.iter().map(|table| table.bytes).sum();
        let run = self.next_run.fetch_add(1, Ordering::Relaxed);
        let committed = self.commit_or_remove(Edit {
            keyspace,
            removed: Vec::new(),
            added: outputs.into_iter().map(|table| (0, run, table)).collect(),
            overwrites: overwrites(&runs, &version.segments, &state.levels),
            moved: Vec::new(),
            drained: Some((starts.to_vec(), end)),
        })?;
        if committed {
            count(&self.counters.drain_write_bytes, bytes);
            count(&self.counters.drain_count, 1);
            let took = self.clock.now().saturating_sub(begun);
            self.admission.drained(bytes, took);
        }
        self.pace_by_debt();
        self.admission.release();
        Ok(())
    }

    /// Keys at which a drain cuts its tables, so that groups of level 0 and the base level stay apart.
    fn partition_splits(&self, levels: &Levels) -> Vec<Vec<u8>> {
        let base = base_level(levels, &self.pick_rules()) as usize;
        let Some(run) = levels.deeper.get(base - 1) else { return Vec::new() };
        let partition = PARTITION_TABLES * self.settings.table_bytes;
        let (mut bytes, mut splits) = (0, Vec::new());
        for table in &run.tables {
            if bytes >= partition {
                splits.push(table.meta().smallest.clone());
                bytes = 0;
            }
            bytes += table.meta().bytes;
        }
        splits
    }
}

/// Entries of a run for each one that [`overwrites`] looks up.
const SAMPLE_EVERY: usize = 61;

/// Estimated share of the runs' keys that older tables hold too, by asking those tables' filters for a sample.
fn overwrites(runs: &[Arc<Run>], records: &SegmentMap, levels: &Levels) -> f64 {
    let (mut asked, mut held) = (0_u64, 0_u64);
    for (position, hash) in runs.iter().flat_map(|run| run.sample(SAMPLE_EVERY)) {
        let Some(record) = records.record(position) else { continue };
        asked += 1;
        let mut tables = levels.sorted_runs().flat_map(|sorted| sorted.spanning(record.key));
        held += u64::from(tables.any(|table| table.reader().may_contain(hash)));
    }
    if asked == 0 { 0.0 } else { held as f64 / asked as f64 }
}
