//! Copies of records in the read cache: put in front of their chains, and taken out again.

use std::ops::Range;
use std::sync::Arc;

use firn_format::hybrid::Shape;

use super::{Access, Key, Seen, Store};
use crate::epoch::Inside;
use crate::index::{Entry, Inserted, Place};
use crate::log::Parts;
use crate::sync::Patience;

/// What was read of a copy last.
#[derive(Default)]
struct Outgone {
    key: Vec<u8>,
    value: Vec<u8>,
}

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
        let (mut at, mut outgone) = (outgoing.start, Outgone::default());
        while at < outgoing.end {
            // Nothing changes a copy any more.
            let Some(shape) = cache.record(at).filled_shape() else {
                at += 1;
                continue;
            };
            let mut patience = Patience::default();
            // Fails where the entry leads elsewhere by now, its bucket is being split, or a batch
            // holds its chain.
            while !self.take_out_one(access, at, shape, &mut outgone) {
                patience.wait();
            }
            at += shape.words() as u64;
        }
    }

    /// Has the entry that leads to the copy at `at`, if one does, lead elsewhere.
    fn take_out_one(&self, access: &mut Access, at: u64, shape: Shape, outgone: &mut Outgone) -> bool {
        let (store, _inside) = access.enter();
        let Some(cache) = &store.cache else { return true };
        let record = cache.record(at);
        let keyspace = record.copy_key(&mut outgone.key);
        let key = Key::new(keyspace, &outgone.key);
        let Some((place, entry)) = store.entry_of_copy(key, at) else { return true };
        let top = record.link().previous();
        if record.is_marked() {
            let content = record.read(&mut outgone.value);
            let parts = Parts {
                shape: Shape { slack_words: 0, ..shape },
                keyspace,
                key: &outgone.key,
                value: &outgone.value,
                expires_at_ms: content.expires_at_ms,
            };
            if let Some(copy) = cache.append(&store.epochs, &parts, top) {
                return store.index.lead_to_copy(place, entry, copy);
            }
        }
        match top {
            0 => store.remove_chain(key.hash, place, entry),
            top => store.index.lead_to(place, entry, top),
        }
    }

    /// The entry of the chain of `key`, if it has the copy at `address` in front.
    fn entry_of_copy(&self, key: Key<'_>, address: u64) -> Option<(Place, Entry)> {
        self.index.find(key.hash).filter(|(_, entry)| entry.is_copy() && entry.target() == address)
    }
}
