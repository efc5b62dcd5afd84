//! What a transaction has written, which no other one sees yet.

use std::collections::BTreeMap;
use std::ops::Bound;

use firn_engine::{Batch, KeyspaceId, Op, OpKind};

/// Keys of an index that are given back without a look at the clock: some microseconds.
const INDEX_AT_ONCE: usize = 64;

/// A batch in the making, and where in it the newest write of each key stands.
///
/// The index is made when something is read after something was written: most commands do not.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    batch: Batch,
    newest: BTreeMap<(KeyspaceId, Vec<u8>), usize>,
    /// Operations of the batch that the index knows.
    indexed: usize,
}

impl OwnWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The batch, to be given back by [`put_back`](Self::put_back) before anything else is asked.
    pub(super) fn take_batch(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    pub(super) fn put_back(&mut self, batch: Batch) {
        self.batch = batch;
    }

    /// Whether [`clear`](Self::clear) has so much to give back that others should have turns.
    pub(super) fn has_long_index(&self) -> bool {
        self.newest.len() > INDEX_AT_ONCE
    }

    /// The index, piece by piece: what is written is asked for no more.
    pub(super) fn take_index(&mut self) -> impl Iterator<Item = (KeyspaceId, Vec<u8>)> {
        self.indexed = self.batch.len();
        std::mem::take(&mut self.newest).into_keys()
    }

    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.newest.clear();
        self.indexed = 0;
    }

    /// Forgets all writes but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.batch.truncate(len);
        if self.indexed > len {
            self.newest.clear();
            self.indexed = 0;
        }
    }

    /// Makes room for `bytes` more of keys and values.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.batch.reserve(bytes);
    }

    /// Adds a put or a delete.
    pub(super) fn push(&mut self, op: Op<'_>) {
        debug_assert!(matches!(op.kind, OpKind::Put | OpKind::Delete), "reads know no others: {op:?}");
        self.batch.push(op);
    }

    /// What was written to `key`: `Some(None)` that it is deleted, `None` that it was not written.
    pub(super) fn get(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.batch.is_empty() {
            return None;
        }
        self.index();
        let index = *self.newest.get(&(keyspace, key.to_vec()))?;
        self.batch.get(index).map(|op| value_of(&op))
    }

    /// What was written to keys from `start` to before `end`, by key.
    pub(super) fn range(
        &mut self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        if self.batch.is_empty() || end.is_some_and(|end| start >= end) {
            return Vec::new();
        }
        self.index();
        let end = match end {
            Some(end) => Bound::Excluded((keyspace, end.to_vec())),
            None => Bound::Excluded((KeyspaceId(keyspace.0 + 1), Vec::new())),
        };
        let found = self.newest.range((Bound::Included((keyspace, start.to_vec())), end));
        let write = |((_, key), index): (&(KeyspaceId, Vec<u8>), &usize)| {
            let value = self.batch.get(*index).and_then(|op| value_of(&op).map(<[u8]>::to_vec));
            (key.clone(), value)
        };
        found.map(write).collect()
    }

    fn index(&mut self) {
        while let Some(op) = self.batch.get(self.indexed) {
            self.newest.insert((op.keyspace, op.key.to_vec()), self.indexed);
            self.indexed += 1;
        }
    }
}

fn value_of<'b>(op: &Op<'b>) -> Option<&'b [u8]> {
    (op.kind == OpKind::Put).then_some(op.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: KeyspaceId = KeyspaceId(3);

    fn put(own: &mut OwnWrites, key: &str, value: &str) {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        own.push(Op { keyspace: K, kind: OpKind::Put, key, value, expires_at_ms: 0 });
    }

    #[test]
    fn the_newest_write_of_a_key_is_seen() {
        let mut own = OwnWrites::default();
        assert_eq!(own.get(K, b"a"), None);
        put(&mut own, "a", "1");
        put(&mut own, "c", "1");
        assert_eq!(own.get(K, b"a"), Some(Some(&b"1"[..])));
        put(&mut own, "a", "2");
        own.push(Op { keyspace: K, kind: OpKind::Delete, key: b"c", value: b"", expires_at_ms: 0 });
        put(&mut own, "b", "3");
        assert_eq!(own.get(K, b"a"), Some(Some(&b"2"[..])));
        assert_eq!(own.get(K, b"c"), Some(None));
        assert_eq!(own.get(KeyspaceId(2), b"a"), None);
        let written =
            |key: &str, value: Option<&str>| (key.as_bytes().to_vec(), value.map(|v| v.as_bytes().to_vec()));
        assert_eq!(own.range(K, b"a", Some(b"c")), [written("a", Some("2")), written("b", Some("3"))]);
        assert_eq!(own.range(K, b"b", None), [written("b", Some("3")), written("c", None)]);
        assert_eq!(own.range(K, b"c", Some(b"a")), []);
        own.truncate(3);
        assert_eq!(own.get(K, b"c"), Some(Some(&b"1"[..])), "its deletion is forgotten");
        assert_eq!(own.range(K, b"", None), [written("a", Some("2")), written("c", Some("1"))]);
        put(&mut own, "b", "4");
        assert_eq!(own.get(K, b"b"), Some(Some(&b"4"[..])));
        own.truncate(9);
        assert_eq!(own.batch().len(), 4);
    }
}
