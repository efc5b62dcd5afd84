//! When a GC's result may be believed.

use firn_format::blob::BlobRecord;
use firn_storage::Storage;
use firn_storage::file::blob::{BlobSegment, RecordReader};

use super::is_segment_of;
use crate::blob_gc::{BlobGcResult, BlobGcSpec, check_name, header_of, read_relocations, relocations};
use crate::error::{Error, ErrorKind, Result};

/// [`verify`](super::verify) for GCs: as many values as lived, in a segment of the number
/// and the name that were asked for. Its relocations are in rising order and lie inside it.
///
/// # Errors
/// `NotConserved`, or `Invalid` with what is wrong.
pub fn verify_blob_gc(spec: &BlobGcSpec, result: &BlobGcResult) -> Result<()> {
    let (expected, found) = (spec.survivor_count(), result.segment.as_ref());
    if found.map_or(0, |segment| u64::from(segment.ordinals)) != expected {
        let found = found.map_or(0, |segment| segment.ordinals);
        let message = format!("expected {expected} values that live, found {found}");
        return Err(Error::new(ErrorKind::NotConserved, message));
    }
    let Some(segment) = found else { return Ok(()) };
    let fault = |what: &str| Err(Error::new(ErrorKind::Invalid, format!("output {}: {what}", segment.file)));
    if !is_segment_of(&segment.file, &spec.output_stem) {
        return fault("expected the spec's stem, or that of an attempt, and 0 as its name");
    }
    if segment.number != spec.number {
        return fault("expected the number that was asked for");
    }
    if Some(segment.sealed_at) != spec.victims.iter().map(|victim| victim.segment.sealed_at).max() {
        return fault("expected the position at which the last victim was sealed");
    }
    let values: u64 = spec.victims.iter().map(|victim| victim.segment.value_bytes).sum();
    if segment.value_bytes > values {
        return fault("expected no more bytes of values than the victims have");
    }
    if !result.relocations.is_sorted_by(|a, b| a.0 < b.0) {
        return fault("expected relocations in rising order");
    }
    let is_inside = |end: Option<u64>| end.is_some_and(|end| end <= segment.bytes);
    let mut places = result.relocations.iter().map(|(_, place)| place);
    if !places.all(|place| place.holder == spec.number && is_inside(place.offset.checked_add(place.bytes))) {
        return fault("expected relocations inside the output");
    }
    Ok(())
}

/// Reads the output: each of its values is whole, and is the one that references to it expect.
pub(super) fn verify_blobs(storage: &dyn Storage, spec: &BlobGcSpec, result: &BlobGcResult) -> Result<()> {
    let Some(meta) = &result.segment else { return Ok(()) };
    let expected = relocations(spec, storage)?;
    let segment = BlobSegment::open(storage, meta, false)?;
    if *segment.header() != header_of(spec) {
        let message = format!("output {}: expected the header that was asked for", meta.file);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let made = read_relocations(&segment, result, &expected)?;
    let mut reader = RecordReader::new(&segment);
    for ordinal in 0..meta.ordinals {
        let look = |record: &BlobRecord<'_>| check_name(&segment, ordinal, &record.head, &made);
        reader.read(ordinal, look, |_, _| Ok(()))?;
    }
    Ok(())
}
