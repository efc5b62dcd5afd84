//! When a result may be believed.

mod blob_gc;
mod compact;
mod same;

pub use blob_gc::verify_blob_gc;
pub use compact::{verify_all, verify_compact};
pub(crate) use same::same_files;
pub use same::verify_same;

use firn_format::file_name::{self, FileName};
use firn_storage::Storage;
use firn_storage::backend::open_table;
use firn_storage::file::table::file_checksum;

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{JobResult, JobSpec};

/// Checks `result` against `spec` by their values alone: nothing is lost, and outputs have the
/// right names. Tables of a compaction are in order, inside the range, cut at the splits, with
/// sequences the inputs have. Opens no file.
///
/// # Errors
/// `NotConserved`, or `Invalid` with what is wrong.
pub fn verify(spec: &JobSpec, result: &JobResult) -> Result<()> {
    match (spec, result) {
        (JobSpec::Compact(spec), JobResult::Compact(result)) => verify_compact(spec, result),
        (JobSpec::BlobGc(spec), JobResult::BlobGc(result)) => verify_blob_gc(spec, result),
        _ => Err(other_kind()),
    }
}

/// Opens every output and checks that it is what the result says. Of tables it reads footers,
/// indexes and filters, but no data. Of blob segments it reads everything: each value is the one
/// that should be there, and whole. Blocks while these are read.
///
/// # Errors
/// `Storage`; `Invalid` with what is wrong.
pub fn verify_files(storage: &dyn Storage, spec: &JobSpec, result: &JobResult) -> Result<()> {
    match (spec, result) {
        (JobSpec::Compact(spec), JobResult::Compact(result)) => {
            compact::verify_outputs(storage, spec, result)
        }
        (JobSpec::BlobGc(spec), JobResult::BlobGc(result)) => blob_gc::verify_blobs(storage, spec, result),
        _ => Err(other_kind()),
    }
}

/// Reads all tables of `result` back from `storage` and compares their checksums with those of what
/// was written. A worker whose outputs travel over a network does that before it answers. The
/// database reads of tables what [`verify_files`] says, and removes their inputs. Blob segments
/// the database reads as a whole. Blocks while these are read.
///
/// # Errors
/// `Storage` with the table that lies there otherwise: the job may be done again.
pub fn read_back(storage: &dyn Storage, result: &JobResult) -> Result<()> {
    let JobResult::Compact(result) = result else { return Ok(()) };
    for table in &result.tables {
        let found = file_checksum(&*open_table(storage, &table.file, table.bytes)?)?;
        if found != table.file_checksum {
            let message = format!(
                "output {} was written with checksum {:#018x} and lies there with {found:#018x}",
                table.file, table.file_checksum
            );
            return Err(Error::new(ErrorKind::Storage, message));
        }
    }
    Ok(())
}

fn other_kind() -> Error {
    Error::new(ErrorKind::Invalid, "expected a result of the spec's kind")
}

/// Whether `file` is called as an output of a job with this stem, or of an attempt at it.
pub fn is_output_of(file: &str, stem: &str) -> bool {
    match file_name::parse(file) {
        Some(FileName::Table { stem: found, .. } | FileName::CollectedBlobs { stem: found, .. }) => {
            is_stem_of(&found, stem)
        }
        _ => false,
    }
}

/// Whether `file` is called as the blob segment of a job with this stem, or of an attempt at it.
fn is_segment_of(file: &str, stem: &str) -> bool {
    match file_name::parse(file) {
        Some(FileName::CollectedBlobs { stem: found, index: 0 }) => is_stem_of(&found, stem),
        _ => false,
    }
}

/// An attempt's stem is the job's with a `-` and more behind.
fn is_stem_of(found: &str, stem: &str) -> bool {
    found.strip_prefix(stem).is_some_and(|more| more.is_empty() || more.starts_with('-'))
}

/// Which output of a job with this stem the table `file` is.
fn output_of_table(file: &str, stem: &str) -> Option<u32> {
    match file_name::parse(file) {
        Some(FileName::Table { stem: found, index }) if is_stem_of(&found, stem) => Some(index),
        _ => None,
    }
}
