//! The memtables that records of one segment are indexed in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::memtable::Memtable;

/// Memtables by keyspace. Which memtable a keyspace has here never changes; keyspaces that are
/// created while the segment is active are added, and those that are dropped are forgotten.
#[derive(Debug, Default)]
pub(crate) struct MemtableSet {
    /// Of the keyspaces there were as the segment began.
    first: Vec<Place>,
    /// Of those behind them, by id; each shelf holds twice as many as the one before.
    added: [OnceLock<Box<[Place]>>; SHELVES],
}

/// What is known of one keyspace.
#[derive(Debug, Default)]
struct Place {
    memtable: OnceLock<Arc<Memtable>>,
    is_dropped: AtomicBool,
}

impl Place {
    #[inline]
    fn get(&self) -> Option<&Arc<Memtable>> {
        // No ordering: a writer that has not seen it yet came before the drop.
        self.memtable.get().filter(|_| !self.is_dropped.load(Ordering::Relaxed))
    }
}

/// Places on the first shelf.
const SHELF_MIN: u32 = 16;

/// As many as it takes for every id.
const SHELVES: usize = (u32::BITS - SHELF_MIN.ilog2()) as usize + 1;

impl MemtableSet {
    /// Gives a keyspace its memtable before the segment is begun.
    pub(crate) fn insert(&mut self, keyspace: u32, memtable: Arc<Memtable>) {
        let index = keyspace as usize;
        if self.first.len() <= index {
            self.first.resize_with(index + 1, Place::default);
        }
        self.first[index].memtable = OnceLock::from(memtable);
    }

    /// Gives `keyspace`, which was created since the segment began, its memtable; one that has one
    /// keeps it.
    pub(crate) fn add(&self, keyspace: u32, memtable: &Arc<Memtable>) {
        if let Some((shelf, place)) = self.place_of(keyspace) {
            let places = || (0..(SHELF_MIN as usize) << shelf).map(|_| Place::default()).collect();
            self.added[shelf].get_or_init(places)[place].memtable.get_or_init(|| Arc::clone(memtable));
        }
    }

    /// `keyspace` was dropped: new records of it are refused from now on.
    pub(crate) fn forget(&self, keyspace: u32) {
        if let Some(place) = self.place(keyspace) {
            place.is_dropped.store(true, Ordering::Relaxed);
        }
    }

    /// The memtable of `keyspace`; `None` if it was dropped, or has none here yet.
    #[inline]
    pub(crate) fn get(&self, keyspace: u32) -> Option<&Arc<Memtable>> {
        self.place(keyspace)?.get()
    }

    #[inline]
    fn place(&self, keyspace: u32) -> Option<&Place> {
        if let Some(place) = self.first.get(keyspace as usize) {
            return Some(place);
        }
        let (shelf, place) = self.place_of(keyspace)?;
        self.added[shelf].get()?.get(place)
    }

    /// Shelf and place on it of a keyspace behind the first ones; ids only grow.
    fn place_of(&self, keyspace: u32) -> Option<(usize, usize)> {
        let behind = (keyspace as usize).checked_sub(self.first.len())?;
        let shifted = behind as u64 + u64::from(SHELF_MIN);
        let shelf = shifted.ilog2() - SHELF_MIN.ilog2();
        Some((shelf as usize, (shifted - (u64::from(SHELF_MIN) << shelf)) as usize))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn each_keyspace_has_the_memtable_it_was_given_first() {
        let memtables: Vec<Arc<Memtable>> = (0..200).map(|_| Arc::new(Memtable::new(b""))).collect();
        let mut set = MemtableSet::default();
        (0..5).filter(|id| *id != 3).for_each(|id| set.insert(id, Arc::clone(&memtables[id as usize])));
        assert!(set.get(3).is_none() && set.get(5).is_none());
        for id in (5..200).filter(|id| id % 7 != 0) {
            set.add(id, &memtables[id as usize]);
            set.add(id, &memtables[0]);
        }
        for id in 0..200 {
            let is_known = id != 3 && (id < 5 || id % 7 != 0);
            let found = set.get(id).map(|memtable| Arc::ptr_eq(memtable, &memtables[id as usize]));
            assert_eq!(found, is_known.then_some(true), "{id}");
            set.forget(id);
            assert!(set.get(id).is_none(), "{id}");
        }
        assert!(set.place_of(u32::MAX).is_some_and(|(shelf, _)| shelf < SHELVES));
    }
}
