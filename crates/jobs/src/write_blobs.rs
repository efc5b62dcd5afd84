//! Writing the values that are to lie separated: one segment.

use std::ops::Deref;

use firn_format::blob::segment::{BLOB_OFFSET_END, Origin};
use firn_format::blob::{BlobSegmentHeader, Reference, ReferenceBytes, SegmentNumber, Stored};
use firn_format::compression::{Compression, Compressor};
use firn_format::file_name;
use firn_format::manifest::BlobSegmentMeta;
use firn_storage::Storage;
use firn_storage::file::blob::BlobBuilder;

use crate::error::{Error, ErrorKind, Result};

/// Whose values a segment has.
#[derive(Clone, Copy, Debug)]
pub struct BlobOrigin {
    /// Identity of the database.
    pub database: u128,
    /// The keyspace that all values are of.
    pub keyspace: u32,
}

/// Takes values and leaves them in one blob segment, whose file begins with the first of them.
///
/// Dropped unfinished, or without [`keep`](Self::keep), it removes what it created. It borrows its
/// storage, or holds it by `Arc`.
#[derive(Debug)]
pub struct BlobWriter<S: Deref<Target: Storage>> {
    storage: S,
    name: String,
    number: SegmentNumber,
    origin: BlobOrigin,
    compression: Compression,
    builder: Option<BlobBuilder>,
    /// Head and key of a record.
    front: Vec<u8>,
    compressor: Compressor,
    is_created: bool,
}

impl<S: Deref<Target: Storage>> BlobWriter<S> {
    /// A writer of segment `number` in the file `name`, whose values are compressed as
    /// `compression` says. Creates nothing yet.
    ///
    /// # Errors
    /// `Invalid` for a name that no file can be called by.
    pub fn new(
        storage: S,
        name: String,
        number: SegmentNumber,
        origin: BlobOrigin,
        compression: Compression,
    ) -> Result<Self> {
        if !file_name::is_valid(&name) {
            return Err(Error::new(ErrorKind::Invalid, format!("{name:?} cannot be a file's name")));
        }
        let (builder, front, compressor) = Default::default();
        Ok(Self { storage, name, number, origin, compression, builder, front, compressor, is_created: false })
    }

    /// Bytes of the segment so far.
    pub fn bytes(&self) -> u64 {
        self.builder.as_ref().map_or(0, BlobBuilder::bytes)
    }

    /// Adds the value of `key` and answers what refers to it; `None` if there is no room for it.
    /// May write.
    ///
    /// # Errors
    /// `Storage`; `Invalid` for a value too long to be compressed.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> Result<Option<ReferenceBytes>> {
        let builder = match &mut self.builder {
            Some(builder) => builder,
            None => {
                let file = self.storage.create(&self.name)?;
                self.is_created = true;
                let header = BlobSegmentHeader {
                    database: self.origin.database,
                    number: self.number,
                    origin: Origin::Written,
                    generation: 0,
                };
                self.builder.insert(BlobBuilder::new(&self.name, file, &header))
            }
        };
        let wrong = |error: firn_format::Error| Error::new(ErrorKind::Invalid, error.to_string());
        let stored = Stored::new(value, self.compression, &mut self.compressor).map_err(wrong)?;
        let keyspace = self.origin.keyspace;
        if builder.bytes() + stored.record_bytes(keyspace, key.len()) as u64 + 8 > BLOB_OFFSET_END {
            return Ok(None);
        }
        let (segment, ordinal, value_bytes) = (self.number, builder.len(), stored.value_bytes());
        builder.begin(value_bytes)?;
        let offset = builder.bytes();
        self.front.clear();
        let checksum = stored.encode_head((segment, ordinal), (keyspace, key), &mut self.front);
        builder.put(&self.front)?;
        builder.put(stored.bytes())?;
        Ok(Some(Reference { segment, ordinal, offset, value_bytes, checksum }.encode()))
    }

    /// Completes and syncs the segment, if there is a value in it. Its name is durable after
    /// `Storage::sync_dir`.
    ///
    /// # Errors
    /// `Storage`.
    pub fn finish(&mut self) -> Result<Option<BlobSegmentMeta>> {
        match self.builder.take() {
            Some(builder) => Ok(Some(builder.finish(&[])?.0)),
            None => Ok(None),
        }
    }

    /// The segment stays.
    pub fn keep(mut self) {
        self.is_created = false;
    }
}

impl<S: Deref<Target: Storage>> Drop for BlobWriter<S> {
    fn drop(&mut self) {
        self.builder = None;
        if self.is_created {
            // No edit names the file yet: if it stays, the committer removes it with the dead
            // attempt's stem.
            let _ = self.storage.remove(&self.name);
        }
    }
}
