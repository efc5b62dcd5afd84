//! A table that is part of versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_format::manifest::TableMeta;
use firn_storage::file::table::TableReader;

use crate::log::segment::Graveyard;

/// A live table: what the manifest says of it, and the open file.
///
/// Once [`retire`](Self::retire)d, its file is removed, or given to a new table, after the last version that holds it is
/// gone. Only a file that this process wrote, that no checkpoint links and that nobody reads is given to a new table.
#[derive(Debug)]
pub(crate) struct Table {
    meta: TableMeta,
    reader: Arc<TableReader>,
    /// Estimated share of its bytes that supersede something in older tables.
    overwrites: f64,
    retired: AtomicBool,
    leaves_file: AtomicBool,
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
        let (retired, leaves_file) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { meta, reader, overwrites, retired, leaves_file, graveyard }
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

    /// Its file may become another table's: this process wrote it, and nobody else has a name for it.
    pub(crate) fn may_leave_file(&self) {
        self.leaves_file.store(true, Ordering::Release);
    }

    /// Its file is no other table's, ever: it is about to get a second name, or its space is wanted back.
    pub(crate) fn leave_no_file(&self) {
        self.leaves_file.store(false, Ordering::Release);
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
            let name = std::mem::take(&mut self.meta.file);
            // Who holds a reader should hold a version too, but what is mapped would change under whoever does not.
            let is_unread = Arc::get_mut(&mut self.reader).is_some();
            match is_unread && self.leaves_file.load(Ordering::Acquire) {
                true => self.graveyard.offer_table(name, self.meta.bytes),
                false => self.graveyard.bury(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_format::key::{Entry, Kind};
    use firn_format::{Sequence, table::TableForm};
    use firn_storage::Storage;
    use firn_storage::file::cache::BlockCache;
    use firn_storage::file::table::{ReaderOptions, TableBuilder};
    use firn_storage::place::Memory;

    use super::*;

    #[test]
    fn a_file_that_somebody_reads_is_no_other_tables() {
        let place = Memory::new();
        let mut builder =
            TableBuilder::new("a.table", place.create("a.table").unwrap(), TableForm::default());
        let entry =
            Entry { key: b"k", sequence: Sequence(1), kind: Kind::Put, expires_at_ms: 0, value: b"v" };
        builder.add(&entry).unwrap();
        let meta = builder.finish().unwrap();
        let cache = Arc::new(BlockCache::new(0));
        let open = || Arc::new(TableReader::open(&place, &meta, &cache, ReaderOptions::default()).unwrap());
        let graveyard = Arc::new(Graveyard::default());
        let given_up = |reader: Arc<TableReader>, may_leave: bool| {
            let table = Table::new(meta.clone(), reader, 0.0, Arc::clone(&graveyard));
            if may_leave {
                table.may_leave_file();
            }
            table.retire();
            drop(table);
            let dead = graveyard.take();
            (dead.buried.len(), dead.offered_tables.len())
        };
        assert_eq!(given_up(open(), true), (0, 1));
        assert_eq!(given_up(open(), false), (1, 0));
        let reader = open();
        assert_eq!(given_up(Arc::clone(&reader), true), (1, 0), "somebody reads it");
    }
}
