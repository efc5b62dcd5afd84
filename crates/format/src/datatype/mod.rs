//! Where the data types of a served database lie on the keys of the ordered engine.
//!
//! A served database is five keyspaces. A user's key is one record of `keys`. A string is all
//! there. A *collection* is a hash, list, set, sorted set, or a string too long for one record.
//! Only its description is there; its parts are records of `fields`:
//!
//! ```text
//!  keyspace  key                                                   value            module
//!  keys      database slot hash key                  tag, payload     key, value
//!  fields    database slot generation | kind rest    part             field, score
//!  purges    database slot generation                tag, count       purge
//!            database                                0
//!  expiry    time database slot hash key             generation       expiry
//!  catalog   kind rest                               by kind          catalog
//! ```
//! Start at [`key`], then [`value`]; [`range`] says what lies next to what.
//!
//! # Words
//! - *Database*: one of the numbered databases of a server; its [`DatabaseId`] changes when it is
//!   flushed.
//! - *Generation*: a number given to a collection when it is made, never to another one. It names
//!   the collection; the key does not stand in its parts. Deleting a collection removes its record
//!   of `keys` and leaves a *purge*. The parts go later, and are never taken for those of a newer
//!   collection of the same key.
//! - *Field*: a record of `fields`, one part of a collection.
//! - *Hash*: 32 bits made of a key or member, which stand before it and order it: see [`hash_of`].
//!
//! # Invariants
//! 1. The fields of a collection are one range of keys, and no key of anything else lies in it. The
//!    same holds for those of one kind, the keys of a slot in `keys`, `fields` and `purges`, and
//!    those of a database.
//! 2. Inside keys numbers are big-endian: keys order as what they say does, hashes included. Inside
//!    values they are little-endian.
//! 3. Each value says when it expires, and only that counts. Only strings let the engine's record
//!    expire too, which gives their room back. Collections say in their description when they
//!    expire and have a record in `expiry`. A record that vanished by itself would leave fields
//!    that no record names.
//! 4. No key is longer than the engine allows if the user's key is a [`UserKey`] and [`is_member`]
//!    said so of the member.
//! 5. Encodings are canonical: what a decoder accepts, its encoder gives back byte for byte.
//!
//! No record has a checksum of its own: frames of the log and blocks of tables have. Since:
//! FormatVersion::V1, [`LAYOUT_VERSION`](catalog::LAYOUT_VERSION) 1. Golden:
//! golden/datatype-*-v1-*.{bin,txt}.

pub mod slot;
pub mod key;
pub mod value;
pub mod score;
pub mod field;
pub mod range;
pub mod expiry;
pub mod purge;
pub mod catalog;

#[cfg(test)]
mod tests;

pub use catalog::{Bucket, CatalogKind, CatalogRecord, Property};
pub use expiry::Expiry;
pub use field::{Field, FieldKey, FieldKind, is_member};
pub use key::{CollectionId, DatabaseId, Generation, UserKey, hash_of};
pub use purge::Purge;
pub use score::Score;
pub use slot::Slot;
pub use value::{Collection, Encoding, Tag, Value};

/// Name of the keyspace with one record for each key of a user.
pub const KEYS: &str = "keys";
/// Name of the keyspace of the parts of collections.
pub const FIELDS: &str = "fields";
/// Name of the keyspace that orders collections by when they expire.
pub const EXPIRY: &str = "expiry";
/// Name of the keyspace that lists what has to be deleted from `fields`.
pub const PURGES: &str = "purges";
/// Name of the keyspace of what a server knows about its databases.
pub const CATALOG: &str = "catalog";

/// Names of all keyspaces of a served database.
pub const KEYSPACES: [&str; 5] = [KEYS, FIELDS, EXPIRY, PURGES, CATALOG];
