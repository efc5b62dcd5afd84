//! From the redo logs of a process that died to the changes that count.
//!
//! | a file's entries stop | within the run of the machine | after another one |
//! |---|---|---|
//! | at its end, or at an entry without changes | all that was written is there | the same |
//! | at one that is not whole, none behind | it was being written | it and what followed are lost |
//! | at one that is not whole, others behind | damage | the others are not believed |
//! | not ended, though a later file has entries | damage | the later ones are not believed |
//! | at a reference to a value that is not whole | (not looked at) | it and what followed are lost |

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::redo::{
    ENTRY_HEAD_BYTES, REDO_HEADER_BYTES, RedoChange, RedoFound, RedoHeader, entry_at, next_change,
};
use firn_storage::Storage;

use super::FILES;
use crate::error::{from_format, from_storage};

/// A file of the redo log, of which is known how far its entries count.
#[derive(Clone, Debug)]
pub(crate) struct Recovered {
    pub(crate) name: String,
    pub(crate) generation: u64,
    /// One past the last entry that counts.
    pub(crate) end: u64,
    /// An entry without changes lies there.
    pub(crate) is_ended: bool,
    /// Entries lie behind the end, whole, which are not believed.
    pub(crate) is_forgotten: bool,
}

/// Which generations of redo logs there should be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) database: u128,
    pub(crate) first: u64,
    pub(crate) through: u64,
}

impl Begun {
    /// The generation after all that are there.
    pub(crate) fn next(self) -> u64 {
        self.through.max(self.first.saturating_sub(1)) + 1
    }
}

/// What recovery looks at in each change of the redo logs.
pub(crate) trait Look {
    /// Looks at a change in the file `name`. Within the run of the machine that wrote it all that
    /// it needs is there; otherwise answers whether it is.
    ///
    /// # Errors
    /// The change is none that could have been written; those of the storage.
    fn look(&mut self, change: &RedoChange<'_>, name: &str, is_same_run: bool) -> Result<bool>;
}

/// Finds the entries that count in the redo logs that are `begun`.
///
/// # Errors
/// `Corrupt`, with the file, for one that is missing or not the one that it should be, and for
/// damage amid the entries of a process that was killed; those of the storage and of `look`.
pub(crate) fn find(storage: &dyn Storage, begun: Begun, look: &mut dyn Look) -> Result<Vec<Recovered>> {
    refuse_unknown(storage, begun)?;
    let mut logs = Vec::new();
    // Of each index the first file that was not ended: a later one goes on if it was.
    let mut open: [Option<String>; FILES] = Default::default();
    for generation in begun.first..=begun.through {
        for (index, open) in (0..).zip(&mut open) {
            let name = file_name::redo(generation, index);
            let bytes = read_log(storage, &name, begun.database, (generation, index))?;
            let is_same_run = bytes.is_of_run(storage.boot_id());
            let mut log = bytes.find_end(generation, name, is_same_run, look)?;
            match open {
                None if !log.is_ended => *open = Some(log.name.clone()),
                None => {}
                Some(earlier) if is_same_run && log.has_entries() => {
                    let message = format!("expected an entry that ends it, since {} goes on", log.name);
                    return Err(corrupt(earlier, None, message));
                }
                Some(_) => log.forget_entries(),
            }
            logs.push(log);
        }
    }
    Ok(logs)
}

/// Refuses entries of generations that the manifest does not know. Files without entries are of a
/// process that died while it made them.
fn refuse_unknown(storage: &dyn Storage, begun: Begun) -> Result<()> {
    for (name, _) in storage.list().map_err(from_storage)? {
        if let Some(FileName::Redo { generation, .. }) = file_name::parse(&name)
            && generation > begun.through
            && read(storage, &name)?.iter().skip(REDO_HEADER_BYTES).any(|byte| *byte != 0)
        {
            let message =
                "entries of a generation that the manifest does not know: is its newest edit missing?";
            return Err(corrupt(&name, Some(REDO_HEADER_BYTES as u64), message.to_owned()));
        }
    }
    Ok(())
}

fn corrupt(name: &str, offset: Option<u64>, message: String) -> Error {
    Error::new(ErrorKind::Corrupt, message).at(Location { file: name.to_owned(), offset })
}

fn read(storage: &dyn Storage, name: &str) -> Result<Vec<u8>> {
    let file = storage.open_read(name).map_err(|error| match error.kind {
        firn_storage::ErrorKind::NotFound => {
            corrupt(name, None, "expected a redo log, found no file".to_owned())
        }
        _ => from_storage(error),
    })?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).map_err(from_storage)?;
    Ok(bytes)
}

/// The bytes of the file `name`, which should be of this generation and index.
fn read_log(storage: &dyn Storage, name: &str, database: u128, which: (u64, u64)) -> Result<LogBytes> {
    let bytes = read(storage, name)?;
    let header = RedoHeader::decode(&bytes).map_err(|error| from_format(name, error))?;
    if (header.database, header.generation, header.index) != (database, which.0, which.1) {
        let expected = format!("a redo log of database {database:032x}, {which:?}");
        return Err(from_format(name, firn_format::Error::new(16, expected, format!("{header:?}"))));
    }
    Ok(LogBytes { bytes, header })
}

/// A file of the redo log in memory.
struct LogBytes {
    bytes: Vec<u8>,
    header: RedoHeader,
}

impl LogBytes {
    /// Whether the machine has not started again since: what was written is there.
    fn is_of_run(&self, boot: Option<u128>) -> bool {
        self.header.boot != 0 && boot == Some(self.header.boot)
    }

    fn entry_at(&self, at: usize) -> RedoFound<'_> {
        entry_at(self.bytes.get(at..).unwrap_or_default(), self.header.generation, at as u64)
    }

    /// How far the entries count.
    fn find_end(
        &self,
        generation: u64,
        name: String,
        is_same_run: bool,
        look: &mut dyn Look,
    ) -> Result<Recovered> {
        let mut at = REDO_HEADER_BYTES;
        while let RedoFound::Entry(body) = self.entry_at(at) {
            if body.is_empty() {
                return Ok(Recovered {
                    name,
                    generation,
                    end: at as u64,
                    is_ended: true,
                    is_forgotten: false,
                });
            }
            let (mut rest, mut is_whole) = (body, true);
            while let Some(change) = next_change_of(&name, at, &mut rest)? {
                is_whole &= look.look(&change, &name, is_same_run)?;
            }
            if !is_whole {
                return Ok(Recovered {
                    name,
                    generation,
                    end: at as u64,
                    is_ended: false,
                    is_forgotten: false,
                });
            }
            at += ENTRY_HEAD_BYTES + body.len();
        }
        // Within one run of the machine what was written is there: a gap was made later. Loss of
        // power may leave one, before which everything that was synced lies.
        let is_entry = |at: &usize| matches!(self.entry_at(*at), RedoFound::Entry(_));
        if is_same_run && let Some(next) = (at + 8..self.bytes.len()).step_by(8).find(is_entry) {
            let found = format!("one that is not whole, and another one at {next}");
            return Err(from_format(&name, firn_format::Error::new(at, "an entry of a redo log", found)));
        }
        Ok(Recovered { name, generation, end: at as u64, is_ended: false, is_forgotten: false })
    }
}

fn next_change_of<'b>(name: &str, at: usize, rest: &mut &'b [u8]) -> Result<Option<RedoChange<'b>>> {
    next_change(rest).map_err(|error| from_format(name, error.based(at)))
}

impl Recovered {
    fn has_entries(&self) -> bool {
        self.end > REDO_HEADER_BYTES as u64
    }

    /// What lies there came after something that is lost.
    fn forget_entries(&mut self) {
        self.is_forgotten = self.has_entries();
        (self.end, self.is_ended) = (REDO_HEADER_BYTES as u64, false);
    }
}

/// Bytes of entries that are read at once.
const READ_BYTES: u64 = 256 << 10;

/// Hands all changes of `log` to `take`, some at a time, in the order of the file.
///
/// # Errors
/// Those of the storage and of `take`; `Corrupt` if the file is not what was found.
pub(crate) fn replay(
    storage: &dyn Storage,
    log: &Recovered,
    take: &mut dyn FnMut(&[RedoChange<'_>]) -> Result<()>,
) -> Result<()> {
    if !log.has_entries() {
        return Ok(());
    }
    let file = storage.open_read(&log.name).map_err(from_storage)?;
    // What was read and not taken yet begins at `at`.
    let (mut at, mut bytes) = (REDO_HEADER_BYTES as u64, Vec::new());
    while at < log.end {
        let read_to = at + bytes.len() as u64;
        let more = READ_BYTES.min(log.end - read_to);
        if more == 0 {
            let message = "entries have changed since they were found".to_owned();
            return Err(corrupt(&log.name, Some(at), message));
        }
        let first = bytes.len();
        bytes.resize(first + more as usize, 0);
        file.read_at(read_to, &mut bytes[first..]).map_err(from_storage)?;
        let (mut taken, mut changes) = (0, Vec::new());
        while let RedoFound::Entry(body) = entry_at(&bytes[taken..], log.generation, at + taken as u64) {
            let mut rest = body;
            while let Some(change) = next_change_of(&log.name, at as usize + taken, &mut rest)? {
                changes.push(change);
            }
            taken += ENTRY_HEAD_BYTES + body.len();
        }
        take(&changes)?;
        bytes.drain(..taken);
        at += taken as u64;
    }
    Ok(())
}
