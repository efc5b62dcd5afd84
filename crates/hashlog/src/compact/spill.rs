//! What finds records of the cold log goes from memory to the device, as a run.
//!
//! ```text
//!   records of the cold log up to the last checkpoint ─► entries by hash ─┐
//!   runs that are not much larger ────────────────────────────────────────┴─► a run, synced
//!   ─► edit: the run is there, older ones are not ─► lookups find it ─► the delta lets go
//! ```
//! A crash before the edit leaves a file that is no run; the records are found in the cold log.

use std::sync::{Arc, PoisonError};

use firn_engine::Result;
use firn_format::file_name::cold_run;
use firn_format::hybrid::cold_run::{ColdEntry, ColdPlace};
use firn_format::manifest::{Change, ColdChange};

use super::Compaction;
use crate::cold::{Merge, Run, Runs};
use crate::error::from_storage;
use crate::needless::remove_needless;
use crate::ops::Key;
use crate::values::number_of;

/// The delta takes this part of the memory of the index, at most, before it is spilled.
const PART: u64 = 32;

/// What a key of the delta takes.
const KEY_BYTES: u64 = 32;

/// Records that no run has.
struct Unspilled {
    /// By the order of their hashes.
    entries: Vec<ColdEntry>,
    /// Addresses of those that refer to values, and the values' numbers.
    values: Vec<(u64, u64)>,
}

impl Compaction<'_> {
    fn delta_keys_max(&self) -> u64 {
        (self.database.env.settings.engine.index_bytes_max / PART / KEY_BYTES).max(64)
    }

    fn delta_is_full(&self) -> bool {
        self.database.store.cold.delta_keys() > self.delta_keys_max()
    }

    /// Whether no more is to be copied to the cold log before the delta is spilled.
    pub(super) fn must_spill(&self) -> bool {
        self.database.store.cold.delta_keys() > 2 * self.delta_keys_max()
    }

    /// Whether the delta is full, and a checkpoint has what it finds.
    pub(super) fn wants_spill(&self) -> bool {
        self.delta_is_full() && self.database.store.cold.cut() > self.spill_from()
    }

    /// Whether a checkpoint is due so that the delta can be spilled.
    pub(super) fn wants_cut_for_spill(&self) -> bool {
        self.delta_is_full() && self.database.store.cold.cut() <= self.spill_from()
    }

    fn spill_from(&self) -> u64 {
        self.database.store.cold.spilled().max(self.database.store.cold.begin())
    }

    pub(super) fn spill(&self) -> Result<()> {
        let _alone = self.database.reclaim.access.lock().unwrap_or_else(PoisonError::into_inner);
        let cold = &self.database.store.cold;
        let to = cold.cut();
        if self.spill_from() >= to {
            return Ok(());
        }
        let Unspilled { entries, values } = self.unspilled(to)?;
        let before = cold.runs();
        let (database, number) = {
            let manifest = self.database.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            let last = manifest.state().cold.runs.last().copied();
            let first = self.database.tier.as_ref().map_or(0, |tier| tier.numbers().start);
            (manifest.state().database, last.map_or(0, |last| last + 1).max(first))
        };
        let begin = cold.begin();
        let merge = Merge { database, entries: &entries, values, begin, segment_bits: cold.page_bits() };
        let (merged, kept) = before.split_at(merge.width(&before));
        let run = merge.write(&*self.database.env.storage, number, merged)?;
        let name = |run: &Arc<Run>| cold_run(run.number());
        if let Some(tier) = &self.database.tier {
            tier.send_file(&cold_run(number))?;
        }
        // No copy of the database is made of runs that go meanwhile.
        let _whole = self.database.moments.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = vec![Change::Cold(ColdChange::Run { number, spilled: to })];
        changes.extend(merged.iter().map(|run| Change::Cold(ColdChange::DropRun { number: run.number() })));
        let committed =
            self.database.manifest.lock().unwrap_or_else(PoisonError::into_inner).commit(&changes);
        committed.map_err(from_storage)?;
        let runs: Runs = [Arc::new(run)].into_iter().chain(kept.iter().cloned()).collect();
        cold.publish(runs, to, &entries);
        self.count_run(&cold.runs()[0]);
        if let Some(tier) = &self.database.tier {
            tier.remove(merged.iter().map(name));
        }
        remove_needless(&*self.database.env.storage, merged.iter().map(name))
    }

    /// What lies before `to`.
    fn unspilled(&self, to: u64) -> Result<Unspilled> {
        let cold = &self.database.store.cold;
        loop {
            let from = self.spill_from().min(to);
            let (mut entries, mut values) = (Vec::new(), Vec::new());
            let scanned = cold.device.scan((from, to), cold.page_bits(), &mut |address, record| {
                let (content, key) = (record.content(), Key::new(record.keyspace(), record.key()));
                let words = if content.is_tombstone { 0 } else { record.words() };
                entries.push(ColdEntry { order: key.hash.order(), place: ColdPlace::new(address, words) });
                if let (true, Some(number)) = (content.is_reference, number_of(record.value())) {
                    values.push((address, number));
                }
                Ok(())
            });
            match scanned {
                // A checkpoint has let go of its first segment meanwhile.
                Err(_) if cold.begin() > from => continue,
                scanned => scanned?,
            };
            entries.sort_unstable_by_key(ColdEntry::rank);
            return Ok(Unspilled { entries, values });
        }
    }

    fn count_run(&self, run: &Run) {
        let bytes = run.file_bytes();
        self.database.counters.run_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        self.database.store.divide_memory();
    }
}

#[cfg(test)]
mod tests;
