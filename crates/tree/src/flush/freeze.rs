//! From a frozen memtable to a run, and from runs to one: no record moves.

use std::sync::Arc;

use firn_engine::{Error, Result};
use firn_format::Position;

use super::Flushing;
use super::met::meet;
use crate::buffer::{Filtering, FrozenEntries, MergeTask, Progress, Run};
use crate::counters::count;
use crate::edits::drop_dead_segments;
use crate::error::from_storage;
use crate::memtable::Memtable;
use crate::version::{Keyspace, Version};

/// Entries a merge takes before it looks whether it should end.
const MERGE_STEP: usize = 1 << 16;

/// A frozen memtable and the run that it becomes, if it holds anything.
type Made = (Arc<Memtable>, Option<Arc<Run>>);

impl Flushing<'_> {
    /// Turns the oldest frozen memtable of each of `keyspaces` into its newest run, all of them
    /// visible together. What has to do with every keyspace is done once.
    ///
    /// # Errors
    /// What the first keyspace fails with. After a failure of a later one, the rest is left to be
    /// chosen again.
    pub(crate) fn freeze(&self, keyspaces: &[u32]) -> Result<()> {
        let version = self.edits.catalog.version.load_full();
        let mut made = Vec::new();
        for keyspace in keyspaces {
            match self.make_run(&version, *keyspace) {
                Ok(run) => made.extend(run.map(|(memtable, run)| (*keyspace, memtable, run))),
                Err(error) if made.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        self.edits.catalog.change_version(|version| {
            for (keyspace, memtable, run) in made {
                let Some(Some(state)) = version.keyspaces.get_mut(keyspace as usize) else { continue };
                let state = Arc::make_mut(state);
                state.frozen.retain(|frozen| !Arc::ptr_eq(&frozen.memtable, &memtable));
                if let Some(run) = run {
                    state.runs.insert(0, run);
                }
            }
        });
        drop_dead_segments(self.edits.catalog, &self.edits.pipeline.log);
        self.edits.pipeline.pace_by_debt();
        self.edits.pipeline.admission.release();
        Ok(())
    }

    /// The oldest frozen memtable of `keyspace`, and the run that it becomes if it holds anything;
    /// `None` if there is none.
    fn make_run(&self, version: &Version, keyspace: u32) -> Result<Option<Made>> {
        let Ok(state) = version.keyspace(keyspace) else { return Ok(None) };
        let Some(frozen) = state.frozen.last() else { return Ok(None) };
        let memtable = Arc::clone(&frozen.memtable);
        if memtable.is_empty() {
            return Ok(Some((memtable, None)));
        }
        let sorted = memtable.freeze_entries(&*version.segments);
        let entries = FrozenEntries {
            common: sorted.prefix,
            entries: sorted.entries,
            hashes: sorted.hashes,
            tombstones: memtable.range_deletes(firn_format::Sequence::MAX),
            span: frozen.span.clone(),
            live_bytes: memtable.record_bytes() as u64,
        };
        let mut run =
            Run::build(entries, &self.filtering(state), &*version.segments).map_err(from_storage)?;
        let met = meet(&[&run], &version.segments, &state.runs, &state.levels);
        run.set_superseding(met.share(), met.hidden_bytes());
        state.observed.overwriting.set(met.share());
        state.observed.probe.learn(met.hidden_bytes());
        Ok(Some((memtable, Some(Arc::new(run)))))
    }

    /// Merges runs of `keyspace`, adjacent in age, into one of the next level; commits nothing.
    pub(crate) fn merge_runs(&self, keyspace: u32, starts: &[Position]) -> Result<()> {
        let version = self.edits.catalog.version.load_full();
        let Ok(state) = version.keyspace(keyspace) else { return Ok(()) };
        let inputs = runs_of(state, starts)?;
        let level = inputs.iter().map(|run| run.level()).max().unwrap_or(0) + 1;
        let snapshots = self.edits.catalog.snapshots.sequences();
        let mut task = MergeTask::new(
            inputs.clone(),
            &snapshots,
            self.filtering(state),
            level,
            Arc::clone(&version.segments),
        );
        while task.step(MERGE_STEP).map_err(from_storage)? != Progress::Done {
            if self.maintenance.is_stopping() {
                return Ok(());
            }
        }
        let mut run = task.finish().map_err(from_storage)?;
        let oldest = starts.iter().min().copied().unwrap_or_default();
        let older = state.runs.partition_point(|run| run.span().start >= oldest);
        let older = state.runs.get(older..).unwrap_or_default();
        let met = meet(&[&run], &version.segments, older, &state.levels);
        run.set_superseding(met.share(), met.hidden_bytes());
        let run = Arc::new(run);
        count(&self.maintenance.counters.merge_index_bytes, run.memory_bytes());
        count(&self.maintenance.counters.merge_count, 1);
        self.edits.catalog.change_keyspace(keyspace, |state| {
            let Some(first) = state.runs.iter().position(|run| starts.contains(&run.span().start)) else {
                return;
            };
            state.runs.retain(|run| !starts.contains(&run.span().start));
            state.runs.insert(first, run);
        });
        self.edits.pipeline.pace_by_debt();
        Ok(())
    }

    pub(crate) fn filtering(&self, keyspace: &Keyspace) -> Filtering {
        Filtering {
            bits_per_key: self.settings.engine.filter_bits_per_key,
            extractor: keyspace.definition.prefix_extractor.clone(),
        }
    }
}

/// The runs whose spans begin at `starts`, in that order.
pub(crate) fn runs_of(state: &Keyspace, starts: &[Position]) -> Result<Vec<Arc<Run>>> {
    let find = |start: &Position| state.runs.iter().find(|run| run.span().start == *start).cloned();
    starts.iter().map(|start| find(start).ok_or_else(|| Error::bug("a claimed run is gone"))).collect()
}
