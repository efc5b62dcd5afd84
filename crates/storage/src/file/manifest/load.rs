//! Reading the edits that are there.

use firn_format::checksum::xxh3;
use firn_format::file_name::{self, FileName};

use super::edits::CREATED;
use super::{Content, Edit};
use crate::backend::refuse_earlier_build;
use crate::file::whole::read_whole;
use crate::{Error, ErrorKind, Result, Storage};

/// What reading the manifest found.
#[derive(Debug)]
pub struct Loaded<S> {
    /// What they add up to.
    pub state: S,
    /// Number of the last edit.
    pub(super) last: u64,
    pub(super) oldest: u64,
    pub(super) base: Base,
    pub(super) written: Written,
    /// Whether the last edit keeps every process from writing that had the database before.
    pub(super) is_fenced: bool,
}

/// What the newest edit's file holds, by its length and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    bytes: u64,
    checksum: u64,
}

impl Written {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, checksum: xxh3(bytes) }
    }

    /// Whether the file `name` is that, by one request.
    ///
    /// # Errors
    /// `NotFound`; what reading says.
    pub(super) fn is_in(self, storage: &dyn Storage, name: &str) -> Result<bool> {
        match read_whole(storage, [(name.to_owned(), self.bytes)]).next() {
            Some(Ok(found)) => Ok(Self::of(&found) == self),
            // Of another length, as a rule; the backend may have sent less of the same one.
            Some(Err(error)) if error.kind == ErrorKind::Corrupt => {
                if storage.open_read(name)?.len() == self.bytes { Err(error) } else { Ok(false) }
            }
            Some(Err(error)) => Err(error),
            None => Ok(false),
        }
    }
}

/// The newest edit that restates everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub(super) number: u64,
    pub(super) bytes: u64,
}

/// Reads the manifest; `None` if the directory has none. That of a shared backend is read up to the
/// edit `through`, at least, which is known to be there: a list may be older than it.
///
/// # Errors
/// `Corrupt` for an edit that does not decode or a missing number; `Invalid` for a newer format,
/// and for files of a build before the first release.
pub fn load<S: Content>(storage: &dyn Storage, through: u64) -> Result<Option<Loaded<S>>> {
    let is_shared = storage.shared_part().is_some();
    for _ in 0..LOADS_MAX {
        match load_edits(storage, &known(storage, through)?) {
            // The process that has the database open on another machine has restated the state
            // meanwhile.
            Err(error) if is_shared && error.kind == ErrorKind::Corrupt => {}
            loaded => return loaded,
        }
    }
    // What was there may have been restated since.
    load_edits(storage, &known(storage, 0)?)
}

/// How often a manifest is read that another process seems to change.
const LOADS_MAX: usize = 4;

/// An edit that is said to be there.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    /// As far as a list says that.
    bytes: Option<u64>,
}

/// The edits that a list has, and those behind them up to `through`, by rising numbers; without
/// that of [`CREATED`].
///
/// The list may be older than what it lists: a process that writes the next edit finds out.
fn known(storage: &dyn Storage, through: u64) -> Result<Vec<Known>> {
    let files = storage.list()?;
    // Before anything is written: a backend that is no directory is first listed here.
    refuse_earlier_build(&storage.describe(), files.iter().map(|(name, _)| name))?;
    let mut known: Vec<Known> = files
        .iter()
        .filter_map(|(name, bytes)| match file_name::parse(name) {
            Some(FileName::ManifestEdit(number)) if number != CREATED => {
                Some(Known { number, bytes: Some(*bytes) })
            }
            _ => None,
        })
        .collect();
    known.sort_unstable_by_key(|edit| edit.number);
    if let Some(last) = known.last().map(|edit| edit.number) {
        known.extend((last + 1..=through).map(|number| Known { number, bytes: None }));
    }
    Ok(known)
}

fn load_edits<S: Content>(storage: &dyn Storage, known: &[Known]) -> Result<Option<Loaded<S>>> {
    let Some(last) = known.last().map(|edit| edit.number) else { return none_beside_data(storage) };
    // From the newest one on, those before it on their way.
    let listed =
        known.iter().rev().filter_map(|edit| Some((file_name::manifest_edit(edit.number), edit.bytes?)));
    let mut listed = read_whole(storage, listed);
    let mut edits = Vec::new();
    let (mut written, mut base) = (Written::of(&[]), Base { number: last, bytes: 0 });
    for Known { number, bytes } in known.iter().rev().copied() {
        let read = match bytes {
            Some(_) => listed.next(),
            None => None,
        };
        let read = read.unwrap_or_else(|| read_all(storage, &file_name::manifest_edit(number)));
        let (edit, bytes) = edit_of::<S>(number, read)?;
        if number == last {
            written = Written::of(&bytes);
        }
        base = Base { number, bytes: bytes.len() as u64 };
        let is_base = edit.is_base;
        edits.push(edit);
        if is_base {
            break;
        }
        let before = number.saturating_sub(1);
        if known.binary_search_by_key(&before, |edit| edit.number).is_err() || before == number {
            let message = format!("the manifest edit before number {number} is missing");
            return Err(Error::new(ErrorKind::Corrupt, file_name::manifest_edit(before), message));
        }
    }
    let mut state = S::default();
    for edit in edits.iter().rev() {
        let name = || file_name::manifest_edit(edit.number);
        let unfit = |what| Error::new(ErrorKind::Corrupt, name(), what);
        edit.changes.iter().try_for_each(|change| state.apply(change)).map_err(unfit)?;
    }
    let oldest = known.first().map_or(last, |edit| edit.number);
    let is_fenced = edits.first().is_some_and(|edit| edit.changes.iter().any(S::is_take_over));
    Ok(Some(Loaded { state, last, oldest, base, written, is_fenced }))
}

/// No database, unless something is there that only a manifest can have named.
fn none_beside_data<S>(storage: &dyn Storage) -> Result<Option<Loaded<S>>> {
    let files = storage.list()?;
    if storage.shared_part().is_none() && files.iter().any(|(name, _)| name == file_name::HOME) {
        let backend = storage.describe();
        let message = format!(
            "{backend} has only the log of a database on shared storage: name the shared location too"
        );
        return Err(Error::new(ErrorKind::Invalid, "", message));
    }
    let data = files.iter().find(|(name, _)| {
        matches!(
            file_name::parse(name),
            Some(FileName::LogSegment(_) | FileName::Table { .. } | FileName::Tables { .. })
        )
    });
    let Some((name, _)) = data else { return Ok(None) };
    let message = format!("the manifest is missing, but {name} is there");
    Err(Error::new(ErrorKind::Corrupt, file_name::manifest_edit(1), message))
}

/// The edit `number`, and its bytes, by what was read of it.
fn edit_of<S: Content>(number: u64, read: Result<Vec<u8>>) -> Result<(Edit<S::Change>, Vec<u8>)> {
    let name = file_name::manifest_edit(number);
    let bytes = read.map_err(|error| match error.kind {
        ErrorKind::NotFound => {
            let message = format!("manifest edit number {number} is missing");
            Error::new(ErrorKind::Corrupt, &*name, message)
        }
        _ => error,
    })?;
    let edit = S::decode(&bytes).map_err(|error| Error::decoding(&*name, 0, &error))?;
    if edit.number != number {
        let error = firn_format::Error::new(0, format!("edit number {number}"), format!("{}", edit.number));
        return Err(Error::decoding(name, 0, &error));
    }
    Ok((edit, bytes))
}

/// All of the file `name`.
pub(super) fn read_all(storage: &dyn Storage, name: &str) -> Result<Vec<u8>> {
    let file = storage.open_read(name)?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}
