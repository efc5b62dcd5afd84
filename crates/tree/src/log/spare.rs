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

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::{Error, ErrorKind, Result};
use firn_format::log::SEGMENT_HEADER_BYTES;
use firn_pmem::{Pool, Region};
use firn_storage::place::SpareFiles;
use firn_storage::{Storage, WriteFile};

use crate::error::from_storage;

/// Arenas and files of segments of the usual capacity.
///
/// A file is set aside for as much as the segments before came to: where memtables are frozen early a segment has a fraction of
/// its capacity.
#[derive(Debug)]
pub(crate) struct Spares {
    capacity: u64,
    /// What segments came to of late, header included.
    usual: AtomicU64,
    arenas: Arc<Pool>,
    files_max: usize,
    files: SpareFiles,
}

impl Spares {
    /// Holds at most `count` arenas and as many files of segments of `capacity` bytes.
    pub(crate) fn new(capacity: u64, count: usize) -> Result<Self> {
        let arenas = Pool::new(arena_bytes(capacity)?, count);
        let usual = AtomicU64::new(capacity);
        Ok(Self { capacity, usual, arenas, files_max: count, files: SpareFiles::default() })
    }

    /// A segment of the usual capacity came to `bytes`. One that came to more counts at once, those that come to less bit by bit.
    pub(crate) fn came_to(&self, bytes: u64) {
        let usual = self.usual();
        self.usual.store(bytes.max(usual - usual / 4).min(self.capacity), Ordering::Relaxed);
    }

    fn usual(&self) -> u64 {
        self.usual.load(Ordering::Relaxed)
    }

    /// What is set aside for a file of `capacity`.
    fn set_aside(&self, capacity: u64) -> u64 {
        if capacity != self.capacity {
            return capacity;
        }
        self.usual().max(SET_ASIDE_MIN).next_multiple_of(SET_ASIDE_STEP).min(capacity)
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

    /// A file `name` for a segment of `capacity`, and how long it is: new, or a spare one with whatever it held. A segment
    /// that comes to more makes it longer.
    ///
    /// # Errors
    /// What the place says. A spare that could not be given on is kept.
    pub(crate) fn file(
        &self,
        storage: &dyn Storage,
        name: &str,
        capacity: u64,
    ) -> Result<(Arc<dyn WriteFile>, u64)> {
        let bytes = self.set_aside(capacity);
        let spare = match capacity == self.capacity {
            true => replacing(storage, name, || self.files.give(storage, name)).map_err(from_storage)?,
            false => None,
        };
        let (file, found) = match spare {
            Some(spare) => spare,
            None => (replacing(storage, name, || storage.create(name)).map_err(from_storage)?, 0),
        };
        if found < bytes {
            file.allocate(bytes).map_err(from_storage)?;
        }
        Ok((file, found.max(bytes)))
    }

    /// Keeps the file `name` of `bytes`, which nothing refers to any more; `false` if there are enough, or if it is much longer than
    /// new ones are.
    pub(crate) fn keep(&self, name: &str, bytes: u64) -> bool {
        let most = self.set_aside(self.capacity);
        bytes <= most * LONGER_MAX && self.files.keep(name, bytes, self.files_max as u64 * most)
    }

    /// Makes the arenas that came back ready for use.
    pub(crate) fn clean_arenas(&self) {
        self.arenas.clean();
    }

    /// Gives arenas back to the system, so that those that stay hold at most `bytes_max`.
    pub(crate) fn trim_arenas(&self, bytes_max: u64) {
        self.arenas.trim(usize::try_from(bytes_max).unwrap_or(usize::MAX));
    }

    /// The files, to be removed.
    pub(crate) fn take_files(&self) -> Vec<String> {
        self.files.take()
    }

    /// Bytes of spare arenas and of spare files.
    pub(crate) fn bytes(&self) -> u64 {
        self.arena_bytes() + self.file_bytes()
    }

    /// Bytes of spare files.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// Memory that spare arenas hold.
    pub(crate) fn arena_bytes(&self) -> u64 {
        self.arenas.spare_bytes() as u64
    }
}

/// Less is never set aside for a segment of the usual capacity.
const SET_ASIDE_MIN: u64 = 256 << 10;

/// What is set aside is a multiple of this.
const SET_ASIDE_STEP: u64 = 64 << 10;

/// How many times as long as new files a spare may be.
const LONGER_MAX: u64 = 2;

/// Does `begin`, which gives a file the name `name`, in place of a file that has it already: a roll that ran out of
/// disk left it behind, and no frame can be in it.
fn replacing<T>(
    storage: &dyn Storage,
    name: &str,
    begin: impl Fn() -> firn_storage::Result<T>,
) -> firn_storage::Result<T> {
    match begin() {
        Err(error) if error.kind == firn_storage::ErrorKind::Exists => {
            storage.remove(name)?;
            begin()
        }
        begun => begun,
    }
}

/// Arena bytes of a segment of `capacity`.
fn arena_bytes(capacity: u64) -> Result<usize> {
    usize::try_from(capacity)
        .map(|bytes| bytes - SEGMENT_HEADER_BYTES)
        .map_err(|_| Error::invalid("a log segment does not fit this machine's memory"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firn_storage::place::{Effect, Fault, Faulty, Memory, Operation, When};
    use firn_storage::{ErrorKind, Storage};

    use super::{SET_ASIDE_MIN, SET_ASIDE_STEP, Spares};

    const CAPACITY: u64 = 4 << 20;

    /// A place with one spare file `old`, of which the next `on` goes as `effect` says.
    fn failing(on: Operation, effect: Effect) -> (Faulty, Spares) {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        faulty.publish("old", b"bytes of an earlier segment").unwrap();
        faulty.inject(Fault { on, file: "*".to_owned(), when: When::Once { after: 0 }, effect });
        let spares = Spares::new(CAPACITY, 2).unwrap();
        assert!(spares.keep("old", CAPACITY));
        (faulty, spares)
    }

    fn names(storage: &Faulty) -> Vec<String> {
        storage.list().unwrap().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_spare_that_cannot_be_renamed_is_kept() {
        for kind in [ErrorKind::Full, ErrorKind::Io] {
            let (faulty, spares) = failing(Operation::Rename, Effect::Fail(kind));
            assert!(spares.file(&faulty, "new", CAPACITY).is_err());
            assert_eq!(names(&faulty), ["old"]);
            spares.file(&faulty, "new", CAPACITY).unwrap();
            assert_eq!(names(&faulty), ["new"], "it was given on");
            assert_eq!(spares.take_files(), [""; 0]);
        }
    }

    #[test]
    fn a_spare_that_was_renamed_although_that_failed_is_no_spare_any_more() {
        let (faulty, spares) = failing(Operation::Rename, Effect::FailAfter(ErrorKind::Io));
        assert!(spares.file(&faulty, "new", CAPACITY).is_err());
        assert_eq!(names(&faulty), ["new"]);
        spares.file(&faulty, "new", CAPACITY).unwrap();
        assert_eq!(names(&faulty), ["new"]);
        assert_eq!(spares.take_files(), [""; 0]);
    }

    #[test]
    fn a_spare_that_cannot_be_opened_is_removed() {
        let (faulty, spares) = failing(Operation::OpenWrite, Effect::Fail(ErrorKind::Io));
        assert!(spares.file(&faulty, "new", CAPACITY).is_err());
        assert_eq!(names(&faulty), [""; 0]);
        spares.file(&faulty, "new", CAPACITY).unwrap();
        assert_eq!(names(&faulty), ["new"]);
    }

    #[test]
    fn a_file_that_has_the_name_already_is_replaced() {
        let (faulty, spares) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
        for left in [1, 0] {
            faulty.publish("new", b"left behind by a roll").unwrap();
            spares.file(&faulty, "new", CAPACITY).unwrap();
            assert_eq!(names(&faulty), ["new"], "with {left} spares");
            faulty.remove("new").unwrap();
        }
    }

    const MIB: u64 = 1 << 20;

    fn file_bytes(spares: &Spares, place: &Memory, name: &str) -> u64 {
        spares.file(place, name, CAPACITY).unwrap().1
    }

    #[test]
    fn a_file_is_set_aside_for_what_segments_came_to_of_late() {
        let (place, spares) = (Memory::new(), Spares::new(CAPACITY, 2).unwrap());
        assert_eq!(file_bytes(&spares, &place, "first"), CAPACITY);
        (0..10).for_each(|_| spares.came_to(MIB + 5));
        assert_eq!(file_bytes(&spares, &place, "second"), MIB + SET_ASIDE_STEP);
        // One of another capacity has a file of its own.
        assert_eq!(spares.file(&place, "large", 3 * CAPACITY).unwrap().1, 3 * CAPACITY);
        spares.came_to(3 * MIB);
        assert_eq!(file_bytes(&spares, &place, "third"), 3 * MIB, "what comes to more counts at once");
        (0..30).for_each(|_| spares.came_to(100));
        assert_eq!(file_bytes(&spares, &place, "fourth"), SET_ASIDE_MIN);
    }

    #[test]
    fn a_spare_is_not_much_longer_than_new_files_are() {
        let (place, spares) = (Memory::new(), Spares::new(CAPACITY, 2).unwrap());
        (0..10).for_each(|_| spares.came_to(MIB));
        let many = Spares::new(CAPACITY, 16).unwrap();
        (0..10).for_each(|_| many.came_to(MIB));
        assert!(!many.keep("long", 3 * MIB) && many.keep("twice", 2 * MIB), "it would stay so long for ever");
        place.publish("short", b"an earlier segment's").unwrap();
        place.publish("longer", b"another's").unwrap();
        assert!(spares.keep("short", MIB / 2) && spares.keep("longer", MIB + MIB / 2));
        assert!(!spares.keep("third", MIB), "two of the usual length are enough");
        assert_eq!(spares.file_bytes(), 2 * MIB);
        assert_eq!(file_bytes(&spares, &place, "new"), MIB + MIB / 2);
        assert_eq!(file_bytes(&spares, &place, "newer"), MIB, "a short one is made longer");
        assert_eq!(spares.file_bytes(), 0);
    }
}
