//! One key of a client, as it stands in the engine.

use std::fmt;

use firn_engine::{Error, ErrorKind, Result};
use firn_format::datatype::{CollectionId, Generation, Tag, UserKey, Value};

use super::decode_value;

/// A key of a client and what its record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKey {
    database: u32,
    /// The engine's key.
    record: Vec<u8>,
    /// The engine's value.
    value: Vec<u8>,
    /// Where the user's key begins in `record`.
    key_start: usize,
}

/// What kind of value stands at a key, as `TYPE` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// Fields with a value each.
    Hash,
    /// Elements in an order of their own.
    List,
    /// Members.
    Set,
    /// Members with a score each.
    SortedSet,
}

impl ServedKey {
    /// The key that the engine's record says, in the database `index`.
    pub(super) fn decode(index: u32, record: &[u8], value: Vec<u8>) -> Result<Self> {
        let key = UserKey::decode(record).map_err(|error| not_served(record, &error.to_string()))?;
        let key_start = record.len() - key.bytes().len();
        decode_value(&value).map_err(|why| not_served(record, &why))?;
        Ok(Self { database: index, record: record.to_vec(), value, key_start })
    }

    /// The number that clients select its database by.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// The key as clients say it.
    pub fn key(&self) -> &[u8] {
        self.record.get(self.key_start..).unwrap_or_default()
    }

    /// What stands there.
    pub fn kind(&self) -> Kind {
        match self.value().tag() {
            Tag::String | Tag::ExpiringString | Tag::LongString => Kind::String,
            Tag::Hash => Kind::Hash,
            Tag::List => Kind::List,
            Tag::Set => Kind::Set,
            Tag::SortedSet => Kind::SortedSet,
        }
    }

    /// All of a string that lies in the key's own record; `None` for a longer one, and for what is
    /// no string.
    pub fn short_string(&self) -> Option<&[u8]> {
        match self.value() {
            Value::String { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// How many elements it has; of a string, bytes.
    pub fn count(&self) -> u64 {
        match self.value() {
            Value::String { bytes, .. } => bytes.len() as u64,
            value => value.collection().map_or(0, |collection| collection.count),
        }
    }

    /// When it expires, in milliseconds since the Unix epoch; 0 = never.
    pub fn expires_at_ms(&self) -> u64 {
        self.value().expires_at_ms()
    }

    pub(super) fn is_live(&self, now_ms: u64) -> bool {
        self.value().is_live(now_ms)
    }

    pub(super) fn value(&self) -> Value<'_> {
        // It was decoded when this was made.
        decode_value(&self.value).unwrap_or(Value::String { bytes: &[], expires_at_ms: 0 })
    }

    /// The collection that its parts name; `None` for a short string.
    pub(super) fn collection(&self) -> Option<CollectionId> {
        let generation = self.value().collection()?.generation;
        UserKey::decode(&self.record).ok().map(|key| CollectionId::of(&key, generation))
    }
}

impl Kind {
    /// The word of `TYPE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash => "hash",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
        }
    }

    /// What its parts are called, of one or of more.
    pub fn parts(self, count: u64) -> &'static str {
        match (self, count) {
            (Self::String, 1) => "byte",
            (Self::String, _) => "bytes",
            (Self::Hash, 1) => "field",
            (Self::Hash, _) => "fields",
            (Self::List, 1) => "element",
            (Self::List, _) => "elements",
            (Self::Set | Self::SortedSet, 1) => "member",
            (Self::Set | Self::SortedSet, _) => "members",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `record` of keyspace `keys` is none that a server writes.
fn not_served(record: &[u8], why: &str) -> Error {
    let message = format!(
        "the record \"{}\" of keyspace `keys` is none that `firn serve` writes: {why}; `firn verify` names all such records",
        record.escape_ascii()
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// Of a collection, in an order that a map can have.
pub(super) fn generation_of(value: &Value<'_>) -> Option<Generation> {
    value.collection().map(|collection| collection.generation)
}
