//! Jobs of one choice, and what becomes of their outputs.

use std::sync::Arc;

use firn_engine::Result;
use firn_format::Sequence;
use firn_format::compression::Compression as Codec;
use firn_format::table::ReferenceSet;
use firn_jobs::submit::{HeldNames, JobKind, Submitted};
use firn_jobs::{
    CompactResult, CompactSpec, JobInput, JobResult, JobSpec, KeyRange, OutputForm, Rules, partition,
};

use super::Compacting;
use super::blobs::{HeldPolicy, blob_policy};
use super::pick::{PickRules, splits};
use crate::blob_gc::references_of;
use crate::blobs::Sealed;
use crate::counters::count;
use crate::edits::{Edit, Supersedes};
use crate::error::from_job;
use crate::maintenance::{Choice, TaskKind};
use crate::settings::{Settings, garbage_share_max};
use crate::version::catalog::Catalog;
use crate::version::levels::LEVEL_MAX;
use crate::version::{Keyspace, Table};

/// See [`PickRules::stay_max`].
const STAY_MAX: f64 = 1.0;

/// One choice is divided into no more parts than that, however many executors are there: each opens
/// the tables of level 0 anew.
const PARTS_MAX: usize = 16;

/// A choice that an executor rewrites.
pub(super) struct Rewrite {
    keyspace: u32,
    choice: Choice,
    /// All of it in one.
    spec: CompactSpec,
    jobs: BegunJobs,
    going: ReferenceSet,
    /// Sealed segments that the jobs read stay.
    _held: Vec<Arc<Sealed>>,
    names: HeldNames,
}

impl Rewrite {
    /// Jobs that it is divided into.
    pub(super) fn job_count(&self) -> usize {
        self.jobs.specs.len()
    }

    /// Asks them to stop. Does not wait.
    pub(super) fn cancel(&self) {
        self.jobs.submitted.cancel();
    }
}

/// Jobs over neighbouring ranges, each with its spec.
struct BegunJobs {
    specs: Vec<CompactSpec>,
    submitted: Submitted,
}

/// What limits the choice of tables to compact.
pub(crate) fn pick_rules(settings: &Settings, catalog: &Catalog) -> PickRules {
    PickRules {
        depth_max: settings.engine.level0_runs_max.max(2),
        depth_mean_max: settings.engine.level0_runs_max.max(2) as f64 / 2.0,
        share_max: garbage_share_max(settings),
        stay_max: STAY_MAX,
        table_bytes: settings.engine.table_bytes,
        level_bytes_min: (16 * settings.engine.buffer_bytes).max(4 * settings.engine.table_bytes),
        level_ratio: 10,
        read_price: settings.engine.read_compaction_price,
        l0_only: false,
        room_bytes: u64::MAX,
        now_ms: catalog.now_ms(),
        oldest_snapshot: catalog.snapshots.sequences().first().copied().unwrap_or(Sequence::MAX),
    }
}

impl<'d> Compacting<'d> {
    /// What limits the choice of tables to compact.
    pub(super) fn pick_rules(&self) -> PickRules {
        pick_rules(self.settings, self.edits.catalog)
    }

    /// Rewrites or moves the tables of `choice` and commits; what fails the same way each time is
    /// tried once more in a plainer form.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing changed, outputs are removed.
    pub(crate) fn compact(&self, keyspace: u32, choice: &Choice) -> Result<()> {
        if choice.moves {
            return self.commit_choice(choice, moved(keyspace, choice));
        }
        let Some(rewrite) = self.begin_rewrite(keyspace, choice.clone(), &[])? else { return Ok(()) };
        self.maintenance.note_begun(choice);
        let done = self.end_rewrite(rewrite);
        match done {
            Err(error) if self.may_differ_plainly(choice, &error) => {
                // Of two that fail the first one tells how.
                self.compact_plainly(keyspace, choice).map_err(|_again| error)
            }
            done => done,
        }
    }

    pub(super) fn commit_choice(&self, choice: &Choice, edit: Edit) -> Result<()> {
        let written: u64 = edit.added.iter().map(|(_, _, table)| table.bytes).sum();
        let left: u64 = edit.left.iter().map(|segment| segment.bytes).sum();
        let read = edit.removed.iter().map(|table| table.meta().bytes).sum();
        let begun = self.clock.now();
        let is_committed = self.edits.commit_or_remove(edit)?;
        if is_committed && !choice.moves {
            let kind = if choice.is_l0() { JobKind::L0Compaction } else { JobKind::DeepCompaction };
            self.maintenance.jobs.history.committed(kind, self.clock.now().saturating_sub(begun));
        }
        if is_committed {
            count(&self.maintenance.counters.compaction_write_bytes, written + left);
            count(&self.maintenance.counters.compaction_read_bytes, read);
            count(&self.maintenance.counters.compaction_count, 1);
        }
        self.edits.pipeline.admission.release();
        Ok(())
    }

    /// Has the executor rewrite the tables of `choice`, in several key ranges at once where they
    /// are large; `None` if the keyspace is gone. Outputs are cut where what divides the base level
    /// is, and at the keys of `cuts`, rising.
    pub(super) fn begin_rewrite(
        &self,
        keyspace: u32,
        choice: Choice,
        cuts: &[Vec<u8>],
    ) -> Result<Option<Rewrite>> {
        let mut names = self.maintenance.output_names.hold();
        // No version is held while the jobs run: the arenas of segments that die meanwhile are
        // wanted by writers.
        let version = self.edits.catalog.version.load_full();
        let Ok(state) = version.keyspace(keyspace) else { return Ok(None) };
        let inputs = || choice.inputs.iter().map(|(_, _, table)| table);
        let going = references_of(inputs())?;
        let policy = blob_policy(self.edits.catalog, self.edits.blobs, state, inputs(), &going)?;
        let Some(HeldPolicy { policy, held }) = policy else { return Ok(None) };
        let spec = CompactSpec { values: policy, ..self.spec(state, &choice, cuts, names.draw()) };
        drop(version);
        // Parts are cut where tables begin; those of level 0 may all begin at the same place.
        let below = spec.inputs.iter().filter(|input| input.level > 0).count() as u64;
        let parts = (spec.input_bytes() / self.settings.engine.table_bytes.max(1))
            .min(below)
            .clamp(1, self.parts_max() as u64);
        let jobs = self.begin_jobs(partition(&spec, parts as usize));
        Ok(Some(Rewrite { keyspace, choice, spec, jobs, going, _held: held, names }))
    }

    /// Parts that one choice is divided into, at most.
    pub(super) fn parts_max(&self) -> usize {
        self.maintenance.jobs.width().unwrap_or(1).max(self.settings.background_threads).min(PARTS_MAX)
    }

    /// Waits for the jobs of a rewrite, checks what came of them, and commits it.
    ///
    /// # Errors
    /// What a job failed with; no output is left then. `Retry` if one panicked: the keyspace's next
    /// compaction waits for a while.
    pub(super) fn end_rewrite(&self, rewrite: Rewrite) -> Result<()> {
        let Rewrite { keyspace, choice, spec, jobs, going, _held, mut names } = rewrite;
        let part_count = jobs.specs.len();
        let is_last = spec.rules.older_overlap.is_empty();
        let mut done = self.end_jobs(jobs);
        if let (Err(error), Some(chain)) = (&done, &self.maintenance.jobs.chain)
            && error.kind == firn_jobs::ErrorKind::NotConserved
            && part_count > 1
        {
            // Whether one part read all that it should shows only in the sum of all, and not which
            // part was wrong. What stands between this database and the executor given can check
            // the whole, and do it here.
            chain.explain(format!("the answers were wrong together: {error}"));
            let whole = CompactSpec { output_stem: names.draw(), ..spec };
            done = self.end_jobs(self.begin_jobs(vec![whole]));
        }
        if let Err(error) = &done
            && error.kind == firn_jobs::ErrorKind::Panicked
        {
            self.maintenance.let_rest(
                (TaskKind::Compact, keyspace),
                from_job(error.clone()),
                self.clock.now(),
            );
        }
        let made = rewritten(keyspace, &choice, done.map_err(from_job)?, going, is_last);
        self.commit_choice(&choice, made)
    }

    /// Waits until the jobs of a rewrite have ended, which were asked to stop; what they wrote is
    /// removed.
    pub(super) fn abandon_rewrite(&self, rewrite: Rewrite) {
        if let Ok(results) = self.end_jobs(rewrite.jobs) {
            let tables = results.iter().flat_map(|result| &result.tables).map(|table| &table.file);
            let segments = results.iter().filter_map(|result| result.values.as_ref()).map(|one| &one.file);
            tables
                .chain(segments)
                .for_each(|name| self.edits.files.remove_output(&self.maintenance.jobs, name));
        }
    }

    fn begin_jobs(&self, mut specs: Vec<CompactSpec>) -> BegunJobs {
        for values in specs.iter_mut().filter_map(|spec| spec.values.as_mut()) {
            values.output = (values.separate_bytes < u32::MAX).then(|| self.edits.blobs.next_number());
        }
        let submitted = self.maintenance.jobs.begin(specs.iter().cloned().map(JobSpec::from).collect());
        BegunJobs { specs, submitted }
    }

    fn end_jobs(&self, jobs: BegunJobs) -> firn_jobs::Result<Vec<CompactResult>> {
        let BegunJobs { specs, submitted } = jobs;
        let stems: Vec<String> = specs.iter().map(|spec| spec.output_stem.clone()).collect();
        // An executor that is free now may have something chosen for it.
        let done = self.maintenance.jobs.wait(submitted, || self.maintenance.wake()).and_then(|results| {
            let results = results.into_iter().map(JobResult::into_compact);
            let results: Vec<CompactResult> = results.collect::<firn_jobs::Result<_>>()?;
            let jobs: Vec<_> = specs.into_iter().zip(results).collect();
            firn_jobs::verify_all(&jobs)?;
            Ok(jobs.into_iter().map(|(_, result)| result).collect())
        });
        if done.is_err() {
            self.edits.files.remove_outputs(&self.maintenance.jobs, &stems);
        }
        done
    }

    pub(super) fn spec(
        &self,
        state: &Keyspace,
        choice: &Choice,
        cuts: &[Vec<u8>],
        output_stem: String,
    ) -> CompactSpec {
        let input = |(level, run, table): &(u32, u64, Arc<Table>)| JobInput {
            table: table.meta().clone(),
            level: *level,
            run: *run,
        };
        // What stays in level 0 has older tables beside it as well as below.
        let is_older = |level: u32, table: &Arc<Table>| match choice.output_level {
            0 => !choice.inputs.iter().any(|(_, _, input)| Arc::ptr_eq(input, table)),
            output => level > output,
        };
        // Those of other keys are left out: a spec is as large as its job, however large the
        // keyspace is.
        let span = span_of_all(choice.inputs.iter().map(|(_, _, table)| table));
        let older = state.levels.tables().filter(|(level, table)| is_older(*level, table));
        let older = older.map(|(_, table)| span_of(table)).filter(|older| older.touches(&span));
        let mut splits = splits(&state.levels, &self.pick_rules());
        splits.extend(cuts.iter().filter(|cut| span.contains(cut)).cloned());
        splits.sort_unstable();
        splits.dedup();
        let table_bytes = choice.table_bytes(self.settings.engine.table_bytes, &splits);
        let mut output = output_form(self.settings, state, choice.output_level, splits);
        output.table_bytes_target = table_bytes;
        CompactSpec {
            keyspace: state.id(),
            inputs: choice.inputs.iter().map(input).collect(),
            range: KeyRange::all(),
            rules: rules(self.edits.catalog, state, older.collect()),
            output,
            values: None,
            output_stem,
        }
    }
}

/// Which versions stay, for a job outside of whose inputs older ones may lie in
/// `older_overlap`.
pub(crate) fn rules(catalog: &Catalog, state: &Keyspace, older_overlap: Vec<KeyRange>) -> Rules {
    let definition = &state.definition;
    Rules {
        snapshots: catalog.snapshots.sequences(),
        tick_ms: catalog.now_ms(),
        older_overlap,
        merge_operator: definition.merge_operator_identity.clone(),
        compaction_filter: definition.compaction_filter_identity.clone(),
    }
}

/// What tables of `level` look like; only the last level is compressed.
pub(crate) fn output_form(
    settings: &Settings,
    state: &Keyspace,
    level: u32,
    splits: Vec<Vec<u8>>,
) -> OutputForm {
    let is_last = level as usize >= LEVEL_MAX;
    let compression = if is_last { state.codec() } else { Codec::None };
    OutputForm {
        block_bytes: settings.engine.block_bytes,
        compression,
        filter_bits_per_key: settings.engine.filter_bits_per_key,
        prefix_extractor: state.definition.settings.prefix_extractor.clone(),
        table_bytes_target: settings.engine.table_bytes,
        splits,
    }
}

/// The edit of a choice that was rewritten, with what came of its parts.
pub(super) fn rewritten(
    keyspace: u32,
    choice: &Choice,
    results: Vec<CompactResult>,
    going: ReferenceSet,
    is_last: bool,
) -> Edit {
    let (mut tables, mut left) = (Vec::new(), Vec::new());
    for result in results {
        tables.extend(result.tables);
        left.extend(result.values);
    }
    let supersedes = choice.left(&tables, is_last);
    Edit {
        keyspace,
        removed: choice.inputs.iter().map(|(_, _, table)| Arc::clone(table)).collect(),
        added: tables.into_iter().map(|table| (choice.output_level, choice.output_run, table)).collect(),
        supersedes,
        moved: Vec::new(),
        left,
        flushed: None,
        going,
        newly_obsolete: ReferenceSet::default(),
    }
}

/// The edit of a choice whose tables only change their level.
pub(super) fn moved(keyspace: u32, choice: &Choice) -> Edit {
    let moved =
        choice.inputs.iter().map(|(_, _, table)| (Arc::clone(table), choice.output_level, 0)).collect();
    Edit {
        keyspace,
        removed: Vec::new(),
        added: Vec::new(),
        supersedes: Supersedes::default(),
        moved,
        left: Vec::new(),
        flushed: None,
        going: ReferenceSet::default(),
        newly_obsolete: ReferenceSet::default(),
    }
}

/// Keys that `table` may hold, as a range.
pub(crate) fn span_of(table: &Table) -> KeyRange {
    let meta = table.meta();
    KeyRange { start: meta.smallest.clone(), end: Some([meta.largest.as_slice(), &[0]].concat()) }
}

/// What lies between the first and the last key of all of `tables`.
fn span_of_all<'t>(tables: impl Iterator<Item = &'t Arc<Table>>) -> KeyRange {
    let spans = tables.map(|table| span_of(table));
    let both = |a: KeyRange, b: KeyRange| KeyRange { start: a.start.min(b.start), end: a.end.max(b.end) };
    spans.reduce(both).unwrap_or_default()
}
