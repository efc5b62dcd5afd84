//! When a compaction's result may be believed.

use std::sync::Arc;

use firn_format::Position;
use firn_format::blob::BlobRecord;
use firn_format::blob::segment::Origin;
use firn_format::manifest::TableMeta;
use firn_storage::Storage;
use firn_storage::file::blob::{BlobSegment, RecordReader};
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};

use super::{is_segment_of, output_of_table};
use crate::blob_gc::check_name;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{CompactResult, CompactSpec, KeyRange, OutputForm};

/// [`verify`](super::verify) for compactions.
///
/// # Errors
/// `NotConserved`, or `Invalid` with what is wrong.
pub fn verify_compact(spec: &CompactSpec, result: &CompactResult) -> Result<()> {
    result.sums.check_outputs(&result.tables)?;
    check_segment(spec, result)?;
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
        if output_of_table(&table.file, &spec.output_stem) != Some(index as u32) {
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

/// Whether the segment of values that left the tree is the one that the spec asks for.
fn check_segment(spec: &CompactSpec, result: &CompactResult) -> Result<()> {
    let Some(segment) = &result.values else { return Ok(()) };
    let wanted = spec.values.as_ref().and_then(|values| values.output);
    let what = match segment {
        _ if wanted.is_none() => "expected no values that leave the tree",
        _ if !is_segment_of(&segment.file, &spec.output_stem) => {
            "expected the spec's stem, or that of an attempt, and 0 as its name"
        }
        _ if Some(segment.number) != wanted => "expected the number that was asked for",
        _ if segment.sealed_at != Position::default() => "expected a segment that no log record refers to",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid, format!("output {}: {what}", segment.file)))
}

/// Whether the table keeps inside the range and between splits; its greatest key may be the
/// (excluded) end of a range tombstone.
fn check_bounds(spec: &CompactSpec, table: &TableMeta) -> std::result::Result<(), &'static str> {
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

/// Checks several jobs over neighbouring ranges of the same inputs together: each by itself, and
/// that they read all that the inputs hold.
///
/// # Errors
/// As for [`verify_compact`].
pub fn verify_all(jobs: &[(CompactSpec, CompactResult)]) -> Result<()> {
    let mut inputs: Vec<&TableMeta> = Vec::new();
    let mut sums = crate::Sums::default();
    for (spec, result) in jobs {
        verify_compact(spec, result)?;
        sums = sums.plus(&result.sums);
        inputs.extend(spec.inputs.iter().map(|input| &input.table));
    }
    inputs.sort_by(|a, b| a.file.cmp(&b.file));
    inputs.dedup_by(|a, b| a.file == b.file);
    sums.check_inputs(inputs)
}

/// Opens every output: footers, indexes and filters are what the result says and have the form that
/// was asked for. Each record of the segment of values that left the tree is whole.
pub(super) fn verify_outputs(
    storage: &dyn Storage,
    spec: &CompactSpec,
    result: &CompactResult,
) -> Result<()> {
    let cache = Arc::new(BlockCache::new(0));
    for table in TableReader::open_all(storage, &result.tables, &cache, ReaderOptions::default()) {
        check_form(&spec.output, &table?)?;
    }
    let (Some(meta), Some(values)) = (&result.values, &spec.values) else { return Ok(()) };
    let segment = BlobSegment::open(storage, meta, false)?;
    let header = segment.header();
    if (header.database, header.origin) != (values.database, Origin::Written) {
        let message = format!("output {}: expected the header that was asked for", meta.file);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut reader = RecordReader::new(&segment);
    for ordinal in 0..meta.ordinals {
        let look = |record: &BlobRecord<'_>| check_name(&segment, ordinal, &record.head, &[]);
        reader.read(ordinal, look, |_, _| Ok(()))?;
    }
    Ok(())
}

/// Whether the table was made as it was asked for: one without filters would be read right, and
/// slowly for as long as it lives.
fn check_form(form: &OutputForm, table: &TableReader) -> Result<()> {
    let found = table.properties();
    let has_filter = table.footer().filter.bytes > 0;
    let what = match found {
        _ if found.block_bytes != form.block_bytes => "blocks of the size",
        _ if found.compression != form.compression => "the compression",
        _ if found.filter_bits_per_key != form.filter_bits_per_key => "a filter with the bits",
        _ if form.filter_bits_per_key > 0 && found.entry_count > 0 && !has_filter => "the filter",
        _ if found.prefix_extractor != form.prefix_extractor => "the filter of prefixes",
        _ => return Ok(()),
    };
    let message = format!("output {}: expected {what} that was asked for", table.name());
    Err(Error::new(ErrorKind::Invalid, message))
}
