//! The databases of a server, as they lie in the engine.
//!
//! ```text
//!   catalog ─ read at start ─► databases ─ which one an index means, where collections may be
//!                         └──► generations ─ numbers for new collections
//! ```

mod catalog;
mod databases;
mod collection_map;
mod generations;
mod expired;
mod engines;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use firn::PointDb;
use firn::storage::Clock;
use firn_engine::{KeyspaceId, KeyspaceSettings, Result};
use firn_format::datatype;

pub(crate) use catalog::{Catalog, UserRecords, put as put_record};
pub(crate) use collection_map::CollectionMap;
pub(crate) use databases::{DATABASE_COUNT, Database, Databases};
pub(crate) use engines::{Engines, ServerSession};
pub(crate) use generations::{Generations, NextGeneration};

/// The engine's database with the keyspaces that data types lie in, and what its catalog says.
pub(crate) struct Store {
    pub(crate) db: PointDb,
    pub(crate) engines: Engines,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keyspaces: Keyspaces,
    /// Which database each index means; replaced as a whole.
    pub(crate) databases: ArcSwap<Databases>,
    pub(crate) generations: Generations,
    pub(crate) expired: expired::ExpiredKeys,
}

/// Where everything lies; see [`datatype`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyspaces {
    /// One record for each key of a user.
    pub(crate) keys: KeyspaceId,
    /// The parts of collections.
    pub(crate) fields: KeyspaceId,
    /// Collections by when they expire.
    pub(crate) expiry: KeyspaceId,
    /// What was deleted and still takes room.
    pub(crate) purges: KeyspaceId,
    /// What the server knows of its databases.
    pub(crate) catalog: KeyspaceId,
}

impl Keyspaces {
    pub(crate) fn of(db: &PointDb) -> Result<Self> {
        let make = |name, in_one_slot: bool| {
            // Keys of the others begin with database and slot.
            let has_slot_in_key = !in_one_slot;
            let settings = KeyspaceSettings { in_one_slot, has_slot_in_key, ..KeyspaceSettings::default() };
            db.create_keyspace(name, settings)
        };
        // Those that are read as wholes have few records.
        Ok(Self {
            keys: make(datatype::KEYS, false)?,
            fields: make(datatype::FIELDS, false)?,
            expiry: make(datatype::EXPIRY, true)?,
            purges: make(datatype::PURGES, true)?,
            catalog: make(datatype::CATALOG, true)?,
        })
    }
}

impl Store {
    /// What `db` holds, and the users that its catalog names; its keyspaces are made if they are
    /// not there.
    ///
    /// # Errors
    /// What the engine says; a catalog that is damaged, or that a newer release has written.
    pub(crate) fn open(db: PointDb, clock: Arc<dyn Clock>) -> Result<(Self, UserRecords)> {
        let engines = Engines::one(db.engine())?;
        let keyspaces = Keyspaces::of(&db)?;
        let catalog = Catalog::read(&engines, keyspaces.catalog)?;
        if !catalog.has_properties {
            catalog::write_properties(&db, keyspaces.catalog)?;
        }
        let databases = ArcSwap::from_pointee(catalog.databases);
        let generations = Generations::new(catalog.ceiling);
        let store = Self {
            db,
            engines,
            clock,
            keyspaces,
            databases,
            generations,
            expired: expired::ExpiredKeys::default(),
        };
        Ok((store, catalog.users))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("db", &self.db)
            .field("databases", &self.databases)
            .finish_non_exhaustive()
    }
}
