//! Databases as wholes.

use std::sync::Arc;

use firn_format::datatype::{Bucket, CatalogRecord, DatabaseId, Purge};

use super::Transaction;
use crate::failure::{Failure, Result};
use crate::store::{Database, Databases};

impl Transaction {
    /// The database that `index` means, for this transaction.
    pub(crate) fn database(&self, index: u32) -> Arc<Database> {
        Arc::clone(self.databases.as_ref().unwrap_or(&self.view_of_databases).get(index))
    }

    /// The database with this identity; `None` if it was flushed.
    pub(super) fn database_with_id(&self, id: DatabaseId) -> Option<Arc<Database>> {
        self.databases.as_ref().unwrap_or(&self.view_of_databases).with_id(id).cloned()
    }

    fn databases_mut(&mut self) -> &mut Databases {
        self.databases.get_or_insert_with(|| Databases::clone(&self.view_of_databases))
    }

    /// Empties the database that `index` means: it gets a new identity, and the old one is purged. The catalog's lock
    /// is held.
    pub(crate) fn flush_database(&mut self, index: u32) -> Result<()> {
        let databases = self.databases_mut();
        let (old, new) = (databases.get(index).id, databases.next);
        let next =
            new.next().ok_or(Failure::new("ERR databases were flushed so often that no number is left"))?;
        databases.next = next;
        databases.set(index, Database::new(new));
        self.put_catalog(&CatalogRecord::NextDatabase(next));
        self.put_catalog(&CatalogRecord::DatabaseIndex { index, database: new });
        self.put_purge(&Purge::Database(old));
        self.delete_bucket(old);
        Ok(())
    }

    /// Deletes one record of a database that goes, before its purge deletes all of them: on a full
    /// disk the engine takes what has removals.
    fn delete_bucket(&mut self, database: DatabaseId) {
        let mut key = Vec::new();
        CatalogRecord::Bucket { database, bucket: Bucket::FIRST }.encode_key(&mut key);
        self.delete(self.keyspaces().catalog, &key);
    }

    /// Lets each of two indexes mean what the other did. The catalog's lock is held.
    pub(crate) fn swap_databases(&mut self, first: u32, second: u32) {
        let databases = self.databases_mut();
        let (a, b) = (Arc::clone(databases.get(first)), Arc::clone(databases.get(second)));
        let (a_id, b_id) = (a.id, b.id);
        databases.set(first, b);
        databases.set(second, a);
        self.put_catalog(&CatalogRecord::DatabaseIndex { index: first, database: b_id });
        self.put_catalog(&CatalogRecord::DatabaseIndex { index: second, database: a_id });
    }
}
