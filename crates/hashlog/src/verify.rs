//! Reading all of a database to see that it is sound.
//!
//! ```text
//!   manifest edits ─► state ─┬─► segments, begin to cut: headers, records      (log.rs)
//!                            ├─► cold log, and what finds its records     (cold.rs)
//!     (manifest.rs)          ├─► redo logs from the cut on: entries, changes    (redo.rs)
//!                            └─► values of the newest records: length, checksum (values.rs)
//! ```
//! Nothing is opened for writing. A fault is noted, and the rest is checked as far as it can be
//! without what is damaged. This walk shares decoders with recovery, but not its decisions: so a
//! mistake in one shows in the other.

mod cold;
mod log;
mod manifest;
mod redo;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Error, Result, Severity, VerifyProgress, VerifyReport};
use firn_format::file_name::{FileName, parse};
use firn_storage::Storage;
use firn_storage::backend::refuse_earlier_build;

use crate::error::{from_format, from_storage};
use crate::state::State;
use values::References;

/// Checks every checksum of a database's manifest, log, redo logs and values, and changes nothing.
///
/// Takes the directory as a reader does: beside other readers, not beside a writer. Blocks for
/// reading all of it; `progress` is called between files. Needs no merge operators or compaction
/// filters: values are not interpreted. Keys whose values lie alone are held in memory meanwhile,
/// and one redo log at a time.
///
/// # Errors
/// `Conflict` if a writer has the database open. `Invalid` if there is no database, or a newer
/// release or a build before the first one wrote it. Errors of listing the directory. Damage is no
/// error: it is in the report.
pub fn verify(storage: &Arc<dyn Storage>, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
    let _lock = storage.lock(false).map_err(from_storage)?;
    let files: BTreeMap<String, u64> = storage.list().map_err(from_storage)?.into_iter().collect();
    refuse_earlier_build(&storage.describe(), files.keys()).map_err(from_storage)?;
    let mut report = VerifyReport::default();
    report.totals.files = files.len() as u64;
    report.totals.bytes = files.values().sum();
    let done = VerifyProgress { bytes_done: 0, bytes_total: report.totals.bytes };
    let mut verifier = Verifier {
        storage: Arc::clone(storage),
        files,
        report,
        done,
        unreadable: None,
        unknown_keyspaces: Vec::new(),
        progress,
    };
    if let Some(state) = verifier.check_manifest()? {
        verifier.report.keyspaces = state.keyspaces.values().map(|(name, _)| name.clone()).collect();
        verifier.report.totals.keyspaces = state.keyspaces.len() as u64;
        let mut references = References::default();
        verifier.check_cold(&state, &mut references);
        verifier.check_segments(&state, &mut references);
        verifier.check_redo_logs(&state, &mut references);
        verifier.check_values(&references);
    }
    verifier.check_strangers();
    match verifier.unreadable {
        Some(error) => Err(error),
        None => Ok(verifier.report),
    }
}

/// A verification under way.
struct Verifier<'p> {
    storage: Arc<dyn Storage>,
    /// Names and lengths of all files.
    files: BTreeMap<String, u64>,
    report: VerifyReport,
    done: VerifyProgress,
    /// The first file that this release cannot read although it may be whole.
    unreadable: Option<Error>,
    /// Keyspaces that were never made, and are noted.
    unknown_keyspaces: Vec<u32>,
    progress: &'p mut dyn FnMut(VerifyProgress),
}

impl Verifier<'_> {
    fn damage(&mut self, file: &str, offset: Option<u64>, message: impl Into<String>) {
        self.report.note(Severity::Damage, file, offset, message);
    }

    fn leftover(&mut self, file: &str, offset: Option<u64>, message: impl Into<String>) {
        self.report.note(Severity::Leftover, file, offset, message);
    }

    /// Notes what storage said about `file` as damage, unless the file is one of a newer release.
    fn refused(&mut self, file: &str, error: &firn_storage::Error) {
        match error.kind {
            firn_storage::ErrorKind::Invalid => {
                self.unreadable.get_or_insert_with(|| from_storage(error.clone()));
            }
            _ => self.damage(file, error.offset, error.message.clone()),
        }
    }

    /// Notes bytes of `file`, from `offset` on, that are not what was written.
    fn undecoded(&mut self, file: &str, offset: u64, error: firn_format::Error) {
        match error.is_newer {
            true => {
                self.unreadable.get_or_insert_with(|| from_format(file, error));
            }
            false => self.damage(file, Some(offset + error.offset as u64), error.to_string()),
        }
    }

    /// All of `file` was checked.
    fn advance(&mut self, file: &str) {
        self.done.bytes_done += self.files.get(file).copied().unwrap_or(0);
        (self.progress)(self.done);
    }

    /// All bytes of `file`; what keeps them from being read is noted.
    fn read(&mut self, file: &str) -> Option<Vec<u8>> {
        match read_all(&*self.storage, file) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.refused(file, &error);
                None
            }
        }
    }

    /// Names of the files that `choose` takes, with what it makes of them.
    fn named<T>(&self, choose: impl Fn(FileName) -> Option<T>) -> Vec<(String, T)> {
        let chosen = |name: &String| Some((name.clone(), choose(parse(name)?)?));
        self.files.keys().filter_map(chosen).collect()
    }

    /// Files that have no name of this engine's.
    fn check_strangers(&mut self) {
        let is_ours = |name: &str| {
            matches!(
                parse(name),
                Some(
                    FileName::Lock
                        | FileName::Combiner
                        | FileName::ManifestEdit(_)
                        | FileName::HybridSegment(_)
                        | FileName::ColdSegment(_)
                        | FileName::ColdRun(_)
                        | FileName::Redo { .. }
                        | FileName::Value(_)
                )
            )
        };
        let strangers: Vec<String> = self.files.keys().filter(|name| !is_ours(name)).cloned().collect();
        for name in strangers {
            self.leftover(&name, None, "no file of a hashed database has such a name");
            self.advance(&name);
        }
    }
}

fn read_all(storage: &dyn Storage, file: &str) -> firn_storage::Result<Vec<u8>> {
    let opened = storage.open_read(file)?;
    let mut bytes = vec![0; opened.len() as usize];
    opened.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// There is nothing to verify.
fn no_database(storage: &dyn Storage) -> Error {
    Error::invalid(format!("{} holds no database", storage.describe()))
}

/// The bits of a database's segments, as its manifest has them.
fn segment_words(state: &State) -> Option<u64> {
    state.sizes.map(|(_, segment_bits)| 1 << segment_bits)
}
