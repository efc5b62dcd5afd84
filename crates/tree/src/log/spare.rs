//! What dead segments leave to the next ones: their arenas and their files.
//!
//! The pages of both are there already: a first store to a new page of the arena costs a fault, and a first write to
//! a new page of the file an allocation (figures in decision 0008).
//!
//! A file is given on by renaming it, with its old bytes in it. No frame among them can pass for one of the new
//! segment, because a frame's checksum is salted with its position and the log's generation; no reader misses
//! them, because a segment dies only when a durable edit says that all its records are in tables. A crash may leave
//! the old name with the new header, or the new name with the old one: recovery takes such a file for a segment of
//! which nothing was written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_engine::{Error, ErrorKind, Result};
use firn_format::log::SEGMENT_HEADER_BYTES;
use firn_pmem::{Pool, Region};
use firn_storage::{Storage, WriteFile};

use crate::error::from_storage;

/// Arenas and files of segments of the usual capacity.
#[derive(Debug)]
pub(crate) struct Spares {
    capacity: u64,
    arenas: Arc<Pool>,
    files_max: usize,
    files: Mutex<Vec<String>>,
}

impl Spares {
    /// Holds at most `count` arenas and as many files of segments of `capacity` bytes.
    pub(crate) fn new(capacity: u64, count: usize) -> Result<Self> {
        let arenas = Pool::new(arena_bytes(capacity)?, count);
        Ok(Self { capacity, arenas, files_max: count, files: Mutex::default() })
    }

    /// An arena for a segment of `capacity`, a spare one if there is one that fits.
    pub(crate) fn arena(&self, capacity: u64) -> Result<Region> {
        let region = match capacity == self.capacity {
            true => self.arenas.region(),
            false => Region::anonymous(arena_bytes(capacity)?),
        };
        region.map_err(|error| {
            Error::new(ErrorKind::Retry, format!("cannot map {capacity} bytes for a log segment"))
                .because(error)
        })
    }

    /// A file `name` for a segment of `capacity`: new, or a spare one with whatever it held.
    pub(crate) fn file(
        &self,
        storage: &dyn Storage,
        name: &str,
        capacity: u64,
    ) -> Result<Arc<dyn WriteFile>> {
        let spare = match capacity == self.capacity {
            true => self.lock().pop(),
            false => None,
        };
        let begin = || match &spare {
            Some(spare) => storage.rename(spare, name).and_then(|()| storage.open_write(name)),
            None => storage.create(name),
        };
        let file = match begin() {
            Err(error) if error.kind == firn_storage::ErrorKind::Exists => {
                // A roll that ran out of disk left its file behind; no frame can be in it.
                storage.remove(name).map_err(from_storage)?;
                begin()
            }
            begun => begun,
        };
        let file = file.map_err(from_storage)?;
        if spare.is_none() {
            file.allocate(capacity).map_err(from_storage)?;
        }
        Ok(file)
    }

    /// Keeps the file `name`, which nothing refers to any more; `false` if there are enough, or `most`.
    pub(crate) fn keep(&self, name: &str, most: usize) -> bool {
        let mut files = self.lock();
        let keeps = files.len() < self.files_max.min(most);
        if keeps {
            files.push(name.to_owned());
        }
        keeps
    }

    /// Makes the arenas that came back ready for use.
    pub(crate) fn clean_arenas(&self) {
        self.arenas.clean();
    }

    /// Gives the arenas back to the system.
    pub(crate) fn give_up_arenas(&self) {
        self.arenas.clear();
    }

    /// The files, to be removed.
    pub(crate) fn take_files(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock())
    }

    /// Memory that spare arenas hold.
    pub(crate) fn arena_bytes(&self) -> u64 {
        self.arenas.spare_bytes() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Arena bytes of a segment of `capacity`.
fn arena_bytes(capacity: u64) -> Result<usize> {
    usize::try_from(capacity)
        .map(|bytes| bytes - SEGMENT_HEADER_BYTES)
        .map_err(|_| Error::invalid("a log segment does not fit this machine's memory"))
}
