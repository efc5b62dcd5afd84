//! Writing a table file.

use std::sync::Arc;

use firn_format::key::Entry;
use firn_format::manifest::TableMeta;
use firn_format::table::{Finished, TableEncoder, TableForm};
use firn_format::tombstone::FragmentList;

use crate::backend::PAGE_BYTES;
use crate::{Error, ErrorKind, Result, WriteFile};

/// Completed bytes are written once there are this many, in whole pages.
const WRITE_BYTES: usize = 128 << 10;
/// The device is asked to begin writing every so many bytes.
const WRITE_BACK_BYTES: u64 = 8 << 20;

/// Writes one table to a new file, front to back, in large pieces.
///
/// After an error the file is unfinished: the caller removes it.
#[derive(Debug)]
pub struct TableBuilder {
    name: String,
    file: Arc<dyn WriteFile>,
    encoder: TableEncoder,
    written_bytes: u64,
    hinted_bytes: u64,
}

impl TableBuilder {
    /// A builder of the table `name` in the new empty `file`.
    pub fn new(name: &str, file: Arc<dyn WriteFile>, form: TableForm) -> Self {
        let encoder = TableEncoder::new(form);
        Self { name: name.to_owned(), file, encoder, written_bytes: 0, hinted_bytes: 0 }
    }

    /// Adds the next entry: a greater key, or the same key with a smaller sequence. May write to
    /// the file.
    ///
    /// # Errors
    /// `Invalid` if it is out of order or beyond a limit of [`firn_format::table::data`]; what
    /// writing says.
    #[inline]
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.encoder.add(entry).map_err(|error| self.refused(&error))?;
        if self.encoder.completed().len() >= WRITE_BYTES {
            let rest = self.encoder.completed().len() % PAGE_BYTES as usize;
            self.write_completed(rest)?;
        }
        Ok(())
    }

    /// Adds range tombstones; any number of times, before or after entries.
    pub fn add_tombstones(&mut self, list: &FragmentList) {
        self.encoder.add_tombstones(list);
    }

    /// Bytes the file would have if finished now, about.
    pub fn estimated_bytes(&self) -> u64 {
        self.encoder.estimated_bytes()
    }

    /// Entries added so far.
    pub fn entry_count(&self) -> u64 {
        self.encoder.entry_count()
    }

    /// The last key added; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        self.encoder.last_key()
    }

    /// Whether nothing was added: then [`finish`](Self::finish) fails.
    pub fn is_empty(&self) -> bool {
        self.encoder.is_empty()
    }

    /// Completes and syncs the file; blocks for that. The name is durable after
    /// `Storage::sync_dir`.
    ///
    /// # Errors
    /// `Invalid` if nothing was added; what writing and syncing say.
    pub fn finish(self) -> Result<TableMeta> {
        self.complete()?.sync()
    }

    /// Completes the file and asks the device to begin writing it, without waiting for that.
    ///
    /// # Errors
    /// `Invalid` if nothing was added; what writing says.
    pub fn complete(mut self) -> Result<Unsynced> {
        let Finished { properties, file_bytes, file_checksum } =
            self.encoder.finish().map_err(|error| self.refused(&error))?;
        self.write_completed(0)?;
        self.file.write_back(self.hinted_bytes, self.written_bytes - self.hinted_bytes)?;
        let meta = TableMeta {
            file: self.name,
            bytes: file_bytes,
            file_checksum,
            smallest: properties.smallest,
            largest: properties.largest,
            sequence_min: properties.sequence_min,
            sequence_max: properties.sequence_max,
            entry_count: properties.entry_count,
            tombstone_count: properties.tombstone_count,
            range_tombstone_count: properties.range_tombstone_count,
            data_bytes: properties.data_bytes,
            content_hash: properties.content_hash,
        };
        Ok(Unsynced { meta, file: self.file })
    }

    /// Writes what is complete but for the last `rest` bytes.
    fn write_completed(&mut self, rest: usize) -> Result<()> {
        let completed = self.encoder.completed();
        let bytes = completed.get(..completed.len().saturating_sub(rest)).unwrap_or_default();
        self.file.write_at(self.written_bytes, bytes)?;
        let bytes = bytes.len();
        self.written_bytes += bytes as u64;
        self.encoder.release(bytes);
        if self.written_bytes - self.hinted_bytes >= WRITE_BACK_BYTES {
            self.file.write_back(self.hinted_bytes, self.written_bytes - self.hinted_bytes)?;
            self.hinted_bytes = self.written_bytes;
        }
        Ok(())
    }

    fn refused(&self, error: &firn_format::Error) -> Error {
        Error::new(ErrorKind::Invalid, self.name.clone(), error.to_string())
    }
}

/// A table whose every byte is the kernel's and perhaps not yet the device's: nothing may name it
/// before the sync.
#[derive(Debug)]
#[must_use]
pub struct Unsynced {
    meta: TableMeta,
    file: Arc<dyn WriteFile>,
}

impl Unsynced {
    /// Blocks until the device has the file. The name is durable after `Storage::sync_dir`.
    ///
    /// # Errors
    /// What syncing says; the file's content is unknown then.
    pub fn sync(self) -> Result<TableMeta> {
        self.file.sync()?;
        Ok(self.meta)
    }
}
