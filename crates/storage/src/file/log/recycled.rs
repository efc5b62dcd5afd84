//! What dead segments leave to the next ones: their arenas and their files.
//!
//! The pages of both are there already. A first store to a new page of an arena costs a fault. A
//! first write to a new page of a file costs an allocation (figures in decision 0004).
//!
//! A file is given on by renaming it, with its old bytes in it. No frame among them can pass for
//! one of the new segment, because a frame's checksum is salted with its position and the log's
//! generation. No reader misses them, because a segment dies only when a durable edit says that all
//! its records are in tables. A crash may leave the old name with the new header, or the new name
//! with the old one. Recovery takes such a file for a segment of which nothing was written.

use std::sync::Arc;

use firn_arena::{Pool, Region};
use firn_format::log::SEGMENT_HEADER_BYTES;

use crate::backend::RecycledFiles;
use crate::{Error, ErrorKind, Result, Storage, WriteFile};

/// Arenas and files of segments of the usual capacity.
#[derive(Debug)]
pub struct RecycledSegments {
    capacity: u64,
    arenas: Pool,
    files_max: usize,
    files: RecycledFiles,
}

impl RecycledSegments {
    /// Holds at most `count` arenas and as many files of segments of `capacity` bytes.
    pub fn new(capacity: u64, count: usize) -> Result<Self> {
        let arenas = Pool::new(arena_bytes(capacity)?, count);
        Ok(Self { capacity, arenas, files_max: count, files: RecycledFiles::default() })
    }

    /// An arena for a segment of `capacity`, a recycled one if there is one that fits.
    pub fn arena(&self, capacity: u64) -> Result<Region> {
        let region = match capacity == self.capacity {
            true => self.arenas.region(),
            false => Region::anonymous(arena_bytes(capacity)?),
        };
        region.map_err(|error| {
            Error::new(ErrorKind::Refused, "", format!("cannot map {capacity} bytes for a log segment"))
                .because(error)
        })
    }

    /// A file `name` for a segment of `capacity`: new, with room for the first `reserved` bytes, or
    /// a recycled one with whatever it held.
    ///
    /// # Errors
    /// What the backend says. A recycled file that could not be given on is kept.
    pub fn file(
        &self,
        storage: &dyn Storage,
        name: &str,
        (capacity, reserved): (u64, u64),
    ) -> Result<Arc<dyn WriteFile>> {
        if capacity == self.capacity
            && let Some(file) = replacing(storage, name, || self.files.give(storage, name))?
        {
            return Ok(file);
        }
        let file = replacing(storage, name, || storage.create(name))?;
        file.allocate(reserved)?;
        Ok(file)
    }

    /// Keeps the file `name`, which nothing refers to any more; `false` if there are enough, `most`
    /// or fewer.
    pub fn keep(&self, name: &str, most: usize) -> bool {
        self.files.keep(name, self.capacity, self.files_max.min(most) as u64 * self.capacity)
    }

    /// Makes the arenas that came back ready for use.
    pub fn clean_arenas(&self) {
        self.arenas.clean();
    }

    /// Gives arenas back to the system, so that those that stay hold at most `bytes_max`.
    pub fn trim_arenas(&self, bytes_max: u64) {
        self.arenas.trim(usize::try_from(bytes_max).unwrap_or(usize::MAX));
    }

    /// The files, to be removed.
    pub fn take_files(&self) -> Vec<String> {
        self.files.take()
    }

    /// Bytes of recycled arenas and of recycled files.
    pub fn bytes(&self) -> u64 {
        self.arena_bytes() + self.file_bytes()
    }

    /// Bytes of recycled files.
    pub fn file_bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// Memory that recycled arenas hold.
    pub fn arena_bytes(&self) -> u64 {
        self.arenas.recycled_bytes() as u64
    }
}

/// Does `begin`, which gives a file the name `name`, in place of a file that has it already. A roll
/// that ran out of disk left that behind, and no frame can be in it.
fn replacing<T>(storage: &dyn Storage, name: &str, begin: impl Fn() -> Result<T>) -> Result<T> {
    match begin() {
        Err(error) if error.kind == ErrorKind::Exists => {
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
        .map_err(|_| Error::new(ErrorKind::Invalid, "", "a log segment does not fit this machine's memory"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::RecycledSegments;
    use crate::backend::{Effect, Fault, Faulty, Memory, Operation, When};
    use crate::{ErrorKind, Storage};

    const CAPACITY: u64 = 4 << 20;

    /// A backend with one recycled file `old`, of which the next `on` goes as `effect` says.
    fn failing(on: Operation, effect: Effect) -> (Faulty, RecycledSegments) {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        faulty.publish("old", b"bytes of an earlier segment").unwrap();
        faulty.inject(Fault { on, file: "*".to_owned(), when: When::Once { after: 0 }, effect });
        let recycled = RecycledSegments::new(CAPACITY, 2).unwrap();
        assert!(recycled.keep("old", usize::MAX) && !recycled.keep("more", 1));
        (faulty, recycled)
    }

    fn names(storage: &Faulty) -> Vec<String> {
        storage.list().unwrap().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_recycled_file_that_cannot_be_renamed_is_kept() {
        for kind in [ErrorKind::Full, ErrorKind::Io] {
            let (faulty, recycled) = failing(Operation::Rename, Effect::Fail(kind));
            assert!(recycled.file(&faulty, "new", (CAPACITY, CAPACITY)).is_err());
            assert_eq!(names(&faulty), ["old"]);
            recycled.file(&faulty, "new", (CAPACITY, CAPACITY)).unwrap();
            assert_eq!(names(&faulty), ["new"], "it was given on");
            assert_eq!(recycled.take_files(), [""; 0]);
        }
    }

    #[test]
    fn a_recycled_file_that_was_renamed_although_that_failed_is_no_recycled_file_any_more() {
        let (faulty, recycled) = failing(Operation::Rename, Effect::FailAfter(ErrorKind::Io));
        assert!(recycled.file(&faulty, "new", (CAPACITY, CAPACITY)).is_err());
        assert_eq!(names(&faulty), ["new"]);
        recycled.file(&faulty, "new", (CAPACITY, CAPACITY)).unwrap();
        assert_eq!(names(&faulty), ["new"]);
        assert_eq!(recycled.take_files(), [""; 0]);
    }

    #[test]
    fn a_recycled_file_that_cannot_be_opened_is_removed() {
        let (faulty, recycled) = failing(Operation::OpenWrite, Effect::Fail(ErrorKind::Io));
        assert!(recycled.file(&faulty, "new", (CAPACITY, CAPACITY)).is_err());
        assert_eq!(names(&faulty), [""; 0]);
        recycled.file(&faulty, "new", (CAPACITY, CAPACITY)).unwrap();
        assert_eq!(names(&faulty), ["new"]);
    }

    #[test]
    fn a_file_that_has_the_name_already_is_replaced() {
        let (faulty, recycled) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
        for left in [1, 0] {
            faulty.publish("new", b"left behind by a roll").unwrap();
            recycled.file(&faulty, "new", (CAPACITY, CAPACITY)).unwrap();
            assert_eq!(names(&faulty), ["new"], "with {left} recycled files");
            faulty.remove("new").unwrap();
        }
    }
}
