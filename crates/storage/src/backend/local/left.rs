//! What a process that died left in the combiner: bytes that it had acknowledged, on their way into
//! files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use firn_format::combiner::{self, SlotHead};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::backend::check_range;
use crate::backend::name::{self, COMBINER_FILE};
use crate::{Error, ErrorKind, FileBytes, ReadFile, Result};

/// Pieces that may be missing in their files.
#[derive(Debug, Default)]
pub(super) struct Left {
    pieces: Vec<LeftPiece>,
}

#[derive(Debug)]
struct LeftPiece {
    name: String,
    offset: u64,
    bytes: Vec<u8>,
}

impl Left {
    /// What the combiner of `directory` holds. Nothing where there is none, or loss of power left
    /// none that is whole.
    ///
    /// # Errors
    /// `Corrupt` if a newer release wrote it; what reading says.
    pub(super) fn read(directory: &File) -> Result<Self> {
        let Some(file) = open(directory, OFlags::RDONLY)? else { return Ok(Self::default()) };
        let length = file.metadata().map_err(|error| Error::io(COMBINER_FILE, "look at", error))?.len();
        if length != combiner::COMBINER_BYTES as u64 {
            return Ok(Self::default());
        }
        let mut bytes = vec![0; combiner::COMBINER_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(|error| Error::io(COMBINER_FILE, "read", error))?;
        match combiner::decode_header(&bytes) {
            Err(error) if error.is_newer => {
                Err(Error::corrupt(COMBINER_FILE, error.offset as u64, error.to_string()))
            }
            Err(_) => Ok(Self::default()),
            Ok(()) => Ok(Self { pieces: pieces_of(&bytes) }),
        }
    }

    /// Writes the pieces to their files in `directory`, which is locked for writing, and empties
    /// the combiner for good. Files that are gone need none. A sync where there is a combiner.
    ///
    /// # Errors
    /// What writing says; the combiner is as it was then.
    pub(super) fn restore(self, directory: &File) -> Result<()> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        for LeftPiece { name, offset, bytes } in &self.pieces {
            let action = "write what a killed process left in the combiner (make room and open it again, or open it for reading) to";
            let failed = |error| Error::io(name, action, error);
            match rustix::fs::openat(directory, name.as_str(), flags, Mode::empty()) {
                Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error.into())),
                Ok(file) => File::from(file).write_all_at(bytes, *offset).map_err(failed)?,
            }
        }
        // Durably, whatever is there: the files may change before a loss of power, after which no
        // bytes of before must come back, and the device may have other ones than memory shows.
        let Some(file) = open(directory, OFlags::RDWR)? else { return Ok(()) };
        for start in (0..combiner::SLOTS).map(|index| combiner::slot_range(index).start) {
            file.write_all_at(&[0; combiner::SLOT_HEAD_BYTES], start as u64)
                .map_err(|error| Error::io(COMBINER_FILE, "empty", error))?;
        }
        file.sync_data().map_err(|error| Error::sync(COMBINER_FILE, "sync", error))
    }

    /// Behind the last piece of the file `name`, if there is one.
    pub(super) fn end_of(&self, name: &str) -> Option<u64> {
        let pieces = self.pieces.iter().filter(|piece| piece.name == name);
        pieces.map(|piece| piece.offset + piece.bytes.len() as u64).max()
    }

    /// The file `name`, of which `found` is there, with the pieces that it lacks; `None` if it
    /// lacks none.
    ///
    /// # Errors
    /// What reading says.
    pub(super) fn complete(&self, name: &str, found: &dyn ReadFile) -> Result<Option<Arc<dyn ReadFile>>> {
        let Some(end) = self.end_of(name) else { return Ok(None) };
        let too_long = || Error::new(ErrorKind::Invalid, name, "the file does not fit this machine's memory");
        let length = usize::try_from(end.max(found.len())).map_err(|_| too_long())?;
        let mut bytes = vec![0; length];
        found.read_at(0, &mut bytes[..found.len() as usize])?;
        for piece in self.pieces.iter().filter(|piece| piece.name == name) {
            bytes[piece.offset as usize..][..piece.bytes.len()].copy_from_slice(&piece.bytes);
        }
        Ok(Some(Arc::new(Completed { name: name.to_owned(), bytes: FileBytes::new(Arc::new(bytes)) })))
    }
}

/// The combiner's file, if there is one.
fn open(directory: &File, flags: OFlags) -> Result<Option<File>> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(directory, COMBINER_FILE, flags, Mode::empty()) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(Error::io(COMBINER_FILE, "open", error.into())),
    }
}

/// The pieces of a whole combiner.
fn pieces_of(combiner: &[u8]) -> Vec<LeftPiece> {
    let mut found = Vec::new();
    for slot in (0..combiner::SLOTS).filter_map(|index| combiner.get(combiner::slot_range(index))) {
        let Some(head) = SlotHead::read(slot).filter(|head| name::is_allowed(&head.name)) else { continue };
        found.extend(combiner::pieces(slot, &head).map(|(piece, bytes)| LeftPiece {
            name: head.name.clone(),
            offset: piece.offset,
            bytes: bytes.to_vec(),
        }));
    }
    found
}

/// A file with the pieces that it lacks, in memory.
#[derive(Debug)]
struct Completed {
    name: String,
    bytes: FileBytes,
}

impl ReadFile for Completed {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        check_range(&self.name, offset, out.len(), self.len())?;
        out.copy_from_slice(&self.bytes[offset as usize..][..out.len()]);
        Ok(())
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(Some(self.bytes.clone()))
    }
}
