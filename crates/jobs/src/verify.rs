//! When a result may be believed.

use std::sync::Arc;

use firn_format::file_name::{self, FileName};
use firn_format::manifest::TableMeta;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{JobResult, JobSpec, KeyRange};

/// Checks `result` against `spec` by their values alone: nothing lost, outputs in order, inside the range, cut at the
/// splits, named as they should be, with sequences the inputs have. Opens no file.
///
/// # Errors
/// `NotConserved`, or `Invalid` with what is wrong.
pub fn verify(spec: &JobSpec, result: &JobResult) -> Result<()> {
    result.sums.check_outputs(&result.tables)?;
    let held = |input: &TableMeta| {
        let inside = spec.range.contains(&input.smallest);
        let ends = spec.range.end.as_ref().is_none_or(|end| input.largest < *end);
        inside && ends
    };
    if spec.inputs.iter().all(|input| held(&input.table)) {
        result.sums.check_inputs(spec.inputs.iter().map(|input| &input.table))?;
    }
    let oldest = spec.inputs.iter().map(|input| input.table.sequence_min).min();
    let newest = spec.inputs.iter().map(|input| input.table.sequence_max).max();
    for (index, table) in result.tables.iter().enumerate() {
        let fault =
            |what: &str| Err(Error::new(ErrorKind::Invalid, format!("output {}: {what}", table.file)));
        if output_of(&table.file, &spec.output_stem) != Some(index as u32) {
            return fault(
                "expected the spec's stem, or that of an attempt, and the table's number as its name",
            );
        }
        if Some(table.sequence_min) < oldest || Some(table.sequence_max) > newest {
            return fault("expected sequences that the inputs have");
        }
        check_bounds(spec, table).or_else(fault)?;
    }
    let overlap = result.tables.windows(2).find(|pair| pair[0].largest > pair[1].smallest);
    match overlap {
        Some([first, second]) => {
            let message = format!("expected outputs in order, found {} before {}", first.file, second.file);
            Err(Error::new(ErrorKind::Invalid, message))
        }
        _ => Ok(()),
    }
}

/// Whether `file` is called as an output of a job with this stem, or of an attempt at it.
pub fn is_output_of(file: &str, stem: &str) -> bool {
    output_of(file, stem).is_some()
}

/// Which output of a job with this stem `file` is; an attempt's stem is the job's with a `-` and more behind.
fn output_of(file: &str, stem: &str) -> Option<u32> {
    let Some(FileName::Table { stem: found, index }) = file_name::parse(file) else { return None };
    let more = found.strip_prefix(stem)?;
    (more.is_empty() || more.starts_with('-')).then_some(index)
}

/// Whether the table keeps inside the range and between splits; its greatest key may be the (excluded) end of a
/// range tombstone.
fn check_bounds(spec: &JobSpec, table: &TableMeta) -> std::result::Result<(), &'static str> {
    let KeyRange { start, end } = &spec.range;
    let reaches = |bound: &Vec<u8>| {
        table.largest > *bound || (table.largest == *bound && table.range_tombstone_count == 0)
    };
    if table.smallest < *start || end.as_ref().is_some_and(reaches) || table.smallest > table.largest {
        return Err("expected keys inside the job's range");
    }
    if spec.output.splits.iter().any(|split| table.smallest < *split && reaches(split)) {
        return Err("expected a cut at every split key");
    }
    Ok(())
}

/// Checks several jobs over neighbouring ranges of the same inputs together: each by itself, and that they read
/// all that the inputs hold.
///
/// # Errors
/// As for [`verify`].
pub fn verify_all(jobs: &[(JobSpec, JobResult)]) -> Result<()> {
    let mut inputs: Vec<&TableMeta> = Vec::new();
    let mut sums = crate::Sums::default();
    for (spec, result) in jobs {
        verify(spec, result)?;
        sums = sums.plus(&result.sums);
        inputs.extend(spec.inputs.iter().map(|input| &input.table));
    }
    inputs.sort_by(|a, b| a.file.cmp(&b.file));
    inputs.dedup_by(|a, b| a.file == b.file);
    sums.check_inputs(inputs)
}

/// Opens every output and checks that it is what the result says, as far as footers, indexes and filters tell; the data is
/// not read. Blocks while these are read.
///
/// # Errors
/// `Storage`.
pub fn verify_files(storage: &dyn Storage, result: &JobResult) -> Result<()> {
    let cache = Arc::new(BlockCache::new(0));
    for table in &result.tables {
        TableReader::open(storage, table, &cache, ReaderOptions::default())?;
    }
    Ok(())
}
