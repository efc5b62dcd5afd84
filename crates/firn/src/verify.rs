//! Reading all of a database to see that it is sound.

use std::path::Path;
use std::sync::Arc;

use firn_engine::{Result, Semantics, VerifyProgress, VerifyReport};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};
use firn_tree::VerifyOptions;

use crate::EngineKind;

/// Checks every checksum, reference and invariant of the database in the directory `path`,
/// whichever engine keeps it, and changes nothing.
///
/// ```no_run
/// # fn main() -> firn::Result<()> {
/// let report = firn::verify("cities", |_progress| {})?;
/// for finding in &report.findings {
///     println!("{finding:?}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// Blocks for reading all of it; `progress` is told, between files, how far it has come. Other
/// readers may have the database open meanwhile, a writer may not. Merge operators and filters need
/// not be known; filters of prefixes, whose extractors are not known here, are counted as
/// unchecked.
///
/// # Errors
/// `Conflict` if a process has the database open for writing; `Invalid` if `path` is no database or
/// a newer release wrote it. Damage is no error: it is in the report.
pub fn verify(path: impl AsRef<Path>, mut progress: impl FnMut(VerifyProgress)) -> Result<VerifyReport> {
    let local = Local::open(path, LocalOptions { create: false }).map_err(firn_tree::storage_error)?;
    let storage: Arc<dyn Storage> = Arc::new(local);
    match EngineKind::of_storage(&*storage)? {
        Some(EngineKind::Hash) => firn_hashlog::verify(&storage, &mut progress),
        Some(EngineKind::Tree) | None => {
            firn_tree::verify(VerifyOptions { storage, semantics: Semantics::new() }, &mut progress)
        }
    }
}
