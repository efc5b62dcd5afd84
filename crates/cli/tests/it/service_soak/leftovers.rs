//! What lies in the store and belongs to nothing, whether the database is open or not.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use firn_engine::Semantics;
use firn_format::file_name::{FileName, parse};
use firn_format::log_object::{LogObject, LogObjectKind};
use firn_format::manifest::{Change, ManifestEdit};
use firn_storage::backend::{Divided, Local, LocalOptions};
use firn_tree::{VerifyOptions, verify};
use tempfile::TempDir;

/// Files of a bucket that belong to nothing.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Outputs of attempts at jobs that were given up, which the database looks for some time
    /// later.
    pub(super) outputs: Vec<String>,
    /// Of all outputs.
    pub(super) output_bytes: u64,
    /// Anything else, which would never be removed.
    pub(super) others: Vec<String>,
}

impl Leftovers {
    /// Whether log objects that no opening can need are all there is besides outputs.
    pub(super) fn are_log_objects(&self) -> bool {
        self.others.iter().all(|other| other.starts_with(NEEDLESS))
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outputs, output_bytes, others } = self;
        write!(f, "{} outputs of {output_bytes} bytes, {} other files", outputs.len(), others.len())
    }
}

/// What is left over in `bucket` of the store `store`, whose log and manifest say that the database
/// in `bucket`/db, with the local part `local`, is sound.
///
/// A database owns the first edit, which says that there has been one, the edits from the last
/// whole one on, and what they name. It also owns the log objects that the log may need, in a row,
/// and one log object of each earlier opening, its end.
///
/// # Errors
/// Damage: the database that is open has written or removed something while it was looked at, or
/// there is some.
pub(super) fn look(store: &Path, bucket: &str, local: &Path) -> Result<Leftovers, String> {
    let shared = store.join(bucket).join("db");
    let copy = TempDir::new_in(local.parent().expect("beside others")).expect("a directory");
    let part = |name: &str| {
        let path = copy.path().join(name);
        std::fs::create_dir(&path).expect("made");
        path
    };
    let (there, here) = (part("shared"), part("local"));
    // Objects never change. What the log says beyond the manifest is no damage, the other way round
    // it would be.
    for (name, path) in files(&shared) {
        if std::fs::hard_link(&path, there.join(&name)).is_err() {
            return Err(format!("{name} is gone already"));
        }
    }
    for (name, path) in files(local) {
        if std::fs::copy(&path, here.join(&name)).is_err() {
            return Err(format!("{name} is gone already"));
        }
    }
    // What says that a directory is a database.
    std::fs::write(there.join("LOCK"), "").expect("written");
    let open =
        |path: &Path| Arc::new(Local::open(path, LocalOptions { create: false }).expect("a directory"));
    let storage = Arc::new(Divided::open(open(&here), open(&there), 1).expect("both"));
    let report = verify(VerifyOptions { storage, semantics: Semantics::new() }, &mut |_| {});
    let report = report.map_err(|error| error.to_string())?;
    if !report.is_sound() {
        return Err(format!("{:#?}", report.damage().map(ToString::to_string).collect::<Vec<_>>()));
    }
    let mut left = Leftovers::default();
    for finding in &report.findings {
        // What was there as it was verified may be gone by now.
        let Ok(meta) = std::fs::metadata(shared.join(&finding.file)) else { continue };
        match parse(&finding.file) {
            Some(FileName::ManifestEdit(0)) => {}
            Some(FileName::Table { .. } | FileName::CollectedBlobs { .. }) => {
                left.outputs.push(finding.to_string());
                left.output_bytes += meta.len();
            }
            _ => left.others.push(finding.to_string()),
        }
    }
    left.others.extend(objects(&there));
    let uploads = files(store).into_iter().map(|(name, _)| name);
    left.others.extend(uploads.filter(|name| name.contains("upload")));
    Ok(left)
}

fn files(directory: &Path) -> Vec<(String, std::path::PathBuf)> {
    let entries = std::fs::read_dir(directory).expect("it is there").flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

/// How a log object begins in a list that no opening can need.
const NEEDLESS: &str = "needless: ";

/// Log objects of which generation are needed besides those of the last opening, and from which
/// number on, as the last edit about them says.
fn named_objects(shared: &Path) -> Option<(u64, u64)> {
    let edits = files(shared).into_iter().filter_map(|(name, path)| match parse(&name) {
        Some(FileName::ManifestEdit(number)) => Some((number, path)),
        _ => None,
    });
    let edits: BTreeMap<u64, std::path::PathBuf> = edits.collect();
    for path in edits.values().rev() {
        let edit = ManifestEdit::decode(&std::fs::read(path).expect("it is read")).expect("it is sound");
        let named = edit.changes.iter().rev().find_map(|change| match change {
            Change::LogObjects { generation, first, .. } => Some((*generation, *first)),
            _ => None,
        });
        if named.is_some() || edit.base {
            return named;
        }
    }
    None
}

/// Log objects that no opening can need.
fn objects(shared: &Path) -> Vec<String> {
    let mut generations = BTreeMap::<u64, Vec<(u64, String)>>::new();
    for (name, path) in files(shared) {
        let Some(FileName::LogObject { generation, number }) = parse(&name) else { continue };
        let bytes = std::fs::read(path).expect("it is read");
        let is_end = LogObject::decode(&bytes).is_ok_and(|object| object.kind == LogObjectKind::End);
        if !is_end {
            generations.entry(generation).or_default().push((number, name));
        }
    }
    let Some((_, mut last)) = generations.pop_last() else { return Vec::new() };
    last.sort();
    // A number between two that are there was removed, and those below it with it.
    let row = last
        .iter()
        .rev()
        .zip(0..)
        .take_while(|((number, _), at)| Some(*number) == last.last().map(|it| it.0 - at));
    let needless = last.len() - row.count();
    last.truncate(needless);
    // Until an opening's first edit about log objects those of the one before are what its log was
    // made from.
    let named = named_objects(shared);
    let is_needed =
        |generation: u64, number: u64| named.is_some_and(|(of, first)| of == generation && number >= first);
    let before = generations.into_iter().flat_map(|(generation, objects)| {
        objects.into_iter().filter(move |(number, _)| !is_needed(generation, *number))
    });
    before.chain(last).map(|(_, name)| format!("{NEEDLESS}{name}, needed from {named:?} on")).collect()
}
