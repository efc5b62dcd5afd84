//! How much of the cold log lives: an estimate by samples.
//!
//! ```text
//!   runs  ─► some pages of each ─► entries ─┐
//!   delta ─► some parts of it ───► entries ─┴─► the newest, not compacted, not overwritten
//!   words that live of a run: its words × the share of those that were looked at
//!   some records of those ─► the caller sees which of them have expired or were dropped
//! ```
//! What the log has is newer than what is here. That a key was overwritten there is known by its
//! entry in the index alone: of 64 bits of the hash that compares 30.

use std::sync::Arc;

use firn_engine::Result;
use firn_format::hybrid::cold_run::{ColdEntry, ColdPlace};
use firn_storage::backend::{RangeRead, read_together};

use super::{Cold, Run};
use crate::error::from_storage;

/// Pages of a run that are looked at. Some thousands of entries say its share within a few
/// hundredths.
const PAGES: u64 = 8;

/// Of the delta one part of so many is looked at.
const DELTA_STEP: usize = 8;

/// Records of a run, and of the delta, that are read.
const RECORDS: usize = 16;

/// What lives by its entries.
#[derive(Debug, Default)]
pub(crate) struct Living {
    pub(crate) words: u64,
    /// Some of the records, each with the words that it stands for.
    pub(crate) records: Vec<(ColdPlace, u64)>,
}

impl Living {
    /// Adds what lives of `words`, if its share is that of what was looked at.
    fn add(&mut self, words: u64, looked: &Looked) {
        let words = match looked.all {
            0 => words,
            all => (words as f64 * (looked.live as f64 / all as f64)) as u64,
        };
        self.words += words;
        let step = looked.living.len().div_ceil(RECORDS).max(1);
        let some: Vec<ColdPlace> = looked.living.iter().copied().step_by(step).collect();
        let each = words / some.len().max(1) as u64;
        self.records.extend(some.into_iter().map(|place| (place, each)));
    }
}

/// Entries that were looked at.
#[derive(Debug, Default)]
struct Looked {
    /// Their words.
    all: u64,
    live: u64,
    living: Vec<ColdPlace>,
}

impl Looked {
    fn add(&mut self, entry: &ColdEntry, lives: bool) {
        let words = entry.place.words();
        self.all += words;
        if lives && words > 0 {
            self.live += words;
            self.living.push(entry.place);
        }
    }
}

impl Cold {
    /// What lives, by an estimate; all before `compacted` was copied. Reads some pages of each run.
    ///
    /// `is_overwritten` says whether the log has a record of an order.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn living(
        &self,
        compacted: u64,
        is_overwritten: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Living> {
        let mut of_delta = Looked::default();
        for entry in self.delta.sample(DELTA_STEP) {
            let lives = entry.place.address() >= compacted && !is_overwritten(entry.order);
            of_delta.add(&entry, lives);
        }
        let mut living = self.search_runs(|runs| self.living_of_runs(runs, compacted, is_overwritten))?;
        living.add(self.delta.words(), &of_delta);
        Ok(living)
    }

    fn living_of_runs(
        &self,
        runs: &[Arc<Run>],
        compacted: u64,
        is_overwritten: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Living> {
        let begin = self.begin();
        let mut ranges = Vec::new();
        for (index, run) in runs.iter().enumerate() {
            let (count, looked_at) = (run.page_count(), PAGES.min(run.page_count()));
            let pages = (0..looked_at).map(|number| (2 * number + 1) * count / (2 * looked_at));
            ranges.extend(pages.map(|page| (index, page, run.reading(page))));
        }
        let mut reads: Vec<&mut RangeRead> = ranges.iter_mut().map(|(_, _, range)| range).collect();
        let results = read_together(&mut reads);
        let mut of_runs: Vec<Looked> = runs.iter().map(|_| Looked::default()).collect();
        for ((index, page, range), result) in ranges.into_iter().zip(results) {
            result.map_err(from_storage)?;
            let mut before = None;
            for entry in runs[index].opened(page, range.bytes)?.entries() {
                // Of one order the newest comes first.
                let is_newest = before.replace(entry.order) != Some(entry.order);
                let address = entry.place.address();
                if address >= begin {
                    let lives = is_newest
                        && address >= compacted
                        && self.delta.get(entry.order).is_none()
                        && !runs[..index].iter().any(|newer| newer.may_have(entry.order))
                        && !is_overwritten(entry.order);
                    of_runs[index].add(&entry, lives);
                }
            }
        }
        let base = self.device.base_of(begin);
        let mut living = Living::default();
        runs.iter().zip(&of_runs).for_each(|(run, looked)| living.add(run.words_from(base), looked));
        Ok(living)
    }
}
