//! Flushes of many keyspaces that hold little: their runs are written out together, with one file,
//! one sync, one edit.
//!
//! ```text
//!   runs of a ─► table ─┐
//!   runs of b ─► table ─┼─► parts of one file ─► sync ─► one edit ─► one version
//!   runs of c ─► table ─┘
//! ```
//! A flush that refers to separated values, or leaves references of older tables without
//! readers, is committed alone: those edits seal segments. If one keyspace cannot be written none
//! is, and that keyspace is flushed alone from then on.

use std::sync::atomic::Ordering;

use firn_engine::{Error, Result};
use firn_format::Position;
use firn_storage::backend::PartsWriter;

use super::Flushing;
use super::freeze::runs_of;
use super::met::meet;
use super::run::write_part;
use crate::buffer::Run;
use crate::edits::BeingWritten;
use crate::edits::{Edit, Supersedes};
use crate::error::from_storage;
use crate::maintenance::{TaskKind, Written};
use crate::version::Version;
use firn_maintenance::{Answer, answer_to};

impl Flushing<'_> {
    /// Writes runs of several keyspaces out to one file, each keyspace's as one sorted run. Of each
    /// it takes the oldest, by the starts of their spans, newest first.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing changed, or the edits of some keyspaces are committed
    /// and the outputs of the others removed.
    pub(crate) fn flush_small(&self, flushes: &[(u32, Vec<Position>)]) -> Result<()> {
        let version = self.edits.catalog.version.load_full();
        let needed_from = version.log_needed_from();
        let mut names = self.maintenance.output_names.hold();
        let stem = names.draw();
        let file = PartsWriter::create(&*self.edits.files.storage, &stem).map_err(from_storage)?;
        let held = BeingWritten::new(self.edits.files, &self.maintenance.jobs, file.name());
        let mut edits = Vec::new();
        for (index, (keyspace, starts)) in flushes.iter().enumerate() {
            let stem = format!("{stem}-{index}");
            let edit =
                self.write_small(&version, (*keyspace, starts), &stem, &file).inspect_err(|error| {
                    // The keyspace flushes alone from then on, so that others do not fail with it.
                    self.maintenance.let_rest((TaskKind::Flush, *keyspace), error.clone(), self.clock.now());
                })?;
            edits.extend(edit);
        }
        drop(version);
        file.sync().map_err(from_storage)?;
        let bytes = file.len();
        // Edits that concern values seal segments, and are committed one by one.
        let is_plain = |edit: &Edit| edit.going.is_empty() && edit.newly_obsolete.is_empty();
        let (plain, others): (Vec<Edit>, Vec<Edit>) = edits.into_iter().partition(is_plain);
        let mut is_named = !plain.is_empty();
        let committed = self.edits.commit_together(&plain).inspect_err(|_| is_named = false);
        let committed = committed.and_then(|()| {
            others.into_iter().try_for_each(|edit| {
                is_named |= self.edits.commit(edit)?;
                Ok(())
            })
        });
        if committed.as_ref().is_err_and(|error| answer_to(error) == Answer::Poisoned) {
            held.may_be_named();
        } else if is_named {
            held.named(bytes);
        }
        committed?;
        self.after_flush(Some(bytes), needed_from);
        Ok(())
    }

    /// Writes the runs of one keyspace to `file`; `None` if it was dropped.
    fn write_small(
        &self,
        version: &Version,
        (keyspace, starts): (u32, &[Position]),
        stem: &str,
        file: &PartsWriter<'_>,
    ) -> Result<Option<Edit>> {
        let Ok(state) = version.keyspace(keyspace) else { return Ok(None) };
        let runs = runs_of(state, starts)?;
        let end =
            runs.iter().map(|run| run.span().end).max().ok_or_else(|| Error::bug("a flush of no runs"))?;
        let asked: Vec<&Run> = runs.iter().map(|run| &**run).collect();
        let met = meet(&asked, &version.segments, &[], &state.levels);
        let flush = self.plan_flush(state, runs, &version.segments, stem.to_owned());
        let mut written = Written::default();
        for part in 0..flush.parts.count() {
            written.add(write_part(self, &flush, part, file)?);
        }
        written.add_dropped(&flush.runs);
        for table in &mut written.tables {
            table.file = file.part_name(&table.file).map_err(from_storage)?;
        }
        let hidden =
            |table: &firn_format::manifest::TableMeta| met.hidden_within(&table.smallest, &table.largest);
        let supersedes =
            Supersedes { share: met.share(), bytes: written.tables.iter().map(hidden).collect() };
        let run = self.edits.catalog.next_run.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Edit {
            keyspace,
            removed: Vec::new(),
            added: written.tables.into_iter().map(|table| (0, run, table)).collect(),
            supersedes,
            moved: Vec::new(),
            left: Vec::new(),
            flushed: Some((starts.to_vec(), end)),
            going: written.references,
            newly_obsolete: written.newly_obsolete,
        }))
    }
}
