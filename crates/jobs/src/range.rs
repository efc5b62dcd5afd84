//! One choice as several specs over neighbouring ranges, so that several executors share it.

use firn_format::file_name::STEM_BYTES_MAX;

use crate::spec::{CompactSpec, KeyRange};

/// `spec` as up to `parts` specs with disjoint ranges that together cover all keys of its inputs.
/// They are cut at input tables' smallest keys so that each reads about the same number of bytes.
/// Their outputs, in the order of the specs, hold what `spec`'s would.
///
/// Each gets the inputs that touch its range, and the stem `<stem>-<number>`. One spec comes back
/// unchanged if there is nowhere to cut.
pub fn partition(spec: &CompactSpec, parts: usize) -> Vec<CompactSpec> {
    let cuts = cuts(spec, parts);
    let can_number = spec.output_stem.len() + 6 <= STEM_BYTES_MAX;
    if cuts.is_empty() || !can_number {
        return vec![spec.clone()];
    }
    let starts = std::iter::once(spec.range.start.clone()).chain(cuts.iter().cloned());
    let ends = cuts.iter().cloned().map(Some).chain([spec.range.end.clone()]);
    let ranges = starts.zip(ends).enumerate();
    let parts = ranges.map(|(number, (start, end))| part(spec, number, KeyRange { start, end }));
    // Between tables there is nothing to do.
    parts.filter(|part| !part.inputs.is_empty()).collect()
}

fn part(spec: &CompactSpec, number: usize, range: KeyRange) -> CompactSpec {
    let mut part = spec.clone();
    part.inputs.retain(|input| {
        input.table.largest >= range.start && range.end.as_ref().is_none_or(|end| input.table.smallest < *end)
    });
    part.output.splits.retain(|split| *split > range.start && range.contains(split));
    part.rules.older_overlap.retain(|older| older.touches(&range));
    part.output_stem = format!("{}-{number}", spec.output_stem);
    part.range = range;
    part
}

/// Keys that cut the inputs' bytes into about equal shares, a table's bytes counted where it
/// begins.
fn cuts(spec: &CompactSpec, parts: usize) -> Vec<Vec<u8>> {
    let mut tables: Vec<(&[u8], u64)> =
        spec.inputs.iter().map(|input| (input.table.smallest.as_slice(), input.table.bytes)).collect();
    tables.sort_unstable();
    let total: u64 = spec.input_bytes();
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let mut before = 0;
    for (smallest, bytes) in tables {
        let share = (cuts.len() as u64 + 1).saturating_mul(total) / parts.max(1) as u64;
        let last = cuts.last().unwrap_or(&spec.range.start);
        if before >= share
            && cuts.len() + 1 < parts
            && smallest > last.as_slice()
            && spec.range.contains(smallest)
        {
            cuts.push(smallest.to_vec());
        }
        before += bytes;
    }
    cuts
}
