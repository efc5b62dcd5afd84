//! Who is told when a key changes: clients that watch it, and clients that wait for something to stand there.
//!
//! Both come here while they hold the key's lock, and whoever changes the key tells while holding it: so nobody who
//! has read a key misses a change that came after.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_format::datatype::DatabaseId;

use crate::client::ClientAddress;

/// The keys that one client watches: raised when one of them changes.
#[derive(Debug, Default)]
pub(crate) struct WatchFlag {
    is_raised: AtomicBool,
    /// Keys that are watched because those that the client has named went with a database that was flushed.
    moved: Mutex<HashSet<Vec<u8>>>,
}

impl WatchFlag {
    /// Whether a key has changed since it was watched.
    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// A key has changed.
    pub(crate) fn raise(&self) {
        self.is_raised.store(true, Ordering::Release);
    }

    /// The engine's keys that are watched beside those that the client has named: the same keys in databases that have
    /// taken the places of theirs.
    pub(crate) fn moved(&self) -> Vec<Vec<u8>> {
        self.moved_keys().iter().cloned().collect()
    }

    fn moved_keys(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
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
    waiters: VecDeque<Waiter>,
}

/// Who stands in line for a key.
#[derive(Debug)]
struct Waiter {
    address: ClientAddress,
    /// Another key of the engine that it changes when it is served.
    destination: Option<Vec<u8>>,
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

    /// `address` stands in line for `key`, behind all others, unless it does already. Served, it changes `destination` too.
    pub(crate) fn wait(&self, key: &[u8], address: ClientAddress, destination: Option<&[u8]>) {
        let mut keys = self.keys();
        let waiters = &mut keys.entry(key.to_vec()).or_default().waiters;
        if !waiters.iter().any(|known| known.address == address) {
            waiters.push_back(Waiter { address, destination: destination.map(<[u8]>::to_vec) });
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// `waiter` leaves the line for `key`; who is the first now, and should look.
    pub(crate) fn leave(&self, key: &[u8], waiter: ClientAddress) -> Option<ClientAddress> {
        let mut keys = self.keys();
        let observed = keys.get_mut(key)?;
        if let Some(place) = observed.waiters.iter().position(|known| known.address == waiter) {
            observed.waiters.remove(place);
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        let first = observed.waiters.front().map(|first| first.address);
        if observed.watchers.is_empty() && observed.waiters.is_empty() {
            keys.remove(key);
        }
        first
    }

    /// Who stands next behind `waiter` in the line for `key`.
    pub(crate) fn behind(&self, key: &[u8], waiter: ClientAddress) -> Option<ClientAddress> {
        let keys = self.keys();
        let waiters = &keys.get(key)?.waiters;
        let place = waiters.iter().position(|known| known.address == waiter)?;
        waiters.get(place + 1).map(|next| next.address)
    }

    /// Who waits for `key` longest, but for those that are `passed`.
    pub(crate) fn first_but(&self, key: &[u8], passed: &[ClientAddress]) -> Option<ClientAddress> {
        let keys = self.keys();
        let mut waiters = keys.get(key)?.waiters.iter().map(|waiter| waiter.address);
        waiters.find(|address| !passed.contains(address))
    }

    /// Keys of the engine that those who wait longest for `key`, up to `waiters_max` of them, change when they are served.
    pub(crate) fn destinations(&self, key: &[u8], waiters_max: usize) -> Vec<Vec<u8>> {
        let keys = self.keys();
        let Some(observed) = keys.get(key) else { return Vec::new() };
        let waiters = observed.waiters.iter().take(waiters_max);
        waiters.filter_map(|waiter| waiter.destination.clone()).collect()
    }

    /// `key` has changed: raises the flags of who watches it, and says whether somebody waits for it.
    pub(crate) fn changed(&self, key: &[u8]) -> bool {
        let keys = self.keys();
        let Some(observed) = keys.get(key) else { return false };
        observed.watchers.iter().for_each(|(flag, _)| flag.raise());
        !observed.waiters.is_empty()
    }

    /// What stood at `key` had expired and was removed: a change for who watched it while it was there, and for nobody else.
    pub(crate) fn rid_of_expired(&self, key: &[u8]) {
        if let Some(observed) = self.keys().get(key) {
            observed.watchers.iter().filter(|(_, was_there)| *was_there).for_each(|(flag, _)| flag.raise());
        }
    }

    /// The first database of each pair is about to be flushed, and the second to take its place: who watches a key of the
    /// one where nothing stands watches the same key of the other.
    pub(crate) fn databases_flushed(&self, flushed: &[(DatabaseId, DatabaseId)]) {
        let mut keys = self.keys();
        let mut moved: Vec<(Vec<u8>, Vec<Arc<WatchFlag>>)> = Vec::new();
        for (key, observed) in keys.iter() {
            for (old, new) in flushed {
                let Some(rest) = key.strip_prefix(old.number().to_be_bytes().as_slice()) else { continue };
                let missing = observed.watchers.iter().filter(|(_, is_there)| !is_there);
                let flags: Vec<_> = missing.map(|(flag, _)| Arc::clone(flag)).collect();
                if !flags.is_empty() {
                    moved.push(([&new.number().to_be_bytes(), rest].concat(), flags));
                }
            }
        }
        for (key, flags) in moved {
            for flag in flags {
                flag.moved_keys().insert(key.clone());
                keys.entry(key.clone()).or_default().watchers.push((flag, false));
                self.count.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// All keys of these databases have changed, but not those where nothing stood in a flushed
    /// one, which are watched from now on only in the database that took its place (`successor`).
    /// Answers the clients that wait for one of the keys.
    pub(crate) fn databases_changed(
        &self,
        databases: &[DatabaseId],
        successor: impl Fn(DatabaseId) -> Option<DatabaseId>,
    ) -> Vec<ClientAddress> {
        let mut waiters = Vec::new();
        self.keys().retain(|key, observed| {
            let is_meant = |id: &&DatabaseId| key.starts_with(&id.number().to_be_bytes());
            let Some(id) = databases.iter().find(is_meant) else { return true };
            let moved_to = successor(*id).map(|new| {
                let number = new.number().to_be_bytes();
                [&number, &key[number.len()..]].concat()
            });
            let before = observed.watchers.len();
            observed.watchers.retain(|(flag, is_there)| {
                // What is watched since the flush began was not moved: it counts as changed.
                let mut moved = flag.moved_keys();
                let is_moved = !is_there && moved_to.as_ref().is_some_and(|new| moved.contains(new));
                match is_moved {
                    true => _ = moved.remove(key),
                    false => flag.raise(),
                }
                !is_moved
            });
            self.count.fetch_sub(before - observed.watchers.len(), Ordering::AcqRel);
            waiters.extend(observed.waiters.iter().map(|waiter| waiter.address));
            !observed.watchers.is_empty() || !observed.waiters.is_empty()
        });
        waiters
    }
}

#[cfg(test)]
mod tests;
