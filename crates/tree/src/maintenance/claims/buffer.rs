//! What of the buffer is being worked on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_format::Position;

use crate::maintenance::Flush;

/// What tasks in progress have claimed of memtables and runs, and what is to be flushed.
#[derive(Debug, Default)]
pub(crate) struct BufferClaims {
    pub(crate) freezing: BTreeSet<u32>,
    /// (keyspace, start of the run's span)
    pub(crate) runs: BTreeSet<(u32, Position)>,
    pub(crate) flushing: BTreeSet<u32>,
    /// Flushes in progress, with the number of the next part that no thread has taken.
    pub(crate) flushes: Vec<(Arc<Flush>, usize)>,
    /// Everything below is to be flushed, however little it is.
    pub(crate) flush_through: Position,
    /// The same for single keyspaces.
    pub(crate) flush_wishes: BTreeMap<u32, Position>,
}

impl BufferClaims {
    pub(super) fn claim_runs(&mut self, keyspace: u32, runs: &[Position]) {
        self.runs.extend(runs.iter().map(|run| (keyspace, *run)));
    }

    pub(super) fn release_runs(&mut self, keyspace: u32, runs: &[Position]) {
        for run in runs {
            self.runs.remove(&(keyspace, *run));
        }
    }

    pub(super) fn claim_flush(&mut self, keyspace: u32, runs: &[Position]) {
        self.flushing.insert(keyspace);
        self.claim_runs(keyspace, runs);
    }

    pub(super) fn release_flush(&mut self, keyspace: u32, runs: &[Position]) {
        self.flushing.remove(&keyspace);
        self.release_runs(keyspace, runs);
    }

    /// The position below which everything of `keyspace` is to be flushed.
    pub(crate) fn flushed_through(&self, keyspace: u32) -> Position {
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
        Some(*next - 1).filter(|part| *part < flush.parts.count())
    }
}
