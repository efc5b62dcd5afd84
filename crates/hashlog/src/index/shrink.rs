//! Slots of which most entries have gone give memory back.
//!
//! A slot's entries are put into a new run, as short as fits them. That is done while no operation
//! is under way, a few slots at a time: they have few entries, and growth is what must not wait.

use std::ops::Range;

use super::grow::{Side, free_run};
use super::{ENTRIES, Entry, Index, Link, Run};
use crate::epoch::Stopped;
use crate::sync::{Ordering, lock};

/// A slot with fewer entries for each bucket shrinks.
const ENTRIES_PER_BUCKET_MIN: u64 = 2;

/// A slot that has shrunk has at most so many entries for each bucket, which is fewer than it grows
/// with.
const ENTRIES_PER_BUCKET: u64 = 4;

impl Index {
    /// Shrinks those of `slots` that have few entries for their buckets, and where this is to be
    /// `thorough` those whose chains have buckets that they do not need.
    pub(crate) fn shrink(&self, _stopped: &Stopped<'_>, slots: Range<usize>, thorough: bool) {
        let _turn = lock(&self.beginning);
        for slot in slots {
            if thorough {
                // What a growth has not split yet is there twice.
                self.finish_growth(slot);
            }
            let (run, entries) = (self.run(slot), self.counts.word(slot).load(Ordering::Relaxed));
            let has_few = entries < ENTRIES_PER_BUCKET_MIN << run.size();
            if !run.is_none() && !run.is_growing() && (has_few || thorough) {
                self.shrink_slot(slot, run, has_few);
            }
        }
    }

    fn shrink_slot(&self, slot: usize, run: Run, has_few: bool) {
        let (entries, used) = self.entries_of(run);
        let size = match has_few {
            true => (entries.len() as u64).div_ceil(ENTRIES_PER_BUCKET).next_power_of_two().ilog2(),
            false => run.size(),
        };
        let needed = if entries.is_empty() { 0 } else { buckets_of(&entries, size) };
        if needed >= used {
            return;
        }
        let shorter = if entries.is_empty() { 0 } else { self.run_of(&entries, size) };
        self.directory.word(slot).store(shorter, Ordering::Release);
        free_run(&self.slab, run);
    }

    /// All entries of a run, in the order of their buckets; and how many buckets it has, those of
    /// chains included.
    fn entries_of(&self, run: Run) -> (Vec<Entry>, u64) {
        let (mut entries, mut used) = (Vec::new(), 0);
        for first in run.first()..run.first() + (1 << run.size()) {
            let mut next = Some(first);
            while let Some(bucket) = next {
                let words = self.words(bucket);
                let all = words[..ENTRIES].iter().map(|word| Entry(word.load(Ordering::Acquire)));
                entries.extend(all.filter(|entry| !entry.is_free()));
                used += 1;
                next = Link(words[ENTRIES].load(Ordering::Acquire)).overflow();
            }
        }
        (entries, used)
    }

    /// A new run of `1 << size` buckets with these entries.
    fn run_of(&self, entries: &[Entry], size: u32) -> u64 {
        let first = self.slab.take_instead(size).expect("addresses for two indexes");
        let mut sides: Vec<Side> = (first..first + (1 << size)).map(Side::new).collect();
        for entry in entries {
            sides[entry.bucket(size) as usize].push(self, *entry);
        }
        for (bucket, side) in (first..).zip(&sides) {
            self.words(bucket)[ENTRIES].store(side.overflow(), Ordering::Release);
        }
        Run::new(first, size).0
    }
}

/// How many buckets entries take in a run of `1 << size`, those of chains included.
fn buckets_of(entries: &[Entry], size: u32) -> u64 {
    let of_bucket = |all: &[Entry]| (all.len().div_ceil(ENTRIES) - 1) as u64;
    let overflow: u64 =
        entries.chunk_by(|one, other| one.bucket(size) == other.bucket(size)).map(of_bucket).sum();
    (1 << size) + overflow
}
