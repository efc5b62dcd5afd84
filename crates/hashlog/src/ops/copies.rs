//! Copies of records in the read cache: put in front of their chains, and taken out again.

use std::ops::Range;
use std::sync::Arc;

use firn_format::hybrid::Shape;

use super::{Access, Key, Seen, Store};
use crate::epoch::Inside;
use crate::index::{Entry, Inserted, Place};
use crate::log::Parts;

impl Store {
    /// Puts a copy of a record that is not in memory in front of its chain, if its key still has
    /// what was `seen`. A key of the cold log gets a chain of the copy alone. Answers whether it
    /// did.
    pub(crate) fn put_in_cache(
        &self,
        _inside: &Inside<'_>,
        key: Key<'_>,
        seen: Seen,
        parts: &Parts<'_>,
    ) -> bool {
        let Some(cache) = self.cache.as_ref().filter(|cache| cache.holds(parts)) else { return false };
        match (self.index.find(key.hash), seen) {
            (Some((place, entry)), Seen::Below { top }) if self.top(entry) == top => {
                let address = cache.append(&self.epochs, parts, top);
                address.is_some_and(|address| self.index.lead_to_copy(place, entry, address))
            }
            // What was written since, and has left the log, began a move; nothing that is written
            // now leaves it before this operation ends.
            (None, Seen::Absent { moves }) if self.cold.moves() == moves => {
                let address = cache.append(&self.epochs, parts, 0);
                address
                    .is_some_and(|address| matches!(self.index.insert_copy(key.hash, address), Inserted::New))
            }
            _ => false,
        }
    }

    /// Takes the oldest pages out of the cache, as many as its tail needs next. Answers whether
    /// there was anything to do. One caller at a time.
    pub(crate) fn evict_copies(self: &Arc<Self>) -> bool {
        let Some(cache) = &self.cache else { return false };
        let outgoing = cache.outgoing();
        if outgoing.is_empty() {
            return cache.evict(&self.epochs, outgoing.start);
        }
        let Some(mut access) = Access::new(self) else { return false };
        self.take_out(&mut access, outgoing.clone());
        cache.evict(&self.epochs, outgoing.end);
        true
    }

    /// Has entries that lead to copies in `outgoing` lead to the log, or to a second copy.
    fn take_out(&self, access: &mut Access, outgoing: Range<u64>) {
        let Some(cache) = &self.cache else { return };
        let (mut at, mut key, mut value) = (outgoing.start, Vec::new(), Vec::new());
        while at < outgoing.end {
            let (store, _inside) = access.enter();
            let record = cache.record(at);
            let Some(shape) = record.filled_shape() else {
                at += 1;
                continue;
            };
            let keyspace = record.copy_key(&mut key);
            let found = Key::new(keyspace, &key);
            if store.entry_of_copy(found, at).is_some() {
                let content = record.read(&mut value);
                let parts = Parts {
                    shape: Shape { slack_words: 0, ..shape },
                    keyspace,
                    key: &key,
                    value: &value,
                    expires_at_ms: content.expires_at_ms,
                };
                let top = record.link().previous();
                let copy = if record.is_marked() { cache.append(&store.epochs, &parts, top) } else { None };
                // Fails where the entry leads elsewhere by now, or its bucket is being split.
                while let Some((place, entry)) = store.entry_of_copy(found, at)
                    && !match (copy, top) {
                        (Some(copy), _) => store.index.lead_to_copy(place, entry, copy),
                        (None, 0) => store.index.remove(found.hash, place, entry),
                        (None, top) => store.index.lead_to(place, entry, top),
                    }
                {}
            }
            at += shape.words() as u64;
        }
    }

    /// The entry of the chain of `key`, if it has the copy at `address` in front.
    fn entry_of_copy(&self, key: Key<'_>, address: u64) -> Option<(Place, Entry)> {
        self.index.find(key.hash).filter(|(_, entry)| entry.is_copy() && entry.target() == address)
    }
}
