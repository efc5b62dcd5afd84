//! Puts of large values, and what becomes of them until tables refer to them: `blobs/write.rs`,
//! `flush/freeze.rs`, `flush/run.rs`, `blob_gc/seal.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::commit::{BlobEdit, Edit, Going};
use super::database::{Database, Manifest, Memtable, Mistake, Record, Table, Version};
use super::homes::{Active, FileName, Name, Records, lock};
use crate::model::sync::{locked, pause, thread};

/// `NewlySealed`.
pub(super) struct NewlySealed {
    pub(super) number: u32,
    pub(super) file: FileName,
    pub(super) count: usize,
    /// Values of a keyspace that is gone.
    pub(super) dead: BTreeSet<usize>,
}

impl Database {
    /// Puts of large values, and their flush.
    pub(crate) fn write(&self, keys: &[u8]) {
        keys.iter().for_each(|key| self.put(*key));
        self.flush();
    }

    /// `BlobStore::write`, then the frame that refers to it: indexed in the memtable that is
    /// current when it is in the log.
    pub(crate) fn put(&self, key: u8) {
        if self.version.load().is_dropped {
            return;
        }
        let value = self.written.fetch_add(1, Ordering::Relaxed);
        let (active, name) = loop {
            let active = self.active();
            if let Some(name) = active.place(value) {
                break (active, name);
            }
        };
        pause();
        let record = Record { name: Some(name), value };
        // `loom_version` has how a frame finds its memtable.
        while !index(&self.version.load(), key, record) {
            thread::yield_now();
        }
        pause();
        active.settle();
    }

    /// `BlobStore::next_active`.
    fn active(&self) -> Arc<Active> {
        self.rolling(|rolling| {
            if let Some(active) = rolling.open.last().filter(|active| !active.is_full()) {
                return Arc::clone(active);
            }
            rolling.next += 1;
            let active = Arc::new(Active::new(rolling.next));
            let is_new = self.files.create(FileName::Written(active.number), Records::default());
            assert!(is_new, "segment {} is made twice", active.number);
            rolling.open.push(Arc::clone(&active));
            rolling.newest = rolling.newest.follow(Arc::clone(&active));
            active
        })
    }

    /// `CommitPipeline::roll` and `Flushing::freeze`.
    pub(crate) fn freeze(&self) {
        self.change_version(|version| {
            if version.memtable.newest().is_empty() {
                return;
            }
            let frozen = std::mem::take(&mut version.memtable);
            lock(&frozen.0).is_frozen = true;
            version.runs.insert(0, frozen);
        });
    }

    /// `Flushing::flush` of all runs. One at a time: see `Busy::flushing`.
    pub(crate) fn flush(&self) {
        self.freeze();
        let version = self.version.load();
        if version.runs.is_empty() {
            return;
        }
        let runs = version.runs.clone();
        // `Noting`: what the runs refer to, whether that is in the table or not.
        let references = |run: &Arc<Memtable>| {
            lock(&run.0).records.iter().filter_map(|(_, record)| record.name).collect::<Vec<Name>>()
        };
        let going: Going = runs.iter().flat_map(references).collect();
        let table = runs.iter().map(|run| run.newest()).reduce(super::database::under).unwrap_or_default();
        // `NewlyObsolete`: what each key's newest record in tables refers to.
        let newest =
            |key| version.tables.iter().find_map(|older| older.get(key)).filter(|_| !self.are_tables_cold);
        let newly_obsolete: Going =
            table.keys().filter_map(newest).filter_map(|record| record.name).collect();
        drop(version);
        let (removed, flushed) = (Vec::new(), runs);
        self.commit(Edit {
            removed,
            added: table,
            going,
            newly_obsolete,
            left: None,
            flushed,
            old_map: None,
        });
    }

    /// `BlobStore::seal`; the caller holds `sealing`.
    pub(super) fn seal(&self, wanted: &BTreeSet<u32>) -> Vec<NewlySealed> {
        let is_dropped = self.version.load().is_dropped;
        let open = self.rolling(|rolling| rolling.open.clone());
        let wanted = open.into_iter().filter(|active| wanted.contains(&active.number));
        let seal = |active: Arc<Active>| {
            active.seal();
            let records = loop {
                match active.settled() {
                    Some(records) => break records,
                    None => thread::yield_now(),
                }
            };
            let (number, file, count) = (active.number, FileName::Written(active.number), records.len());
            // `seal_one`: the ordinal table and the footer.
            self.files.create(file, records);
            let dead = (0..count).filter(|_| is_dropped).collect();
            NewlySealed { number, file, count, dead }
        };
        wanted.map(seal).collect()
    }

    /// `BlobStore::open_numbers`.
    pub(super) fn open_numbers(&self) -> BTreeSet<u32> {
        self.rolling(|rolling| rolling.open.iter().map(|active| active.number).collect())
    }

    /// `seal_blobs` in `blob_gc/seal.rs`.
    pub(crate) fn seal_blobs(&self) {
        let sealing = (!self.is_wrong(Mistake::SealUnlocked)).then(|| locked(&self.sealing));
        let is_ready = |active: &&Arc<Active>| active.settled().is_some();
        let ready = self.rolling(|rolling| {
            rolling.open.iter().filter(is_ready).map(|active| active.number).collect::<BTreeSet<u32>>()
        });
        let sealed = self.seal(&ready);
        let mut manifest = locked(&self.manifest);
        self.commit_seals(&mut manifest, sealed);
        drop((manifest, sealing));
    }

    /// `commit_seals` in `blob_gc/seal.rs`.
    pub(super) fn commit_seals(&self, manifest: &mut Manifest, sealed: Vec<NewlySealed>) {
        if sealed.is_empty() {
            return;
        }
        let edit = BlobEdit { sealed, dead: Going::new(), newly_obsolete: Going::new() };
        let liveness = self.changes(manifest, &edit, &self.map());
        let map = self.install(edit, liveness);
        self.change_version(|version| version.map = map);
    }
}

/// `false` if the memtable is frozen.
fn index(version: &Version, key: u8, record: Record) -> bool {
    let mut indexed = lock(&version.memtable.0);
    if !indexed.is_frozen && !version.is_dropped {
        indexed.records.push((key, record));
    }
    !indexed.is_frozen
}

/// Names that a table refers to.
pub(super) fn references_of(table: &Table) -> impl Iterator<Item = Name> {
    table.values().filter_map(|record| record.name)
}
