//! What a record belongs to: a user's key, or one collection that stood there.
//!
//! ```text
//! a user's key: keys of keyspace `keys`, and the end of those of `expiry`
//! offset size  field       meaning
//!      0    4  database    u32 BE, not 2^32 - 1
//!      4    2  slot        u16 BE, below 16384
//!      6    4  hash        u32 BE, see `hash_of`
//!     10    k  key         to the end, at most USER_KEY_BYTES_MAX bytes
//!
//! a collection: keys of keyspace `purges`, and the front of those of `fields`
//! offset size  field       meaning
//!      0    4  database    u32 BE, not 2^32 - 1
//!      4    2  slot        u16 BE, below 16384
//!      6    8  generation  u64 BE
//! ```
//! The keys of a slot lie in the order of their hashes, those of one hash in the order of their
//! bytes. A slot and a hash are a place to go on from that no server has to remember. A random
//! place is near a random key.
//!
//! A collection is known by its generation, so that its key may be renamed inside its slot and no
//! part of it changes. All have one length: the front of one collection's fields is never the front
//! of another's. No database has the greatest number, so the first four bytes of each of these hold
//! one below 255. Therefore a key exists after all that begin with it.

use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::key::key_hash;
use crate::log::record::KEY_BYTES_MAX;

use super::slot::{SLOT_COUNT, Slot};

/// Bytes of database and slot, with which each key of `keys`, `fields` and `purges` begins.
pub const SLOT_PREFIX_BYTES: usize = 6;

/// Bytes of a hash inside a key.
pub const HASH_BYTES: usize = 4;

/// Bytes of a key of `keys` before the user's key.
pub const KEY_PREFIX_BYTES: usize = SLOT_PREFIX_BYTES + HASH_BYTES;

/// Bytes of a collection's encoding.
pub const COLLECTION_BYTES: usize = SLOT_PREFIX_BYTES + 8;

/// Bytes of an engine's key that are left for what stands around a user's key or a member.
///
/// This release needs 23 (a sorted set's index) and 2 for bounds of ranges; the rest is for kinds
/// to come.
pub(super) const ROOM_BYTES: usize = 64;

/// Longest key of a user. Writing a longer one is to be refused; none is stored, so reading it
/// finds nothing.
pub const USER_KEY_BYTES_MAX: usize = KEY_BYTES_MAX - ROOM_BYTES;

// The longest key with a user's key in it: a time stands before it.
const _: () = assert!(8 + KEY_PREFIX_BYTES <= ROOM_BYTES);

/// The hash that orders keys and members: the upper 32 bits of [`key_hash`]. Frozen.
#[inline]
pub fn hash_of(bytes: &[u8]) -> u32 {
    (key_hash(bytes) >> 32) as u32
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
    hash: u32,
    bytes: &'a [u8],
}

impl<'a> UserKey<'a> {
    /// The key `bytes`, its hash found by [`hash_of`] and its slot by [`Slot::of`]; `None` if it is
    /// longer than [`USER_KEY_BYTES_MAX`].
    #[inline]
    pub fn of(database: DatabaseId, bytes: &'a [u8]) -> Option<Self> {
        Self::new(database, Slot::of(bytes), bytes)
    }

    /// The key `bytes` of `slot`; `None` if it is longer than [`USER_KEY_BYTES_MAX`].
    #[inline]
    pub fn new(database: DatabaseId, slot: Slot, bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() <= USER_KEY_BYTES_MAX).then(|| Self { database, slot, hash: hash_of(bytes), bytes })
    }

    /// The database it belongs to.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The slot it belongs to.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Its place among the keys of its slot.
    pub fn hash(&self) -> u32 {
        self.hash
    }

    /// The key as the user has it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Appends [`KEY_PREFIX_BYTES`] bytes and the key.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_place(self.database, self.slot, self.hash, out);
        out.extend_from_slice(self.bytes);
    }

    /// The key that is all of `bytes`.
    ///
    /// # Errors
    /// Too short or too long, no database's number, no slot, a hash that is not the key's.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let (database, slot) = decode_slot(&mut input)?;
        let (hash, bytes) = decode_hashed(&mut input, "a user's key", USER_KEY_BYTES_MAX)?;
        Ok(Self { database, slot, hash, bytes })
    }
}

/// One collection, whatever key it stands or stood at. Ordered as its encodings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionId {
    /// The database of its key.
    pub database: DatabaseId,
    /// The slot of its key.
    pub slot: Slot,
    /// Tells it from all others.
    pub generation: Generation,
}

impl CollectionId {
    /// The collection of this generation that stands at `key`.
    pub fn of(key: &UserKey<'_>, generation: Generation) -> Self {
        Self { database: key.database, slot: key.slot, generation }
    }

    /// Appends the front of the keys of its fields, which is also the key of its purge:
    /// [`COLLECTION_BYTES`].
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_slot(self.database, self.slot, out);
        out.extend_from_slice(&self.generation.0.to_be_bytes());
    }

    /// Takes a collection off the front of `input`.
    pub(super) fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (database, slot) = decode_slot(input)?;
        Ok(Self { database, slot, generation: Generation(input.u64_big()?) })
    }
}

/// Appends the [`SLOT_PREFIX_BYTES`] of a slot.
pub(super) fn encode_slot(database: DatabaseId, slot: Slot, out: &mut Vec<u8>) {
    out.extend_from_slice(&database.0.to_be_bytes());
    out.extend_from_slice(&slot.number().to_be_bytes());
}

/// Appends the [`KEY_PREFIX_BYTES`] of a place in a slot.
pub(super) fn encode_place(database: DatabaseId, slot: Slot, hash: u32, out: &mut Vec<u8>) {
    encode_slot(database, slot, out);
    out.extend_from_slice(&hash.to_be_bytes());
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

/// Takes a hash and what it is of, at most `bytes_max` bytes: all that is left of `input`.
pub(super) fn decode_hashed<'a>(
    input: &mut Reader<'a>,
    what: &str,
    bytes_max: usize,
) -> Result<(u32, &'a [u8])> {
    let at = input.offset();
    let hash = input.u32_big()?;
    let bytes = decode_named(input, what, bytes_max)?;
    let expected = hash_of(bytes);
    if hash != expected {
        return Err(Error::new(at, format!("{expected:#010x}, the hash of {what}"), format!("{hash:#010x}")));
    }
    Ok((hash, bytes))
}

/// Takes all that is left of `input`, at most `bytes_max` bytes.
pub(super) fn decode_named<'a>(input: &mut Reader<'a>, what: &str, bytes_max: usize) -> Result<&'a [u8]> {
    let at = input.offset();
    let bytes = input.rest();
    if bytes.len() > bytes_max {
        let expected = format!("{what} of at most {bytes_max} bytes");
        return Err(Error::new(at, expected, format!("{} bytes", bytes.len())));
    }
    Ok(bytes)
}
