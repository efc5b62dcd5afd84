//! A table that is part of versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::{Error, Result};
use firn_format::manifest::TableMeta;
use firn_format::{Sequence, file_name};
use firn_storage::file::obsolete::{LastReader, ObsoleteFiles, RecyclableFile};
use firn_storage::file::table::TableReader;

use crate::error::from_storage;

/// A live table: what the manifest says of it, and the open file.
///
/// Once [`retire`](Self::retire)d, its file is removed, or given to a new table, after the last
/// version that holds it is gone. Only a file that this process wrote, that no copy links and
/// that no reader maps is given to a new table.
#[derive(Debug)]
pub(crate) struct Table {
    meta: TableMeta,
    reader: Arc<TableReader>,
    /// Estimated share of its entries that supersede something in older tables, and the bytes that
    /// this has there.
    supersedes: (f64, u64),
    retired: AtomicBool,
    leaves_file: AtomicBool,
    obsolete: Arc<ObsoleteFiles>,
}

impl Table {
    pub(crate) fn new(
        meta: TableMeta,
        reader: Arc<TableReader>,
        supersedes: (f64, u64),
        obsolete: Arc<ObsoleteFiles>,
    ) -> Self {
        obsolete.count(reader.memory_bytes() as u64);
        match file_name::part(&meta.file) {
            Some(part) => obsolete.shared.hold(&part),
            None => obsolete.hold(&meta.file),
        }
        let (retired, leaves_file) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { meta, reader, supersedes, retired, leaves_file, obsolete }
    }

    /// Gives all entries of an ingested table `sequence`, before any version has the table; and
    /// says which share of them supersedes something in older tables.
    ///
    /// # Errors
    /// A bug: the table is read already, or its entries have sequences.
    pub(crate) fn give_sequence(&mut self, sequence: Sequence, overwrites: f64) -> Result<()> {
        let reader = Arc::get_mut(&mut self.reader).ok_or_else(|| Error::bug("a table is read too early"))?;
        reader.give_sequence(sequence).map_err(from_storage)?;
        (self.meta.sequence_min, self.meta.sequence_max) = (sequence, sequence);
        self.supersedes = (overwrites, (self.meta.bytes as f64 * overwrites) as u64);
        Ok(())
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Estimated share of its entries that supersede something in older tables.
    pub(crate) fn overwrites(&self) -> f64 {
        self.supersedes.0
    }

    /// Estimated bytes in older tables that this one supersedes.
    pub(crate) fn superseded_bytes(&self) -> u64 {
        self.supersedes.1
    }

    pub(crate) fn reader(&self) -> &Arc<TableReader> {
        &self.reader
    }

    /// Whether it refers to separated values.
    pub(crate) fn refers(&self) -> bool {
        self.reader.properties().references.is_some()
    }

    /// Whether something in it expires.
    pub(crate) fn expires(&self) -> bool {
        !self.reader.properties().expiring.is_empty()
    }

    /// Which part of its bytes, and of the separated values that it refers to, has expired at
    /// `now_ms`, at least.
    pub(crate) fn expired_share(&self, now_ms: u64) -> f64 {
        let properties = self.reader.properties();
        let expired = properties.expiring.expired_bytes(now_ms);
        let all = properties.data_bytes + self.referred_bytes();
        (expired as f64 / all.max(1) as f64).min(1.0)
    }

    /// Bytes of its file and of the separated values that it refers to.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.meta.bytes + self.referred_bytes()
    }

    fn referred_bytes(&self) -> u64 {
        self.reader.properties().references.map_or(0, |summary| summary.value_bytes)
    }

    /// Its file may become another table's: this process wrote it, and it has no other name.
    pub(crate) fn may_leave_file(&self) {
        self.leaves_file.store(true, Ordering::Release);
    }

    /// Its file is no other table's, ever: it is about to get a second name, or its space is wanted
    /// back.
    pub(crate) fn leave_no_file(&self) {
        self.leaves_file.store(false, Ordering::Release);
    }

    /// No version that is installed from now on holds the table.
    pub(crate) fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel)
            && let Some(part) = file_name::part(&self.meta.file)
        {
            self.obsolete.shared.retire(&part);
        }
    }

    /// No edit names the table, nor ever will: of a file that it shares, its bytes are dead. One of
    /// its own is removed by whatever wrote it.
    pub(crate) fn is_refused(&self) {
        if file_name::part(&self.meta.file).is_some() {
            self.retire();
        }
    }

    /// Whether the table's bounds touch `smallest..=largest`.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.meta.smallest.as_slice() <= largest && smallest <= self.meta.largest.as_slice()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.obsolete.discount(self.reader.memory_bytes() as u64);
        let is_retired = self.retired.load(Ordering::Acquire);
        if let Some(part) = file_name::part(&self.meta.file) {
            let gone = || self.obsolete.remove_later(part.file.to_owned());
            self.obsolete.shared.let_go(part.file, is_retired, gone);
            return;
        }
        if is_retired {
            let name = self.meta.file.clone();
            match self.leaves_file.load(Ordering::Acquire) {
                true => {
                    let (bytes, reader) = (self.meta.bytes, Arc::clone(&self.reader));
                    self.obsolete.recycle_file(RecyclableFile {
                        name,
                        bytes,
                        reader: LastReader::Table(reader),
                    });
                }
                false => self.obsolete.remove_later(name),
            }
        }
        self.obsolete.let_go(&self.meta.file);
    }
}
