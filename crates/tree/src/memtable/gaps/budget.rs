//! The memory that the gaps of a database may take together. Where it is too much, a keyspace is
//! chosen that gives up gaps.
//!
//! A share is the same for each keyspace that has had a gap. A keyspace above its share gives up
//! gaps before one below it: many queues in one keyspace push no other keyspace's gaps out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Gaps;

/// Memory of gaps where no database sets a limit, as in tests of a memtable.
const BYTES_MAX: usize = 1 << 20;

/// Counts the memory of gaps. Shared by the keyspaces of a database.
#[derive(Debug)]
pub(crate) struct GapBudget {
    bytes: AtomicUsize,
    bytes_max: usize,
    // The standard library's under loom too: no other atomics are touched while it is held.
    holders: Mutex<Holders>,
}

/// Keyspaces that have had a gap.
#[derive(Debug, Default)]
struct Holders {
    gaps: Vec<Weak<Gaps>>,
    /// Index of the gaps that were found above their share last.
    hand: usize,
}

impl Default for GapBudget {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl GapBudget {
    /// For gaps that take `bytes_max` together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max, holders: Mutex::default() }
    }

    /// Memory that the gaps take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Memory that one gap may take: half, so that there is always room for another.
    pub(super) fn gap_bytes_max(&self) -> usize {
        self.bytes_max / 2
    }

    /// The gaps of a keyspace took `before` bytes, and take `after`.
    pub(super) fn change(&self, before: usize, after: usize) {
        self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// `gaps` are about to have their first gap.
    pub(super) fn join(&self, gaps: Weak<Gaps>) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if holders.gaps.len() == holders.gaps.capacity() {
            holders.gaps.retain(|gaps| gaps.strong_count() > 0);
        }
        holders.gaps.push(gaps);
    }

    /// Has gaps given up until all of them fit. Blocks for other changes of those; no lock of gaps
    /// may be held.
    pub(super) fn make_room(&self) {
        while self.bytes() > self.bytes_max {
            let Some(gaps) = self.above_share() else { return };
            gaps.give_up_one();
        }
    }

    /// Gaps that take more than their share: there are some where all together take too much. The
    /// gaps found last time, if they still do, so that keyspaces that take less are looked at
    /// seldom.
    fn above_share(&self) -> Option<Arc<Gaps>> {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let Holders { gaps, hand } = &mut *holders;
        let share = self.bytes_max / gaps.len().max(1);
        let turns = (*hand..gaps.len()).chain(0..*hand);
        let mut living = turns.filter_map(|index| Some((index, gaps.get(index)?.upgrade()?)));
        let (index, found) = living.find(|(_, gaps)| gaps.bytes() > share)?;
        *hand = index;
        Some(found)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
