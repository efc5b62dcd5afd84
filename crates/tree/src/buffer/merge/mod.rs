//! Several runs into one, by reference.
//!
//! ```text
//!   runs ──► feed: one sorted stream ──► sieve: what no reader sees goes ──► entries, hashes
//!                                                              run ◄── filter, index ◄──┘
//! ```
//! Only index entries are written; no record moves, no value is combined. Deletions stay (older
//! places may hold their keys), and so do expired values (there is no clock here).

use std::ops::Deref;
use std::sync::Arc;

use firn_format::filter::Filter;
use firn_format::tombstone::FragmentList;
use firn_format::{Position, Sequence};
use firn_storage::Result;

use super::entry::RunEntry;
use super::run::{Dropped, Filtering, Parts, PrefixSet, Run, find, shared_prefix};
use crate::records::Records;

mod feed;
mod sieve;

use feed::{Feed, Item};
use sieve::Sieve;

pub(crate) use sieve::note_reference;

/// Most runs that one merge takes: its buffers then stay in the second-level cache.
pub(crate) const MERGE_INPUTS_MAX: usize = 16;

/// Items that pass from feed to sieve at a time.
const BATCH_ITEMS: usize = 512;

/// A merge under way. Owned by the thread that steps it; dropping it abandons the merge and changes
/// nothing.
///
/// 1. The output answers every read at one of `snapshots`, and every read that sees all of the
///    inputs, as the inputs together did.
/// 2. Inputs are never changed.
#[derive(Debug)]
pub(crate) struct MergeTask<P> {
    inputs: Vec<Arc<Run>>,
    records: P,
    filtering: Filtering,
    level: u32,
    common: Vec<u8>,
    feed: Feed,
    sieve: Sieve,
    batch: Vec<Item>,
    taken: usize,
    total: usize,
    entries: Vec<RunEntry>,
    hashes: Vec<u32>,
    /// Made once all entries are there; `filtered` of their hashes are in it.
    filter: Option<Filter>,
    filtered: usize,
}

/// How far a merge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to do: `done` of `total` steps, of one entry each.
    Working { done: usize, total: usize },
    /// [`MergeTask::finish`] has little left to do.
    Done,
}

impl<P: Deref<Target: Records>> MergeTask<P> {
    /// A merge of `inputs` into a run of `level`: 1 to [`MERGE_INPUTS_MAX`], of one keyspace,
    /// adjacent in age, in any order. It serves readers at `snapshots` (a snapshot `s` sees
    /// sequences below `s`) and readers of everything.
    ///
    /// # Panics
    /// If there are no or too many inputs.
    pub(crate) fn new(
        inputs: Vec<Arc<Run>>,
        snapshots: &[Sequence],
        filtering: Filtering,
        level: u32,
        records: P,
    ) -> Self {
        assert!((1..=MERGE_INPUTS_MAX).contains(&inputs.len()), "{} runs to merge", inputs.len());
        let filled: Vec<Arc<Run>> =
            inputs.iter().filter(|run| run.keys().is_some()).map(Arc::clone).collect();
        let common = common_prefix(&filled).to_vec();
        let tombstones: Vec<&FragmentList> = inputs.iter().map(|run| &**run.range_tombstones()).collect();
        let tombstones = FragmentList::merge(&tombstones);
        let total = filled.iter().map(|run| run.len()).sum();
        // An input without entries feeds nothing, which is what is wanted if all are such.
        let feed = Feed::over(if filled.is_empty() { &inputs[..1] } else { &filled }, common.len());
        Self {
            sieve: Sieve::new(snapshots.to_vec(), tombstones, &common),
            inputs,
            records,
            filtering,
            level,
            common,
            feed,
            batch: Vec::with_capacity(BATCH_ITEMS),
            taken: 0,
            total,
            entries: Vec::with_capacity(total),
            hashes: Vec::with_capacity(total),
            filter: None,
            filtered: 0,
        }
    }

    /// Goes on for about `entries_max` entries (rounded up to a batch): some 10 ns each where keys
    /// differ.
    ///
    /// # Errors
    /// `Corrupt` if a record it had to look at is not there; the merge is then of no use.
    pub(crate) fn step(&mut self, entries_max: usize) -> Result<Progress> {
        let mut left = entries_max.max(1);
        while left > 0 && self.taken < self.total {
            let count = self.merge_batch()?;
            left = left.saturating_sub(count);
        }
        if self.taken == self.total {
            self.filter_hashes(left);
        }
        let finished = self.filter.is_some() && self.filtered == self.hashes.len();
        if finished {
            return Ok(Progress::Done);
        }
        Ok(Progress::Working {
            done: self.taken + self.filtered,
            total: self.total + self.hashes.len().max(1),
        })
    }

    /// The run, after doing whatever is left to do.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub(crate) fn finish(mut self) -> Result<Run> {
        while self.step(usize::MAX)? != Progress::Done {}
        let records = &*self.records;
        let (mut smallest, mut largest) = (Vec::new(), Vec::new());
        if let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) {
            smallest.extend_from_slice(find(*first, records)?.key);
            largest.extend_from_slice(find(*last, records)?.key);
        }
        let (mut dropped, tombstones) = self.sieve.finish();
        let sum = |of: fn(&Run) -> u64| self.inputs.iter().map(|run| of(run)).sum::<u64>();
        let live_bytes = sum(|run| run.live_bytes).saturating_sub(dropped.record_bytes);
        for run in &self.inputs {
            dropped = dropped.and(&run.dropped);
        }
        let spans = || self.inputs.iter().map(|run| &run.span);
        let start = spans().map(|span| span.start).min().unwrap_or_default();
        let end = spans().map(|span| span.end).max().unwrap_or_default();
        let bits_per_key = self.filtering.bits_per_key;
        let prefixes = PrefixSet::union(self.inputs.iter().map(|run| &run.prefixes), bits_per_key);
        let filter = self.filter.unwrap_or_default();
        if self.entries.len() < self.total / 8 * 7 {
            self.entries.shrink_to_fit();
            self.hashes.shrink_to_fit();
        }
        let (common, entries, hashes) = (self.common, self.entries, self.hashes);
        let parts = Parts {
            common,
            entries,
            hashes,
            filter,
            prefixes,
            tombstones: Arc::new(tombstones),
            smallest,
            largest,
        };
        Ok(parts.assemble(Position(start.0)..end, self.level, live_bytes, dropped))
    }

    /// How many entries it took.
    fn merge_batch(&mut self) -> Result<usize> {
        self.batch.clear();
        self.feed.fill(&mut self.batch, BATCH_ITEMS, &*self.records)?;
        for item in &self.batch {
            if self.sieve.keeps(*item, &*self.records)? {
                self.entries.push(item.entry());
                self.hashes.push(item.hash);
            }
        }
        self.taken += self.batch.len();
        Ok(self.batch.len())
    }

    fn filter_hashes(&mut self, count_max: usize) {
        let (hashes, bits_per_key) = (&self.hashes, self.filtering.bits_per_key);
        let filter = self.filter.get_or_insert_with(|| Filter::with_room(hashes.len(), bits_per_key));
        let end = hashes.len().min(self.filtered.saturating_add(count_max));
        filter.add(&hashes[self.filtered..end]);
        self.filtered = end;
    }
}

impl Dropped {
    /// Both together.
    #[must_use]
    pub(crate) fn and(mut self, other: &Dropped) -> Dropped {
        self.references.add_all(&other.references);
        Dropped {
            count: self.count + other.count,
            record_bytes: self.record_bytes + other.record_bytes,
            relied_on: self.relied_on.max(other.relied_on),
            references: self.references,
        }
    }
}

/// The longest prefix of all keys of `runs`, none of which is empty, that is no longer than the one
/// of any run. Where a run lost its outermost keys to a merge, the rest may share more than its
/// `common`, after which its words come.
fn common_prefix(runs: &[Arc<Run>]) -> &[u8] {
    let smallest = runs.iter().map(|run| run.smallest.as_slice()).min().unwrap_or_default();
    let largest = runs.iter().map(|run| run.largest.as_slice()).max().unwrap_or_default();
    let shared = shared_prefix(smallest, largest);
    let length = runs.iter().map(|run| run.common.len()).fold(shared.len(), usize::min);
    &shared[..length]
}

#[cfg(test)]
mod tests;
