//! One file of the redo log, appended to.

use std::sync::Arc;

use firn_engine::Result;
use firn_format::file_name;
use firn_format::hybrid::redo::{REDO_HEADER_BYTES, RedoEntry, RedoHeader};
use firn_storage::{Storage, WriteFile};

use super::Recovered;
use crate::anew::create_anew;
use crate::error::{from_storage, unsynced};

/// A file, and where its next entry goes.
#[derive(Debug)]
pub(super) struct RedoFile {
    pub(super) generation: u64,
    pub(super) to: Arc<dyn WriteFile>,
    /// Where the next entry goes.
    end: u64,
    entry: RedoEntry,
    /// Entries of changes that are made, which end at `end`, and could not be written.
    kept: Vec<u8>,
    /// Something was appended since the last sync.
    pub(super) is_unsynced: bool,
}

impl RedoFile {
    /// A new file without entries, whose header survives loss of power.
    pub(super) fn make(storage: &dyn Storage, database: u128, generation: u64, index: u64) -> Result<Self> {
        let to = create_anew(storage, &file_name::redo(generation, index))?;
        let boot = storage.boot_id().unwrap_or_default();
        let header = RedoHeader { database, generation, index, boot };
        to.write_at(0, &header.encode()).map_err(from_storage)?;
        to.sync().map_err(from_storage)?;
        let file = Self::at(generation, to, REDO_HEADER_BYTES as u64);
        Ok(Self { is_unsynced: false, ..file })
    }

    /// A file that an earlier process has left, ended behind the entries that count.
    pub(super) fn end_recovered(storage: &dyn Storage, log: &Recovered) -> Result<Self> {
        let to = storage.open_write(&log.name).map_err(from_storage)?;
        let mut file = Self::at(log.generation, to, log.end);
        if !log.is_ended {
            file.end_entries()?;
        }
        if log.is_forgotten {
            file.hand_over()?;
            file.to.sync().map_err(unsynced)?;
        }
        Ok(file)
    }

    fn at(generation: u64, to: Arc<dyn WriteFile>, end: u64) -> Self {
        Self { generation, to, end, entry: RedoEntry::default(), kept: Vec::new(), is_unsynced: true }
    }

    /// Appends an entry, or nothing; answers its length.
    pub(super) fn append(&mut self, fill: impl FnOnce(&mut RedoEntry)) -> Result<u64> {
        self.write_out()?;
        self.entry.begin();
        fill(&mut self.entry);
        let bytes = self.entry.finish(self.generation, self.end);
        self.to.write_combined(self.end, bytes).map_err(from_storage)?;
        self.is_unsynced = true;
        self.end += bytes.len() as u64;
        Ok(bytes.len() as u64)
    }

    /// Appends an entry, or keeps it to be written later; answers its length.
    pub(super) fn append_surely(&mut self, fill: impl FnOnce(&mut RedoEntry)) -> (u64, Result<()>) {
        self.entry.begin();
        fill(&mut self.entry);
        let bytes = self.entry.finish(self.generation, self.end);
        let length = bytes.len() as u64;
        let at = self.end;
        self.end += length;
        self.is_unsynced = true;
        if self.kept.is_empty() {
            let written = self.to.write_combined(at, bytes).map_err(from_storage);
            if written.is_err() {
                self.kept.extend_from_slice(bytes);
            }
            return (length, written);
        }
        self.kept.extend_from_slice(bytes);
        (length, self.write_out())
    }

    /// Writes what was kept.
    pub(super) fn write_out(&mut self) -> Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let at = self.end - self.kept.len() as u64;
        self.to.write_combined(at, &self.kept).map_err(from_storage)?;
        self.kept.clear();
        Ok(())
    }

    /// Brings all that was appended to the system.
    pub(super) fn hand_over(&mut self) -> Result<()> {
        self.write_out()?;
        self.to.hand_over().map_err(from_storage)
    }

    /// Writes an entry without changes: none follows it, unless this file goes on after all.
    pub(super) fn end_entries(&mut self) -> Result<()> {
        self.write_out()?;
        self.entry.begin();
        let bytes = self.entry.finish(self.generation, self.end);
        self.is_unsynced = true;
        self.to.write_combined(self.end, bytes).map_err(from_storage)
    }
}
