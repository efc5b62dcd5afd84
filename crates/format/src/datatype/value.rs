//! What stands at a user's key: a string, or the description of a collection.
//!
//! ```text
//! a string
//! offset size  field           meaning
//!      0    1  tag             1
//!      1       string          to the end, at most STRING_BYTES_MAX bytes
//!
//! a string that expires
//! offset size  field           meaning
//!      0    1  tag             8
//!      1    8  expires_at_ms   u64 LE, milliseconds since the Unix epoch, not 0
//!      9       string          to the end, at most STRING_BYTES_MAX bytes
//!
//! a collection
//! offset size  field           meaning
//!      0    1  tag             2 to 6, see `Tag`; frozen
//!      1    1  encoding        1, see `Encoding`; frozen
//!      2    8  generation      u64 LE
//!     10    8  count           u64 LE, elements; of a long string: bytes
//!     18    8  expires_at_ms   u64 LE, milliseconds since the Unix epoch, 0 = never
//!     26    4  fragment_bytes  u32 LE, not 0; only of a long string
//!     26    8  head            u64 LE, index of the first element; only of a list
//!     34    8  tail            u64 LE, index after the last element; only of a list
//! ```
//! Tag 7 (Stream) and encoding 2 (Inline: the parts stand in the description) are kept for newer
//! releases; this one refuses them and says so.
//!
//! *Strings that expire* may stand in a record that the engine lets expire too, no earlier: that
//! only gives their room back. Readers decide by the time in the value, see [`Value::is_live`].
//!
//! *Lists* start with head and tail at [`LIST_MIDDLE`] and grow to both sides. Their elements lie
//! at indexes from head to tail; there may be fewer than that, if an index was left empty.
//!
//! *Long strings* lie in fragments of `fragment_bytes`, the last one excepted. What is missing of a
//! fragment, or all of it, reads as zeros up to the string's length. Writing far behind the end of
//! a string costs one fragment.

use crate::bytes::Reader;
use crate::error::{Error, Result};

use super::key::Generation;

/// Longest string that is one record; what is longer is a [`Value::LongString`].
pub const STRING_BYTES_MAX: usize = 64 << 10;

/// Most bytes of the value of a string before the string.
pub const STRING_PREFIX_BYTES_MAX: usize = 9;

/// Bytes of a fragment of long strings that this release makes.
pub const FRAGMENT_BYTES: u32 = 16 << 10;

/// Where the first element of a list goes: pushing in front of it decrements the head.
pub const LIST_MIDDLE: u64 = 1 << 63;

/// Most bytes of a collection's description.
pub const COLLECTION_VALUE_BYTES_MAX: usize = 42;

/// What kind of value stands at a key. Numbers are frozen (see `golden/enums.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tag {
    /// Bytes, all in this record.
    String = 1,
    /// Bytes in fragments.
    LongString = 2,
    /// Fields with a value each.
    Hash = 3,
    /// Elements in an order of their own.
    List = 4,
    /// Members.
    Set = 5,
    /// Members with a score each, ordered by it.
    SortedSet = 6,
    /// A time, then bytes, all in this record.
    ExpiringString = 8,
}

impl Tag {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Tag::String,
            2 => Tag::LongString,
            3 => Tag::Hash,
            4 => Tag::List,
            5 => Tag::Set,
            6 => Tag::SortedSet,
            8 => Tag::ExpiringString,
            _ => return None,
        })
    }

    /// Whether such a value is a description whose parts lie in `fields`; else it is a string, all
    /// in its record.
    pub const fn is_collection(self) -> bool {
        !matches!(self, Tag::String | Tag::ExpiringString)
    }

    /// The tag `number`, which stands at offset `at`.
    #[inline]
    pub(super) fn decode(number: u8, at: usize) -> Result<Self> {
        Self::from_u8(number).ok_or_else(|| {
            let expected = "a tag of a value (1 to 6, or 8)";
            match number {
                7 => Error::newer(at, expected, newer("tag 7, Stream")),
                _ => Error::new(at, expected, format!("{number}")),
            }
        })
    }
}

/// How a collection's parts are stored. Numbers are frozen (see `golden/enums.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// Each is a record of `fields`.
    Fields = 1,
}

impl Encoding {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        (number == Encoding::Fields as u8).then_some(Encoding::Fields)
    }

    fn decode(number: u8, at: usize) -> Result<Self> {
        let expected = "an encoding of a collection (1, Fields)";
        match number {
            1 => Ok(Encoding::Fields),
            2 => Err(Error::newer(at, expected, newer("encoding 2, Inline"))),
            _ => Err(Error::new(at, expected, format!("{number}"))),
        }
    }
}

fn newer(what: &str) -> String {
    format!("{what} (written by a newer Firn: upgrade to read it)")
}

/// What all collections are described by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Stands in the keys of its fields.
    pub generation: Generation,
    /// How many elements it has; of a long string, bytes.
    pub count: u64,
    /// Milliseconds since the Unix epoch from which it counts as deleted; 0 = never.
    pub expires_at_ms: u64,
}

impl Collection {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(Encoding::Fields as u8);
        for number in [self.generation.0, self.count, self.expires_at_ms] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let at = input.offset();
        Encoding::decode(input.u8()?, at)?;
        let generation = Generation(input.u64()?);
        Ok(Self { generation, count: input.u64()?, expires_at_ms: input.u64()? })
    }
}

/// The value of a record of `keys`, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// All of a string.
    String {
        /// The string.
        bytes: &'a [u8],
        /// Milliseconds since the Unix epoch from which it counts as deleted; 0 = never.
        expires_at_ms: u64,
    },
    /// A string in fragments.
    LongString {
        /// `count` is its length in bytes.
        collection: Collection,
        /// Bytes of each fragment but the last, not 0.
        fragment_bytes: u32,
    },
    /// A hash.
    Hash(Collection),
    /// A list.
    List {
        /// `count` is at most `tail - head`.
        collection: Collection,
        /// Index of the first element.
        head: u64,
        /// Index after the last element; at least `head`.
        tail: u64,
    },
    /// A set.
    Set(Collection),
    /// A sorted set.
    SortedSet(Collection),
}

impl<'a> Value<'a> {
    /// What kind of value it is.
    pub fn tag(&self) -> Tag {
        match self {
            Value::String { expires_at_ms: 0, .. } => Tag::String,
            Value::String { .. } => Tag::ExpiringString,
            Value::LongString { .. } => Tag::LongString,
            Value::Hash(_) => Tag::Hash,
            Value::List { .. } => Tag::List,
            Value::Set(_) => Tag::Set,
            Value::SortedSet(_) => Tag::SortedSet,
        }
    }

    /// What all collections have; `None` for a string.
    pub fn collection(&self) -> Option<&Collection> {
        match self {
            Value::String { .. } => None,
            Value::LongString { collection, .. }
            | Value::List { collection, .. }
            | Value::Hash(collection)
            | Value::Set(collection)
            | Value::SortedSet(collection) => Some(collection),
        }
    }

    /// As [`collection`](Self::collection), to be changed.
    pub fn collection_mut(&mut self) -> Option<&mut Collection> {
        match self {
            Value::String { .. } => None,
            Value::LongString { collection, .. }
            | Value::List { collection, .. }
            | Value::Hash(collection)
            | Value::Set(collection)
            | Value::SortedSet(collection) => Some(collection),
        }
    }

    /// Milliseconds since the Unix epoch from which it counts as deleted; 0 = never.
    #[inline]
    pub fn expires_at_ms(&self) -> u64 {
        match self {
            Value::String { expires_at_ms, .. } => *expires_at_ms,
            Value::LongString { collection, .. }
            | Value::List { collection, .. }
            | Value::Hash(collection)
            | Value::Set(collection)
            | Value::SortedSet(collection) => collection.expires_at_ms,
        }
    }

    /// Whether it is there at `now_ms`: it never expires, or later than that.
    #[inline]
    pub fn is_live(&self, now_ms: u64) -> bool {
        let expires_at_ms = self.expires_at_ms();
        expires_at_ms == 0 || now_ms < expires_at_ms
    }

    /// Appends the value: at most [`STRING_PREFIX_BYTES_MAX`] bytes and the string, or at most
    /// [`COLLECTION_VALUE_BYTES_MAX`] bytes.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.tag() as u8);
        match self {
            Value::String { bytes, expires_at_ms } => {
                if *expires_at_ms != 0 {
                    out.extend_from_slice(&expires_at_ms.to_le_bytes());
                }
                out.extend_from_slice(bytes);
            }
            Value::Hash(collection) | Value::Set(collection) | Value::SortedSet(collection) => {
                collection.encode(out);
            }
            Value::LongString { collection, fragment_bytes } => {
                debug_assert_ne!(*fragment_bytes, 0, "a fragment holds something");
                collection.encode(out);
                out.extend_from_slice(&fragment_bytes.to_le_bytes());
            }
            Value::List { collection, head, tail } => {
                debug_assert!(is_list(*head, *tail, collection.count), "{self:?}");
                collection.encode(out);
                out.extend_from_slice(&head.to_le_bytes());
                out.extend_from_slice(&tail.to_le_bytes());
            }
        }
    }

    /// The value that is all of `bytes`.
    ///
    /// # Errors
    /// No tag or encoding of this release, too short, too long, a string that expires at 0,
    /// fragments of no bytes, a list whose tail lies before its head or that has more elements than
    /// room between them.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let value = match Tag::decode(input.u8()?, 0)? {
            Tag::String => Value::String { bytes: input.rest(), expires_at_ms: 0 },
            Tag::ExpiringString => {
                let expires_at_ms = decode_expires_at_ms(&mut input)?;
                Value::String { bytes: input.rest(), expires_at_ms }
            }
            Tag::LongString => {
                let collection = Collection::decode(&mut input)?;
                Value::LongString { collection, fragment_bytes: decode_fragment_bytes(&mut input)? }
            }
            Tag::Hash => Value::Hash(Collection::decode(&mut input)?),
            Tag::List => Self::decode_list(&mut input)?,
            Tag::Set => Value::Set(Collection::decode(&mut input)?),
            Tag::SortedSet => Value::SortedSet(Collection::decode(&mut input)?),
        };
        input.end("a value")?;
        Ok(value)
    }

    fn decode_list(input: &mut Reader<'a>) -> Result<Self> {
        let collection = Collection::decode(input)?;
        let at = input.offset();
        let (head, tail) = (input.u64()?, input.u64()?);
        if !is_list(head, tail, collection.count) {
            let expected = format!("a list's ends with room for {} elements", collection.count);
            return Err(Error::new(at, expected, format!("{head} and {tail}")));
        }
        Ok(Value::List { collection, head, tail })
    }
}

fn is_list(head: u64, tail: u64, count: u64) -> bool {
    tail.checked_sub(head).is_some_and(|room| count <= room)
}

fn decode_expires_at_ms(input: &mut Reader<'_>) -> Result<u64> {
    let at = input.offset();
    match input.u64()? {
        0 => Err(Error::new(at, "a time other than 0", "0")),
        time => Ok(time),
    }
}

fn decode_fragment_bytes(input: &mut Reader<'_>) -> Result<u32> {
    let at = input.offset();
    match input.u32()? {
        0 => Err(Error::new(at, "fragments of at least 1 byte", "0")),
        bytes => Ok(bytes),
    }
}
