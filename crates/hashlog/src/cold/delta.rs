//! Where records of the cold log lie that no run has yet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use firn_format::hybrid::cold_run::{ColdEntry, ColdPlace};

/// Parts of the delta, by the upper bits of the order.
const SHARD_BITS: u32 = 6;

/// What a key takes, with what the tree leaves free.
pub(super) const BYTES_PER_KEY: u64 = 32;

type Shard = RwLock<BTreeMap<u64, ColdPlace>>;

/// The newest record of each order; older ones of the same order are linked to it.
#[derive(Debug)]
pub(super) struct Delta {
    shards: Box<[Shard]>,
    count: AtomicU64,
    /// Of these records.
    words: AtomicU64,
}

impl Delta {
    pub(super) fn new() -> Self {
        let shards = (0..1 << SHARD_BITS).map(|_| Shard::default()).collect();
        Self { shards, count: AtomicU64::new(0), words: AtomicU64::new(0) }
    }

    fn shard(&self, order: u64) -> &Shard {
        &self.shards[(order >> (64 - SHARD_BITS)) as usize]
    }

    pub(super) fn get(&self, order: u64) -> Option<ColdPlace> {
        let shard = self.shard(order).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&order).copied()
    }

    pub(super) fn insert(&self, order: u64, place: ColdPlace) {
        let older = {
            let mut shard = self.shard(order).write().unwrap_or_else(PoisonError::into_inner);
            shard.insert(order, place)
        };
        self.words.fetch_add(place.words(), Ordering::Relaxed);
        match older {
            Some(older) => self.words.fetch_sub(older.words(), Ordering::Relaxed),
            None => self.count.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Removes what lies before `spilled`.
    pub(super) fn remove(&self, order: u64, spilled: u64) {
        let mut shard = self.shard(order).write().unwrap_or_else(PoisonError::into_inner);
        if shard.get(&order).is_some_and(|place| place.address() < spilled)
            && let Some(place) = shard.remove(&order)
        {
            self.words.fetch_sub(place.words(), Ordering::Relaxed);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes what lies before `begin`, where nothing is any more.
    pub(super) fn remove_before(&self, begin: u64) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, place| {
                let stays = place.address() >= begin;
                if !stays {
                    self.words.fetch_sub(place.words(), Ordering::Relaxed);
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
                stays
            });
        }
    }

    /// What has an order in `from..=to`, in its order.
    pub(super) fn entries(&self, from: u64, to: u64) -> Vec<ColdEntry> {
        let shards = (from >> (64 - SHARD_BITS)) as usize..=(to >> (64 - SHARD_BITS)) as usize;
        let mut all = Vec::new();
        for shard in &self.shards[shards] {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(
                shard.range(from..=to).map(|(order, place)| ColdEntry { order: *order, place: *place }),
            );
        }
        all
    }

    /// What some parts have: one of `step`.
    pub(super) fn sample(&self, step: usize) -> Vec<ColdEntry> {
        let mut all = Vec::new();
        for shard in self.shards.iter().step_by(step) {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(shard.iter().map(|(order, place)| ColdEntry { order: *order, place: *place }));
        }
        all
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn words(&self) -> u64 {
        self.words.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_before_the_beginning_is_not_counted() {
        let delta = Delta::new();
        for order in 0..10 {
            delta.insert(order << 60, ColdPlace::new(100 + 10 * order, 3));
        }
        delta.insert(1 << 60, ColdPlace::new(300, 5));
        delta.remove_before(150);
        assert_eq!((delta.count(), delta.words()), (6, 5 + 5 * 3));
        let found: Vec<_> = delta.entries(0, u64::MAX).iter().map(|entry| entry.place.address()).collect();
        assert_eq!(found, [300, 150, 160, 170, 180, 190]);
    }
}
