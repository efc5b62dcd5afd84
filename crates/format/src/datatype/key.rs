//! Whose a record is: a user's key, or one collection that stood there.
//!
//! ```text
//! a user's key: keys of keyspace `keys`, and the end of those of `expiry`
//! offset size  field       meaning
//!      0    4  database    u32 BE, not 2^32 - 1
//!      4    2  slot        u16 BE, below 16384
//!      6    k  key         to the end, at most USER_KEY_BYTES_MAX bytes
//!
//! a collection: keys of keyspace `purges`, and the front of those of `fields`
//! offset size  field       meaning
//!      0    4  database    u32 BE, not 2^32 - 1
//!      4    2  slot        u16 BE, below 16384
//!      6    2  key_bytes   u16 BE, at most USER_KEY_BYTES_MAX
//!      8    k  key
//!    8+k    8  generation  u64 BE
//! ```
//! The length stands before the key so that the front of one collection's fields is never the front of another's.
//! No database has the greatest number: so each of these has a byte below 255 in its first four, and there is a
//! key after all that begin with it.

use crate::error::{Error, Result};
use crate::log::record::KEY_BYTES_MAX;
use crate::manifest::bytes::Reader;

use super::slot::{SLOT_COUNT, Slot};

/// Bytes of database and slot, with which each key of `keys`, `fields` and `purges` begins.
pub const SLOT_PREFIX_BYTES: usize = 6;

/// Bytes of a collection's encoding beside its key.
pub const COLLECTION_BYTES: usize = SLOT_PREFIX_BYTES + 2 + 8;

/// Most bytes of a user's key and the longest member, field or name inside it together.
///
/// Leaves 64 bytes of an engine's key for what stands around both. This release needs 25 (a sorted set's index)
/// and 2 for bounds of ranges; the rest is for kinds to come.
pub const KEY_AND_MEMBER_BYTES_MAX: usize = KEY_BYTES_MAX - 64;

/// Longest key of a user: one with an empty member.
pub const USER_KEY_BYTES_MAX: usize = KEY_AND_MEMBER_BYTES_MAX;

const _: () = assert!(USER_KEY_BYTES_MAX <= u16::MAX as usize);

/// Whether a collection called `key` can have a member, field or name `member`, or whether a key can be called so
/// at all (`member` empty).
///
/// The limit is one on their sum, [`KEY_AND_MEMBER_BYTES_MAX`]: every key made of both is then one that the engine
/// takes. Writing what does not fit has to be refused before anything is encoded; nothing that does not fit is
/// stored, so reading it finds nothing.
pub const fn fits(key: &[u8], member: &[u8]) -> bool {
    key.len().saturating_add(member.len()) <= KEY_AND_MEMBER_BYTES_MAX
}

/// Number of a database, never used again once the database is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(u32);

impl DatabaseId {
    /// The first one to be given.
    pub const FIRST: Self = Self(0);
    /// The greatest.
    pub const MAX: Self = Self(u32::MAX - 1);

    /// Database `number`; `None` above [`DatabaseId::MAX`].
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The one to give after this one; `None` after [`DatabaseId::MAX`].
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0.saturating_add(1))
    }
}

/// Number of a collection, never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// A user's key in its database. Ordered as its encodings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserKey<'a> {
    database: DatabaseId,
    slot: Slot,
    bytes: &'a [u8],
}

impl<'a> UserKey<'a> {
    /// The key `bytes`, its slot found by [`Slot::of`]; `None` if it is longer than [`USER_KEY_BYTES_MAX`].
    #[inline]
    pub fn of(database: DatabaseId, bytes: &'a [u8]) -> Option<Self> {
        Self::new(database, Slot::of(bytes), bytes)
    }

    /// The key `bytes` of `slot`; `None` if it is longer than [`USER_KEY_BYTES_MAX`].
    #[inline]
    pub fn new(database: DatabaseId, slot: Slot, bytes: &'a [u8]) -> Option<Self> {
        fits(bytes, &[]).then_some(Self { database, slot, bytes })
    }

    /// The database it belongs to.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The slot it belongs to.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The key as the user has it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Appends [`SLOT_PREFIX_BYTES`] bytes and the key.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_slot(self.database, self.slot, out);
        out.extend_from_slice(self.bytes);
    }

    /// The key that is all of `bytes`.
    ///
    /// # Errors
    /// Too short or too long, no database's number, no slot.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let (database, slot) = decode_slot(&mut input)?;
        Self::new(database, slot, input.rest())
            .ok_or_else(|| too_long(SLOT_PREFIX_BYTES, bytes.len() - SLOT_PREFIX_BYTES))
    }
}

/// One collection: the key it stands or stood at, and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CollectionId<'a> {
    /// The key.
    pub key: UserKey<'a>,
    /// Tells it from earlier and later collections of the same key.
    pub generation: Generation,
}

impl<'a> CollectionId<'a> {
    /// Bytes that [`encode`](Self::encode) appends.
    pub fn encoded_bytes(&self) -> usize {
        COLLECTION_BYTES + self.key.bytes.len()
    }

    /// Appends the front of the keys of its fields, which is also the key of its purge.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_slot(self.key.database, self.key.slot, out);
        // `UserKey::new` has checked that it fits.
        out.extend_from_slice(&(self.key.bytes.len() as u16).to_be_bytes());
        out.extend_from_slice(self.key.bytes);
        out.extend_from_slice(&self.generation.0.to_be_bytes());
    }

    /// Takes a collection off the front of `input`.
    pub(super) fn decode(input: &mut Reader<'a>) -> Result<Self> {
        let (database, slot) = decode_slot(input)?;
        let at = input.offset();
        let key_bytes = usize::from(input.u16_big()?);
        let bytes = input.take(key_bytes)?;
        let key = UserKey::new(database, slot, bytes).ok_or_else(|| too_long(at, key_bytes))?;
        Ok(Self { key, generation: Generation(input.u64_big()?) })
    }
}

/// Appends the [`SLOT_PREFIX_BYTES`] of a slot.
pub(super) fn encode_slot(database: DatabaseId, slot: Slot, out: &mut Vec<u8>) {
    out.extend_from_slice(&database.0.to_be_bytes());
    out.extend_from_slice(&slot.number().to_be_bytes());
}

fn decode_slot(input: &mut Reader<'_>) -> Result<(DatabaseId, Slot)> {
    let database = decode_database(input)?;
    let at = input.offset();
    let number = input.u16_big()?;
    let slot = Slot::new(number)
        .ok_or_else(|| Error::new(at, format!("a slot below {SLOT_COUNT}"), format!("{number}")))?;
    Ok((database, slot))
}

/// Takes a database's number inside a key off the front of `input`.
pub(super) fn decode_database(input: &mut Reader<'_>) -> Result<DatabaseId> {
    let at = input.offset();
    database(input.u32_big()?, at)
}

/// The database whose `number` stands at offset `at`.
pub(super) fn database(number: u32, at: usize) -> Result<DatabaseId> {
    DatabaseId::new(number).ok_or_else(|| {
        let expected = format!("a database's number of at most {}", DatabaseId::MAX.0);
        Error::new(at, expected, format!("{number}"))
    })
}

fn too_long(at: usize, found: usize) -> Error {
    Error::new(at, format!("a user's key of at most {USER_KEY_BYTES_MAX} bytes"), format!("{found} bytes"))
}
