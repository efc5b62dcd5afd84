//! Ranges of keys that a scan found to hold no live record, kept so that later scans seek past
//! them.
//!
//! # What a gap says
//! A [`Gap`] is a range and a sequence: a pass over *all* sources met no live record in the range.
//! The pass saw the records below that sequence. So every record there with a smaller sequence is
//! dead for each reader at that sequence or later. Deletes, range deletes, freezes, merges and
//! compactions change nothing about that. Only a record that can be live can: its writer cuts the
//! key out of the gap before it publishes the record. Readers of older points use no gap.
//!
//! # Protocol
//! ```text
//!   writer                                      learner (a scan that passed dead records)
//!   1. fills the entry (`taken` += 1)           1. makes the range a candidate (`count` += 1)
//!   2. loads `count`; if it is not 0:           2. fence
//!      fence, looks the key up,                 3. looks at what was inserted since its pass
//!      cuts gap or candidate (lock)             4. the candidate is still there, and nothing was
//!   3. publishes                                   inserted into it: it becomes a gap (lock)
//! ```
//! - Either the writer sees the candidate or the learner sees the entry. `taken` and `count` are
//!   counted and loaded in one total order. Where `count` is not 0 there is a fence on both sides
//!   of the list.
//! - A reader loads the list after it has chosen its point. A writer whose record the reader sees
//!   had cut its gap before it published the record. Later cuts the reader does not see: its list
//!   stays right for its own point.
//! - Candidates are seen by writers and by no reader.
//!
//! In memory only: reopening begins with none. A [budget](GapBudget) of bytes bounds the gaps of
//! all keyspaces; gaps not used for long go first.

mod budget;
mod gap;
mod list;
mod treap;

pub(crate) use budget::GapBudget;
pub(crate) use gap::Gap;
pub(crate) use list::List;

use std::sync::{Arc, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use firn_format::key::Sequence;

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};

/// A range that a scan has passed.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    /// Its first key.
    pub(crate) start: Vec<u8>,
    /// The key before which it ends; `None` = after the last key there can be.
    pub(crate) end: Option<Vec<u8>>,
    /// Records with smaller sequences were seen.
    pub(crate) through: Sequence,
    /// A time by which its expired records had expired; 0 where none had to.
    pub(crate) as_of_ms: u64,
    /// Keys without a live record.
    pub(crate) keys: u32,
}

/// The gaps of one keyspace. Shared by its memtables, which writers go through.
pub(crate) struct Gaps {
    /// Gaps and candidates.
    count: AtomicUsize,
    list: ArcSwap<List>,
    /// Held while a new list is made from the current one and stored.
    changing: Mutex<()>,
    budget: Arc<GapBudget>,
    /// Set once the budget has these gaps in its list.
    is_known: OnceLock<()>,
}

impl Default for Gaps {
    /// With a budget of their own.
    fn default() -> Self {
        Self::new(&Arc::default())
    }
}

impl Gaps {
    /// None yet.
    pub(crate) fn new(budget: &Arc<GapBudget>) -> Self {
        Self {
            count: AtomicUsize::new(0),
            list: ArcSwap::new(List::none()),
            changing: Mutex::new(()),
            budget: Arc::clone(budget),
            is_known: OnceLock::new(),
        }
    }

    /// Memory that the gaps take, about.
    fn bytes(&self) -> usize {
        self.list.load().bytes()
    }

    /// A record of `key` that can be live was inserted, and is not published yet. One load if there
    /// are no gaps; waits for other changes where the key lies in a gap.
    #[inline]
    pub(crate) fn note_write(&self, key: &[u8]) {
        // Loom knows a total order of fences only, not of other accesses.
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) != 0 {
            self.cut(key);
        }
    }

    #[cold]
    fn cut(&self, key: &[u8]) {
        fence(Ordering::SeqCst);
        if !self.list.load().holds(key) {
            return;
        }
        let changing = self.lock();
        let mut list = List::clone(&self.list.load());
        list.cut(key);
        self.store(list, &changing);
        drop(changing);
        // Two parts take more than the whole.
        self.budget.make_room();
    }

    /// The gaps there are now; `None` without any. For a reader that has chosen its point.
    #[inline]
    pub(crate) fn list(&self) -> Option<Arc<List>> {
        (self.count.load(Ordering::Acquire) != 0).then(|| self.list.load_full())
    }

    /// Makes what a scan has passed a gap; answers whether it became one. Not if `is_disturbed`
    /// says that a record that can be live may have come into it since, nor if a writer cut it
    /// meanwhile.
    ///
    /// Blocks for other changes of the gaps, and not while `is_disturbed` runs.
    pub(crate) fn learn(self: &Arc<Self>, passed: Passed, is_disturbed: impl FnOnce() -> bool) -> bool {
        self.is_known.get_or_init(|| self.budget.join(Arc::downgrade(self)));
        let candidate = Arc::new(Gap::new(passed));
        {
            let changing = self.lock();
            let mut list = List::clone(&self.list.load());
            list.add_candidate(Arc::clone(&candidate));
            self.store(list, &changing);
        }
        fence(Ordering::SeqCst);
        let is_disturbed = is_disturbed();
        let changing = self.lock();
        let mut list = List::clone(&self.list.load());
        let is_whole = list.remove_candidate(&candidate);
        let is_gap = is_whole && !is_disturbed;
        if is_gap {
            list.add(&candidate, self.budget.gap_bytes_max());
        }
        if is_whole {
            self.store(list, &changing);
        }
        drop(changing);
        self.budget.make_room();
        is_gap
    }

    /// Gives up all gaps and candidates: tables come whose records can be live, in a version that
    /// is stored already. A pass that began without them finds that out
    /// (see `is_disturbed` of `read/dead.rs`), and one that began later sees them.
    pub(crate) fn clear(&self) {
        let changing = self.lock();
        self.store(List::default(), &changing);
    }

    /// Gives up a gap that was not used for long.
    fn give_up_one(&self) {
        let changing = self.lock();
        let mut list = List::clone(&self.list.load());
        list.evict();
        self.store(list, &changing);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, list: List, _changing: &MutexGuard<'_, ()>) {
        let (count, bytes) = (list.count(), list.bytes());
        let before = self.list.swap(Arc::new(list));
        // After the list: a reader that sees it finds at least that list.
        self.count.store(count, Ordering::SeqCst);
        self.budget.change(before.bytes(), bytes);
    }
}

impl Drop for Gaps {
    fn drop(&mut self) {
        self.budget.change(self.bytes(), 0);
    }
}

impl std::fmt::Debug for Gaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gaps").field("list", &self.list.load()).finish_non_exhaustive()
    }
}
