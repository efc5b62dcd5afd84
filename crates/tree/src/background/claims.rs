//! What is being worked on: each piece by one task at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_format::Position;
use firn_format::blob::SegmentNumber;
use firn_maintenance::SetAside;

use super::Task;
use crate::compact::pick::Choice;
use crate::compact::small::OfKeyspace;
use crate::flush::run::Flush;

/// What tasks in progress have claimed.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(super) freezing: BTreeSet<u32>,
    /// (keyspace, start of the run's span)
    pub(crate) runs: BTreeSet<(u32, Position)>,
    pub(super) flushing: BTreeSet<u32>,
    /// Flushes in progress, with the number of the next part that no thread has taken.
    pub(super) flushes: Vec<(Arc<Flush>, usize)>,
    pub(super) tables: BTreeSet<String>,
    /// Keyspaces of which a task finds out which tables are hidden.
    pub(super) reclaiming: BTreeSet<u32>,
    pub(super) compacting: usize,
    pub(super) is_repacking: bool,
    /// Compactions whose jobs the executor does not have yet, by one of their inputs; and whether
    /// they take runs out of level 0.
    unbegun: BTreeMap<String, bool>,
    pub(super) is_sealing: bool,
    pub(super) is_writing_back: bool,
    /// A write-back was claimed last: where the device is slower than writers, threads would do
    /// nothing else.
    pub(super) has_written_back: bool,
    pub(super) is_removing_orphans: bool,
    pub(super) is_merging_log_objects: bool,
    pub(super) is_shortening: bool,
    /// Blob segments that are being collected, and by how many jobs.
    pub(super) collecting: BTreeSet<SegmentNumber>,
    pub(super) collections: usize,
    /// There was a compaction since the last one began.
    pub(super) is_blob_gc_next: bool,
    /// Everything below is to be flushed, however little it is.
    pub(super) flush_through: Position,
    /// The same for single keyspaces.
    pub(super) flush_wishes: BTreeMap<u32, Position>,
    /// Tables that could not be read whole, or on which work fails.
    pub(super) tables_set_aside: SetAside<String>,
    /// Blob segments, the same.
    pub(super) segments_set_aside: SetAside<SegmentNumber>,
}

impl Claims {
    pub(super) fn claim(&mut self, task: &Task) {
        self.has_written_back = matches!(task, Task::WriteBackBlobs);
        match task {
            Task::Freeze { keyspaces } => self.freezing.extend(keyspaces),
            Task::Merge { keyspace, runs } => self.runs.extend(runs.iter().map(|run| (*keyspace, *run))),
            Task::Flush { keyspace, runs } => {
                self.flushing.insert(*keyspace);
                self.runs.extend(runs.iter().map(|run| (*keyspace, *run)));
            }
            Task::FlushSmall { flushes } => {
                self.flushing.extend(flushes.iter().map(|(keyspace, _)| *keyspace));
                self.runs.extend(flushes.iter().flat_map(|(id, runs)| runs.iter().map(|run| (*id, *run))));
            }
            Task::FlushPart { flush, .. } => drop(self.take_part(flush)),
            Task::Compact { choice, .. } => {
                self.compacting += 1;
                self.unbegun.extend(first_input(choice).map(|file| (file.to_owned(), choice.is_l0())));
                self.is_blob_gc_next = true;
                self.tables.extend(choice.inputs.iter().map(|(_, _, table)| table.meta().file.clone()));
            }
            Task::CompactSmall { choices } => {
                self.compacting += 1;
                self.is_blob_gc_next = true;
                self.tables.extend(inputs(choices).cloned());
            }
            Task::Reclaim { keyspace } => drop(self.reclaiming.insert(*keyspace)),
            Task::Repack { tables } => {
                self.is_repacking = true;
                self.tables.extend(tables.iter().map(|(.., table)| table.meta().file.clone()));
            }
            Task::WriteBackBlobs => self.is_writing_back = true,
            Task::SealBlobs => self.is_sealing = true,
            Task::RemoveOrphans => self.is_removing_orphans = true,
            Task::MergeLogObjects => self.is_merging_log_objects = true,
            Task::ShortenLog => self.is_shortening = true,
            Task::BlobGc { victims } => {
                self.collections += 1;
                self.is_blob_gc_next = false;
                self.collecting.extend(victims);
            }
            Task::FlushForGc { .. } | Task::Bury | Task::Balance | Task::GiveUpRecycled => {}
        }
    }

    pub(super) fn release(&mut self, task: &Task) {
        match task {
            Task::Freeze { keyspaces } => self.freezing.retain(|id| !keyspaces.contains(id)),
            Task::Merge { keyspace, runs } => {
                self.runs.retain(|(id, run)| id != keyspace || !runs.contains(run));
            }
            Task::Flush { keyspace, runs } => {
                self.flushing.remove(keyspace);
                self.runs.retain(|(id, run)| id != keyspace || !runs.contains(run));
            }
            Task::FlushSmall { flushes } => {
                for (keyspace, runs) in flushes {
                    self.flushing.remove(keyspace);
                    for run in runs {
                        self.runs.remove(&(*keyspace, *run));
                    }
                }
            }
            Task::Compact { choice, .. } => {
                self.compacting -= 1;
                self.note_begun(choice);
                for (_, _, table) in &choice.inputs {
                    self.tables.remove(&table.meta().file);
                }
            }
            Task::CompactSmall { choices } => {
                self.compacting -= 1;
                for file in inputs(choices) {
                    self.tables.remove(file);
                }
            }
            Task::Reclaim { keyspace } => drop(self.reclaiming.remove(keyspace)),
            Task::Repack { tables } => {
                self.is_repacking = false;
                for (.., table) in tables {
                    self.tables.remove(&table.meta().file);
                }
            }
            Task::WriteBackBlobs => self.is_writing_back = false,
            Task::SealBlobs => self.is_sealing = false,
            Task::RemoveOrphans => self.is_removing_orphans = false,
            Task::MergeLogObjects => self.is_merging_log_objects = false,
            Task::ShortenLog => self.is_shortening = false,
            Task::BlobGc { victims } => {
                self.collections -= 1;
                self.collecting.retain(|number| !victims.contains(number));
            }
            Task::FlushPart { .. }
            | Task::FlushForGc { .. }
            | Task::Bury
            | Task::Balance
            | Task::GiveUpRecycled => {}
        }
    }

    /// The jobs of `choice` were given to the executor, or there are none.
    pub(super) fn note_begun(&mut self, choice: &Choice) {
        if let Some(file) = first_input(choice) {
            self.unbegun.remove(file);
        }
    }

    /// Compactions that were chosen and are no jobs yet: those that take runs out of level 0, and
    /// all.
    pub(super) fn unbegun(&self) -> (usize, usize) {
        (self.unbegun.values().filter(|is_l0| **is_l0).count(), self.unbegun.len())
    }

    /// Whether a task brings values to the device. One thread at a time does. Where writers are
    /// faster than the device there is always more of that to do. Flushes need a thread too: they
    /// find what is dead, and so how fast writers may be.
    pub(super) fn is_bringing_values(&self) -> bool {
        self.is_sealing || self.is_writing_back
    }

    /// The position below which everything of `keyspace` is to be flushed.
    pub(super) fn flushed_through(&self, keyspace: u32) -> Position {
        self.flush_wishes.get(&keyspace).copied().unwrap_or_default().max(self.flush_through)
    }

    /// Threads that have time may take parts of `flush`.
    pub(crate) fn share_parts(&mut self, flush: &Arc<Flush>) {
        self.flushes.push((Arc::clone(flush), 0));
    }

    /// All parts of `flush` are taken.
    pub(crate) fn end_parts(&mut self, flush: &Arc<Flush>) {
        self.flushes.retain(|(known, _)| !Arc::ptr_eq(known, flush));
    }

    /// The next part of `flush`, which no other thread gets then; `None` when all are taken.
    pub(crate) fn take_part(&mut self, flush: &Arc<Flush>) -> Option<usize> {
        let (_, next) = self.flushes.iter_mut().find(|(known, _)| Arc::ptr_eq(known, flush))?;
        *next += 1;
        Some(*next - 1).filter(|part| *part < flush.part_count())
    }
}

/// Tables that `choices` rewrite or move.
fn inputs(choices: &[OfKeyspace]) -> impl Iterator<Item = &String> {
    choices.iter().flat_map(|(_, choice)| &choice.inputs).map(|(_, _, table)| &table.meta().file)
}

/// An input of `choice`, which no other choice in progress has.
fn first_input(choice: &Choice) -> Option<&str> {
    choice.inputs.first().map(|(_, _, table)| table.meta().file.as_str())
}

#[cfg(test)]
mod tests;
