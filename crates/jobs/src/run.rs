//! The reference executor: a spec in, a result out, on the calling thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::Semantics;
use firn_format::tombstone::FragmentList;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{CursorOptions, ReaderOptions, TableReader};

use crate::Cursor;
use crate::blob_gc::run_blob_gc;
use crate::compact::{CompactBlobs, CompactRules, compact_entries};
use crate::control::Control;
use crate::error::{Error, ErrorKind, Result};
use crate::merge::MergeCursor;
use crate::run_cursor::RunCursor;
use crate::spec::{CompactResult, CompactSpec, JobInput, JobResult, JobSpec, KeyRange, OutputForm, Rules};
use crate::write::TableWriter;

/// Where a job's outputs go and what they look like.
#[derive(Clone, Copy, Debug)]
pub struct Output<'o> {
    /// The directory.
    pub storage: &'o dyn Storage,
    /// What the names in rules and form mean.
    pub semantics: &'o Semantics,
    /// The form.
    pub form: &'o OutputForm,
    /// What the files' names begin with.
    pub stem: &'o str,
}

/// Runs `spec`: reads its inputs from `storage` and leaves its outputs there, synced, names
/// included.
///
/// Output bytes depend on `spec` and the operators alone. Blocks for as long as it takes.
///
/// # Errors
/// `Rejected` for unknown names, `Invalid` for an impossible spec, `Cancelled`, `Corrupt` for a
/// damaged input, `Storage`, `NotConserved`. Outputs are removed then, as far as that is possible.
pub fn run(
    spec: &JobSpec,
    storage: &dyn Storage,
    semantics: &Semantics,
    control: &Control,
) -> Result<JobResult> {
    let done = match spec {
        JobSpec::Compact(spec) => run_compact(spec, storage, semantics, control).map(JobResult::Compact),
        JobSpec::BlobGc(spec) => run_blob_gc(spec, storage, control).map(JobResult::BlobGc),
    };
    done.map_err(|error| distinguished(spec, error))
}

/// `error` with its kind: wrong bytes of an input are wrong for every executor, so that none is to
/// try again.
fn distinguished(spec: &JobSpec, error: Error) -> Error {
    let is_wrong = |source: &&firn_storage::Error| source.kind == firn_storage::ErrorKind::Corrupt;
    match error.source.as_ref().filter(is_wrong) {
        Some(source) if spec.input_files().contains_key(source.file.as_str()) => {
            Error { kind: ErrorKind::Corrupt, ..error }
        }
        _ => error,
    }
}

/// [`run()`] for compactions.
///
/// # Errors
/// As for [`run()`]; a damaged input is a `Storage` error here.
pub fn run_compact(
    spec: &CompactSpec,
    storage: &dyn Storage,
    semantics: &Semantics,
    control: &Control,
) -> Result<CompactResult> {
    if spec.inputs.is_empty() || spec.range.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "expected a job with inputs and a range of keys"));
    }
    let runs = open_inputs(&spec.inputs, storage, control)?;
    let lists: Vec<&FragmentList> = runs.values().flatten().map(|table| table.tombstones()).collect();
    let tombstones = FragmentList::merge(&lists);
    let cursors: Vec<RunCursor> =
        runs.into_values().map(|tables| RunCursor::new(tables, CursorOptions::JOB)).collect();
    cursors.iter().for_each(|cursor| cursor.ask(&spec.range.start));
    let mut source = MergeCursor::with_common_prefix(cursors, common_prefix(&spec.inputs));
    let output = Output { storage, semantics, form: &spec.output, stem: &spec.output_stem };
    let mut values = CompactBlobs::new(spec, storage)?;
    let scope = Scope { range: &spec.range, rules: &spec.rules };
    let result = compact_source(&mut source, &tombstones, scope, values.as_mut(), &output, control)?;
    values.into_iter().for_each(CompactBlobs::keep);
    Ok(result)
}

/// Which keys and versions stay.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'s> {
    /// Only entries and tombstones of these keys are read.
    pub range: &'s KeyRange,
    /// By which rules versions are kept or dropped.
    pub rules: &'s Rules,
}

/// Runs rules over what `source` and `tombstones` hold in a range and writes what stays: the common
/// core of compactions and flushes. A flush's source is a merge of runs, and it leaves `values`
/// where they are.
///
/// The sums are checked against the outputs before this returns.
///
/// # Errors
/// As for [`run`].
pub fn compact_source<C: Cursor + ?Sized>(
    source: &mut C,
    tombstones: &FragmentList,
    Scope { range, rules }: Scope<'_>,
    mut values: Option<&mut CompactBlobs<'_>>,
    output: &Output<'_>,
    control: &Control,
) -> Result<CompactResult> {
    control.check()?;
    let rules = CompactRules::new(rules, output.semantics)?;
    let tombstones = tombstones.clip(&range.start, range.end.as_deref());
    let kept = rules.kept_tombstones(&tombstones);
    let (read_hash, kept_hash) = (tombstones.content_hash(), kept.content_hash());
    let mut writer = TableWriter::new(output.storage, output.stem, output.form, output.semantics, kept)?;
    let moved = values.as_deref_mut();
    let mut sums = compact_entries(source, range, &tombstones, &rules, moved, &mut writer, control)?;
    sums.input.hash = sums.input.hash.wrapping_add(read_hash);
    sums.range_tombstones_hash = read_hash.wrapping_sub(kept_hash);
    // Before the tables: they make the names durable.
    let segment = values.map_or(Ok(None), CompactBlobs::finish)?;
    let tables = writer.finish()?;
    if let Err(error) = sums.check_outputs(&tables) {
        for table in &tables {
            // The error is worth more than a file that stays.
            let _ = output.storage.remove(&table.file);
        }
        return Err(error);
    }
    Ok(CompactResult { tables, values: segment, sums })
}

/// Tables by (level, run).
type Runs = BTreeMap<(u32, u64), Vec<Arc<TableReader>>>;

/// The inputs by (level, run), each run's tables in order of keys.
fn open_inputs(inputs: &[JobInput], storage: &dyn Storage, control: &Control) -> Result<Runs> {
    // Blocks of inputs are read once: nothing is kept.
    let cache = Arc::new(BlockCache::new(0));
    let mut runs = Runs::new();
    let metas = inputs.iter().map(|input| &input.table);
    let opened = TableReader::open_all(storage, metas, &cache, ReaderOptions::default());
    for (table, input) in opened.zip(inputs) {
        control.check()?;
        runs.entry((input.level, input.run)).or_default().push(Arc::new(table?));
    }
    for tables in runs.values_mut() {
        tables.sort_by(|a, b| a.properties().smallest.cmp(&b.properties().smallest));
        let overlap =
            tables.windows(2).find(|pair| pair[0].properties().largest > pair[1].properties().smallest);
        if let Some([first, second]) = overlap {
            let message =
                format!("expected disjoint tables in a run, found {} and {}", first.name(), second.name());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(runs)
}

/// What every key of every input begins with.
fn common_prefix(inputs: &[JobInput]) -> Vec<u8> {
    let smallest = inputs.iter().map(|input| &input.table.smallest).min();
    let largest = inputs.iter().map(|input| &input.table.largest).max();
    let (Some(smallest), Some(largest)) = (smallest, largest) else { return Vec::new() };
    smallest.iter().zip(largest).take_while(|(a, b)| a == b).map(|(byte, _)| *byte).collect()
}
