//! Clients that wait for something to stand at a key, in a line for each key.
//!
//! A line belongs to the index of a database, as its clients do. The database of that index may
//! change, and they keep their places. A client comes here while it holds the key's lock. A command
//! that changes the key asks while it holds that lock, so that no change is missed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_format::datatype::UserKey;

use crate::address::ClientAddress;
use crate::store::Databases;

/// The key that a line is for, in the database that an index means.
///
/// Encoded as the engine has it, but with the index in the place of the database's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineKey(Vec<u8>);

/// Bytes of an index, and of an identity.
const INDEX_BYTES: usize = size_of::<u32>();

impl LineKey {
    /// The engine's key `key` of the database that `index` means.
    pub(crate) fn new(index: u32, key: &[u8]) -> Self {
        Self([&index.to_be_bytes(), key.get(INDEX_BYTES..).unwrap_or_default()].concat())
    }

    /// The engine's key `key`, by what the indexes mean in `databases`; `None` if none means its
    /// database.
    pub(crate) fn of(databases: &Databases, key: &[u8]) -> Option<Self> {
        let id = UserKey::decode(key).ok()?.database();
        Some(Self::new(databases.index_of(id)?, key))
    }

    /// The engine's key, by what the indexes mean in `databases`.
    pub(crate) fn engine_key(&self, databases: &Databases) -> Vec<u8> {
        let Some((index, rest)) = self.0.split_first_chunk::<INDEX_BYTES>() else { return Vec::new() };
        let id = databases.get(u32::from_be_bytes(*index)).id;
        [&id.number().to_be_bytes(), rest].concat()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// When a command began to wait, among all that wait: it keeps its place in every line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

/// A client in a line.
#[derive(Debug)]
struct Waiter {
    address: ClientAddress,
    /// Another key that it changes when it is served.
    destination: Option<LineKey>,
}

/// By their places, longest waiting first.
type Line = BTreeMap<Place, Waiter>;

/// The lines of all keys; shared by all server threads.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// In an order, so that a pass over the keys of an index can release the lock and find its
    /// place again. None is empty.
    by_key: Mutex<BTreeMap<LineKey, Line>>,
    count: AtomicUsize,
    /// Clients that stand in any line.
    client_count: AtomicUsize,
    /// The next place to be given.
    next_place: AtomicU64,
}

/// Lines of an index that are looked at under the lock together.
const LINES_TOGETHER: usize = 64;

impl Lines {
    fn by_key(&self) -> MutexGuard<'_, BTreeMap<LineKey, Line>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no client waits. Exact for a key whose lock the caller holds.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// A client begins to stand in lines.
    pub(crate) fn enter(&self) {
        self.client_count.fetch_add(1, Ordering::AcqRel);
    }

    /// A client stands in no line any more.
    pub(crate) fn exit(&self) {
        self.client_count.fetch_sub(1, Ordering::AcqRel);
    }

    /// How many clients stand in any line.
    pub(crate) fn client_count(&self) -> usize {
        self.client_count.load(Ordering::Acquire)
    }

    /// A place behind all that were given before.
    pub(crate) fn give_place(&self) -> Place {
        Place(self.next_place.fetch_add(1, Ordering::Relaxed))
    }

    /// `address` stands in line for `key` at its place, unless it does already. Served, it changes
    /// `destination` too.
    pub(crate) fn stand(
        &self,
        key: &LineKey,
        place: Place,
        address: ClientAddress,
        destination: Option<&LineKey>,
    ) {
        let mut by_key = self.by_key();
        if let Entry::Vacant(vacant) = by_key.entry(key.clone()).or_default().entry(place) {
            vacant.insert(Waiter { address, destination: destination.cloned() });
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The client at `place` leaves the line for `key`; which client is the first now, and should
    /// look.
    pub(crate) fn leave(&self, key: &LineKey, place: Place) -> Option<ClientAddress> {
        let mut by_key = self.by_key();
        let line = by_key.get_mut(key)?;
        if line.remove(&place).is_some() {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        let first = line.values().next().map(|first| first.address);
        if first.is_none() {
            by_key.remove(key);
        }
        first
    }

    /// Whether any client waits for `key`.
    pub(crate) fn has(&self, key: &LineKey) -> bool {
        self.by_key().contains_key(key)
    }

    /// The client that waits for `key` longest.
    pub(crate) fn first(&self, key: &LineKey) -> Option<(Place, ClientAddress)> {
        let by_key = self.by_key();
        let (place, first) = by_key.get(key)?.first_key_value()?;
        Some((*place, first.address))
    }

    /// The client next behind `place` in the line for `key`.
    pub(crate) fn behind(&self, key: &LineKey, place: Place) -> Option<(Place, ClientAddress)> {
        let by_key = self.by_key();
        let mut behind = by_key.get(key)?.range((Bound::Excluded(place), Bound::Unbounded));
        behind.next().map(|(place, next)| (*place, next.address))
    }

    /// Keys that the clients that wait longest for `key`, up to `waiters_max` of them, change when
    /// they are served.
    pub(crate) fn destinations(&self, key: &LineKey, waiters_max: usize) -> Vec<LineKey> {
        let by_key = self.by_key();
        let Some(line) = by_key.get(key) else { return Vec::new() };
        let waiters = line.values().take(waiters_max);
        waiters.filter_map(|waiter| waiter.destination.clone()).collect()
    }

    /// Keys of `index` behind `after` that clients wait for, in order: some of them, none if those
    /// were all.
    pub(crate) fn some_keys(&self, index: u32, after: Option<&LineKey>) -> Vec<LineKey> {
        let by_key = self.by_key();
        let start = LineKey(index.to_be_bytes().to_vec());
        let from = after.map_or(Bound::Included(&start), Bound::Excluded);
        let of_index = by_key.range::<LineKey, _>((from, Bound::Unbounded)).map(|(key, _)| key);
        of_index.take_while(|key| key.0.starts_with(&start.0)).take(LINES_TOGETHER).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn waiter(number: u64) -> ClientAddress {
        ClientAddress { thread: 0, id: 0, number }
    }

    fn key(index: u32, name: &[u8]) -> LineKey {
        LineKey::new(index, &[b"0000", name].concat())
    }

    #[test]
    fn clients_are_in_the_order_of_their_places() {
        let lines = Lines::default();
        assert!(lines.is_empty());
        let (k, d) = (key(0, b"k"), key(0, b"d"));
        let (first, second) = (lines.give_place(), lines.give_place());
        lines.stand(&k, second, waiter(2), Some(&d));
        lines.stand(&k, first, waiter(1), None);
        lines.stand(&k, second, waiter(2), None);
        assert!(lines.has(&k) && !lines.has(&key(1, b"k")) && !lines.has(&d));
        assert_eq!(lines.first(&k), Some((first, waiter(1))));
        assert_eq!(lines.behind(&k, first), Some((second, waiter(2))));
        assert_eq!(lines.behind(&k, second), None);
        assert_eq!(lines.destinations(&k, 1), []);
        assert_eq!(lines.destinations(&k, 2), [d]);
        assert_eq!(lines.leave(&k, first), Some(waiter(2)));
        assert_eq!(lines.behind(&k, first), Some((second, waiter(2))), "its place is known");
        assert!(!lines.is_empty());
        assert_eq!(lines.leave(&k, second), None);
        assert!(lines.is_empty() && !lines.has(&k));
    }

    #[test]
    fn lines_of_an_index_are_passed_over_in_pieces_each_once() {
        let lines = Lines::default();
        for number in 0..1000_u64 {
            let name = number.to_be_bytes();
            lines.stand(&key(1, &name), Place(number), waiter(number), None);
            lines.stand(&key(2, &name), Place(number), waiter(number), None);
        }
        let (mut found, mut pieces): (Vec<LineKey>, usize) = (Vec::new(), 0);
        loop {
            let some = lines.some_keys(1, found.last());
            if some.is_empty() {
                break;
            }
            found.extend(some);
            pieces += 1;
        }
        assert_eq!(pieces, 1000_usize.div_ceil(LINES_TOGETHER));
        assert_eq!(found, (0..1000_u64).map(|number| key(1, &number.to_be_bytes())).collect::<Vec<_>>());
    }
}
