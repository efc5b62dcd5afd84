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
    /// Held by the caller that syncs, until all that was written before is: others wait for it.
    /// Holds why nothing is synced any more.
    syncing: Mutex<Option<Error>>,
}

impl Values {
    /// Those on `storage`.
    pub(crate) fn new(storage: &Arc<dyn Storage>) -> Result<Self> {
        let numbers = numbers(storage)?;
        let next = AtomicU64::new(numbers.last().map_or(0, |last| last + 1));
        Ok(Self {
            storage: Arc::clone(storage),
            next,
            written_bytes: AtomicU64::new(0),
            unsynced: Mutex::default(),
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
        let name = file_name::value(number);
        let file = self.storage.create(&name).map_err(from_storage)?;
        let written = self.fill(&*file, source);
        match written {
            Ok(checksum) => {
                self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).push(file);
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
        let file = match self.storage.open_read_known(&name, bytes) {
            Ok(file) => file,
            Err(error) if error.kind == firn_storage::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(from_storage(error)),
        };
        let mut value = vec![0; bytes as usize];
        file.read_at(0, &mut value).map_err(from_storage)?;
        match xxh3(&value) {
            found if found == checksum => Ok(Some(value)),
            found => {
                Err(corrupt(format!("expected a value with checksum {checksum:016x}, found {found:016x}")))
            }
        }
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
        // Compaction meets the records of values that were removed when they were replaced.
        remove_needless(&*self.storage, numbers.map(file_name::value))
    }

    /// Takes over the values that redo logs and the log on the device refer to, and removes all
    /// others. Those of redo logs may not be synced.
    pub(crate) fn recover(&self, of_redo: &BTreeSet<u64>, of_log: &BTreeSet<u64>) -> Result<()> {
        for number in numbers(&self.storage)? {
            if of_redo.contains(&number) {
                let file = self.storage.open_write(&file_name::value(number)).map_err(from_storage)?;
                self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).push(file);
            } else if !of_log.contains(&number) {
                self.storage.remove(&file_name::value(number)).map_err(from_storage)?;
            }
        }
        Ok(())
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
