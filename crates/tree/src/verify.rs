//! Reading all of a database to see that it is sound.
//!
//! ```text
//!   manifest edits ─► state ─┬─► log: segments, frames, records, one chain to the durable end
//!     (manifest.rs)          ├─► tables: file, blocks, entries, bounds, levels         (tables.rs)
//!        (log.rs)            ├─► places: each (keyspace, key, sequence) in one of them (places.rs)
//!                            ├─► values: segments, records, one reference each or dead (values.rs)
//!                            └─► log objects: files, none missing                      (log_objects.rs)
//! ```
//! Nothing is opened for writing. A fault is noted, and the rest is checked as far as it can be
//! without what is damaged. This walk shares decoders with recovery, but not its decisions: so a
//! mistake in one shows in the other.

mod log_objects;
mod log;
mod manifest;
mod locations;
mod tables;
mod blobs;

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Error, Result, Semantics, Severity, VerifyProgress, VerifyReport};
use firn_format::file_name::{FileName, parse};
use firn_storage::backend::refuse_earlier_build;
use firn_storage::{FileBytes, Storage};

use crate::error::{from_format, from_storage};
use crate::recovery::log_conflict;

/// What is to be verified.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Where the database's files lie.
    pub storage: Arc<dyn Storage>,
    /// Prefix extractors: filters of prefixes are checked where theirs is known. No other code is
    /// needed here.
    pub semantics: Semantics,
}

/// Checks every checksum, reference and invariant of a database and changes nothing.
///
/// Takes the directory as a reader does: beside other readers, not beside a writer. Blocks for
/// reading all of it; `progress` is called between files. Needs no merge operators or compaction
/// filters: values are not interpreted.
///
/// # Errors
/// `Conflict` if a writer has the database open, or if its log does not lie here. `Invalid` if
/// there is no database, or a newer release or a build before the first one wrote it. Errors of
/// listing the directory. Damage is no error: it is in the report.
pub fn verify(options: VerifyOptions, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
    let storage = options.storage;
    let _lock = storage.lock(false).map_err(from_storage)?;
    let files: BTreeMap<String, u64> = storage.list().map_err(from_storage)?.into_iter().collect();
    refuse_earlier_build(&storage.describe(), files.keys()).map_err(from_storage)?;
    let bytes = files.values().sum();
    let mut verifier = Verifier {
        storage,
        semantics: options.semantics,
        report: VerifyReport::default(),
        done: VerifyProgress { bytes_done: 0, bytes_total: bytes },
        files,
        unreadable: None,
        progress,
    };
    verifier.report.totals.files = verifier.files.len() as u64;
    verifier.report.totals.bytes = bytes;
    let known = verifier.check_manifest()?;
    match &known {
        Some(known) => {
            if let Some(conflict) = log_conflict(&*verifier.storage, &known.state) {
                return Err(conflict);
            }
            let names = known.state.keyspaces.values().map(|keyspace| keyspace.name.to_string());
            verifier.report.keyspaces = names.collect();
            verifier.report.totals.keyspaces = known.state.keyspaces.len() as u64;
            let crossing = locations::crossing(&known.state);
            verifier.done.bytes_total +=
                crossing.values().flatten().flatten().map(|meta| meta.bytes).sum::<u64>();
            let logged = verifier.check_log(known);
            let damaged = verifier.check_tables(&known.state);
            verifier.check_locations(&crossing, &known.state.blobs.obsolete, &damaged);
            verifier.check_values((&known.state, &known.last), &logged, !damaged.is_empty());
            verifier.check_log_objects(&known.state);
        }
        None => verifier.check_alone(),
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
    semantics: Semantics,
    /// Names and lengths of all files.
    files: BTreeMap<String, u64>,
    report: VerifyReport,
    done: VerifyProgress,
    /// The first file that this release cannot read although it may be whole.
    unreadable: Option<Error>,
    progress: &'p mut dyn FnMut(VerifyProgress),
}

impl Verifier<'_> {
    fn note(&mut self, severity: Severity, file: &str, offset: Option<u64>, message: impl Into<String>) {
        self.report.note(severity, file, offset, message);
    }

    fn damage(&mut self, file: &str, offset: Option<u64>, message: impl Into<String>) {
        self.note(Severity::Damage, file, offset, message);
    }

    fn leftover(&mut self, file: &str, offset: Option<u64>, message: impl Into<String>) {
        self.note(Severity::Leftover, file, offset, message);
    }

    /// Notes what storage said about `file` as damage, unless the file is one of a newer release.
    fn refused(&mut self, file: &str, error: &firn_storage::Error) {
        if error.kind == firn_storage::ErrorKind::Invalid {
            self.unreadable.get_or_insert_with(|| from_storage(error.clone()));
            return;
        }
        let message = match &error.source {
            Some(source) => format!("{}: {source}", error.message),
            None => error.message.clone(),
        };
        self.damage(file, error.offset, message);
    }

    /// Whether a newer release wrote `file`, whose bytes are refused by this `error`.
    fn is_newer(&mut self, file: &str, error: &firn_format::Error) -> bool {
        if error.is_newer {
            self.unreadable.get_or_insert_with(|| from_format(file, 0, error));
        }
        error.is_newer
    }

    /// `bytes` more were checked.
    fn advance(&mut self, bytes: u64) {
        self.done.bytes_done += bytes;
        (self.progress)(self.done);
    }

    /// All bytes of `file`; what keeps them from being read is noted.
    fn read(&mut self, file: &str) -> Option<FileBytes> {
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

    /// Files that have no name of ours.
    fn check_strangers(&mut self) {
        let strangers: Vec<(String, u64)> = self
            .files
            .iter()
            .filter(|(name, _)| parse(name).is_none())
            .map(|(n, b)| (n.clone(), *b))
            .collect();
        for (name, bytes) in strangers {
            self.leftover(&name, None, "no file of a database has such a name");
            self.advance(bytes);
        }
    }
}

fn read_all(storage: &dyn Storage, file: &str) -> firn_storage::Result<FileBytes> {
    let opened = storage.open_read(file)?;
    if let Some(bytes) = opened.bytes()? {
        return Ok(bytes);
    }
    let too_long = |_| {
        firn_storage::Error::new(firn_storage::ErrorKind::Invalid, file, "the file is too long for memory")
    };
    let mut bytes = vec![0; usize::try_from(opened.len()).map_err(too_long)?];
    opened.read_at(0, &mut bytes)?;
    Ok(FileBytes::new(Arc::new(bytes)))
}

/// There is nothing to verify.
fn no_database(storage: &dyn Storage) -> Error {
    Error::invalid(format!("{} holds no database", storage.describe()))
}
