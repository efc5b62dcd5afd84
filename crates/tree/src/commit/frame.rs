//! What the pipeline writes: records to be, and what must hold when they are written.

use firn_engine::{KeyspaceId, OrderedOp, OrderedOpKind, OrderedReadSet};
use firn_format::log::record_bytes;
use firn_format::{Kind, Position, Sequence};

use crate::blobs::{Places, WholeBlob};

/// A record to be: an operation, its value perhaps replaced by a reference to a blob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'o> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'o [u8],
    pub(crate) value: &'o [u8],
    pub(crate) expires_at_ms: u64,
}

impl<'o> From<OrderedOp<'o>> for Item<'o> {
    fn from(op: OrderedOp<'o>) -> Self {
        let OrderedOp { keyspace, kind, key, value, expires_at_ms } = op;
        let kind = match kind {
            OrderedOpKind::Put => Kind::Put,
            OrderedOpKind::Delete => Kind::Delete,
            OrderedOpKind::Merge => Kind::Merge,
            OrderedOpKind::DeleteRange => Kind::DeleteRange,
        };
        Self { keyspace, kind, key, value, expires_at_ms }
    }
}

impl Item<'_> {
    /// Bytes of its record.
    pub(crate) fn bytes(&self) -> usize {
        record_bytes(self.key.len(), self.value.len(), self.expires_at_ms != 0)
    }
}

/// One frame to be.
pub(crate) struct Frame<'f, 'v, I> {
    /// Its records; iterated several times.
    pub(crate) items: I,
    /// The blobs that they refer to.
    pub(crate) blobs: Blobs<'f, 'v>,
    /// The frame is written only if this holds.
    pub(crate) condition: Option<Condition<'f>>,
}

impl<I> Frame<'_, '_, I> {
    /// A frame of `items` that depends on nothing.
    pub(crate) fn of(items: I) -> Self {
        Self { items, blobs: Blobs::Written(Places::default()), condition: None }
    }
}

/// Blobs that records of a frame refer to. Each belongs to the frame once that is published, and is
/// given up where the frame is not.
pub(crate) enum Blobs<'f, 'v> {
    /// They lie in segments that others know.
    Written(Places),
    /// One that lies in a segment of its own, which joins the others with the frame. Taken out when
    /// the frame has its place in the log; left for the next try where there is no room.
    Whole(&'f mut Option<WholeBlob<'v>>),
}

/// What is to hold when a frame is written.
#[derive(Clone, Copy)]
pub(crate) enum Condition<'f> {
    /// Nothing has been written to a key since it was read.
    Unchanged {
        keyspace: KeyspaceId,
        key: &'f [u8],
        /// What was the newest version then.
        newest: Option<Sequence>,
    },
    /// Nothing of `reads` has been written from `since` on.
    Unwritten { reads: &'f OrderedReadSet, since: Position },
}

/// Whether a frame of `items` removes more than it brings: it has removals, and little beside them.
/// Such is the head record of a collection that lost an element.
pub(crate) fn removes<'o>(items: impl Iterator<Item = Item<'o>>) -> bool {
    let (mut removals, mut brought) = (0, 0);
    for item in items {
        match item.kind {
            Kind::Delete | Kind::DeleteRange => removals += 1,
            _ => brought += item.bytes(),
        }
    }
    removals > 0 && brought <= BROUGHT_BYTES_MAX
}

/// See [`removes`].
const BROUGHT_BYTES_MAX: usize = 4 << 10;
