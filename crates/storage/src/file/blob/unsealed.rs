//! A blob segment that its process left before it was sealed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use firn_format::blob::record::{CHUNK_BYTES, chunk_count};
use firn_format::blob::segment::{BLOB_HEADER_BYTES, BlobSegmentHeader};
use firn_format::blob::{Reference, SegmentNumber};

use super::corrupt;
use super::read::{Bytes, Wanted, read_value};
use crate::{Error, ReadFile, Result, Storage};

/// A blob segment without a footer that is not written to any more. Only the references to it tell
/// what it holds.
pub struct UnsealedBlobs {
    name: String,
    file: Arc<dyn ReadFile>,
    header: BlobSegmentHeader,
}

impl UnsealedBlobs {
    /// Opens the file `name` and reads its header.
    ///
    /// # Errors
    /// `Corrupt` if that is none, as when the process died before it was written; what reading
    /// says.
    pub fn open(storage: &dyn Storage, name: &str) -> Result<Self> {
        let file = storage.open_read(name)?;
        if file.len() < BLOB_HEADER_BYTES as u64 {
            let message = format!("expected a header of {BLOB_HEADER_BYTES} bytes, found {}", file.len());
            return Err(Error::corrupt(name, 0, message));
        }
        let mut head = [0; BLOB_HEADER_BYTES];
        file.read_at(0, &mut head)?;
        let header = BlobSegmentHeader::decode(&head).map_err(|error| corrupt(name, 0, &error))?;
        Ok(Self { name: name.to_owned(), file, header })
    }

    /// Its number.
    pub fn number(&self) -> SegmentNumber {
        self.header.number
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says at its beginning.
    pub fn header(&self) -> &BlobSegmentHeader {
        &self.header
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.file.len()
    }

    /// Appends the wanted part of a value to `out`.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if another value, or none, lies there; what reading says.
    pub fn read(&self, wanted: &Wanted<'_>, out: &mut Vec<u8>) -> Result<()> {
        read_value(self, wanted.reference.offset, wanted, out)
    }

    /// Whether the whole value that `reference` names is here. At most a chunk of it is in memory.
    ///
    /// # Errors
    /// What reading says; a value that is not whole is no error.
    pub fn holds(&self, reference: &Reference, key_bytes: usize) -> Result<bool> {
        let mut chunk = Vec::new();
        for index in 0..chunk_count(reference.value_bytes as usize) {
            chunk.clear();
            let range = index * CHUNK_BYTES..(index + 1) * CHUNK_BYTES;
            match self.read(&Wanted { reference, key_bytes, range }, &mut chunk) {
                Ok(()) => {}
                Err(error) if error.kind == crate::ErrorKind::Corrupt => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Bytes for UnsealedBlobs {
    fn name(&self) -> &str {
        &self.name
    }

    fn end(&self) -> u64 {
        self.file.len()
    }

    fn fetch(&self, offset: u64, bytes: usize) -> Result<Cow<'_, [u8]>> {
        let mut out = vec![0; bytes];
        self.file.read_at(offset, &mut out)?;
        Ok(Cow::Owned(out))
    }
}

impl fmt::Debug for UnsealedBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnsealedBlobs").field("name", &self.name).field("header", &self.header).finish()
    }
}
