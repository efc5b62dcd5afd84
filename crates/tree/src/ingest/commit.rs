//! One attempt to make the files of an ingestion a part of the database, between all that was
//! written before and all that is written after.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use firn_engine::{Error, Result};
use firn_format::manifest::{BlobSegmentMeta, Change, TableMeta};
use firn_format::table::ReferenceSet;
use firn_format::{Position, Sequence};

use super::overlap::{is_in_buffer, place};
use super::writer::Ingested;
use crate::commit::HeldFrame;
use crate::database::Database;
use crate::edits::Edits;
use crate::error::from_storage;
use crate::maintenance::Maintenance;
use crate::version::open_tables::open_tables;
use crate::version::{Levels, Table};
use firn_maintenance::{Answer, answer_to};

/// Share of a table that is taken to supersede older ones where it lies over some.
const OVERWRITES: f64 = 0.5;

/// What ingestions are committed with.
#[derive(Clone, Copy)]
pub(super) struct Ingesting<'d> {
    edits: Edits<'d>,
    maintenance: &'d Maintenance,
}

/// What an attempt came to.
pub(super) enum Attempt {
    /// The position behind the ingestion.
    Done(Position),
    /// The buffer holds something of its keys that is older, and has to be flushed first.
    Overtaken,
    /// Whether the edit is durable is not known, and the error is final.
    Unknown(Error),
    /// The log segment that begins there has no room for a place.
    NoRoom(Position),
}

/// A table that comes: level, the share of it that supersedes older ones.
type Placed = (u32, f64);

impl<'d> Ingesting<'d> {
    pub(super) fn of(database: &'d Database) -> Self {
        Self { edits: database.edits(), maintenance: &database.maintenance }
    }

    /// The tables of `ingested`, open, without a sequence yet.
    ///
    /// # Errors
    /// What reading says.
    pub(super) fn open(&self, ingested: &Ingested) -> Result<Vec<Arc<Table>>> {
        let Edits { files, reads, jobs, .. } = self.edits;
        let opened = open_tables(&files.storage, &ingested.tables, &reads.cache);
        let tables = ingested.tables.iter().zip(opened).map(|(meta, reader)| {
            let table = Table::new(meta.clone(), reader?, (0.0, 0), Arc::clone(&files.obsolete));
            // As of other tables: see `open_added` of `edits/commit.rs`.
            if jobs.chain.is_none() {
                table.may_leave_file();
            }
            Ok(Arc::new(table))
        });
        tables.collect()
    }

    /// Whether the buffer of `keyspace` holds something of the keys of `tables` at this moment.
    ///
    /// # Errors
    /// `Invalid` if there is no such keyspace.
    pub(super) fn is_in_buffer(&self, keyspace: u32, tables: &[Arc<Table>]) -> Result<bool> {
        let version = self.edits.catalog.version.load_full();
        let before = self.edits.pipeline.read_position(&version).sequence();
        is_in_buffer(version.keyspace(keyspace)?, &version.segments, before, tables)
    }

    /// Gives `tables` and `segments`, which they refer to, to `keyspace` at one moment, if the
    /// buffer holds nothing of their keys then.
    ///
    /// Blocks for syncs of the log and for the publication of an edit. While that lasts no other
    /// write is acknowledged.
    ///
    /// # Errors
    /// `Retry` when the disk is full, `Invalid` if the keyspace was dropped; nothing was changed.
    pub(super) fn try_commit(
        &self,
        keyspace: u32,
        tables: &mut [Arc<Table>],
        segments: &[BlobSegmentMeta],
    ) -> Result<Attempt> {
        let Edits { catalog, files, blobs, pipeline, env, .. } = self.edits;
        // Before the place in the log: what takes long, and what waits for writers.
        let before = pipeline.log.advance().map_err(from_storage)?;
        pipeline.log.sync_through(before).map_err(from_storage)?;
        env.send_through(before)?;
        let none = (ReferenceSet::default(), ReferenceSet::default());
        let mut values = blobs.plan_blobs(catalog, keyspace, none, tables.iter(), segments)?;
        files.storage.sync_dir().map_err(from_storage)?;
        let _no_compaction_begins = self.maintenance.hold_others();
        let mut manifest = catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        // A call that compacts a range claims nothing: what it writes may come to lie anywhere but
        // in level 0. Another ingestion has let go of this with the manifest.
        let no_range_is_compacted = self.maintenance.compacting_range.try_lock();
        let has_levels = no_range_is_compacted.is_ok();
        // Older than that of any flush of what is written after the place.
        let run = catalog.next_run.fetch_add(1, Ordering::Relaxed);
        let segment = Arc::clone(&pipeline.log.active());
        let Some(frame) = HeldFrame::take(pipeline, &segment) else {
            return Ok(Attempt::NoRoom(segment.base()));
        };
        frame.wait_for_earlier()?;
        let version = catalog.version.load_full();
        let state = version.keyspace(keyspace)?;
        if is_in_buffer(state, &version.segments, frame.start().sequence(), tables)? {
            return Ok(Attempt::Overtaken);
        }
        let places: Vec<Placed> = tables
            .iter()
            .map(|table| self.place(keyspace, &state.levels, table.meta(), has_levels))
            .collect();
        self.seal_before(&frame)?;
        give_sequence(frame.start().sequence(), tables, &places)?;
        let mut changes = Vec::with_capacity(3 * tables.len() + 1);
        for (table, (level, _)) in tables.iter().zip(&places) {
            changes.extend(added(keyspace, *level, run, table));
        }
        changes.push(Change::IngestedThrough { keyspace, position: frame.end() });
        let liveness = values.changes(&manifest.state().blobs, &blobs.map(), &mut changes)?;
        if let Err(error) = manifest.commit(&changes).map_err(from_storage) {
            return match answer_to(&error) {
                Answer::Poisoned => Ok(Attempt::Unknown(error)),
                _ => Err(error),
            };
        }
        let map = blobs.install(&mut values, &liveness);
        let end = frame.end();
        catalog.change_version(|version| {
            version.blobs = map.unwrap_or_else(|| Arc::clone(&version.blobs));
            let Some(Some(state)) = version.keyspaces.get_mut(keyspace as usize) else { return };
            let state = Arc::make_mut(state);
            state.ingested_through = end;
            let levels = Arc::make_mut(&mut state.levels);
            for (table, (level, _)) in tables.iter().zip(&places) {
                levels.add(*level, if *level == 0 { run } else { 0 }, Arc::clone(table));
            }
        });
        // Before any reader can be behind the place.
        state.memtable.gaps().clear();
        frame.publish();
        Ok(Attempt::Done(end))
    }

    /// Makes all that lies before the place durable.
    fn seal_before(&self, frame: &HeldFrame<'_>) -> Result<()> {
        self.edits.pipeline.log.sync_through(frame.start()).map_err(from_storage)?;
        self.edits.env.send_through(frame.start())
    }

    /// Where a table of `meta` goes; only to level 0 unless it `has_levels`.
    fn place(&self, keyspace: u32, levels: &Levels, meta: &TableMeta, has_levels: bool) -> Placed {
        let busy = self.maintenance.schedule.lock();
        let bounds = (meta.smallest.as_slice(), meta.largest.as_slice());
        let is_target = |level| !has_levels || busy.claims.tables.is_target(keyspace, level, bounds);
        let (level, is_over_others) = place(levels, meta, is_target);
        (level, if is_over_others { OVERWRITES } else { 0.0 })
    }
}

/// Gives the entries of `tables` their `sequence`.
fn give_sequence(sequence: Sequence, tables: &mut [Arc<Table>], places: &[Placed]) -> Result<()> {
    for (table, (_, overwrites)) in tables.iter_mut().zip(places) {
        let table = Arc::get_mut(table).ok_or_else(|| Error::bug("a table is in a version too early"))?;
        table.give_sequence(sequence, *overwrites)?;
    }
    Ok(())
}

/// What an edit says of `table`, which comes to `level` of `keyspace`.
fn added(keyspace: u32, level: u32, run: u64, table: &Table) -> [Change; 3] {
    let file = || table.meta().file.clone();
    [
        Change::AddTable {
            keyspace,
            level,
            run: if level == 0 { run } else { 0 },
            table: table.meta().clone(),
        },
        Change::Superseded { file: file(), thousandths: (table.overwrites() * 1000.0).round() as u32 },
        Change::Hides { file: file(), bytes: table.superseded_bytes() },
    ]
}
