//! The numbered edits that say which files live.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Place, Result};
use firn_format::checksum::xxh3;
use firn_format::file_name::{self, FileName};
use firn_format::manifest::{Change, ManifestEdit};
use firn_storage::Storage;

use super::state::State;
use crate::error::{from_format, from_storage};

/// The writing end of the manifest: one per open database, used under one lock.
#[derive(Debug)]
pub(crate) struct Manifest {
    storage: Arc<dyn Storage>,
    state: State,
    /// Number of the next edit.
    next: u64,
    /// Number of the oldest edit that still exists.
    oldest: u64,
    edits_since_base: u64,
    edits_max: u64,
    /// Checksum of the last edit's bytes.
    last_checksum: u64,
    /// Why no further edit is believed, once one failed.
    failed: Option<Error>,
    /// Whether that is because somebody else has written an edit.
    is_taken_over: bool,
    pub(crate) written_bytes: u64,
}

/// What reading the manifest found.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) state: State,
    /// Number of the last edit.
    last: u64,
    oldest: u64,
    edits_since_base: u64,
    /// Checksum of the last edit's bytes.
    last_checksum: u64,
}

/// Reads the manifest; `None` if the directory has none.
///
/// # Errors
/// `Corrupt` for an edit that does not decode or a missing number; `Invalid` for a newer format.
pub(crate) fn load(storage: &dyn Storage) -> Result<Option<Loaded>> {
    let is_shared = storage.shared_part().is_some();
    for _ in 0..LOADS_MAX {
        let numbers = numbers(storage)?;
        match load_edits(storage, numbers) {
            // Whoever has the database open on another machine has restated the state meanwhile.
            Err(error) if is_shared && error.kind() == ErrorKind::Corrupt => {}
            loaded => return loaded,
        }
    }
    load_edits(storage, numbers(storage)?)
}

/// Number of an edit that is never removed: it says that there has been a first one, since when that may be gone. Only where others can
/// write to the manifest at any moment.
const CREATED: u64 = 0;

/// How often a manifest is read that somebody else seems to change.
const LOADS_MAX: usize = 4;

/// Numbers of the edits that a list has, rising; without that of [`CREATED`].
///
/// The list may be older than what it lists: whoever writes the next edit finds out.
fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> = storage
        .list()
        .map_err(from_storage)?
        .iter()
        .filter_map(|(name, _)| match file_name::parse(name) {
            Some(FileName::ManifestEdit(number)) => Some(number).filter(|number| *number != CREATED),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn load_edits(storage: &dyn Storage, numbers: Vec<u64>) -> Result<Option<Loaded>> {
    let Some(last) = numbers.last().copied() else { return none_beside_data(storage) };
    let mut edits = Vec::new();
    let mut last_checksum = 0;
    for number in numbers.iter().rev().copied() {
        let (edit, checksum) = read_edit(storage, number)?;
        if number == last {
            last_checksum = checksum;
        }
        let base = edit.base;
        edits.push(edit);
        if base {
            break;
        }
        let before = number.saturating_sub(1);
        if numbers.binary_search(&before).is_err() || before == number {
            let place = Place { file: file_name::manifest_edit(before), offset: None };
            return Err(Error::corrupt(
                place,
                format!("the manifest edit before number {number} is missing"),
            ));
        }
    }
    let mut state = State::default();
    for edit in edits.iter().rev() {
        for change in &edit.changes {
            let place = || Place { file: file_name::manifest_edit(edit.number), offset: None };
            state.apply(change).map_err(|error| error.at(place()))?;
        }
    }
    let oldest = numbers.first().copied().unwrap_or(last);
    Ok(Some(Loaded { state, last, oldest, edits_since_base: edits.len() as u64 - 1, last_checksum }))
}

/// No database, unless something is there that only a manifest can have named.
fn none_beside_data(storage: &dyn Storage) -> Result<Option<Loaded>> {
    let files = storage.list().map_err(from_storage)?;
    if storage.shared_part().is_none() && files.iter().any(|(name, _)| name == file_name::HOME) {
        let place = storage.describe();
        return Err(Error::invalid(format!(
            "{place} has only the log of a database on shared storage: name the shared place too"
        )));
    }
    let data = files.iter().find(|(name, _)| {
        matches!(file_name::parse(name), Some(FileName::LogSegment(_) | FileName::Table { .. }))
    });
    let Some((name, _)) = data else { return Ok(None) };
    let place = Place { file: file_name::manifest_edit(1), offset: None };
    Err(Error::corrupt(place, format!("the manifest is missing, but {name} is there")))
}

/// The edit `number`, and a checksum of its bytes.
fn read_edit(storage: &dyn Storage, number: u64) -> Result<(ManifestEdit, u64)> {
    let name = file_name::manifest_edit(number);
    let read = storage.open_read(&name).and_then(|file| {
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).map(|()| bytes)
    });
    let bytes = read.map_err(|error| match error.kind {
        firn_storage::ErrorKind::NotFound => {
            let place = Place { file: name.clone(), offset: None };
            Error::corrupt(place, format!("manifest edit number {number} is missing"))
        }
        _ => from_storage(error),
    })?;
    let edit = ManifestEdit::decode(&bytes).map_err(|error| from_format(&name, 0, &error))?;
    if edit.number != number {
        let error = firn_format::Error::new(0, format!("edit number {number}"), format!("{}", edit.number));
        return Err(from_format(&name, 0, &error));
    }
    Ok((edit, xxh3(&bytes)))
}

/// Publishes `name`; where other machines may do that too, again and again until the place says whether it did.
///
/// A publication that nobody heard of may happen later still: what is undone meanwhile would be named by it.
pub(crate) fn publish_until_told(
    storage: &dyn Storage,
    name: &str,
    bytes: &[u8],
) -> firn_storage::Result<()> {
    use firn_storage::ErrorKind as Kind;
    let mut published = storage.publish(name, bytes);
    if storage.shared_part().is_none() {
        return published;
    }
    for _ in 0..TRIES_MAX {
        let Err(error) = &published else { break };
        if error.kind != Kind::Undecided {
            break;
        }
        published = storage.publish(name, bytes).map_err(|error| match error.kind {
            Kind::Exists => error,
            // That is about this try, not about the one before.
            _ => firn_storage::Error { kind: Kind::Undecided, ..error },
        });
    }
    published
}

/// How often a shared place is asked again that does not say what became of an edit: each time takes as long as the place itself is
/// patient.
const TRIES_MAX: usize = 32;

/// What there is of an edit whose publication failed.
enum Seen {
    /// It was published after all.
    Edit,
    /// It was not.
    Nothing,
    /// Somebody else's edit is there.
    Another,
    /// Something else is there, or nobody can tell.
    Unclear,
}

impl Manifest {
    /// Continues what was loaded, or begins with `None`.
    pub(crate) fn new(storage: Arc<dyn Storage>, loaded: Option<Loaded>, edits_max: u64) -> Self {
        match loaded {
            None => Self {
                storage,
                state: State::default(),
                next: 1,
                oldest: 1,
                // The first edit restates (nothing), so that reading finds a base.
                edits_since_base: edits_max,
                edits_max,
                last_checksum: 0,
                failed: None,
                is_taken_over: false,
                written_bytes: 0,
            },
            Some(loaded) => Self {
                storage,
                state: loaded.state,
                next: loaded.last + 1,
                oldest: loaded.oldest,
                edits_since_base: loaded.edits_since_base,
                edits_max,
                last_checksum: loaded.last_checksum,
                failed: None,
                is_taken_over: false,
                written_bytes: 0,
            },
        }
    }

    /// Whether nothing was ever committed.
    pub(crate) fn is_new(&self) -> bool {
        self.next == 1
    }

    /// Whether somebody else, on another machine, has written an edit since this one's last. Blocks for requests where that is possible.
    pub(crate) fn is_overtaken(&mut self) -> bool {
        self.storage.shared_part().is_some() && !self.is_current() && self.is_taken_over
    }

    /// Why nothing is committed any more.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failed.clone()
    }

    /// Whether nobody else has written an edit since this one's last; who cannot tell says no. Blocks for a request.
    ///
    /// Whoever finds that somebody has commits nothing any more.
    pub(crate) fn is_current(&mut self) -> bool {
        let name = file_name::manifest_edit(self.next);
        let is_there = match self.storage.open_read(&name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind == firn_storage::ErrorKind::NotFound => {
                self.follows_on().map(|follows| !follows)
            }
            Err(error) => Err(from_storage(error)),
        };
        if let Ok(true) = is_there {
            let taken = self.taken_over(&name);
            self.failed.get_or_insert(taken);
        }
        matches!(is_there, Ok(false)) && self.failed.is_none()
    }

    /// Whether the number of the next edit was never given to another one.
    ///
    /// Edits are removed from old to new. Where the one before is gone, somebody else has written the next one too, has restated both since,
    /// and has removed them: its number only looks free. Before the first one is removed it is said that there was one.
    fn follows_on(&self) -> Result<bool> {
        if self.storage.shared_part().is_none() {
            return Ok(true);
        }
        let name = file_name::manifest_edit(self.next - 1);
        let read = || {
            let file = self.storage.open_read(&name)?;
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes).map(|()| xxh3(&bytes))
        };
        let mut opened = read();
        for _ in 0..TRIES_MAX {
            if !opened.as_ref().is_err_and(|error| error.kind == firn_storage::ErrorKind::Refused) {
                break;
            }
            opened = read();
        }
        match opened {
            // Another one of that number was written where this one was removed.
            Ok(checksum) => Ok(self.next > 1 && checksum == self.last_checksum),
            Err(error) if error.kind == firn_storage::ErrorKind::NotFound => Ok(self.next == 1),
            Err(error) => Err(from_storage(error)),
        }
    }

    /// An edit that was written counts if the one before it is still there.
    fn check_follows_on(&mut self, name: &str) -> Result<()> {
        match self.follows_on() {
            Ok(true) => Ok(()),
            Ok(false) => {
                // Nobody reads it: it lies below what was restated.
                let _removed = self.storage.remove(name);
                Err(self.taken_over(name))
            }
            Err(cause) => {
                let told = format!("whether {name} follows on the edit before it cannot be told");
                Err(Error::new(ErrorKind::Closed, told).because(cause))
            }
        }
    }

    fn taken_over(&mut self, name: &str) -> Error {
        self.is_taken_over = true;
        let message = format!(
            "the database was opened on another machine ({name} is not this one's edit): nothing is written here any more"
        );
        Error::new(ErrorKind::Closed, message)
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Makes `changes` durable as one edit; on `Ok` they are part of every later recovery.
    ///
    /// Blocks for a publication (two device syncs). Every `edits_max` edits the edit restates the whole state
    /// and older ones are removed.
    ///
    /// # Errors
    /// `Retry` when the disk is full, or the place could not say whether the edit was published and it turns out that it
    /// was not: nothing was changed. After any other failure the outcome is unknown, so every later call fails with
    /// the first cause.
    pub(crate) fn commit(&mut self, changes: &[Change]) -> Result<()> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let mut state = self.state.clone();
        for change in changes {
            state.apply(change)?;
        }
        let base = self.edits_since_base + 1 >= self.edits_max || self.next == 1;
        let changes = if base { state.restated() } else { changes.to_vec() };
        let edit = ManifestEdit { number: self.next, base, epoch: state.generation, changes };
        let bytes = edit.encode();
        let name = file_name::manifest_edit(self.next);
        if let Err(error) = publish_until_told(&*self.storage, &name, &bytes) {
            match self.look(&name, &bytes, error.kind) {
                Seen::Edit => {}
                Seen::Nothing => return Err(from_storage(error)),
                Seen::Another => {
                    let failed = self.taken_over(&name);
                    self.failed = Some(failed.clone());
                    return Err(failed);
                }
                Seen::Unclear => {
                    let cause = from_storage(error);
                    let failed = match cause.kind() {
                        ErrorKind::Retry => {
                            let told = format!("whether {name} was published cannot be told");
                            Error::new(ErrorKind::Closed, told).because(cause)
                        }
                        _ => cause,
                    };
                    self.failed = Some(failed.clone());
                    return Err(failed);
                }
            }
        }
        if let Err(failed) = self.check_follows_on(&name) {
            self.failed = Some(failed.clone());
            return Err(failed);
        }
        self.written_bytes += bytes.len() as u64;
        self.last_checksum = xxh3(&bytes);
        self.state = state;
        self.edits_since_base = if base { 0 } else { self.edits_since_base + 1 };
        let written = self.next;
        self.next += 1;
        if base {
            self.remove_older(written);
        }
        Ok(())
    }

    /// What is there of the edit `name`, to be `bytes`, after publishing it failed as `kind` says.
    ///
    /// Edits are created and never changed, so that reading decides: the same bytes can only be this edit, since each
    /// opening writes a generation of its own. A failed sync decides nothing, whatever is read then.
    fn look(&self, name: &str, bytes: &[u8], kind: firn_storage::ErrorKind) -> Seen {
        use firn_storage::ErrorKind as Kind;
        match kind {
            Kind::Refused => return Seen::Nothing,
            Kind::Full | Kind::Undecided | Kind::Exists => {}
            _ => return Seen::Unclear,
        }
        let read = self.storage.open_read(name).and_then(|file| {
            let mut found = vec![0; file.len() as usize];
            file.read_at(0, &mut found).map(|()| found)
        });
        match read {
            Ok(found) if found == bytes && self.storage.sync_dir().is_ok() => Seen::Edit,
            Ok(found) if found != bytes && self.storage.shared_part().is_some() => Seen::Another,
            // It may be there a moment later.
            _ if kind == Kind::Undecided && self.storage.shared_part().is_some() => Seen::Unclear,
            Err(error) if error.kind == Kind::NotFound && kind != Kind::Exists => Seen::Nothing,
            _ => Seen::Unclear,
        }
    }

    /// Commits nothing any more: the directory may have another owner.
    pub(crate) fn end(&mut self) {
        self.failed.get_or_insert_with(|| Error::new(ErrorKind::Closed, "the database is closed"));
    }

    /// Removes edits that `base` restates. What cannot be removed now is removed by a later base.
    fn remove_older(&mut self, base: u64) {
        if self.storage.shared_part().is_some() && self.oldest == 1 {
            let changes = vec![Change::Database { id: self.state.database }];
            let edit = ManifestEdit { number: CREATED, base: false, epoch: self.state.generation, changes };
            match self.storage.publish(&file_name::manifest_edit(CREATED), &edit.encode()) {
                Err(error) if error.kind != firn_storage::ErrorKind::Exists => return,
                _ => {}
            }
        }
        while self.oldest < base {
            match self.storage.remove(&file_name::manifest_edit(self.oldest)) {
                Ok(()) => self.oldest += 1,
                Err(error) if error.kind == firn_storage::ErrorKind::NotFound => self.oldest += 1,
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
