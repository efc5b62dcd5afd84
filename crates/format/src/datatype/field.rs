//! The parts of collections: records of keyspace `fields`.
//!
//! ```text
//! key
//! offset size  field       meaning
//!      0   14  collection  database, slot and generation, see `key`
//!     14    1  kind        see `FieldKind`; frozen
//!     15       rest        by kind, to the end
//!
//! kind           rest                      value
//! 1 HashField    hash u32 BE, field        the field's value
//! 2 SetMember    hash u32 BE, member       empty
//! 3 ListElement  index u64 BE              the element
//! 4 ScoredMember hash u32 BE, member       score, 8 bytes (see `score`)
//! 5 ByScore      score 8 bytes, member     empty
//! 6 Fragment     index u32 BE              bytes of the string from index * fragment_bytes on
//! ```
//! Fields and members are at most MEMBER_BYTES_MAX bytes long. The hash is that of the field or
//! member, see `key::hash_of`. Those of one collection lie in the order of their hashes, those of
//! one hash in the order of their bytes. A hash is a place to go on from, and a random hash is near
//! a random member.
//!
//! A member of a sorted set is two records: of kind 4 to find its score, and of kind 5 to find it
//! by score. They are written and deleted together.

use crate::bytes::Reader;
use crate::error::{Error, Result};

use super::key::{
    COLLECTION_BYTES, CollectionId, HASH_BYTES, ROOM_BYTES, decode_hashed, decode_named, hash_of,
};
use super::score::{SCORE_BYTES, Score};
use crate::log::record::KEY_BYTES_MAX;

/// Longest field of a hash, or member of a set or sorted set.
pub const MEMBER_BYTES_MAX: usize = KEY_BYTES_MAX - ROOM_BYTES;

// The longest of all bounds: a kind, a member one byte too long, and the byte that stands for
// "after it".
const _: () = assert!(COLLECTION_BYTES + 1 + SCORE_BYTES + 2 <= ROOM_BYTES && HASH_BYTES <= SCORE_BYTES);

/// Whether `bytes` can be a field or member: at most [`MEMBER_BYTES_MAX`] bytes.
///
/// Writing what cannot be one has to be refused before anything is encoded; none is stored, so
/// reading it finds nothing.
pub const fn is_member(bytes: &[u8]) -> bool {
    bytes.len() <= MEMBER_BYTES_MAX
}

/// What kind of part a field is. Numbers are frozen (see `golden/enums.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FieldKind {
    /// A field of a hash.
    HashField = 1,
    /// A member of a set.
    SetMember = 2,
    /// An element of a list.
    ListElement = 3,
    /// A member of a sorted set, by its name.
    ScoredMember = 4,
    /// A member of a sorted set, by its score.
    ByScore = 5,
    /// A piece of a long string.
    Fragment = 6,
}

impl FieldKind {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => FieldKind::HashField,
            2 => FieldKind::SetMember,
            3 => FieldKind::ListElement,
            4 => FieldKind::ScoredMember,
            5 => FieldKind::ByScore,
            6 => FieldKind::Fragment,
            _ => return None,
        })
    }

    /// Whether fields of this kind lie in the order of the hashes of what they name.
    pub const fn is_by_hash(self) -> bool {
        matches!(self, FieldKind::HashField | FieldKind::SetMember | FieldKind::ScoredMember)
    }
}

/// What a key of `fields` says after its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field<'a> {
    /// A field of a hash.
    HashField(&'a [u8]),
    /// A member of a set.
    SetMember(&'a [u8]),
    /// The element of a list with this index.
    ListElement(u64),
    /// A member of a sorted set.
    ScoredMember(&'a [u8]),
    /// A member of a sorted set with its score.
    ByScore(Score, &'a [u8]),
    /// The piece of a long string with this number, from 0.
    Fragment(u32),
}

impl<'a> Field<'a> {
    /// What kind of part it is.
    pub fn kind(&self) -> FieldKind {
        match self {
            Field::HashField(_) => FieldKind::HashField,
            Field::SetMember(_) => FieldKind::SetMember,
            Field::ListElement(_) => FieldKind::ListElement,
            Field::ScoredMember(_) => FieldKind::ScoredMember,
            Field::ByScore(..) => FieldKind::ByScore,
            Field::Fragment(_) => FieldKind::Fragment,
        }
    }

    /// The field of a hash or member that it names; empty where a number does.
    pub fn member(&self) -> &'a [u8] {
        match self {
            Field::HashField(member)
            | Field::SetMember(member)
            | Field::ScoredMember(member)
            | Field::ByScore(_, member) => member,
            Field::ListElement(_) | Field::Fragment(_) => &[],
        }
    }

    /// Appends kind and rest, which belong behind the encoding of a collection.
    ///
    /// A caller that writes many fields of one collection encodes the collection once and cuts back
    /// to its end each time.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(is_member(self.member()), "checked before anything is made");
        out.push(self.kind() as u8);
        match self {
            Field::HashField(member) | Field::SetMember(member) | Field::ScoredMember(member) => {
                out.extend_from_slice(&hash_of(member).to_be_bytes());
                out.extend_from_slice(member);
            }
            Field::ListElement(index) => out.extend_from_slice(&index.to_be_bytes()),
            Field::ByScore(score, member) => {
                score.encode(out);
                out.extend_from_slice(member);
            }
            Field::Fragment(index) => out.extend_from_slice(&index.to_be_bytes()),
        }
    }

    /// The field whose kind and rest are all of `bytes`: what stands behind a collection's
    /// encoding.
    ///
    /// # Errors
    /// No kind of this release, a number that is too short, a hash that is not the member's, a
    /// score that is none, more bytes than the field has or a member may have.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        Self::read(&mut Reader::new(bytes, 0))
    }

    fn read(input: &mut Reader<'a>) -> Result<Self> {
        let at = input.offset();
        let number = input.u8()?;
        let kind = FieldKind::from_u8(number)
            .ok_or_else(|| Error::new(at, "a kind of field (1 to 6)", format!("{number}")))?;
        let field = match kind {
            FieldKind::HashField => Field::HashField(decode_hashed(input, "a field", MEMBER_BYTES_MAX)?.1),
            FieldKind::SetMember => Field::SetMember(decode_hashed(input, "a member", MEMBER_BYTES_MAX)?.1),
            FieldKind::ListElement => Field::ListElement(input.u64_big()?),
            FieldKind::ScoredMember => {
                Field::ScoredMember(decode_hashed(input, "a member", MEMBER_BYTES_MAX)?.1)
            }
            FieldKind::ByScore => {
                let at = input.offset();
                let score = Score::decode(input.take(SCORE_BYTES)?).map_err(|error| error.based(at))?;
                Field::ByScore(score, decode_named(input, "a member", MEMBER_BYTES_MAX)?)
            }
            FieldKind::Fragment => Field::Fragment(input.u32_big()?),
        };
        input.end("a field's key")?;
        Ok(field)
    }

    /// Whether `value` can be the value of this field's record.
    ///
    /// # Errors
    /// Something where nothing belongs, or a score that is none; offsets count in `value`.
    pub fn check_value(&self, value: &[u8]) -> Result<()> {
        match self {
            Field::HashField(_) | Field::ListElement(_) | Field::Fragment(_) => Ok(()),
            Field::SetMember(_) | Field::ByScore(..) => Reader::new(value, 0).end("an empty value"),
            Field::ScoredMember(_) => Score::decode(value).map(drop),
        }
    }
}

/// The key of one record of `fields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldKey<'a> {
    /// Whose part it is.
    pub collection: CollectionId,
    /// Which part it is. What it names [`is_member`].
    pub field: Field<'a>,
}

impl<'a> FieldKey<'a> {
    /// Appends the key.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.collection.encode(out);
        self.field.encode(out);
    }

    /// The key that is all of `bytes`.
    ///
    /// # Errors
    /// The collection or the field is malformed.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let collection = CollectionId::decode(&mut input)?;
        Ok(Self { collection, field: Field::read(&mut input)? })
    }
}
