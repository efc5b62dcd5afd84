//! What compaction has left behind, until it may go.
//!
//! ```text
//!   begin ──── left behind ──── compacted ──── … tail
//!              │ each part waits for a checkpoint that has its copies, and for the snapshots
//!              │ that were there before them
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ops::Access;

/// The progress of compaction through the log and the cold log.
#[derive(Debug)]
pub(crate) struct Reclaim {
    /// Writers are to wait for compaction.
    pub(crate) is_behind: AtomicBool,
    /// An entry had no room in the index: the log's next segment is compacted, whatever lives.
    pub(crate) wants_entries: AtomicBool,
    /// Held by the thread that compacts.
    pub(crate) access: Mutex<Access>,
    state: Mutex<Progress>,
    /// The progress through the cold log.
    cold: Mutex<Progress>,
    estimate: Mutex<Option<Estimate>>,
    cold_estimate: Mutex<Option<ColdEstimate>>,
    /// Values that lie alone, to which a copied record and the one that it was copied from lead.
    moved: Mutex<BTreeSet<u64>>,
}

/// How much of the log lived at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    /// Words that lived.
    pub(crate) live: u64,
    /// Where the log ended.
    pub(crate) tail: u64,
    /// How many keyspaces there were, and what time it was, in steps in which much may expire.
    pub(crate) made_at: (usize, u64),
}

/// How much of the cold log lived at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColdEstimate {
    pub(crate) live: u64,
    /// Where both logs ended.
    pub(crate) ends: (u64, u64),
    /// Of the cold log.
    pub(crate) compacted: u64,
    pub(crate) made_at: (usize, u64),
}

/// How far compaction is.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Of what lies before, all that lives was copied.
    pub(crate) compacted: u64,
    /// Parts of the log that were left behind, oldest first.
    left: VecDeque<Left>,
}

/// A part of the log whose living records were copied.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Where it ends.
    pub(crate) end: u64,
    /// Where the log ended when all was copied: what took the place of dead records lies below.
    pub(crate) log_end: u64,
    /// Where the cold log ended then.
    pub(crate) cold_end: u64,
    /// Values that lie alone, and only dead records lead to.
    pub(crate) values: Vec<u64>,
}

impl Reclaim {
    /// Of a log and a cold log that begin at these addresses.
    pub(crate) fn new((begin, cold_begin): (u64, u64), access: Access) -> Self {
        let begun = |begin| Mutex::new(Progress { compacted: begin, left: VecDeque::new() });
        Self {
            is_behind: AtomicBool::new(false),
            wants_entries: AtomicBool::new(false),
            access: Mutex::new(access),
            state: begun(begin),
            cold: begun(cold_begin),
            estimate: Mutex::new(None),
            cold_estimate: Mutex::new(None),
            moved: Mutex::default(),
        }
    }

    /// Notes that a record with this value was copied.
    pub(crate) fn note_moved(&self, number: u64) {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
    }

    /// Whether a record with this value was copied since the opening.
    pub(crate) fn was_moved(&self, number: u64) -> bool {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).contains(&number)
    }

    /// What was estimated last.
    pub(crate) fn estimate(&self) -> MutexGuard<'_, Option<Estimate>> {
        self.estimate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was estimated last of the cold log.
    pub(crate) fn cold_estimate(&self) -> MutexGuard<'_, Option<ColdEstimate>> {
        self.cold_estimate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far compaction of the log is.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far compaction of the cold log is.
    pub(crate) fn cold_progress(&self) -> MutexGuard<'_, Progress> {
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Notes that a part was left behind.
    pub(crate) fn leave(&mut self, left: Left) {
        self.compacted = left.end;
        self.left.push_back(left);
    }

    /// What may go now that a checkpoint has all below `cut` and `cold_cut`, and no snapshot ends
    /// before `oldest_end`.
    pub(crate) fn take_removable(&mut self, (cut, cold_cut): (u64, u64), oldest_end: u64) -> Vec<Left> {
        let may_go =
            |left: &Left| left.log_end <= cut && left.cold_end <= cold_cut && left.log_end <= oldest_end;
        let count = self.left.iter().take_while(|left| may_go(left)).count();
        self.left.drain(..count).collect()
    }

    /// Takes back what [`take_removable`](Self::take_removable) has answered.
    pub(crate) fn put_back(&mut self, removable: Vec<Left>) {
        removable.into_iter().rev().for_each(|left| self.left.push_front(left));
    }

    /// Whether a checkpoint would let go of something.
    pub(crate) fn waits_for_checkpoint(&self, oldest_end: u64) -> bool {
        self.left.front().is_some_and(|left| left.log_end <= oldest_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_goes_when_its_copies_are_in_a_checkpoint_and_no_snapshot_needs_it() {
        let mut progress = Progress { compacted: 0, left: VecDeque::new() };
        progress.leave(Left { end: 10, log_end: 40, cold_end: 70, values: vec![1] });
        progress.leave(Left { end: 20, log_end: 50, cold_end: 90, values: vec![2] });
        let mut count = |cuts, oldest_end| {
            let removable = progress.take_removable(cuts, oldest_end);
            let count = removable.len();
            progress.put_back(removable);
            count
        };
        assert_eq!(count((39, 100), 100), 0, "what took the place of dead records is not in it");
        assert_eq!(count((100, 69), 100), 0, "copies are not in it");
        assert_eq!(count((100, 100), 39), 0, "a snapshot is older");
        assert_eq!(count((40, 70), 40), 1);
        assert_eq!(count((100, 89), 100), 1, "the second one's copies are not in it");
        assert_eq!(count((50, 90), 50), 2);
        assert_eq!(progress.take_removable((50, 90), 50)[1].values, [2]);
        assert!(!progress.waits_for_checkpoint(100));
    }
}
