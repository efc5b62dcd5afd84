//! A table that is part of versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_format::manifest::TableMeta;
use firn_storage::file::table::TableReader;

use crate::log::segment::Graveyard;

/// A live table: what the manifest says of it, and the open file.
///
/// Removed from the directory after the last version that holds it is gone, once [`retire`](Self::retire)d.
#[derive(Debug)]
pub(crate) struct Table {
    meta: TableMeta,
    reader: Arc<TableReader>,
    /// Estimated share of its bytes that supersede something in older tables.
    overwrites: f64,
    retired: AtomicBool,
    graveyard: Arc<Graveyard>,
}

impl Table {
    pub(crate) fn new(
        meta: TableMeta,
        reader: Arc<TableReader>,
        overwrites: f64,
        graveyard: Arc<Graveyard>,
    ) -> Self {
        graveyard.count(reader.memory_bytes() as u64);
        Self { meta, reader, overwrites, retired: AtomicBool::new(false), graveyard }
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Estimated bytes in older tables that this one supersedes.
    pub(crate) fn superseded_bytes(&self) -> u64 {
        (self.meta.bytes as f64 * self.overwrites) as u64
    }

    pub(crate) fn reader(&self) -> &Arc<TableReader> {
        &self.reader
    }

    /// No version that is installed from now on holds the table.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Whether the table's bounds touch `smallest..=largest`.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.meta.smallest.as_slice() <= largest && smallest <= self.meta.largest.as_slice()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.graveyard.discount(self.reader.memory_bytes() as u64);
        if self.retired.load(Ordering::Acquire) {
            self.graveyard.bury(std::mem::take(&mut self.meta.file));
        }
    }
}
