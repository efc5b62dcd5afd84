//! Values that are too long for a page: each lies alone, in a file of its own.
//!
//! ```text
//!   file:       the value's bytes
//!   reference:  number u64 LE │ bytes u64 LE │ xxh3 of the bytes u64 LE
//! ```
//! The file is there before the record that refers to it, and never changes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::{Error, ErrorKind, Location, Result, ValueSource};
use firn_format::checksum::xxh3;
use firn_format::file_name::{self, FileName};
use firn_storage::{Storage, WriteFile};

use crate::error::{from_storage, unsynced};
use crate::needless::remove_needless;
use crate::tier::Tier;

/// Bytes of a reference.
pub(crate) const REFERENCE_BYTES: usize = 24;

/// Bytes of a source that are in memory at once.
const PIECE_BYTES: usize = 1 << 20;

/// The values of one database that lie alone.
#[derive(Debug)]
pub(crate) struct Values {
    storage: Arc<dyn Storage>,
    next: AtomicU64,
    /// Bytes that were written since the opening.
    pub(crate) written_bytes: AtomicU64,
    /// Written, and not synced yet.
    unsynced: Mutex<Vec<Arc<dyn WriteFile>>>,
    /// Written, and not where other machines reach them.
    unsent: Mutex<Vec<u64>>,
    tier: Option<Arc<Tier>>,
    /// Held by the caller that syncs, until all that was written before is: others wait for it.
    /// Holds why nothing is synced any more.
    syncing: Mutex<Option<Error>>,
}

impl Values {
    /// Those on `storage`, and in the `tier`.
    pub(crate) fn new(storage: &Arc<dyn Storage>, tier: Option<&Arc<Tier>>) -> Result<Self> {
        let numbers = numbers(storage)?;
        let first = tier.map_or(0, |tier| tier.numbers().start);
        let next = AtomicU64::new(numbers.last().map_or(0, |last| last + 1).max(first));
        Ok(Self {
            storage: Arc::clone(storage),
            next,
            written_bytes: AtomicU64::new(0),
            unsynced: Mutex::default(),
            unsent: Mutex::default(),
            tier: tier.map(Arc::clone),
            syncing: Mutex::default(),
        })
    }

    /// Writes a value; answers its reference.
    pub(crate) fn write(&self, value: &[u8]) -> Result<[u8; REFERENCE_BYTES]> {
        let mut source = value;
        self.write_from(&mut ValueSource::new(&mut source, value.len() as u64))
    }

    /// Writes what `source` brings; answers its reference. After an error nothing is left.
    pub(crate) fn write_from(&self, source: &mut ValueSource<'_>) -> Result<[u8; REFERENCE_BYTES]> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self.tier.as_ref().is_some_and(|tier| !tier.numbers().contains(&number)) {
            let message = "this opening has no numbers for values left: open the database again";
            return Err(Error::invalid(message));
        }
        let name = file_name::value(number);
        let file = self.storage.create(&name).map_err(from_storage)?;
        let written = self.fill(&*file, source);
        match written {
            Ok(checksum) => {
                self.note_written(number, file);
                Ok(reference(number, source.value_bytes(), checksum))
            }
            Err(error) => {
                drop(file);
                // What stays is removed by the next opening: no record refers to it.
                let _left = self.storage.remove(&name);
                Err(error)
            }
        }
    }

    /// Removes the value that `reference` leads to, of a write that was not made. One that is being
    /// sent stays, as do all after a crash: the next opening removes them.
    pub(crate) fn forget(&self, reference: &[u8]) {
        let Some(number) = number_of(reference) else { return };
        if self.tier.is_some() {
            let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(at) = unsent.iter().position(|unsent| *unsent == number) else { return };
            unsent.swap_remove(at);
        }
        let _left = self.storage.remove(&file_name::value(number));
    }

    /// A value is to be synced, and sent.
    fn note_written(&self, number: u64, file: Arc<dyn WriteFile>) {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        if self.tier.is_some() {
            self.unsent.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }
    }

    fn fill(&self, file: &dyn WriteFile, source: &mut ValueSource<'_>) -> Result<u64> {
        let (mut at, mut piece) = (0, Vec::new());
        let mut hasher = firn_format::checksum::Hasher::new();
        while source.next_piece(PIECE_BYTES, &mut piece)? {
            file.write_at(at, &piece).map_err(from_storage)?;
            hasher.update(&piece);
            at += piece.len() as u64;
            self.written_bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(hasher.finish())
    }

    /// The value that `reference` leads to; `None` if there is no file.
    ///
    /// # Errors
    /// `Corrupt`, with the file, if it is not what was written.
    pub(crate) fn read(&self, reference: &[u8]) -> Result<Option<Vec<u8>>> {
        let number = |index: usize| {
            let bytes = reference.get(8 * index..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let (Some(file), Some(bytes), Some(checksum)) = (number(0), number(1), number(2)) else {
            return Err(Error::bug("a reference of 24 bytes"));
        };
        let name = file_name::value(file);
        let corrupt = |message: String| {
            Error::new(ErrorKind::Corrupt, message).at(Location { file: name.clone(), offset: None })
        };
        let mut value = vec![0; bytes as usize];
        match self.read_all(&name, &mut value) {
            Ok(()) => {}
            Err(error) if error.kind == firn_storage::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(from_storage(error)),
        }
        match xxh3(&value) {
            found if found == checksum => Ok(Some(value)),
            found => {
                Err(corrupt(format!("expected a value with checksum {checksum:016x}, found {found:016x}")))
            }
        }
    }

    /// Fills `out` with the file `name`, which is as long, from where it is.
    fn read_all(&self, name: &str, out: &mut [u8]) -> firn_storage::Result<()> {
        let bytes = out.len() as u64;
        let file = match (self.storage.open_read_known(name, bytes), &self.tier) {
            (Err(error), Some(tier)) if error.kind == firn_storage::ErrorKind::NotFound => {
                tier.open(name, bytes)?
            }
            (opened, _) => opened?,
        };
        file.read_at(0, out)
    }

    /// Sends every value that was written to where other machines reach it.
    ///
    /// # Errors
    /// `Retry` where shared storage does not take them; the next call sends them.
    pub(crate) fn send(&self, tier: &Tier) -> Result<()> {
        let mut numbers = std::mem::take(&mut *self.unsent.lock().unwrap_or_else(PoisonError::into_inner));
        while let Some(number) = numbers.last() {
            if let Err(error) = tier.send_value(*number) {
                self.unsent.lock().unwrap_or_else(PoisonError::into_inner).append(&mut numbers);
                return Err(error);
            }
            numbers.pop();
        }
        Ok(())
    }

    /// Makes every value that was written survive loss of power.
    ///
    /// # Errors
    /// `Closed` after a sync that failed, with its cause, for good.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut failure = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = &*failure {
            return Err(failure.clone());
        }
        let files = std::mem::take(&mut *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        if files.is_empty() {
            return Ok(());
        }
        let synced = files.iter().try_for_each(|file| file.sync()).and_then(|()| self.storage.sync_dir());
        synced.map_err(|error| failure.insert(unsynced(error)).clone())
    }

    /// Removes values that no record leads to any more, and no reader will ask for.
    pub(crate) fn remove(&self, numbers: impl Iterator<Item = u64>) -> Result<()> {
        let names: Vec<String> = numbers.map(file_name::value).collect();
        if let Some(tier) = &self.tier {
            tier.remove(names.iter().cloned());
        }
        // Compaction meets the records of values that were removed when they were replaced.
        remove_needless(&*self.storage, names.into_iter())
    }

    /// Takes over the values that redo logs and the log on the device refer to, and removes all
    /// others here. Those of redo logs may not be synced, nor sent. Answers the rest of those that
    /// are here: a checkpoint has them. The number of a value that is gone is not given again while
    /// a dead record has it: compaction removes the values of dead records.
    pub(crate) fn recover(&self, of_redo: &BTreeSet<u64>, of_log: &BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        let greatest = of_redo.last().max(of_log.last());
        self.next.fetch_max(greatest.map_or(0, |number| number + 1), Ordering::Relaxed);
        let mut checkpointed = BTreeSet::new();
        for number in numbers(&self.storage)? {
            if of_redo.contains(&number) {
                let file = self.storage.open_write(&file_name::value(number)).map_err(from_storage)?;
                self.note_written(number, file);
            } else if of_log.contains(&number) {
                checkpointed.insert(number);
            } else {
                self.storage.remove(&file_name::value(number)).map_err(from_storage)?;
            }
        }
        Ok(checkpointed)
    }
}

/// What a record leads to that is not there.
pub(crate) fn missing(reference: &[u8]) -> Error {
    let location =
        number_of(reference).map(|number| Location { file: file_name::value(number), offset: None });
    let error = Error::new(ErrorKind::Corrupt, "expected a value, found no file");
    match location {
        Some(location) => error.at(location),
        None => error,
    }
}

/// The number of the value that `reference` leads to.
pub(crate) fn number_of(reference: &[u8]) -> Option<u64> {
    reference.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn reference(number: u64, bytes: u64, checksum: u64) -> [u8; REFERENCE_BYTES] {
    let mut out = [0; REFERENCE_BYTES];
    for (to, word) in out.chunks_exact_mut(8).zip([number, bytes, checksum]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Numbers of all values on `storage`, in order.
fn numbers(storage: &Arc<dyn Storage>) -> Result<Vec<u64>> {
    let names = storage.list().map_err(from_storage)?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|(name, _)| match file_name::parse(name)? {
            FileName::Value(number) => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}
