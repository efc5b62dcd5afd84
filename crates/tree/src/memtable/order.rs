//! Order on demand: sorted arrays over the entries below a watermark, made when a scan asks.
//!
//! # Protocol
//! - A [`View`] holds exactly the entries with a sequence below `through`, in a few sorted arrays
//!   of falling length. It is immutable, and replaced as a whole through an `ArcSwap`: a held view
//!   never changes.
//! - To extend it to a watermark W, one thread (the lock) takes the entries that the view has not
//!   looked at or had to leave. Each entry below W is filled, because its record is published, and
//!   is taken. The others (holes and entries at or above W, of writers still at work) are *left*
//!   for the next extension. No thread waits for a writer.
//! - The new entries are sorted and merged with the shortest arrays as long as those are not
//!   [`RATIO`] times as long. So a view of n entries has at most log n arrays, and an entry is
//!   copied O(RATIO log n) times.
//! - Insertion knows nothing of this: a memtable that is not scanned pays nothing for order.

use super::entries::Entries;
use super::sorted::{Item, Sorted};
use super::unsorted::Unsorted;
use crate::Records;
use crate::sync::{Mutex, MutexGuard};
use arc_swap::ArcSwap;
use firn_format::key::Sequence;
use std::sync::{Arc, PoisonError};

/// How many times as long an array is than what is merged behind it, at least.
const RATIO: usize = 8;

/// The entries below `through`, sorted.
#[derive(Default)]
pub(super) struct View {
    pub(super) through: Sequence,
    /// Longest first.
    pub(super) arrays: Vec<Arc<Sorted>>,
    /// Indices below this have been looked at.
    looked_at: u32,
    /// Indices of these that could not be taken.
    left: Vec<u32>,
}

impl View {
    /// The entries that are not in its arrays, as a reader of what lies below `before` needs them.
    pub(super) fn unsorted(&self, before: Sequence) -> Unsorted<'_> {
        Unsorted { left: &self.left, from: self.looked_at, is_all: self.through <= before }
    }
}

/// The current view of a memtable.
pub(super) struct Order {
    view: ArcSwap<View>,
    extending: Mutex<()>,
}

impl Order {
    pub(super) fn new() -> Self {
        Self { view: ArcSwap::default(), extending: Mutex::new(()) }
    }

    /// A view of at least the entries below `before`. May sort what came since the last view, and
    /// may wait while another thread does.
    pub(super) fn view<R: Records + ?Sized>(
        &self,
        entries: &Entries,
        before: Sequence,
        records: &R,
    ) -> Arc<View> {
        let view = self.view.load();
        if view.through >= before {
            return Arc::clone(&view);
        }
        drop(view);
        let lock = self.extending.lock().unwrap_or_else(PoisonError::into_inner);
        self.extend(entries, before, records, lock)
    }

    /// Entries that [`view`](Self::view) would sort. What it merges with them is not counted.
    pub(super) fn entries_to_sort(&self, entries: &Entries, before: Sequence) -> usize {
        let view = self.view.load();
        if view.through >= before {
            return 0;
        }
        view.left.len() + entries.taken().saturating_sub(view.looked_at) as usize
    }

    fn extend<R: Records + ?Sized>(
        &self,
        entries: &Entries,
        before: Sequence,
        records: &R,
        _lock: MutexGuard<'_, ()>,
    ) -> Arc<View> {
        let old = self.view.load_full();
        if old.through >= before {
            return old;
        }
        let taken = entries.taken();
        let (mut items, mut left) = (Vec::new(), Vec::new());
        for index in old.left.iter().copied().chain(old.looked_at..taken) {
            match item_at(entries, index).filter(|item| item.trailer.sequence() < before) {
                Some(item) => items.push(item),
                None => left.push(index),
            }
        }
        let mut arrays = old.arrays.clone();
        if !items.is_empty() {
            let mut newest = Arc::new(Sorted::from_items(items, records));
            while let Some(last) = arrays.pop_if(|last| last.len() < RATIO * newest.len()) {
                newest = Arc::new(Sorted::merge(&last, &newest, records));
            }
            arrays.push(newest);
        }
        let view = Arc::new(View { through: before, arrays, looked_at: taken, left });
        self.view.store(Arc::clone(&view));
        view
    }

    /// All entries in one array; every writer is done. Uses the current view and leaves it as it
    /// is.
    pub(super) fn sort_all<R: Records + ?Sized>(&self, entries: &Entries, records: &R) -> Sorted {
        let view = self.view.load_full();
        let rest = view.left.iter().copied().chain(view.looked_at..entries.taken());
        let items = rest.filter_map(|index| item_at(entries, index)).collect();
        let mut all = Sorted::from_items(items, records);
        for array in view.arrays.iter().rev() {
            all = Sorted::merge(array, &all, records);
        }
        all
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let view = self.view.load();
        let left_bytes = view.left.capacity() * size_of::<u32>();
        view.arrays.iter().map(|array| array.memory_bytes()).sum::<usize>() + left_bytes
    }
}

fn item_at(entries: &Entries, index: u32) -> Option<Item> {
    let entry = entries.get(index)?;
    let trailer = entry.trailer_unless_hole()?;
    Some(Item { prefix: entry.prefix(), trailer, hash: entry.hash() })
}
