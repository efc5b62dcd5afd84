//! What lies side by side: the first key of a range and the first key after it.
//!
//! ```text
//!  keys, purges   │ database …                                                  │
//!                 │         │ slot …                                │           │
//!  fields         │         │   │ collection …                  │   │           │
//!                 │         │   │    │ kind │ kind │ kind │     │   │           │
//!  expiry         │ due │ not yet                                               │
//!  catalog        │ kind │ kind …                                               │
//! ```
//! Each function appends the range's start to one buffer and its end, which is not in the range, to another. A range
//! whose start is not below its end is empty. Bounds are never longer than the engine's keys may be.

use std::ops::{Bound, Range};

use super::catalog::{Bucket, CatalogKind};
use super::field::{Field, FieldKind};
use super::key::{
    COLLECTION_BYTES, CollectionId, DatabaseId, KEY_AND_MEMBER_BYTES_MAX, USER_KEY_BYTES_MAX, encode_slot,
};
use super::purge::Purge;
use super::score::{SCORE_BYTES, Score};
use super::slot::{SLOT_COUNT, Slot};
use crate::log::record::KEY_BYTES_MAX;

// The longest of all bounds: a kind, a member one byte too long, and the byte that stands for "after it".
const _: () = assert!(COLLECTION_BYTES + 1 + SCORE_BYTES + KEY_AND_MEMBER_BYTES_MAX + 2 <= KEY_BYTES_MAX);

/// All of a database in `keys`, `fields` or `purges`.
pub fn database(database: DatabaseId, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    start.extend_from_slice(&database.number().to_be_bytes());
    end.extend_from_slice(&(database.number() + 1).to_be_bytes());
}

/// All of a slot in `keys`, `fields` or `purges`; the purge of its whole database is not among them.
pub fn slot(database: DatabaseId, slot: Slot, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    prefix(start, end, |out| encode_slot(database, slot, out));
}

/// What has reached its time at `now_ms` in `expiry`, longest ago first.
pub fn due(now_ms: u64, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    start.extend_from_slice(&0_u64.to_be_bytes());
    end.extend_from_slice(&now_ms.saturating_add(1).to_be_bytes());
}

/// All records of a kind in `catalog`.
pub fn catalog(kind: CatalogKind, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    prefix(start, end, |out| out.push(kind as u8));
}

/// The buckets of a database in `catalog`: of one slot, or of all.
pub fn buckets(database: DatabaseId, slot: Option<Slot>, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    let slots = slot.map_or(0..SLOT_COUNT, |slot| slot.number()..slot.number() + 1);
    for (out, slot) in [(start, slots.start), (end, slots.end)] {
        out.push(CatalogKind::Bucket as u8);
        out.extend_from_slice(&database.number().to_be_bytes());
        out.extend_from_slice(&(u32::from(slot) << Bucket::BITS_IN_SLOT).to_be_bytes());
    }
}

impl CollectionId<'_> {
    /// All fields of the collection.
    pub fn range(&self, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        prefix(start, end, |out| self.encode(out));
    }

    /// All fields of one kind.
    pub fn kind_range(&self, kind: FieldKind, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        prefix(start, end, |out| self.encode_kind(kind, out));
    }

    /// Elements of a list by their indexes.
    pub fn element_range(&self, indexes: Range<u64>, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        for (out, index) in [(start, indexes.start), (end, indexes.end)] {
            self.encode(out);
            Field::ListElement(index).encode(out);
        }
    }

    /// Members of a sorted set by their scores, in [`FieldKind::ByScore`].
    pub fn score_range(&self, min: Bound<Score>, max: Bound<Score>, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        let min = match min {
            Bound::Included(score) => Some(score.to_bytes()),
            Bound::Excluded(score) => Some(score.successor()),
            Bound::Unbounded => None,
        };
        let max = match max {
            Bound::Included(score) => Some(score.successor()),
            Bound::Excluded(score) => Some(score.to_bytes()),
            Bound::Unbounded => None,
        };
        let (min, max) = (min.as_ref().map(|min| [&min[..], &[]]), max.as_ref().map(|max| [&max[..], &[]]));
        self.part_of_kind(FieldKind::ByScore, min, max, start, end);
    }

    /// Fields of a hash or members of a set or sorted set by their bytes.
    ///
    /// `kind` is one whose rest is such a member: [`FieldKind::HashField`], [`FieldKind::SetMember`] or
    /// [`FieldKind::ScoredMember`]. Bounds may be longer than any member can be.
    pub fn member_range(
        &self,
        kind: FieldKind,
        min: Bound<&[u8]>,
        max: Bound<&[u8]>,
        start: &mut Vec<u8>,
        end: &mut Vec<u8>,
    ) {
        // The first key after a member's is the member's with a zero behind it.
        const AFTER: &[u8] = &[0];
        let min = match min {
            Bound::Included(member) => Some([self.shortened(member), &[]]),
            Bound::Excluded(member) => Some([self.shortened(member), AFTER]),
            Bound::Unbounded => None,
        };
        let max = match max {
            Bound::Included(member) => Some([self.shortened(member), AFTER]),
            Bound::Excluded(member) => Some([self.shortened(member), &[]]),
            Bound::Unbounded => None,
        };
        self.part_of_kind(kind, min, max, start, end);
    }

    /// From `min` to `max`, which stand behind the kind and are in two pieces each; `None` is the kind's own bound.
    fn part_of_kind(
        &self,
        kind: FieldKind,
        min: Option<[&[u8]; 2]>,
        max: Option<[&[u8]; 2]>,
        start: &mut Vec<u8>,
        end: &mut Vec<u8>,
    ) {
        let at = end.len();
        self.kind_range(kind, start, end);
        for piece in min.into_iter().flatten() {
            start.extend_from_slice(piece);
        }
        if let Some(pieces) = max {
            end.truncate(at);
            self.encode_kind(kind, end);
            pieces.into_iter().for_each(|piece| end.extend_from_slice(piece));
        }
    }

    fn encode_kind(&self, kind: FieldKind, out: &mut Vec<u8>) {
        self.encode(out);
        out.push(kind as u8);
    }

    /// `member` cut to one byte more than members of this collection can have: what is that long is no member, and
    /// the rest of it decides on no order with one.
    fn shortened<'m>(&self, member: &'m [u8]) -> &'m [u8] {
        let member_bytes_max = USER_KEY_BYTES_MAX - self.key.bytes().len();
        member.get(..=member_bytes_max).unwrap_or(member)
    }
}

impl Purge<'_> {
    /// What has to be deleted from `fields`; for a whole database also from `keys`, and from `purges`, where the
    /// record of the purge itself is the first of the range.
    pub fn range(&self, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        match self {
            Purge::Collection { collection, .. } => collection.range(start, end),
            Purge::Database(id) => database(*id, start, end),
        }
    }
}

/// Everything that begins with what `encode` appends.
///
/// The end is the least key that is greater than all of it: the same without the 255s at its end, and one more in the
/// last byte that is left. One is: see [`key`](super::key), and no kind is 255.
fn prefix(start: &mut Vec<u8>, end: &mut Vec<u8>, encode: impl Fn(&mut Vec<u8>)) {
    encode(start);
    let at = end.len();
    encode(end);
    while end.len() > at {
        if let Some(last) = end.pop().filter(|byte| *byte < u8::MAX) {
            end.push(last + 1);
            return;
        }
    }
    debug_assert!(false, "a prefix of 255s has nothing after it");
}
