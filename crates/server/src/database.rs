//! A database of the engine, as a server uses it.

use std::sync::Arc;

use firn::Db;
use firn_engine::{KeyspaceId, KeyspaceSettings, Result};
use firn_format::datatype;

/// The engine's database with the keyspaces that data types lie in.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) db: Arc<Db>,
    /// One record for each key of a user.
    pub(crate) keys: KeyspaceId,
}

impl Database {
    /// The keyspaces of `db`, made if they are not there.
    pub(crate) fn of(db: Arc<Db>) -> Result<Self> {
        let keys = db.create_keyspace(datatype::KEYS, KeyspaceSettings::default())?;
        Ok(Self { db, keys })
    }
}
