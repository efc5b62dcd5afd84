//! Where the newest records of all chains lie, counted: what says how much of the log lives.

use super::{ENTRIES, Entry, Index, Link, SLOTS};
use crate::epoch::Inside;
use crate::sync::Ordering;

impl Index {
    /// Hands the entries of `slot` on to `take`. Of a slot that grows
    /// meanwhile some may be missing, and some may come twice.
    pub(crate) fn tops(&self, _inside: &Inside<'_>, slot: usize, mut take: impl FnMut(Entry)) {
        let run = self.run(slot);
        if run.is_none() {
            return;
        }
        for first in run.first()..run.first() + (1 << run.size()) {
            let mut next = Some(first);
            while let Some(bucket) = next {
                let words = self.words(bucket);
                for word in &words[..ENTRIES] {
                    let entry = Entry(word.load(Ordering::Relaxed));
                    if !entry.is_free() && !entry.is_tentative() {
                        take(entry);
                    }
                }
                next = Link(words[ENTRIES].load(Ordering::Acquire)).overflow();
            }
        }
    }

    /// How many keys there are to so many entries, of those that are one chain with another.
    pub(crate) fn keys_of(entries: u64) -> f64 {
        let (entries, chains) = (entries as f64, (SLOTS as f64) * f64::from(1_u32 << 16));
        // Close to all chains in use, entries say no more how many keys there are.
        let part = (entries / chains).min(0.98);
        -chains * (1.0 - part).ln()
    }
}
