//! Records of a served database as text.

use std::fmt;

use crate::datatype::{
    CATALOG, CatalogRecord, Collection, CollectionId, DatabaseId, EXPIRY, Expiry, FIELDS, Field, FieldKey,
    KEYS, PURGES, Property, Purge, Score, Slot, UserKey, Value, hash_of,
};
use crate::dump::{Dumped, Lines, Shown};
use crate::error::Error;

/// Key or value of a record, and where in the file it lies.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Offset of its first byte.
    pub offset: usize,
    /// All of it.
    pub bytes: &'a [u8],
}

/// Writes the fields of one record of the keyspace called `keyspace`, first those of its key.
///
/// A keyspace that no served database has gets two lines, key and value. An error in the record is
/// returned, its offset counted as those of the parts are; what stands before it is written.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump_record(keyspace: &str, key: Part<'_>, value: Part<'_>, lines: &mut Lines<'_>) -> Dumped {
    let mut record = Record { lines, key_at: key.offset, value_at: value.offset };
    let outcome = match keyspace {
        KEYS => record.keys(key, value),
        FIELDS => record.fields(key, value),
        EXPIRY => record.expiry(key, value),
        PURGES => record.purges(key, value),
        CATALOG => record.catalog(key, value),
        _ => record.unknown(key, value).map_err(Stop::from),
    };
    match outcome {
        Ok(()) => Ok(None),
        Err(Stop::Malformed(error)) => Ok(Some(error)),
        Err(Stop::Refused) => Err(fmt::Error),
    }
}

/// Why a dump ends early.
enum Stop {
    Malformed(Error),
    Refused,
}

impl From<fmt::Error> for Stop {
    fn from(_: fmt::Error) -> Self {
        Stop::Refused
    }
}

/// An error of a decoder that took one part, seen from the file.
fn in_part(part: Part<'_>) -> impl Fn(Error) -> Stop {
    move |error| Stop::Malformed(error.based(part.offset))
}

/// An error of a decoder that took both parts and counts through the key on into the value, seen
/// from the file.
fn in_record(key: Part<'_>, value: Part<'_>) -> impl Fn(Error) -> Stop {
    move |mut error| {
        error.offset = match error.offset.checked_sub(key.bytes.len()) {
            Some(offset) => value.offset + offset,
            None => key.offset + error.offset,
        };
        Stop::Malformed(error)
    }
}

/// One record on its way to text: where the next field of its key lies, and the next one of its
/// value.
struct Record<'l, 'o> {
    lines: &'l mut Lines<'o>,
    key_at: usize,
    value_at: usize,
}

impl Record<'_, '_> {
    fn key(&mut self, size: usize, name: &str, meaning: impl fmt::Display) -> fmt::Result {
        self.lines.line(self.key_at, size, name, format_args!("{meaning}"))?;
        self.key_at += size;
        Ok(())
    }

    fn value(&mut self, size: usize, name: &str, meaning: impl fmt::Display) -> fmt::Result {
        self.lines.line(self.value_at, size, name, format_args!("{meaning}"))?;
        self.value_at += size;
        Ok(())
    }

    fn key_bytes(&mut self, name: &str, bytes: &[u8]) -> fmt::Result {
        self.key(bytes.len(), name, Shown(bytes))
    }

    fn value_bytes(&mut self, name: &str, bytes: &[u8]) -> fmt::Result {
        self.value(bytes.len(), name, Shown(bytes))
    }

    fn keys(&mut self, key: Part<'_>, value: Part<'_>) -> Result<(), Stop> {
        self.user_key(&UserKey::decode(key.bytes).map_err(in_part(key))?)?;
        let found = Value::decode(value.bytes).map_err(in_part(value))?;
        self.value(1, "tag", format_args!("{} {:?}", found.tag() as u8, found.tag()))?;
        if let Value::String { bytes, expires_at_ms } = found {
            if expires_at_ms != 0 {
                self.value(8, "expires_at_ms", expires_at_ms)?;
            }
            self.value_bytes("string", bytes)?;
        }
        if let Some(Collection { generation, count, expires_at_ms }) = found.collection() {
            self.value(1, "encoding", "1 Fields")?;
            self.value(8, "generation", generation.0)?;
            self.value(8, "count", count)?;
            self.value(8, "expires_at_ms", expires_at_ms)?;
        }
        if let Value::LongString { fragment_bytes, .. } = found {
            self.value(4, "fragment_bytes", fragment_bytes)?;
        }
        if let Value::List { head, tail, .. } = found {
            self.value(8, "head", head)?;
            self.value(8, "tail", tail)?;
        }
        Ok(())
    }

    fn fields(&mut self, key: Part<'_>, value: Part<'_>) -> Result<(), Stop> {
        let FieldKey { collection, field } = FieldKey::decode(key.bytes).map_err(in_part(key))?;
        self.collection(&collection)?;
        self.key(1, "kind", format_args!("{} {:?}", field.kind() as u8, field.kind()))?;
        match field {
            Field::HashField(member) => self.hashed("field", member)?,
            Field::SetMember(member) | Field::ScoredMember(member) => self.hashed("member", member)?,
            Field::ListElement(index) => self.key(8, "index", index)?,
            Field::ByScore(score, member) => {
                self.key(8, "score", score.get())?;
                self.key_bytes("member", member)?;
            }
            Field::Fragment(index) => self.key(4, "index", index)?,
        }
        field.check_value(value.bytes).map_err(in_part(value))?;
        match field {
            Field::SetMember(_) | Field::ByScore(..) => {}
            Field::ScoredMember(_) => {
                let score = Score::decode(value.bytes).map_err(in_part(value))?;
                self.value(8, "score", score.get())?;
            }
            Field::HashField(_) | Field::ListElement(_) | Field::Fragment(_) => {
                self.value_bytes("value", value.bytes)?;
            }
        }
        Ok(())
    }

    fn expiry(&mut self, key: Part<'_>, value: Part<'_>) -> Result<(), Stop> {
        let expiry = Expiry::decode(key.bytes, value.bytes).map_err(in_record(key, value))?;
        self.key(8, "expires_at_ms", expiry.expires_at_ms)?;
        self.user_key(&expiry.key)?;
        self.value(8, "generation", expiry.generation.0)?;
        Ok(())
    }

    fn purges(&mut self, key: Part<'_>, value: Part<'_>) -> Result<(), Stop> {
        match Purge::decode(key.bytes, value.bytes).map_err(in_record(key, value))? {
            Purge::Collection { collection, tag, count } => {
                self.collection(&collection)?;
                self.value(1, "tag", format_args!("{} {tag:?}", tag as u8))?;
                self.value(8, "count", count)?;
            }
            Purge::Database(database) => {
                self.key(4, "database", database.number())?;
                self.value(1, "tag", "0, the whole database")?;
            }
        }
        Ok(())
    }

    fn catalog(&mut self, key: Part<'_>, value: Part<'_>) -> Result<(), Stop> {
        let record = CatalogRecord::decode(key.bytes, value.bytes).map_err(in_record(key, value))?;
        self.key(1, "kind", format_args!("{} {:?}", record.kind() as u8, record.kind()))?;
        match record {
            CatalogRecord::DatabaseIndex { index, database } => {
                self.key(4, "index", index)?;
                self.value(4, "database", database.number())?;
            }
            CatalogRecord::NextDatabase(database) => self.value(4, "database", database.number())?,
            CatalogRecord::Ceiling(generation) => self.value(8, "generation", generation.0)?,
            CatalogRecord::Bucket { database, bucket } => {
                self.key(4, "database", database.number())?;
                self.key(4, "bucket", bucket.number())?;
            }
            CatalogRecord::Library { name, text } => {
                self.key_bytes("name", name)?;
                self.value_bytes("text", text)?;
            }
            CatalogRecord::User { name, rules } => {
                self.key_bytes("name", name)?;
                self.value_bytes("rules", rules)?;
            }
            CatalogRecord::SlotFunction(name) => {
                self.property(Property::SlotFunction)?;
                self.value_bytes("name", name.as_bytes())?;
            }
            CatalogRecord::LayoutVersion(version) => {
                self.property(Property::LayoutVersion)?;
                self.value(4, "version", version)?;
            }
        }
        Ok(())
    }

    fn unknown(&mut self, key: Part<'_>, value: Part<'_>) -> fmt::Result {
        self.key_bytes("key", key.bytes)?;
        self.value_bytes("value", value.bytes)
    }

    fn property(&mut self, property: Property) -> fmt::Result {
        self.key(1, "property", format_args!("{} {property:?}", property as u8))
    }

    fn slot(&mut self, database: DatabaseId, slot: Slot) -> fmt::Result {
        self.key(4, "database", database.number())?;
        self.key(2, "slot", slot.number())
    }

    fn hashed(&mut self, name: &str, bytes: &[u8]) -> fmt::Result {
        self.key(4, "hash", format_args!("{:08x}", hash_of(bytes)))?;
        self.key_bytes(name, bytes)
    }

    fn user_key(&mut self, key: &UserKey<'_>) -> fmt::Result {
        self.slot(key.database(), key.slot())?;
        self.hashed("key", key.bytes())
    }

    fn collection(&mut self, collection: &CollectionId) -> fmt::Result {
        self.slot(collection.database, collection.slot)?;
        self.key(8, "generation", collection.generation.0)
    }
}
