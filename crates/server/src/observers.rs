//! Who is told when a key changes: clients that watch it, and clients that wait for something to stand there.
//!
//! Both come here while they hold the key's lock, and whoever changes the key tells while holding it: so nobody who
//! has read a key misses a change that came after.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_format::datatype::DatabaseId;

use crate::client::ClientAddress;

/// The keys that one client watches: raised when one of them changes.
#[derive(Debug, Default)]
pub(crate) struct WatchFlag(AtomicBool);

impl WatchFlag {
    /// Whether a key has changed since it was watched.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A key has changed.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Observers of keys, by the engine's keys; shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    keys: Mutex<HashMap<Vec<u8>, Observed>>,
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Observed {
    /// With whether something stood there when it was watched.
    watchers: Vec<(Arc<WatchFlag>, bool)>,
    /// Longest waiting first.
    waiters: VecDeque<ClientAddress>,
}

impl Observers {
    fn keys(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Observed>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody is to be told of anything. Exact for a key whose lock the caller holds.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// `flag` is raised when `key` changes, at which something stands or not (`is_there`).
    pub(crate) fn watch(&self, key: &[u8], flag: &Arc<WatchFlag>, is_there: bool) {
        let mut keys = self.keys();
        let watchers = &mut keys.entry(key.to_vec()).or_default().watchers;
        if !watchers.iter().any(|(known, _)| Arc::ptr_eq(known, flag)) {
            watchers.push((Arc::clone(flag), is_there));
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// `flag` watches `key` no more.
    pub(crate) fn unwatch(&self, key: &[u8], flag: &Arc<WatchFlag>) {
        let mut keys = self.keys();
        let Some(observed) = keys.get_mut(key) else { return };
        let before = observed.watchers.len();
        observed.watchers.retain(|(known, _)| !Arc::ptr_eq(known, flag));
        self.count.fetch_sub(before - observed.watchers.len(), Ordering::AcqRel);
        if observed.watchers.is_empty() && observed.waiters.is_empty() {
            keys.remove(key);
        }
    }

    /// `waiter` stands in line for `key`, behind all others, unless it does already.
    pub(crate) fn wait(&self, key: &[u8], waiter: ClientAddress) {
        let mut keys = self.keys();
        let waiters = &mut keys.entry(key.to_vec()).or_default().waiters;
        if !waiters.contains(&waiter) {
            waiters.push_back(waiter);
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// `waiter` leaves the line for `key`; who is the first now, and should look.
    pub(crate) fn leave(&self, key: &[u8], waiter: ClientAddress) -> Option<ClientAddress> {
        let mut keys = self.keys();
        let observed = keys.get_mut(key)?;
        if let Some(place) = observed.waiters.iter().position(|known| *known == waiter) {
            observed.waiters.remove(place);
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        let first = observed.waiters.front().copied();
        if observed.watchers.is_empty() && observed.waiters.is_empty() {
            keys.remove(key);
        }
        first
    }

    /// Who stands next behind `waiter` in the line for `key`.
    pub(crate) fn behind(&self, key: &[u8], waiter: ClientAddress) -> Option<ClientAddress> {
        let keys = self.keys();
        let waiters = &keys.get(key)?.waiters;
        let place = waiters.iter().position(|known| *known == waiter)?;
        waiters.get(place + 1).copied()
    }

    /// `key` has changed: raises the flags of who watches it, and says who waits for it longest.
    pub(crate) fn changed(&self, key: &[u8]) -> Option<ClientAddress> {
        let keys = self.keys();
        let observed = keys.get(key)?;
        observed.watchers.iter().for_each(|(flag, _)| flag.raise());
        observed.waiters.front().copied()
    }

    /// What stood at `key` had expired and was removed: a change for who watched it while it was there, and for nobody else.
    pub(crate) fn rid_of_expired(&self, key: &[u8]) {
        if let Some(observed) = self.keys().get(key) {
            observed.watchers.iter().filter(|(_, was_there)| *was_there).for_each(|(flag, _)| flag.raise());
        }
    }

    /// All keys of these databases have changed: everybody who waits for one should look.
    pub(crate) fn databases_changed(&self, databases: &[DatabaseId]) -> Vec<ClientAddress> {
        let keys = self.keys();
        let mut waiters = Vec::new();
        for (key, observed) in keys.iter() {
            let is_meant = databases.iter().any(|database| key.starts_with(&database.number().to_be_bytes()));
            if is_meant {
                observed.watchers.iter().for_each(|(flag, _)| flag.raise());
                waiters.extend(observed.waiters.iter().copied());
            }
        }
        waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn waiter(number: u64) -> ClientAddress {
        ClientAddress { worker: 0, id: 0, number }
    }

    #[test]
    fn waiters_are_told_in_the_order_they_came() {
        let observers = Observers::default();
        assert!(observers.is_empty());
        observers.wait(b"k", waiter(1));
        observers.wait(b"k", waiter(2));
        observers.wait(b"k", waiter(1));
        assert_eq!(observers.changed(b"other"), None);
        assert_eq!(observers.changed(b"k"), Some(waiter(1)));
        assert_eq!(observers.behind(b"k", waiter(1)), Some(waiter(2)));
        assert_eq!(observers.behind(b"k", waiter(2)), None);
        assert_eq!(observers.leave(b"k", waiter(1)), Some(waiter(2)));
        assert!(!observers.is_empty());
        assert_eq!(observers.leave(b"k", waiter(2)), None);
        assert!(observers.is_empty());
    }

    #[test]
    fn watchers_are_told_once_and_of_their_keys_only() {
        let observers = Observers::default();
        let (a, b) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
        observers.watch(b"k", &a, false);
        observers.watch(b"k", &a, true);
        observers.watch(b"m", &b, true);
        observers.rid_of_expired(b"k");
        assert!(!a.is_raised(), "there was nothing when it was watched first");
        observers.changed(b"k");
        assert!(a.is_raised());
        assert!(!b.is_raised());
        observers.unwatch(b"k", &a);
        observers.unwatch(b"m", &b);
        observers.changed(b"m");
        assert!(!b.is_raised(), "it watches no more");
        assert!(observers.is_empty());
    }
}
