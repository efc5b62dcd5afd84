//! What a transaction has written and not committed.

use std::collections::BTreeMap;
use std::ops::Bound;

use firn_engine::{Batch, KeyspaceId, ScanRange};

use crate::scan::ends::Written;

/// The last write of each key.
#[derive(Debug, Default)]
pub(super) struct Writes(BTreeMap<(KeyspaceId, Vec<u8>), Option<Value>>);

#[derive(Debug)]
struct Value {
    bytes: Vec<u8>,
    expires_at_ms: u64,
}

impl Writes {
    pub(super) fn put(&mut self, keyspace: KeyspaceId, key: &[u8], bytes: &[u8], expires_at_ms: u64) {
        let value = Value { bytes: bytes.to_vec(), expires_at_ms };
        self.0.insert((keyspace, key.to_vec()), Some(value));
    }

    pub(super) fn delete(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        self.0.insert((keyspace, key.to_vec()), None);
    }

    /// What `key` was set to, `None` within if it was removed; `None` if it was not written.
    pub(super) fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<Option<&[u8]>> {
        let written = self.0.get(&(keyspace, key.to_vec()))?;
        Some(written.as_ref().map(|value| value.bytes.as_slice()))
    }

    /// What was written to keys of `range`, in their order.
    pub(super) fn within(&self, keyspace: KeyspaceId, range: &ScanRange) -> Written {
        let (start, end) = range.bounds();
        if end.as_ref().is_some_and(|end| *end <= start) {
            return Vec::new();
        }
        let below = match end {
            Some(end) => Bound::Excluded((keyspace, end)),
            None => Bound::Unbounded,
        };
        self.0
            .range((Bound::Included((keyspace, start)), below))
            .take_while(|((of, _), _)| *of == keyspace)
            .map(|((_, key), value)| (key.clone(), value.as_ref().map(|value| value.bytes.clone())))
            .collect()
    }

    /// All of it; `None` if nothing was written.
    pub(super) fn batch(&self) -> Option<Batch> {
        let mut batch = Batch::new();
        for ((keyspace, key), value) in &self.0 {
            match value {
                None => batch.delete(*keyspace, key),
                Some(Value { bytes, expires_at_ms: 0 }) => batch.put(*keyspace, key, bytes),
                Some(Value { bytes, expires_at_ms }) => {
                    batch.put_until(*keyspace, key, bytes, *expires_at_ms)
                }
            };
        }
        (!self.0.is_empty()).then_some(batch)
    }
}
