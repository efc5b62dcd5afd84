//! Which database an index means.

use std::sync::Arc;

use firn_format::datatype::DatabaseId;

use super::CollectionMap;

/// Databases that clients can select, as they expect by default.
pub(crate) const DATABASE_COUNT: u32 = 16;

/// One database, until it is flushed.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) id: DatabaseId,
    pub(crate) collections: CollectionMap,
}

impl Database {
    pub(crate) fn new(id: DatabaseId) -> Arc<Self> {
        Arc::new(Self { id, collections: CollectionMap::default() })
    }
}

/// What the indexes mean; never changed, only replaced.
#[derive(Clone, Debug)]
pub(crate) struct Databases {
    by_index: Vec<Arc<Database>>,
    /// The next identity to be given.
    pub(crate) next: DatabaseId,
}

impl Databases {
    /// Each index means what `of` says.
    pub(super) fn new(of: impl Fn(u32) -> Arc<Database>, next: DatabaseId) -> Self {
        Self { by_index: (0..DATABASE_COUNT).map(of).collect(), next }
    }

    /// The database that `index` means, which must be below [`DATABASE_COUNT`].
    pub(crate) fn get(&self, index: u32) -> &Arc<Database> {
        &self.by_index[index as usize]
    }

    /// Lets `index` mean `database`.
    pub(crate) fn set(&mut self, index: u32, database: Arc<Database>) {
        self.by_index[index as usize] = database;
    }

    /// The database with this identity, if an index means it.
    pub(crate) fn with_id(&self, id: DatabaseId) -> Option<&Arc<Database>> {
        self.by_index.iter().find(|database| database.id == id)
    }

    /// The index that means the database with this identity, if one does.
    pub(crate) fn index_of(&self, id: DatabaseId) -> Option<u32> {
        (0..).zip(&self.by_index).find(|(_, database)| database.id == id).map(|(index, _)| index)
    }

    /// Databases that an index meant `before` and none means now, each with the one in its place.
    pub(crate) fn flushed_since(&self, before: &Self) -> Vec<(DatabaseId, DatabaseId)> {
        let pairs = before.by_index.iter().zip(&self.by_index);
        let flushed = pairs.filter(|(before, _)| self.with_id(before.id).is_none());
        flushed.map(|(before, now)| (before.id, now.id)).collect()
    }

    /// Indexes that mean a database which another one meant `before`.
    pub(crate) fn moved_since(&self, before: &Self) -> Vec<u32> {
        let pairs = (0..).zip(self.by_index.iter().zip(&before.by_index));
        let changed = pairs.filter(|(_, (now, old))| now.id != old.id && before.with_id(now.id).is_some());
        changed.map(|(index, _)| index).collect()
    }

    /// Which databases an index meant `before` that means another one now.
    pub(crate) fn changed_since(&self, before: &Self) -> Vec<DatabaseId> {
        let pairs = self.by_index.iter().zip(&before.by_index);
        pairs.filter(|(now, before)| now.id != before.id).map(|(_, before)| before.id).collect()
    }
}
