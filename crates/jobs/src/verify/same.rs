//! Whether two executors came to the same.

use std::sync::Arc;

use firn_format::blob::BlobRecord;
use firn_format::manifest::BlobSegmentMeta;
use firn_storage::Storage;
use firn_storage::file::blob::{BlobSegment, RecordReader};
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};

use super::other_kind;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{CompactResult, JobResult};

/// Checks that two results of one job hold the same, by the sums of every class. Of results that
/// [`verify`](super::verify) accepts it follows that their outputs' descriptions of contents agree
/// too. Builds that cut or compress otherwise may have other bytes. Looks at values alone, and
/// opens no file.
///
/// # Errors
/// `NotConserved` with what differs; `Invalid` if they are of different kinds.
pub fn verify_same(one: &JobResult, other: &JobResult) -> Result<()> {
    match (one, other) {
        (JobResult::Compact(one), JobResult::Compact(other)) => same_compact(one, other),
        (JobResult::BlobGc(one), JobResult::BlobGc(other)) => {
            let ordinals =
                |result: &crate::BlobGcResult| result.segment.as_ref().map(|segment| segment.ordinals);
            let values =
                |result: &crate::BlobGcResult| result.segment.as_ref().map(|segment| segment.value_bytes);
            let led = |result: &crate::BlobGcResult| -> Vec<_> {
                result.relocations.iter().map(|(born, _)| *born).collect()
            };
            differ("values", &ordinals(one), &ordinals(other))?;
            differ("bytes of values", &values(one), &values(other))?;
            differ("relocations", &led(one), &led(other))
        }
        _ => Err(other_kind()),
    }
}

fn same_compact(one: &CompactResult, other: &CompactResult) -> Result<()> {
    for ((class, one), (_, other)) in one.sums.classes().into_iter().zip(other.sums.classes()) {
        differ(class, &one, &other)?;
    }
    differ("range tombstones", &one.sums.range_tombstones_hash, &other.sums.range_tombstones_hash)?;
    let ordinals = |result: &CompactResult| result.values.as_ref().map(|segment| segment.ordinals);
    differ("values", &ordinals(one), &ordinals(other))
}

/// Reads the outputs of `result` and checks what their descriptions do not tell. Blocks of tables
/// hold what their footers say. Each collected value is the same as in `other`, by the checksum
/// that identifies it. Blocks while they are read.
///
/// # Errors
/// `Storage`, with the first fault; `NotConserved` with what differs.
pub(crate) fn same_files(storage: &dyn Storage, result: &JobResult, other: &JobResult) -> Result<()> {
    match (result, other) {
        (JobResult::Compact(result), JobResult::Compact(_)) => read_tables(storage, result),
        (JobResult::BlobGc(result), JobResult::BlobGc(other)) => match (&result.segment, &other.segment) {
            (Some(one), Some(other)) => same_values(storage, one, other),
            _ => Ok(()),
        },
        _ => Err(other_kind()),
    }
}

fn read_tables(storage: &dyn Storage, result: &CompactResult) -> Result<()> {
    let cache = Arc::new(BlockCache::new(0));
    for table in &result.tables {
        let reader = Arc::new(TableReader::open(storage, table, &cache, ReaderOptions::default())?);
        reader.verify(table, None)?;
    }
    Ok(())
}

/// A value with another checksum can be whole too. What tells it from the right one is the checksum
/// of its head, half of which is in references.
fn same_values(storage: &dyn Storage, one: &BlobSegmentMeta, other: &BlobSegmentMeta) -> Result<()> {
    let segments = [BlobSegment::open(storage, one, false)?, BlobSegment::open(storage, other, false)?];
    let [mut ones, mut others] = segments.each_ref().map(RecordReader::new);
    for ordinal in 0..one.ordinals {
        let names = [name_of(&mut ones, ordinal)?, name_of(&mut others, ordinal)?];
        differ(&format!("value {ordinal}"), &names[0], &names[1])?;
    }
    Ok(())
}

/// What is known of a value: the checksum of its head, which covers its chunks', and its key.
fn name_of(reader: &mut RecordReader<'_>, ordinal: u32) -> Result<(u64, Vec<u8>)> {
    let mut name = (0, Vec::new());
    let look = |record: &BlobRecord<'_>| {
        name = (record.checksum, record.key.to_vec());
        Ok(())
    };
    reader.read(ordinal, look, |_, _| Ok(()))?;
    Ok(name)
}

fn differ<T: PartialEq + std::fmt::Debug>(what: &str, one: &T, other: &T) -> Result<()> {
    if one == other {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotConserved, format!("{what}: {one:?} and, done again, {other:?}")))
}

#[cfg(test)]
mod tests {
    use firn_format::blob::SegmentNumber;
    use firn_format::manifest::RelocationTarget;

    use super::*;
    use crate::blob_gc::BlobGcResult;

    #[test]
    fn gcs_are_the_same_by_what_they_hold() {
        let segment = BlobSegmentMeta { ordinals: 3, value_bytes: 99, ..BlobSegmentMeta::default() };
        let relocation = (SegmentNumber(4), RelocationTarget::default());
        let one = BlobGcResult { segment: Some(segment.clone()), relocations: vec![relocation] };
        let result = |one: &BlobGcResult| JobResult::BlobGc(one.clone());
        let renamed = BlobSegmentMeta { file: "other".to_owned(), bytes: 7, checksum: 1, ..segment.clone() };
        verify_same(&result(&one), &result(&BlobGcResult { segment: Some(renamed), ..one.clone() })).unwrap();
        let others = [
            BlobGcResult { segment: None, ..one.clone() },
            BlobGcResult { segment: Some(BlobSegmentMeta { ordinals: 2, ..segment.clone() }), ..one.clone() },
            BlobGcResult { segment: Some(BlobSegmentMeta { value_bytes: 98, ..segment }), ..one.clone() },
            BlobGcResult { relocations: Vec::new(), ..one.clone() },
        ];
        for other in others {
            assert_eq!(
                verify_same(&result(&one), &result(&other)).unwrap_err().kind,
                ErrorKind::NotConserved
            );
        }
        let compact = JobResult::Compact(CompactResult::default());
        assert_eq!(verify_same(&result(&one), &compact).unwrap_err().kind, ErrorKind::Invalid);
    }
}
