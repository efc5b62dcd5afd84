//! What is deleted and still takes room: records of keyspace `purges`, which background work
//! removes.
//!
//! ```text
//! of a collection                          of a whole database
//! key                                      key
//!  14  collection  (see `key`)               4  database  u32 BE
//! value                                    value
//!   1  tag    2 to 6 (see `value`)           1  0
//!   8  count  u64 LE
//! ```
//! Written in the batch that removes the record of `keys`, or points the database's index at a new
//! one. The count is how many elements the collection had: how much there is to do. The purge of a
//! database orders before those of its collections, which it makes needless.

use crate::bytes::Reader;
use crate::error::{Error, Result};

use super::key::{CollectionId, DatabaseId, decode_database};
use super::value::Tag;

/// In place of a tag: all of a database.
const WHOLE_DATABASE: u8 = 0;

/// Bytes of the key of a whole database.
const DATABASE_KEY_BYTES: usize = 4;

/// One record. [`range`](Self::range) says what has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// The fields of a collection that is gone.
    Collection {
        /// Which one.
        collection: CollectionId,
        /// What it was: [`Tag::is_collection`].
        tag: Tag,
        /// How many elements, or bytes of a long string, it had.
        count: u64,
    },
    /// Everything in a database that was flushed.
    Database(DatabaseId),
}

impl Purge {
    /// Appends the record's key.
    pub fn encode_key(&self, out: &mut Vec<u8>) {
        match self {
            Purge::Collection { collection, .. } => collection.encode(out),
            Purge::Database(database) => out.extend_from_slice(&database.number().to_be_bytes()),
        }
    }

    /// Appends the record's value.
    pub fn encode_value(&self, out: &mut Vec<u8>) {
        match self {
            Purge::Collection { tag, count, .. } => {
                debug_assert!(tag.is_collection(), "a string leaves nothing behind");
                out.push(*tag as u8);
                out.extend_from_slice(&count.to_le_bytes());
            }
            Purge::Database(_) => out.push(WHOLE_DATABASE),
        }
    }

    /// The record made of `key` and `value`.
    ///
    /// # Errors
    /// Neither form, a collection's tag that this release does not know. Offsets count through the
    /// key and on into the value.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let mut input = Reader::new(key, 0);
        let mut meaning = Reader::new(value, key.len());
        let number = meaning.u8()?;
        let purge = if key.len() == DATABASE_KEY_BYTES {
            if number != WHOLE_DATABASE {
                return Err(Error::new(key.len(), "0 for a whole database", format!("{number}")));
            }
            Purge::Database(decode_database(&mut input)?)
        } else {
            let collection = CollectionId::decode(&mut input)?;
            let tag = Tag::decode(number, key.len())?;
            if !tag.is_collection() {
                return Err(Error::new(key.len(), "the tag of a collection (2 to 6)", format!("{number}")));
            }
            Purge::Collection { collection, tag, count: meaning.u64()? }
        };
        input.end("a purge's key")?;
        meaning.end("a purge's value")?;
        Ok(purge)
    }
}
