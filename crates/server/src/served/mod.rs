//! A database that a server has written, for tools that open it while no server does.
//!
//! ```text
//!   Served::of ─► keys ──► ServedKey ─► elements   what clients would see
//!            ├──► verify ─► Finding                whether every record is one that a server writes
//!            └──► transfer ─► Transfer             which records another engine takes
//! ```
//! Start at [`Served::of`]. Nothing here writes to what it reads. Either engine may keep it: where
//! keys have no order, what is of a range is found among all.
//!
//! # Not here
//! - Checksums and files: the engine verifies those.
//! - The bytes themselves: `firn_format::datatype`.

mod records;
mod element;
mod key;
mod verify;
mod transfer;

pub use element::Element;
pub use key::{Kind, ServedKey};
pub use transfer::{Transfer, Unfit};
pub use verify::{Finding, ServedTotals};

use firn::{PointDb, PointKeyspace};
use firn_engine::Result;
use firn_format::datatype::{self, DatabaseId, UserKey, Value};

use crate::store::{Catalog, DATABASE_COUNT, Databases, Engines};
use records::{Records, is_ordered};

/// The databases that clients of a server select, in a [`PointDb`].
///
/// Owned by a tool that has opened the database, read-only or not. What a running server would
/// expire is not shown, and stays where it is.
#[derive(Debug)]
pub struct Served {
    keys: PointKeyspace,
    fields: PointKeyspace,
    expiry: PointKeyspace,
    purges: PointKeyspace,
    catalog: PointKeyspace,
    databases: Databases,
    /// Collections from this generation on were never made.
    ceiling: u64,
}

impl Served {
    /// How many databases clients can select.
    pub const DATABASES: u32 = DATABASE_COUNT;

    /// Names of the keyspaces that a server keeps in a layout of its own.
    pub const KEYSPACES: [&str; 5] = datatype::KEYSPACES;

    /// What a server has written to `db`; `None` if none ever has. Reads the catalog.
    ///
    /// # Errors
    /// What the engine says; `Corrupt` if the catalog is damaged, `Invalid` if a newer release has
    /// written it.
    pub fn of(db: &PointDb) -> Result<Option<Self>> {
        let engine = db.engine();
        let found = datatype::KEYSPACES.map(|name| engine.keyspace(name).map(|id| (id, db.in_keyspace(id))));
        let [Some(keys), Some(fields), Some(expiry), Some(purges), Some((catalog_id, catalog))] = found
        else {
            return Ok(None);
        };
        let read = Catalog::read(&Engines::one(engine)?, catalog_id)?;
        let [keys, fields, expiry, purges] = [keys, fields, expiry, purges].map(|(_, keyspace)| keyspace);
        let (databases, ceiling) = (read.databases, read.ceiling);
        // A server writes its properties before anything else.
        Ok(read.has_properties.then_some(Self { keys, fields, expiry, purges, catalog, databases, ceiling }))
    }

    /// What stands at `key` of the database `index`, below [`DATABASES`](Self::DATABASES), if it
    /// has not expired at `now_ms`.
    ///
    /// # Errors
    /// What the engine says; `Corrupt` if the record is none that a server writes.
    pub fn get(&self, index: u32, key: &[u8], now_ms: u64) -> Result<Option<ServedKey>> {
        let Some(user_key) = UserKey::of(self.databases.get(index).id, key) else { return Ok(None) };
        let mut record = Vec::new();
        user_key.encode(&mut record);
        let Some(value) = self.keys.get(&record)? else { return Ok(None) };
        let key = ServedKey::decode(index, &record, value)?;
        Ok(key.is_live(now_ms).then_some(key))
    }

    /// The keys of the database `index`, below [`DATABASES`](Self::DATABASES), or of all of them,
    /// that have not expired at `now_ms`. Where the engine keeps keys in order they come by
    /// database, slot and hash; else as it finds them.
    ///
    /// # Errors
    /// What the engine says; each item as [`get`](Self::get).
    pub fn keys(
        &self,
        index: Option<u32>,
        now_ms: u64,
    ) -> Result<impl Iterator<Item = Result<ServedKey>> + use<'_>> {
        let indexes = index.map_or(0..Self::DATABASES, |index| index..index + 1);
        let mut ranges = Vec::new();
        if is_ordered(&self.keys) {
            for index in indexes.clone() {
                let (mut start, mut end) = (Vec::new(), Vec::new());
                datatype::range::database(self.databases.get(index).id, &mut start, &mut end);
                ranges.push(Records::of(&self.keys, &start, &end)?);
            }
        } else {
            ranges.push(Records::of(&self.keys, &[], &[])?);
        }
        Ok(ranges.into_iter().flatten().filter_map(move |record| {
            let key = record.and_then(|(record, value)| match UserKey::decode(&record) {
                Ok(key) => {
                    let index = self.databases.index_of(key.database()).filter(|it| indexes.contains(it));
                    index.map(|index| ServedKey::decode(index, &record, value)).transpose()
                }
                // The error is its own.
                Err(_) => ServedKey::decode(0, &record, value).map(Some),
            });
            key.transpose().filter(|key| key.as_ref().map_or(true, |key| key.is_live(now_ms)))
        }))
    }

    /// Which databases have a record of a key; `None` where keys have no order, since to know it
    /// would be to read all of them.
    ///
    /// # Errors
    /// What the engine says.
    pub fn used_databases(&self) -> Result<Option<Vec<u32>>> {
        if !is_ordered(&self.keys) {
            return Ok(None);
        }
        let mut used = Vec::new();
        for index in 0..Self::DATABASES {
            let (mut start, mut end) = (Vec::new(), Vec::new());
            datatype::range::database(self.databases.get(index).id, &mut start, &mut end);
            if Records::of(&self.keys, &start, &end)?.next().transpose()?.is_some() {
                used.push(index);
            }
        }
        Ok(Some(used))
    }

    /// How people call the database `id`.
    fn name_of(&self, id: DatabaseId) -> String {
        match self.databases.index_of(id) {
            Some(index) => format!("database {index}"),
            None => format!("the flushed database with the number {}", id.number()),
        }
    }
}

/// `value` if a server has written it.
fn decode_value(value: &[u8]) -> std::result::Result<Value<'_>, String> {
    Value::decode(value).map_err(|error| format!("its value is none: {error}"))
}
