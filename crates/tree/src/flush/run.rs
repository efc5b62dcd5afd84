//! Flushing: the oldest runs are written out as tables of level 0, in several key ranges at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::{Error, Result};
use firn_format::key::Entry;
use firn_format::manifest::TableMeta;
use firn_format::table::ReferenceSet;
use firn_format::tombstone::FragmentList;
use firn_format::{Kind, Position, Sequence};
use firn_jobs::{Cursor, KeyRange, MergeCursor, Output, Scope, caught, compact_source};
use firn_storage::Storage;

use super::Flushing;
use super::freeze::runs_of;
use super::met::meet;
use crate::blob_gc::NewlyObsolete;
use crate::buffer::Run;
use crate::buffer::merge::note_reference;
use crate::compact::pick::{flush_table_bytes, splits};
use crate::compact::run::span_of;
use crate::compact::{output_form, pick_rules, rules};
use crate::counters::count;
use crate::edits::{Edit, Supersedes};
use crate::error::from_job;
use crate::log::SegmentMap;
use crate::maintenance::{Flush, Parts, Written};
use crate::version::Keyspace;

/// Writes the tables of one part of `flush`; the result is kept with the flush.
pub(crate) fn run_part(flushing: &Flushing<'_>, flush: &Flush, part: usize) {
    let mut report = Report { flush, part, result: None };
    report.result = Some(write_part(flushing, flush, part, &*flushing.edits.files.outputs));
}

/// Writes the tables of one part of `flush` to `storage`.
pub(super) fn write_part(
    flushing: &Flushing<'_>,
    flush: &Flush,
    part: usize,
    storage: &dyn Storage,
) -> Result<Written> {
    let range = flush.parts.range(part);
    let cursor = |run: &Arc<Run>| -> Box<dyn Cursor> {
        Box::new(run.cursor(Sequence::MAX, Arc::clone(&flush.segments)))
    };
    let source = MergeCursor::new(flush.runs.iter().map(cursor).collect());
    let newly_obsolete = NewlyObsolete::below(&flush.levels, &flush.rules.snapshots);
    let mut source = Noting { source, range, references: ReferenceSet::default(), newly_obsolete };
    let mut form = flush.form.clone();
    form.splits.retain(|split| *split > range.start && range.contains(split));
    let stem = format!("{}-{part}", flush.stem);
    let output = Output { storage, semantics: flushing.semantics, form: &form, stem: &stem };
    let scope = Scope { range, rules: &flush.rules };
    let write = || {
        compact_source(&mut source, &flush.tombstones, scope, None, &output, &flushing.maintenance.control)
    };
    let result = caught("a flush", write);
    let tables = result.map_err(from_job)?.tables;
    let newly_obsolete = source.newly_obsolete.map(NewlyObsolete::end).unwrap_or_default();
    Ok(Written { tables, references: source.references, newly_obsolete })
}

/// Reports to the flush how a part ended, also after a panic.
struct Report<'d> {
    flush: &'d Flush,
    part: usize,
    result: Option<Result<Written>>,
}

/// A source that notes the separated values which its records in a range refer to, and
/// references that its records leave without readers.
struct Noting<'r, C> {
    source: C,
    range: &'r KeyRange,
    references: ReferenceSet,
    newly_obsolete: Option<NewlyObsolete<'r>>,
}

impl<C: Cursor> Noting<'_, C> {
    fn note(&mut self) -> firn_storage::Result<()> {
        let Some(entry) = self.source.entry().filter(|entry| self.range.contains(entry.key)) else {
            return Ok(());
        };
        if entry.kind == Kind::PutReference {
            note_reference(entry.value, &mut self.references)?;
        }
        if let Some(newly_obsolete) = &mut self.newly_obsolete {
            newly_obsolete.take(&entry);
        }
        Ok(())
    }
}

/// Forwards only, as flushes read.
impl<C: Cursor> Cursor for Noting<'_, C> {
    fn entry(&self) -> Option<Entry<'_>> {
        self.source.entry()
    }

    fn seek_first(&mut self) -> firn_storage::Result<()> {
        self.source.seek_first()?;
        self.note()
    }

    fn seek_last(&mut self) -> firn_storage::Result<()> {
        self.source.seek_last()
    }

    fn seek(&mut self, key: &[u8]) -> firn_storage::Result<()> {
        self.source.seek(key)?;
        self.note()
    }

    fn seek_before(&mut self, key: &[u8]) -> firn_storage::Result<()> {
        self.source.seek_before(key)
    }

    fn next(&mut self) -> firn_storage::Result<()> {
        self.source.next()?;
        self.note()
    }

    fn prev(&mut self) -> firn_storage::Result<()> {
        self.source.prev()
    }
}

impl std::ops::Drop for Report<'_> {
    fn drop(&mut self) {
        let died = || Err(Error::bug("a part of a flush panicked"));
        self.flush.parts.end(self.part, self.result.take().unwrap_or_else(died));
    }
}

impl Flushing<'_> {
    /// Writes runs of `keyspace` (the oldest, by the starts of their spans, newest first) out as
    /// one sorted run.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing changed, outputs are removed.
    pub(crate) fn flush(&self, keyspace: u32, starts: &[Position]) -> Result<()> {
        let version = self.edits.catalog.version.load_full();
        let Ok(state) = version.keyspace(keyspace) else { return Ok(()) };
        let needed_from = version.log_needed_from();
        let runs = runs_of(state, starts)?;
        let end =
            runs.iter().map(|run| run.span().end).max().ok_or_else(|| Error::bug("a flush of no runs"))?;
        let asked: Vec<&Run> = runs.iter().map(|run| &**run).collect();
        let met = meet(&asked, &version.segments, &[], &state.levels);
        let mut names = self.maintenance.output_names.hold();
        let flush = Arc::new(self.plan_flush(state, runs, &version.segments, names.draw()));
        // A flush reads no separated value. A held version would hold the files of segments
        // that are collected meanwhile.
        drop(version);
        run_parts(self, &flush);
        let (mut written, done) = flush.parts.wait();
        if let Err(error) = done {
            let remove =
                |table: &TableMeta| self.edits.files.remove_output(&self.maintenance.jobs, &table.file);
            written.tables.iter().for_each(remove);
            return Err(error);
        }
        written.add_dropped(&flush.runs);
        let Written { tables: outputs, references, newly_obsolete } = written;
        let bytes: u64 = outputs.iter().map(|table| table.bytes).sum();
        let hidden = |table: &TableMeta| met.hidden_within(&table.smallest, &table.largest);
        let supersedes = Supersedes { share: met.share(), bytes: outputs.iter().map(hidden).collect() };
        let run = self.edits.catalog.next_run.fetch_add(1, Ordering::Relaxed);
        // So that the segments that die with this edit die at once: writers want their arenas.
        drop(flush);
        let committed = self.edits.commit_or_remove(Edit {
            keyspace,
            removed: Vec::new(),
            added: outputs.into_iter().map(|table| (0, run, table)).collect(),
            supersedes,
            moved: Vec::new(),
            left: Vec::new(),
            flushed: Some((starts.to_vec(), end)),
            going: references,
            newly_obsolete,
        })?;
        self.after_flush(committed.then_some(bytes), needed_from);
        Ok(())
    }

    /// Counts a flush of `bytes`, if one was committed, and passes to admission what it freed of a
    /// log that was needed from `needed_from` on.
    pub(super) fn after_flush(&self, bytes: Option<u64>, needed_from: Position) {
        if let Some(bytes) = bytes {
            count(&self.maintenance.counters.flush_write_bytes, bytes);
            count(&self.maintenance.counters.flush_count, 1);
            let freed = self.edits.catalog.version.load().log_needed_from().0.saturating_sub(needed_from.0);
            self.edits.pipeline.pace.room.freed(freed, self.clock.now());
        }
        self.edits.pipeline.pace_by_debt();
        self.edits.pipeline.keep_room();
        self.edits.pipeline.admission.release();
    }

    pub(super) fn plan_flush(
        &self,
        state: &Keyspace,
        runs: Vec<Arc<Run>>,
        segments: &Arc<SegmentMap>,
        stem: String,
    ) -> Flush {
        let (settings, catalog) = (self.settings, self.edits.catalog);
        let pick_rules = pick_rules(settings, catalog);
        let tombstones: Vec<&FragmentList> = runs.iter().map(|run| &**run.range_tombstones()).collect();
        let tombstones = FragmentList::merge(&tombstones);
        let older = state.levels.tables().map(|(_, table)| span_of(table)).collect();
        let bytes: u64 = runs.iter().map(|run| run.live_bytes()).sum();
        let parts =
            (bytes / self.settings.engine.table_bytes).clamp(1, self.settings.background_threads as u64);
        let ranges = key_ranges(&runs, segments, parts as usize);
        let mut form = output_form(settings, state, 0, splits(&state.levels, &pick_rules));
        form.table_bytes_target = flush_table_bytes(&state.levels, bytes, &pick_rules);
        Flush {
            tombstones,
            rules: rules(catalog, state, older),
            form,
            stem,
            parts: Parts::new(ranges),
            runs,
            segments: Arc::clone(segments),
            levels: Arc::clone(&state.levels),
        }
    }
}

/// All keys as up to `parts` ranges with about as many entries of the longest run in each.
fn key_ranges(runs: &[Arc<Run>], records: &SegmentMap, parts: usize) -> Vec<KeyRange> {
    let longest = runs.iter().max_by_key(|run| run.len());
    let step = longest.map_or(1, |run| run.len() / parts).max(1);
    let samples = longest.into_iter().flat_map(|run| run.sample(step)).skip(1).take(parts - 1);
    let keys = samples.filter_map(|(position, _)| Some(records.record(position)?.key.to_vec()));
    let mut ranges = vec![KeyRange::all()];
    for key in keys {
        // Versions of one key stay together.
        if let Some(last) = ranges.last_mut().filter(|last| last.start < key) {
            last.end = Some(key.clone());
            ranges.push(KeyRange { start: key, end: None });
        }
    }
    ranges
}

/// Works on the parts of `flush`, beside other threads that have time, until all are taken.
fn run_parts(flushing: &Flushing<'_>, flush: &Arc<Flush>) {
    let schedule = &flushing.maintenance.schedule;
    schedule.lock().claims.buffer.share_parts(flush);
    if flush.parts.count() > 1 {
        schedule.wake();
    }
    loop {
        let part = schedule.lock().claims.buffer.take_part(flush);
        let Some(part) = part else { break };
        run_part(flushing, flush, part);
    }
    schedule.lock().claims.buffer.end_parts(flush);
}
