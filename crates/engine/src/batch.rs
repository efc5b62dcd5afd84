//! Writes that become visible and durable together.

use crate::KeyspaceId;

/// What an operation of a [`Batch`] does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Sets the value.
    Put,
    /// Removes the key.
    Delete,
    /// Adds an operand for the keyspace's merge operator; reads nothing.
    Merge,
}

/// What an operation of an [`OrderedBatch`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedOpKind {
    /// Sets the value.
    Put,
    /// Removes the key.
    Delete,
    /// Adds an operand for the keyspace's merge operator; reads nothing.
    Merge,
    /// Removes every key from `key` (included) to `value` (excluded).
    DeleteRange,
}

impl From<OpKind> for OrderedOpKind {
    fn from(kind: OpKind) -> Self {
        match kind {
            OpKind::Put => Self::Put,
            OpKind::Delete => Self::Delete,
            OpKind::Merge => Self::Merge,
        }
    }
}

/// One operation of a batch, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op<'a, K = OpKind> {
    /// The keyspace it touches.
    pub keyspace: KeyspaceId,
    /// What it does.
    pub kind: K,
    /// The key, or the first key of a range.
    pub key: &'a [u8],
    /// The value or operand; the excluded end for [`OrderedOpKind::DeleteRange`]; empty for a
    /// delete.
    pub value: &'a [u8],
    /// Milliseconds since the Unix epoch from which the record counts as deleted; 0 = never. Only
    /// of a put; ignored for the other kinds.
    pub expires_at_ms: u64,
}

/// One operation of an [`OrderedBatch`].
pub type OrderedOp<'a> = Op<'a, OrderedOpKind>;

impl<'a> From<Op<'a>> for OrderedOp<'a> {
    fn from(op: Op<'a>) -> Self {
        let Op { keyspace, kind, key, value, expires_at_ms } = op;
        Self { keyspace, kind: kind.into(), key, value, expires_at_ms }
    }
}

/// An ordered list of operations that become visible together and are recovered together or not at
/// all.
///
/// Later operations on one key win. Holds its bytes in one buffer; [`clear`](Self::clear) keeps the
/// memory. Every engine takes one; an [`OrderedBatch`] may hold range deletes too, and only engines
/// that keep keys in order take it.
///
/// ```
/// use firn_engine::{Batch, KEYSPACE_DEFAULT};
///
/// let mut batch = Batch::new();
/// batch.put(KEYSPACE_DEFAULT, b"a", b"1").delete(KEYSPACE_DEFAULT, b"b");
/// assert_eq!((batch.len(), batch.data_bytes()), (2, 3));
/// let kept = batch.len();
/// batch.put(KEYSPACE_DEFAULT, b"c", b"3");
/// batch.truncate(kept); // taken back before it is written
/// batch.clear(); // and used again
/// assert!(batch.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Batch<K = OpKind> {
    heads: Vec<Head<K>>,
    bytes: Vec<u8>,
}

/// A [`Batch`] that may delete ranges of keys.
pub type OrderedBatch = Batch<OrderedOpKind>;

#[derive(Clone, Copy, Debug)]
struct Head<K> {
    keyspace: KeyspaceId,
    kind: K,
    key_start: usize,
    value_start: usize,
    end: usize,
    expires_at_ms: u64,
}

impl<K> Default for Batch<K> {
    fn default() -> Self {
        Self { heads: Vec::new(), bytes: Vec::new() }
    }
}

impl From<Batch> for OrderedBatch {
    fn from(batch: Batch) -> Self {
        let ordered = |head: Head<OpKind>| {
            let Head { keyspace, kind, key_start, value_start, end, expires_at_ms } = head;
            Head { keyspace, kind: kind.into(), key_start, value_start, end, expires_at_ms }
        };
        Self { heads: batch.heads.into_iter().map(ordered).collect(), bytes: batch.bytes }
    }
}

impl OrderedBatch {
    /// Removes every key of `start..end`. Adds nothing if `start >= end`; a batch that stays empty
    /// is refused.
    pub fn delete_range(&mut self, keyspace: KeyspaceId, start: &[u8], end: &[u8]) -> &mut Self {
        if start >= end {
            return self;
        }
        let kind = OrderedOpKind::DeleteRange;
        self.push(Op { keyspace, kind, key: start, value: end, expires_at_ms: 0 })
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<K: Copy + From<OpKind>> Batch<K> {
    /// Makes room for `bytes` more of keys and values: they are then added without moving the
    /// others.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> &mut Self {
        self.push(Op { keyspace, kind: OpKind::Put.into(), key, value, expires_at_ms: 0 })
    }

    /// Sets `key` to `value`, which expires at `expires_at_ms`, in milliseconds since the Unix
    /// epoch; 0 = never. A time from now on is what the database's clock makes of it: a batch has
    /// no clock.
    pub fn put_until(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        expires_at_ms: u64,
    ) -> &mut Self {
        self.push(Op { keyspace, kind: OpKind::Put.into(), key, value, expires_at_ms })
    }

    /// Removes `key`.
    pub fn delete(&mut self, keyspace: KeyspaceId, key: &[u8]) -> &mut Self {
        self.push(Op { keyspace, kind: OpKind::Delete.into(), key, value: &[], expires_at_ms: 0 })
    }

    /// Adds `operand` to `key` for the keyspace's merge operator.
    pub fn merge(&mut self, keyspace: KeyspaceId, key: &[u8], operand: &[u8]) -> &mut Self {
        self.push(Op { keyspace, kind: OpKind::Merge.into(), key, value: operand, expires_at_ms: 0 })
    }

    /// Adds any operation.
    pub fn push(&mut self, op: Op<'_, K>) -> &mut Self {
        let key_start = self.bytes.len();
        self.bytes.extend_from_slice(op.key);
        let value_start = self.bytes.len();
        self.bytes.extend_from_slice(op.value);
        self.heads.push(Head {
            keyspace: op.keyspace,
            kind: op.kind,
            key_start,
            value_start,
            end: self.bytes.len(),
            expires_at_ms: op.expires_at_ms,
        });
        self
    }

    /// The operations in the order they were added.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = Op<'_, K>> + Clone {
        self.heads.iter().map(|head| self.op(head))
    }

    /// The operation that was added after `index` others.
    pub fn get(&self, index: usize) -> Option<Op<'_, K>> {
        self.heads.get(index).map(|head| self.op(head))
    }

    fn op(&self, head: &Head<K>) -> Op<'_, K> {
        Op {
            keyspace: head.keyspace,
            kind: head.kind,
            key: &self.bytes[head.key_start..head.value_start],
            value: &self.bytes[head.value_start..head.end],
            expires_at_ms: head.expires_at_ms,
        }
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn data_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all operations but the first `len`, and keeps the memory.
    pub fn truncate(&mut self, len: usize) {
        if let Some(head) = self.heads.get(len) {
            self.bytes.truncate(head.key_start);
            self.heads.truncate(len);
        }
    }

    /// Forgets the operations and keeps the memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
    }
}
