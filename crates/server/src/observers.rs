//! Clients that are told when a key changes: those that watch it, and those that wait in a line for
//! it.
//!
//! Both come here while they hold the key's lock, and a command that changes the key tells them
//! while it holds that lock. So a client that has read a key misses no change that comes after.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_format::datatype::DatabaseId;

use crate::bounds::name_memory_bytes;
use crate::lines::Lines;

/// The keys that one client watches: raised when one of them changes.
#[derive(Debug, Default)]
pub(crate) struct WatchFlag {
    is_raised: AtomicBool,
    moved: Mutex<Moved>,
}

/// Keys that are watched because those that the client has named went with a database that was
/// flushed.
#[derive(Debug, Default)]
struct Moved {
    keys: BTreeSet<Vec<u8>>,
    /// Memory that they take, here and with the observers.
    memory_bytes: usize,
    /// The client watches no more: there will be no others.
    is_over: bool,
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

    /// The engine's keys that are watched beside those that the client has named: the same keys in
    /// databases that have taken the places of theirs.
    pub(crate) fn moved(&self) -> Vec<Vec<u8>> {
        self.moved_keys().keys.iter().cloned().collect()
    }

    /// Memory that these keys take.
    pub(crate) fn moved_bytes(&self) -> usize {
        self.moved_keys().memory_bytes
    }

    /// The client watches no more: the same keys, to which none are added from now on.
    pub(crate) fn end(&self) -> BTreeSet<Vec<u8>> {
        let mut moved = self.moved_keys();
        (moved.is_over, moved.memory_bytes) = (true, 0);
        std::mem::take(&mut moved.keys)
    }

    /// Watches `key` too, unless it does already or the client watches no more; whether it is new.
    fn add_moved(&self, key: &[u8]) -> bool {
        let mut moved = self.moved_keys();
        let is_new = !moved.is_over && moved.keys.insert(key.to_vec());
        moved.memory_bytes += if is_new { name_memory_bytes(key) } else { 0 };
        is_new
    }

    /// `key` is not watched any more since it was moved to `new`, if it was.
    fn has_moved(&self, key: &[u8], new: &[u8]) -> bool {
        let mut moved = self.moved_keys();
        let has_moved = moved.keys.contains(new);
        if has_moved && moved.keys.remove(key) {
            moved.memory_bytes -= name_memory_bytes(key);
        }
        has_moved
    }

    fn moved_keys(&self) -> MutexGuard<'_, Moved> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Observers of keys, by the engine's keys; shared by all server threads.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    state: Mutex<State>,
    count: AtomicUsize,
    /// Clients that wait.
    pub(crate) lines: Lines,
}

#[derive(Debug, Default)]
struct State {
    /// In an order, so that a pass over the keys of a database can release the lock and find its
    /// place again.
    keys: BTreeMap<Vec<u8>, Observed>,
    /// Databases that are being flushed or swapped.
    changing: Vec<DatabaseId>,
}

impl State {
    /// Whether the engine's key `key` is of a database that is being flushed or swapped.
    fn is_changing(&self, key: &[u8]) -> bool {
        self.changing.iter().any(|id| key.starts_with(&id.number().to_be_bytes()))
    }

    /// Keys of the database `id` behind `after`, in order, as many as a pass looks at together.
    fn some_of(
        &mut self,
        id: DatabaseId,
        after: Option<&[u8]>,
    ) -> impl Iterator<Item = (&Vec<u8>, &mut Observed)> {
        let prefix = id.number().to_be_bytes();
        let start = after.map_or(Bound::Included(&prefix[..]), Bound::Excluded);
        let from = self.keys.range_mut::<[u8], _>((start, Bound::Unbounded));
        from.take_while(move |(key, _)| key.starts_with(&prefix)).take(KEYS_TOGETHER)
    }
}

/// Keys of a database that are looked at under the lock together.
const KEYS_TOGETHER: usize = 64;

#[derive(Debug, Default)]
struct Observed {
    /// With whether something stood there when it was watched.
    watchers: Vec<(Arc<WatchFlag>, bool)>,
}

impl Observers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any client is to be told when keys change. Exact for a key whose lock the caller
    /// holds.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0 || !self.lines.is_empty()
    }

    /// `flag` is raised when `key` changes, at which something stands or not (`is_there`).
    ///
    /// In a database that is being flushed or swapped that counts as changed at once: a pass may be
    /// beyond the key.
    pub(crate) fn watch(&self, key: &[u8], flag: &Arc<WatchFlag>, is_there: bool) {
        let mut state = self.state();
        if state.is_changing(key) {
            flag.raise();
        }
        let watchers = &mut state.keys.entry(key.to_vec()).or_default().watchers;
        if !watchers.iter().any(|(known, _)| Arc::ptr_eq(known, flag)) {
            watchers.push((Arc::clone(flag), is_there));
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// `flag` watches `key` no more.
    pub(crate) fn unwatch(&self, key: &[u8], flag: &Arc<WatchFlag>) {
        let mut state = self.state();
        let keys = &mut state.keys;
        let Some(observed) = keys.get_mut(key) else { return };
        let before = observed.watchers.len();
        observed.watchers.retain(|(known, _)| !Arc::ptr_eq(known, flag));
        self.count.fetch_sub(before - observed.watchers.len(), Ordering::AcqRel);
        if observed.watchers.is_empty() {
            keys.remove(key);
        }
    }

    /// `key` has changed: raises the flags of clients that watch it.
    pub(crate) fn changed(&self, key: &[u8]) {
        if let Some(observed) = self.state().keys.get(key) {
            observed.watchers.iter().for_each(|(flag, _)| flag.raise());
        }
    }

    /// What stood at `key` had expired and was removed: a change only for clients that watched it
    /// while it was there.
    pub(crate) fn rid_of_expired(&self, key: &[u8]) {
        if let Some(observed) = self.state().keys.get(key) {
            observed.watchers.iter().filter(|(_, was_there)| *was_there).for_each(|(flag, _)| flag.raise());
        }
    }

    /// These databases are about to be flushed or swapped, until
    /// [`have_changed`](Self::have_changed). One command does that at a time.
    pub(crate) fn begin_changes(&self, databases: impl Iterator<Item = DatabaseId>) {
        self.state().changing = databases.collect();
    }

    /// All keys of these databases were passed over.
    pub(crate) fn have_changed(&self) {
        self.state().changing.clear();
    }

    /// Some keys of the database `id`, from `after` on, are about to change: raises the flags of
    /// clients that watch them. With `new`, which takes its place, flags are not raised for keys
    /// where nothing stands: these are watched in both from now on. Answers the last key looked at;
    /// `None` if that was all.
    pub(crate) fn keys_change(
        &self,
        id: DatabaseId,
        new: Option<DatabaseId>,
        after: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let mut state = self.state();
        let mut moved: Vec<(Vec<u8>, Vec<Arc<WatchFlag>>)> = Vec::new();
        let mut last = None;
        for (key, observed) in state.some_of(id, after) {
            let mut missing = Vec::new();
            for (flag, is_there) in &observed.watchers {
                match new {
                    Some(_) if !is_there => missing.push(Arc::clone(flag)),
                    _ => flag.raise(),
                }
            }
            if let Some(new) = new.filter(|_| !missing.is_empty()) {
                moved.push((key_in(new, key), missing));
            }
            last = Some(key.clone());
        }
        for (key, flags) in moved {
            for flag in flags.into_iter().filter(|flag| flag.add_moved(&key)) {
                state.keys.entry(key.clone()).or_default().watchers.push((flag, false));
                self.count.fetch_add(1, Ordering::AcqRel);
            }
        }
        last
    }

    /// Some keys of the database `id`, from `after` on, have changed. A client that watches one
    /// that was moved to `new` watches it only there, and others are told. Answers the last key
    /// looked at; `None` if that was all.
    pub(crate) fn keys_changed(
        &self,
        id: DatabaseId,
        new: Option<DatabaseId>,
        after: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let mut state = self.state();
        let (mut last, mut left) = (None, Vec::new());
        for (key, observed) in state.some_of(id, after) {
            let moved_to = new.map(|new| key_in(new, key));
            let before = observed.watchers.len();
            observed.watchers.retain(|(flag, is_there)| {
                let has_moved = !is_there && moved_to.as_ref().is_some_and(|new| flag.has_moved(key, new));
                if !has_moved {
                    flag.raise();
                }
                !has_moved
            });
            self.count.fetch_sub(before - observed.watchers.len(), Ordering::AcqRel);
            if observed.watchers.is_empty() {
                left.push(key.clone());
            }
            last = Some(key.clone());
        }
        left.iter().for_each(|key| drop(state.keys.remove(key)));
        last
    }
}

/// The same key of the database `id`.
fn key_in(id: DatabaseId, key: &[u8]) -> Vec<u8> {
    let number = id.number().to_be_bytes();
    [&number, key.get(number.len()..).unwrap_or_default()].concat()
}

#[cfg(test)]
mod tests;
