//! What lies side by side: the first key of a range and the first key after it.
//!
//! ```text
//!  keys, purges   │ database …                                                  │
//!                 │         │ slot …                                │           │
//!  keys           │         │   │ hash │ hash │ hash …              │           │
//!  fields         │         │   │ collection …                  │   │           │
//!                 │         │   │    │ kind │ kind │ kind │     │   │           │
//!                 │         │   │    │ hash or score or index │ │   │           │
//!  expiry         │ due │ not yet                                               │
//!  catalog        │ kind │ kind …                                               │
//! ```
//! Each function appends the range's start to one buffer and its end, which is not in the range, to
//! another. A range whose start is not below its end is empty. Bounds are never longer than the
//! engine's keys may be.

use std::ops::{Bound, Range};

use super::catalog::{Bucket, CatalogKind};
use super::field::{Field, FieldKind, MEMBER_BYTES_MAX};
use super::key::{CollectionId, DatabaseId, encode_place, encode_slot};
use super::purge::Purge;
use super::score::Score;
use super::slot::{SLOT_COUNT, Slot};

/// All of a database in `keys`, `fields` or `purges`.
pub fn database(database: DatabaseId, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    start.extend_from_slice(&database.number().to_be_bytes());
    end.extend_from_slice(&(database.number() + 1).to_be_bytes());
}

/// All of a slot in `keys`, `fields` or `purges`; the purge of its whole database is not among
/// them.
pub fn slot(database: DatabaseId, slot: Slot, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    prefix(start, end, |out| encode_slot(database, slot, out));
}

/// Keys of a database in `keys` from a place in a slot on. They are keys of the slot with this hash
/// or a greater one, and all keys of the slots after it. (An iteration that has seen all of a hash
/// goes on at the next hash.)
pub fn keys_from(database: DatabaseId, slot: Slot, hash: u32, start: &mut Vec<u8>, end: &mut Vec<u8>) {
    encode_place(database, slot, hash, start);
    end.extend_from_slice(&(database.number() + 1).to_be_bytes());
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

impl CollectionId {
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

    /// Fields of a hash, members of a set or sorted set, from a hash on to the end of their kind.
    /// The kind is one of [`FieldKind::is_by_hash`].
    pub fn hash_range(&self, kind: FieldKind, from_hash: u32, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        debug_assert!(kind.is_by_hash(), "{kind:?} is in another order");
        self.kind_range(kind, start, end);
        start.extend_from_slice(&from_hash.to_be_bytes());
    }

    /// Members of a sorted set by their scores, in [`FieldKind::ByScore`].
    pub fn score_range(&self, min: Bound<Score>, max: Bound<Score>, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        let at = end.len();
        self.kind_range(FieldKind::ByScore, start, end);
        match min {
            Bound::Included(score) => score.encode(start),
            Bound::Excluded(score) => start.extend_from_slice(&score.successor()),
            Bound::Unbounded => {}
        }
        let max = match max {
            Bound::Included(score) => score.successor(),
            Bound::Excluded(score) => score.to_bytes(),
            Bound::Unbounded => return,
        };
        end.truncate(at);
        self.encode_kind(FieldKind::ByScore, end);
        end.extend_from_slice(&max);
    }

    /// Members of a sorted set with one score by their bytes, in [`FieldKind::ByScore`]. Bounds may
    /// be longer than any member can be.
    pub fn lex_range(
        &self,
        score: Score,
        min: Bound<&[u8]>,
        max: Bound<&[u8]>,
        start: &mut Vec<u8>,
        end: &mut Vec<u8>,
    ) {
        // The first key after a member's is the member's with a zero behind it.
        const AFTER: u8 = 0;
        let at = end.len();
        self.score_range(Bound::Included(score), Bound::Included(score), start, end);
        match min {
            Bound::Included(member) => start.extend_from_slice(shortened(member)),
            Bound::Excluded(member) => {
                start.extend_from_slice(shortened(member));
                start.push(AFTER);
            }
            Bound::Unbounded => {}
        }
        let (Bound::Included(member) | Bound::Excluded(member)) = max else { return };
        end.truncate(at);
        self.encode_kind(FieldKind::ByScore, end);
        score.encode(end);
        end.extend_from_slice(shortened(member));
        if let Bound::Included(_) = max {
            end.push(AFTER);
        }
    }

    fn encode_kind(&self, kind: FieldKind, out: &mut Vec<u8>) {
        self.encode(out);
        out.push(kind as u8);
    }
}

impl Purge {
    /// What has to be deleted from `fields`; for a whole database also from `keys` and `purges`. In
    /// `purges` the record of the purge itself is the first of the range.
    pub fn range(&self, start: &mut Vec<u8>, end: &mut Vec<u8>) {
        match self {
            Purge::Collection { collection, .. } => collection.range(start, end),
            Purge::Database(id) => database(*id, start, end),
        }
    }
}

/// `member` cut to one byte more than members can have. What is that long is no member, and the
/// bytes cut off do not change its order among members.
fn shortened(member: &[u8]) -> &[u8] {
    member.get(..=MEMBER_BYTES_MAX).unwrap_or(member)
}

/// Everything that begins with what `encode` appends.
///
/// The end is the least key that is greater than all of it. It is the same without the 255s at its
/// end, and one more in the last byte that is left. A byte is left: see [`key`](super::key), and no
/// kind is 255.
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
