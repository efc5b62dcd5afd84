//! The catalog, as it is read when a server starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn::PointDb;
use firn_engine::{Batch, Error, ErrorKind, KeyspaceId, Result};
use firn_format::datatype::catalog::LAYOUT_VERSION;
use firn_format::datatype::slot::SLOT_FUNCTION;
use firn_format::datatype::{CatalogRecord, DatabaseId};

use super::Engines;
use super::databases::{DATABASE_COUNT, Database, Databases};

/// Names and rules of users.
pub(crate) type UserRecords = Vec<(Vec<u8>, Vec<u8>)>;

/// What a catalog says.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) databases: Databases,
    /// Generations from here on were never given.
    pub(crate) ceiling: u64,
    pub(super) users: UserRecords,
    /// It says how everything is laid out, as each one does that a server has written to.
    pub(crate) has_properties: bool,
}

impl Catalog {
    /// Reads the catalog, which lies in `keyspace`.
    ///
    /// # Errors
    /// What the engine says; it is damaged, or a newer release has written it.
    pub(crate) fn read(engines: &Engines, keyspace: KeyspaceId) -> Result<Self> {
        let mut indexes: BTreeMap<u32, DatabaseId> = BTreeMap::new();
        let mut databases: BTreeMap<DatabaseId, Arc<Database>> = BTreeMap::new();
        let (mut next, mut ceiling, mut slot_function) = (None, 0, None);
        let mut users = Vec::new();
        engines.each_record(keyspace, |key, value| {
            match CatalogRecord::decode(key, value).map_err(|error| damaged(&error))? {
                CatalogRecord::DatabaseIndex { index, database } => {
                    indexes.insert(index, database);
                }
                CatalogRecord::NextDatabase(database) => next = Some(database),
                CatalogRecord::Ceiling(generation) => ceiling = generation.0,
                CatalogRecord::Bucket { database, bucket } => {
                    databases
                        .entry(database)
                        .or_insert_with(|| Database::new(database))
                        .collections
                        .record(bucket);
                }
                CatalogRecord::User { name, rules } => users.push((name.to_vec(), rules.to_vec())),
                CatalogRecord::SlotFunction(name) => slot_function = Some(name.to_owned()),
                // A newer version of layouts is refused when it is decoded.
                CatalogRecord::LayoutVersion(_) | CatalogRecord::Library { .. } => {}
            }
            Ok(())
        })?;
        match slot_function.as_deref() {
            None | Some(SLOT_FUNCTION) => {}
            Some(other) => {
                let message =
                    format!("its keys were put into slots by `{other}`, which this release does not know");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        // An index that was never changed means the database of the same number.
        let of = |index| {
            let id = indexes.get(&index).copied().or(DatabaseId::new(index)).unwrap_or(DatabaseId::FIRST);
            databases.get(&id).cloned().unwrap_or_else(|| Database::new(id))
        };
        let first_free = DatabaseId::new(DATABASE_COUNT).unwrap_or(DatabaseId::FIRST);
        let databases = Databases::new(of, next.unwrap_or(first_free));
        Ok(Self { databases, ceiling, users, has_properties: slot_function.is_some() })
    }
}

/// Writes what a new catalog must say.
pub(super) fn write_properties(db: &PointDb, keyspace: KeyspaceId) -> Result<()> {
    let mut batch = Batch::new();
    for record in [CatalogRecord::SlotFunction(SLOT_FUNCTION), CatalogRecord::LayoutVersion(LAYOUT_VERSION)] {
        put(&mut batch, keyspace, &record);
    }
    db.write(&batch).map(drop)
}

/// Adds `record` to `batch`.
pub(crate) fn put(batch: &mut Batch, keyspace: KeyspaceId, record: &CatalogRecord<'_>) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.encode_key(&mut key);
    record.encode_value(&mut value);
    batch.put(keyspace, &key, &value);
}

fn damaged(error: &firn_format::Error) -> Error {
    let kind = if error.is_newer { ErrorKind::Invalid } else { ErrorKind::Corrupt };
    Error::new(kind, format!("the catalog of the served databases: {error}"))
}
