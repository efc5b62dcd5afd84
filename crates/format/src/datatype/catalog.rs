//! What a server knows about its databases: records of keyspace `catalog`.
//!
//! ```text
//! key: a byte, the kind (frozen, see `CatalogKind`), and the rest
//!
//! kind               rest                        value
//! 1 DatabaseIndex    index u32 BE                database u32 LE: the one that SELECT index means
//! 2 NextDatabase     empty                       database u32 LE: the next one to be given
//! 3 Ceiling          empty                       generation u64 LE: those below it may have been given
//! 4 Bucket           database u32 BE,            empty: some key of this bucket may be a collection
//!                    bucket u32 BE, below 2^20
//! 5 Library          name                        text of a library of functions
//! 6 User             name                        rules of a user, as ACL LIST has them
//! 7 Property         number u8 (see `Property`)  by property:
//!                      1 SlotFunction              its name
//!                      2 LayoutVersion             u32 LE
//! ```
//! *Buckets* let a string be written without reading what stood at its key. Only where a bucket's
//! record says so can that be a collection, whose fields would be left behind. A bucket is one
//! range of the keys of one slot, cut by their hashes. The records of a slot's buckets are one
//! range, like everything else of it.

use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::log::record::KEY_BYTES_MAX;

use super::key::{DatabaseId, Generation, UserKey, database, decode_database};
use super::slot::SLOT_COUNT;

/// Version of all layouts in `datatype`; a newer one is refused.
pub const LAYOUT_VERSION: u32 = 1;

/// Longest name of a library or a user: with the kind before it, an engine's key.
pub const NAME_BYTES_MAX: usize = KEY_BYTES_MAX - 1;

/// What kind a record of the catalog is. Numbers are frozen (see `golden/enums.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CatalogKind {
    /// Which database an index means.
    DatabaseIndex = 1,
    /// The next database to be given.
    NextDatabase = 2,
    /// Below what generations may have been given.
    Ceiling = 3,
    /// Where collections may be.
    Bucket = 4,
    /// Functions.
    Library = 5,
    /// Users.
    User = 6,
    /// What is true of all databases of this server.
    Property = 7,
}

impl CatalogKind {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => CatalogKind::DatabaseIndex,
            2 => CatalogKind::NextDatabase,
            3 => CatalogKind::Ceiling,
            4 => CatalogKind::Bucket,
            5 => CatalogKind::Library,
            6 => CatalogKind::User,
            7 => CatalogKind::Property,
            _ => return None,
        })
    }
}

/// Which property a record states. Numbers are frozen (see `golden/enums.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Property {
    /// How keys get their slots.
    SlotFunction = 1,
    /// How everything is laid out.
    LayoutVersion = 2,
}

impl Property {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Property::SlotFunction,
            2 => Property::LayoutVersion,
            _ => return None,
        })
    }
}

/// One of 2^20 sets of keys of a database: keys with one slot and one value of the upper bits of
/// their hash. That is one range of keys of `keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u32);

impl Bucket {
    /// log2 of the buckets of one slot.
    pub const BITS_IN_SLOT: u32 = 6;
    /// The first one.
    pub const FIRST: Self = Self(0);
    /// How many buckets a database has.
    pub const COUNT: u32 = (SLOT_COUNT as u32) << Self::BITS_IN_SLOT;

    /// The bucket of a user's key: its slot, then the upper bits of its hash. Frozen.
    #[inline]
    pub fn of(key: &UserKey<'_>) -> Self {
        let within = key.hash() >> (u32::BITS - Self::BITS_IN_SLOT);
        Self(u32::from(key.slot().number()) << Self::BITS_IN_SLOT | within)
    }

    /// Bucket `number`; `None` from [`Bucket::COUNT`] on.
    pub const fn new(number: u32) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// Its number, below [`Bucket::COUNT`].
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// One record, borrowed from its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogRecord<'a> {
    /// Clients that select `index` use `database`.
    DatabaseIndex {
        /// What clients say.
        index: u32,
        /// What keys say.
        database: DatabaseId,
    },
    /// No database from this one on has been given.
    NextDatabase(DatabaseId),
    /// No generation from this one on has been given.
    Ceiling(Generation),
    /// A key of this bucket may be a collection.
    Bucket {
        /// Of which database.
        database: DatabaseId,
        /// Which keys.
        bucket: Bucket,
    },
    /// A library of functions.
    Library {
        /// Its name.
        name: &'a [u8],
        /// Its text.
        text: &'a [u8],
    },
    /// A user that may log in.
    User {
        /// The name.
        name: &'a [u8],
        /// What the user may do.
        rules: &'a [u8],
    },
    /// The function that gives keys their slots, [`SLOT_FUNCTION`](super::slot::SLOT_FUNCTION) in
    /// this release.
    SlotFunction(&'a str),
    /// All layouts are those of this version, [`LAYOUT_VERSION`] or older.
    LayoutVersion(u32),
}

impl<'a> CatalogRecord<'a> {
    /// What kind of record it is.
    pub fn kind(&self) -> CatalogKind {
        match self {
            CatalogRecord::DatabaseIndex { .. } => CatalogKind::DatabaseIndex,
            CatalogRecord::NextDatabase(_) => CatalogKind::NextDatabase,
            CatalogRecord::Ceiling(_) => CatalogKind::Ceiling,
            CatalogRecord::Bucket { .. } => CatalogKind::Bucket,
            CatalogRecord::Library { .. } => CatalogKind::Library,
            CatalogRecord::User { .. } => CatalogKind::User,
            CatalogRecord::SlotFunction(_) | CatalogRecord::LayoutVersion(_) => CatalogKind::Property,
        }
    }

    /// Appends the record's key. Names are at most [`NAME_BYTES_MAX`] bytes long; the code that
    /// takes them from a client checks that.
    pub fn encode_key(&self, out: &mut Vec<u8>) {
        out.push(self.kind() as u8);
        match self {
            CatalogRecord::DatabaseIndex { index, .. } => out.extend_from_slice(&index.to_be_bytes()),
            CatalogRecord::NextDatabase(_) | CatalogRecord::Ceiling(_) => {}
            CatalogRecord::Bucket { database, bucket } => {
                out.extend_from_slice(&database.number().to_be_bytes());
                out.extend_from_slice(&bucket.0.to_be_bytes());
            }
            CatalogRecord::Library { name, .. } | CatalogRecord::User { name, .. } => {
                debug_assert!(name.len() <= NAME_BYTES_MAX, "checked before anything is made");
                out.extend_from_slice(name);
            }
            CatalogRecord::SlotFunction(_) => out.push(Property::SlotFunction as u8),
            CatalogRecord::LayoutVersion(_) => out.push(Property::LayoutVersion as u8),
        }
    }

    /// Appends the record's value.
    pub fn encode_value(&self, out: &mut Vec<u8>) {
        match self {
            CatalogRecord::DatabaseIndex { database, .. } | CatalogRecord::NextDatabase(database) => {
                out.extend_from_slice(&database.number().to_le_bytes());
            }
            CatalogRecord::Ceiling(generation) => out.extend_from_slice(&generation.0.to_le_bytes()),
            CatalogRecord::Bucket { .. } => {}
            CatalogRecord::Library { text, .. } => out.extend_from_slice(text),
            CatalogRecord::User { rules, .. } => out.extend_from_slice(rules),
            CatalogRecord::SlotFunction(name) => out.extend_from_slice(name.as_bytes()),
            CatalogRecord::LayoutVersion(version) => out.extend_from_slice(&version.to_le_bytes()),
        }
    }

    /// The record made of `key` and `value`.
    ///
    /// # Errors
    /// No kind or property of this release, a number that is out of bounds, too short or too long;
    /// a version that only a newer release knows. Offsets count through the key and on into the
    /// value.
    pub fn decode(key: &'a [u8], value: &'a [u8]) -> Result<Self> {
        let mut rest = Reader::new(key, 0);
        let mut meaning = Reader::new(value, key.len());
        let number = rest.u8()?;
        let kind = CatalogKind::from_u8(number)
            .ok_or_else(|| Error::new(0, "a kind of record in the catalog (1 to 7)", format!("{number}")))?;
        let record = match kind {
            CatalogKind::DatabaseIndex => {
                let index = rest.u32_big()?;
                CatalogRecord::DatabaseIndex { index, database: read_database(&mut meaning)? }
            }
            CatalogKind::NextDatabase => CatalogRecord::NextDatabase(read_database(&mut meaning)?),
            CatalogKind::Ceiling => CatalogRecord::Ceiling(Generation(meaning.u64()?)),
            CatalogKind::Bucket => {
                let database = decode_database(&mut rest)?;
                CatalogRecord::Bucket { database, bucket: read_bucket(&mut rest)? }
            }
            CatalogKind::Library => {
                CatalogRecord::Library { name: read_name(&mut rest)?, text: meaning.rest() }
            }
            CatalogKind::User => CatalogRecord::User { name: read_name(&mut rest)?, rules: meaning.rest() },
            CatalogKind::Property => read_property(&mut rest, &mut meaning)?,
        };
        rest.end("a catalog record's key")?;
        meaning.end("a catalog record's value")?;
        Ok(record)
    }
}

/// A database's number in a value.
fn read_database(meaning: &mut Reader<'_>) -> Result<DatabaseId> {
    let at = meaning.offset();
    database(meaning.u32()?, at)
}

fn read_name<'a>(rest: &mut Reader<'a>) -> Result<&'a [u8]> {
    let at = rest.offset();
    let name = rest.rest();
    if name.len() > NAME_BYTES_MAX {
        let expected = format!("a name of at most {NAME_BYTES_MAX} bytes");
        return Err(Error::new(at, expected, format!("{} bytes", name.len())));
    }
    Ok(name)
}

fn read_bucket(rest: &mut Reader<'_>) -> Result<Bucket> {
    let at = rest.offset();
    let number = rest.u32_big()?;
    let expected = || format!("a bucket below {}", Bucket::COUNT);
    Bucket::new(number).ok_or_else(|| Error::new(at, expected(), format!("{number}")))
}

fn read_property<'a>(rest: &mut Reader<'_>, meaning: &mut Reader<'a>) -> Result<CatalogRecord<'a>> {
    let at = rest.offset();
    let number = rest.u8()?;
    let value_at = meaning.offset();
    match Property::from_u8(number) {
        Some(Property::SlotFunction) => {
            let name = meaning.rest();
            let name = std::str::from_utf8(name).map_err(|error| {
                let found = format!("{} bytes that are not", name.len());
                Error::new(value_at + error.valid_up_to(), "a name in UTF-8", found)
            })?;
            Ok(CatalogRecord::SlotFunction(name))
        }
        Some(Property::LayoutVersion) => match meaning.u32()? {
            version @ 1..=LAYOUT_VERSION => Ok(CatalogRecord::LayoutVersion(version)),
            0 => Err(Error::new(value_at, "a version of layouts from 1 on", "0")),
            version => {
                let found = format!("version {version} (written by a newer Firn: upgrade to read it)");
                let expected = format!("version {LAYOUT_VERSION} of layouts or older");
                Err(Error::newer(value_at, expected, found))
            }
        },
        None => Err(Error::new(at, "a property (1 or 2)", format!("{number}"))),
    }
}
