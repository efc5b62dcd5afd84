//! Repair of a damaged database that cannot be opened, where what is left is whole.
//!
//! ```text
//!   newest manifest edit does not decode ─► is everything sound without it, and has the log no
//!                                      records of a keyspace that it made? ─► set aside
//!   log cut off by damage, and more behind ─► nothing lost that was on the device?
//!                                      ─► later segments set aside, the damaged one copied and cut
//! ```
//! Nothing is destroyed. A file that is taken away gets another name, with [`ASIDE`] behind it; a
//! file that is cut is first copied under such a name. Openings pass such files by. All other
//! damage needs a backup.
//!
//! Of a database on shared storage only the log is repaired, in the directory that has it. An edit
//! there stays: other machines may have read it, and its number is never given twice.

mod hiding; // a backend without one of its files

use std::fmt;
use std::sync::Arc;

use firn_engine::{Error, Location, Result, Semantics};
use firn_format::file_name::{FileName, parse};
use firn_format::manifest::ManifestEdit;
use firn_storage::Storage;
use firn_storage::file::manifest::load;

use self::hiding::Hiding;
use crate::error::{from_format, from_storage};
use crate::recovery::{Gap, check_log_created, gap, log_conflict};
use crate::verify::{VerifyOptions, verify};
use crate::version::state::State;

/// What the names of files that are kept aside end in; a number follows where there is such a file
/// already.
const ASIDE: &str = ".aside";

/// What is to be repaired, and whether it is.
#[derive(Clone, Debug)]
pub struct RepairOptions {
    /// Where the database's files lie.
    pub storage: Arc<dyn Storage>,
    /// The directory of the log, where other files lie on shared storage; `None` = one directory
    /// has all.
    pub log: Option<Arc<dyn Storage>>,
    /// Only says what would be done.
    pub dry_run: bool,
}

/// One thing that is done, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairStep {
    /// Name of the file in the database's directory.
    pub file: String,
    /// Name under which it, or a copy of it, is kept.
    pub kept_as: String,
    /// How many of its first bytes stay in use; none of a file that is set aside as a whole.
    pub kept_bytes: Option<u64>,
    /// What is wrong with it, and what that costs, one line.
    pub reason: String,
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, kept_as, kept_bytes, reason } = self;
        match kept_bytes {
            Some(bytes) => write!(f, "{file}: copied to {kept_as} and cut to {bytes} bytes: {reason}"),
            None => write!(f, "{file}: renamed to {kept_as}: {reason}"),
        }
    }
}

/// Mends a database that a torn newest manifest edit, or damage amid the unsynced log, keeps from
/// being opened. Returns what it did, in order. On shared storage an edit is left as it is, and the
/// log is mended from the directory that has it.
///
/// Nothing is deleted: what is taken away is kept in the directory, under other names. Nothing is
/// done that would lose a record which was known to be on the device. No steps: there is nothing
/// that this repairs. Interrupted, it can be run again. Blocks on the device; for a torn edit it
/// reads all of the database.
///
/// # Errors
/// `Conflict` if a process has the database open, or its log lies in another directory; `Corrupt`
/// if records would be lost that were on the device, or if an edit is torn and other things are
/// damaged too, or it lies on shared storage; `Invalid` where there is no database, or shared
/// storage is not told apart from the log: nothing is changed then. Errors of the storage: some
/// steps may be done.
pub fn repair(options: &RepairOptions) -> Result<Vec<RepairStep>> {
    let storage = &options.storage;
    if storage.shared_part().is_some() != options.log.is_some() {
        let backend = storage.describe();
        return Err(Error::invalid(format!(
            "{backend}: name the directory of the log, and it alone, beside shared storage"
        )));
    }
    let log = options.log.as_ref().unwrap_or(storage);
    let _lock = storage.lock(!options.dry_run).map_err(from_storage)?;
    let mut steps = Vec::new();
    let view = match torn_edit(&**storage)? {
        Some((name, error)) if options.log.is_some() => return Err(torn_where_others_read(&name, &error)),
        Some((name, error)) => {
            let view: Arc<dyn Storage> = Arc::new(Hiding::new(Arc::clone(storage), &name));
            check_without(&view, &name)?;
            let reason = format!("{error}; the edits before it are whole and all that they name is there");
            steps.push(step(&**storage, &name, None, reason)?);
            view
        }
        None => Arc::clone(storage),
    };
    let Some(loaded) = load::<State>(&*view, 0).map_err(from_storage)? else {
        return Err(Error::invalid(format!("{} holds no database", storage.describe())));
    };
    if let Some(conflict) = log_conflict(&**storage, &loaded.state) {
        return Err(conflict);
    }
    if let Some(gap) = gap(&view, &loaded.state)? {
        steps.extend(log_steps(&**log, &gap)?);
    }
    if !options.dry_run {
        // Where there is an edit among them, the log lies with it.
        steps.iter().try_for_each(|step| apply(&**log, step))?;
        log.sync_dir().map_err(from_storage)?;
    }
    Ok(steps)
}

/// Why the edit `name`, which `error` is about, is left as it is.
fn torn_where_others_read(name: &str, error: &Error) -> Error {
    let message = format!(
        "the edit is damaged ({error}), and other machines may have read it, so that it is not set aside. Nothing was changed; \
         bring the file back from a copy or from the store's versions, or restore the database from a backup"
    );
    Error::corrupt(Location { file: name.to_owned(), offset: None }, message)
}

/// The newest manifest edit, if it does not decode, and why. An edit that a newer release wrote is
/// no damage.
fn torn_edit(storage: &dyn Storage) -> Result<Option<(String, Error)>> {
    let files = storage.list().map_err(from_storage)?;
    let edits = files.iter().filter_map(|(name, _)| match parse(name) {
        Some(FileName::ManifestEdit(number)) => Some((number, name)),
        _ => None,
    });
    let Some((number, name)) = edits.max() else { return Ok(None) };
    match ManifestEdit::decode(&read(storage, name)?) {
        Ok(edit) if edit.number == number => Ok(None),
        Ok(edit) => {
            let location = Location { file: name.clone(), offset: Some(16) };
            let message = format!("expected edit {number} as the name says, found {}", edit.number);
            Ok(Some((name.clone(), Error::corrupt(location, message))))
        }
        Err(error) if error.is_newer => Err(from_format(name, 0, &error)),
        Err(error) => Ok(Some((name.clone(), from_format(name, 0, &error)))),
    }
}

fn read(storage: &dyn Storage, name: &str) -> Result<Vec<u8>> {
    let file = storage.open_read(name).map_err(from_storage)?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).map_err(from_storage)?;
    Ok(bytes)
}

/// Whether the database is sound without the edit `name`, but for its log, which is looked at by
/// itself.
fn check_without(view: &Arc<dyn Storage>, name: &str) -> Result<()> {
    let options = VerifyOptions { storage: Arc::clone(view), semantics: Semantics::new() };
    let refused = |cause: String| {
        let message = format!(
            "the edit is damaged, and the ones before it do not do: {cause}. Nothing was changed; restore the database from a backup"
        );
        Error::corrupt(Location { file: name.to_owned(), offset: None }, message)
    };
    let loaded = load::<State>(&**view, 0).map_err(|error| refused(error.to_string()))?;
    if let Some(loaded) = loaded {
        check_log_created(view, &loaded.state).map_err(|error| refused(error.to_string()))?;
    }
    let report = verify(options, &mut |_| {}).map_err(|error| refused(error.to_string()))?;
    let is_other = |file: &str| !matches!(parse(file), Some(FileName::LogSegment(_)));
    match report.damage().find(|finding| is_other(&finding.file)) {
        Some(finding) => Err(refused(finding.to_string())),
        None => Ok(()),
    }
}

/// Segments behind the gap from the newest to the oldest, then the segment that it is in. Wherever
/// that is interrupted, the rest can be done.
fn log_steps(storage: &dyn Storage, gap: &Gap) -> Result<Vec<RepairStep>> {
    let end = gap.end;
    let later = gap.aside.iter().rev().map(|name| {
        let reason = format!("its records do not follow on from position {end}, where the log is cut off");
        step(storage, name, None, reason)
    });
    let cut = gap.cut.iter().map(|(name, bytes)| {
        let reason = format!("it is damaged at offset {bytes}: records from there on, which were not known to be on the device, are lost");
        step(storage, name, Some(*bytes), reason)
    });
    later.chain(cut).collect()
}

fn step(storage: &dyn Storage, file: &str, kept_bytes: Option<u64>, reason: String) -> Result<RepairStep> {
    let files = storage.list().map_err(from_storage)?;
    let names = (1..).map(|count| match count {
        1 => format!("{file}{ASIDE}"),
        _ => format!("{file}{ASIDE}{count}"),
    });
    let is_free = |name: &String| files.iter().all(|(taken, _)| taken != name);
    let kept_as = names.into_iter().find(is_free).unwrap_or_default();
    Ok(RepairStep { file: file.to_owned(), kept_as, kept_bytes, reason })
}

fn apply(storage: &dyn Storage, step: &RepairStep) -> Result<()> {
    let RepairStep { file, kept_as, kept_bytes, .. } = step;
    let Some(bytes) = kept_bytes else { return storage.rename(file, kept_as).map_err(from_storage) };
    storage.publish(kept_as, &read(storage, file)?).map_err(from_storage)?;
    let open = storage.open_write(file).map_err(from_storage)?;
    open.set_len(*bytes).and_then(|()| open.sync()).map_err(from_storage)
}
