//! One commit: the outputs of a job become part of the database, durably, in one edit.

use std::sync::{Arc, PoisonError};

use firn_engine::{Error, Result};
use firn_format::Position;
use firn_format::manifest::{BlobSegmentMeta, Change, TableMeta};
use firn_format::table::ReferenceSet;

use super::{Edits, retire_below};
use crate::error::from_storage;
use crate::version::open_tables::open_tables;
use crate::version::{Keyspace, Table};
use firn_maintenance::{Answer, answer_to};

/// What new tables supersede in older ones, about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supersedes {
    /// Share of their entries.
    pub(crate) share: f64,
    /// Bytes that each new table hides, in their order; 0 beyond the last.
    pub(crate) bytes: Vec<u64>,
}

impl Supersedes {
    fn bytes_of(&self, index: usize) -> u64 {
        self.bytes.get(index).copied().unwrap_or_default()
    }
}

/// What a job changes in one keyspace.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) keyspace: u32,
    /// Tables that go.
    pub(crate) removed: Vec<Arc<Table>>,
    /// Tables that come: level, sorted run, what they are.
    pub(crate) added: Vec<(u32, u64, TableMeta)>,
    /// What the new tables supersede in older ones.
    pub(crate) supersedes: Supersedes,
    /// Tables that change their place: level, sorted run.
    pub(crate) moved: Vec<(Arc<Table>, u32, u64)>,
    /// Runs that were flushed, by the starts of their spans, and the end of the newest span.
    pub(crate) flushed: Option<(Vec<Position>, Position)>,
    /// Segments of values that have left the tree.
    pub(crate) left: Vec<BlobSegmentMeta>,
    /// Separated values that the tables and runs which go refer to, whether the new tables do
    /// or not.
    pub(crate) going: ReferenceSet,
    /// References of older tables that no reader will follow any more.
    pub(crate) newly_obsolete: ReferenceSet,
}

/// Tables that come, open: level, sorted run, table.
pub(super) type Added = Vec<(u32, u64, Arc<Table>)>;

impl Edit {
    /// Whether the values that go are as many as its tables refer to, by what those say of
    /// themselves.
    ///
    /// # Errors
    /// They are fewer: a bug, by which they would never be found dead.
    fn check_going(&self) -> Result<()> {
        let references = |table: &Arc<Table>| table.reader().properties().references.map_or(0, |it| it.count);
        match self.removed.iter().map(references).sum::<u64>() > self.going.len() {
            true => Err(Error::bug("tables go, and not what they refer to")),
            false => Ok(()),
        }
    }

    /// Makes `keyspace` what it is from now on; `added` are the tables that come, open.
    pub(super) fn apply(&self, added: &Added, keyspace: &mut Keyspace) {
        let levels = Arc::make_mut(&mut keyspace.levels);
        self.removed.iter().for_each(|table| drop(levels.remove(&table.meta().file)));
        for (table, level, run) in &self.moved {
            levels.remove(&table.meta().file);
            levels.add(*level, *run, Arc::clone(table));
        }
        added.iter().for_each(|(level, run, table)| levels.add(*level, *run, Arc::clone(table)));
        if let Some((starts, _)) = &self.flushed {
            keyspace.runs.retain(|run| !starts.contains(&run.span().start));
        }
    }

    /// What it does to tables.
    pub(super) fn table_changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        changes
            .extend(self.removed.iter().map(|table| Change::RemoveTable { file: table.meta().file.clone() }));
        changes.extend(self.added.iter().map(|(level, run, meta)| Change::AddTable {
            keyspace: self.keyspace,
            level: *level,
            run: *run,
            table: meta.clone(),
        }));
        // An estimate that is forgotten makes compactions of a reopened database rewrite what needs
        // no rewriting.
        changes.extend(self.added.iter().map(|(_, _, meta)| Change::Superseded {
            file: meta.file.clone(),
            thousandths: (self.supersedes.share.clamp(0.0, 1.0) * 1000.0).round() as u32,
        }));
        changes.extend(self.added.iter().enumerate().map(|(index, (_, _, meta))| Change::Hides {
            file: meta.file.clone(),
            bytes: self.supersedes.bytes_of(index),
        }));
        changes.extend(self.moved.iter().map(|(table, level, run)| Change::MoveTable {
            file: table.meta().file.clone(),
            level: *level,
            run: *run,
        }));
        changes
    }
}

impl Edits<'_> {
    /// Makes `edit` durable, then visible. Blocks for the syncs of a publication.
    ///
    /// Answers `false`, and changes nothing, if the keyspace was dropped meanwhile: its outputs are
    /// garbage.
    ///
    /// # Errors
    /// `Retry` when nothing was changed: the disk is full, or the edit turns out not to have been
    /// published. Any other failure leaves the outcome unknown and is final.
    pub(crate) fn commit(&self, edit: Edit) -> Result<bool> {
        let added = self.open_added(&edit)?;
        let committed = self.commit_opened(edit, &added);
        let is_known = match &committed {
            Ok(is_committed) => !is_committed,
            Err(error) => answer_to(error) != Answer::Poisoned,
        };
        if is_known {
            added.iter().for_each(|(_, _, table)| table.is_refused());
        }
        committed
    }

    /// Commits, and removes the outputs if that did not happen.
    pub(crate) fn commit_or_remove(&self, edit: Edit) -> Result<bool> {
        let tables = edit.added.iter().map(|(_, _, table)| &table.file);
        let outputs: Vec<String> =
            tables.chain(edit.left.iter().map(|segment| &segment.file)).cloned().collect();
        let committed = self.commit(edit);
        // After a failure that is final the edit may be durable: then its tables must stay.
        let known = committed.as_ref().is_ok_and(|done| !done)
            || committed.as_ref().is_err_and(|error| answer_to(error) != Answer::Poisoned);
        if known {
            outputs.iter().for_each(|name| self.files.remove_output(self.jobs, name));
        }
        committed
    }

    fn commit_opened(&self, mut edit: Edit, added: &Added) -> Result<bool> {
        edit.check_going()?;
        // Before anything is locked that other threads want: this may take as long as sending the
        // log.
        if let Some((_, end)) = &edit.flushed {
            self.env.send_before_flush(edit.keyspace, *end)?;
        }
        // Before the manifest is locked: writers are waited for, and devices.
        let tables = added.iter().map(|(_, _, table)| table);
        let references = (std::mem::take(&mut edit.going), std::mem::take(&mut edit.newly_obsolete));
        let mut values =
            self.blobs.plan_blobs(self.catalog, edit.keyspace, references, tables, &edit.left)?;
        // Names of new tables must not be lost where the edit that uses them is not.
        self.files.storage.sync_dir().map_err(from_storage)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.catalog.version.load_full();
        if version.keyspace(edit.keyspace).is_err() {
            return Ok(false);
        }
        let mut changes = edit.table_changes();
        let liveness = values.changes(&manifest.state().blobs, &self.blobs.map(), &mut changes)?;
        let mut flushed = Vec::new();
        if let Some((_, end)) = &edit.flushed {
            flushed = self.order_before_log(&version, edit.keyspace, *end)?;
            changes.extend(flushed.iter().map(|id| Change::FlushedThrough { keyspace: *id, position: *end }));
            changes.push(Change::DurableThrough { position: self.pipeline.log.durable_through() });
            changes.push(Change::Tick { ms: self.catalog.now_ms() });
        }
        match edit.flushed {
            Some(_) => self.env.commit_flush(&mut manifest, changes)?,
            None => manifest.commit(&changes).map_err(from_storage)?,
        }
        let map = self.blobs.install(&mut values, &liveness);
        if let (Some((_, end)), true) = (&edit.flushed, flushed.len() == version.live().count()) {
            self.pipeline.log.forget_below(*end);
        }
        let watermark = self.pipeline.log.watermark();
        let obsolete_count = manifest.state().blobs.obsolete_count(edit.keyspace);
        self.catalog.change_version(|version| {
            version.blobs = map.unwrap_or_else(|| Arc::clone(&version.blobs));
            for (id, slot) in version.keyspaces.iter_mut().enumerate() {
                let Some(keyspace) = slot else { continue };
                if let (Some((_, end)), true) = (&edit.flushed, flushed.contains(&(id as u32))) {
                    let keyspace = Arc::make_mut(keyspace);
                    keyspace.flushed_through = keyspace.flushed_through.max(*end);
                }
            }
            if let Some(Some(keyspace)) = version.keyspaces.get_mut(edit.keyspace as usize) {
                let keyspace = Arc::make_mut(keyspace);
                keyspace.obsolete_count = obsolete_count;
                edit.apply(added, keyspace);
            }
            // A reader that sees the runs gone sees the memory of their records gone.
            if edit.flushed.is_some() {
                retire_below(version, watermark);
            }
        });
        drop((manifest, version));
        edit.removed.iter().for_each(|table| table.retire());
        self.pipeline.balance_memory();
        Ok(true)
    }

    /// The tables that come, open.
    pub(super) fn open_added(&self, edit: &Edit) -> Result<Added> {
        // Which process did a job is not known here, and a worker's file need not be this process's
        // to write over. Nor may a file be cut that an executor still has mapped.
        let files = self.files;
        let leaves_file = self.jobs.chain.is_none();
        let opened =
            open_tables(&files.storage, edit.added.iter().map(|(_, _, meta)| meta), &self.reads.cache);
        let mut added = Added::new();
        for ((index, (level, run, meta)), reader) in edit.added.iter().enumerate().zip(opened) {
            let supersedes = (edit.supersedes.share, edit.supersedes.bytes_of(index));
            let reader = reader.inspect_err(|_| {
                added.iter().for_each(|(_, _, table): &(_, _, Arc<Table>)| table.is_refused())
            })?;
            let table = Table::new(meta.clone(), reader, supersedes, Arc::clone(&files.obsolete));
            if leaves_file {
                table.may_leave_file();
            }
            added.push((*level, *run, Arc::new(table)));
        }
        Ok(added)
    }

    /// The ordering rule: nothing below `end` may be lost where this edit is not. Answers the
    /// keyspaces that have nothing unflushed below `end`.
    ///
    /// If that is all of them, replay will begin at `end`, and what lies below needs no sync.
    /// Otherwise a record of another keyspace below `end` is in the log alone, and the log is
    /// synced. Where log objects have begun it is sent too, or what another machine recovers would
    /// be no prefix of it.
    fn order_before_log(
        &self,
        version: &crate::version::Version,
        flushing: u32,
        end: Position,
    ) -> Result<Vec<u32>> {
        let flushed = flushed_with(version, flushing, end);
        if flushed.len() == version.live().count() {
            self.pipeline.log.covered_through(end);
        } else {
            self.pipeline.log.sync_through(end).map_err(from_storage)?;
            self.env.send_through(end)?;
        }
        Ok(flushed)
    }
}

/// Keyspaces that have nothing unflushed below `end` once `flushing` is flushed so far.
pub(crate) fn flushed_with(version: &crate::version::Version, flushing: u32, end: Position) -> Vec<u32> {
    let is_flushed =
        |keyspace: &&Arc<Keyspace>| keyspace.id() == flushing || keyspace.unflushed_from(end) >= end;
    version.live().filter(is_flushed).map(|keyspace| keyspace.id()).collect()
}
