//! Databases of a transaction: looked up, flushed, swapped.

use std::rc::Rc;
use std::sync::Arc;

use firn_format::datatype::{Bucket, CatalogRecord, DatabaseId, Purge};

use super::Transaction;
use crate::failure::{Failure, Result};
use crate::lines::LineKey;
use crate::server_thread::{ServerThread, Turns};
use crate::store::{Database, Databases};

impl Transaction {
    /// The database that `index` means, for this transaction.
    pub(crate) fn database(&self, index: u32) -> Arc<Database> {
        Arc::clone(self.databases.as_ref().unwrap_or(&self.databases_seen).get(index))
    }

    /// The database with this identity; `None` if it was flushed.
    pub(super) fn database_with_id(&self, id: DatabaseId) -> Option<Arc<Database>> {
        self.databases.as_ref().unwrap_or(&self.databases_seen).with_id(id).cloned()
    }

    fn databases_mut(&mut self) -> &mut Databases {
        self.databases.get_or_insert_with(|| Databases::clone(&self.databases_seen))
    }

    /// Empties the database that `index` means: it gets a new identity, and the old one is purged.
    /// The catalog's lock is held.
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

    /// The indexes mean from now on what the transaction has made of them. The catalog's lock is
    /// held. Others have their turns while very many keys are observed.
    pub(super) async fn replace_databases(&mut self) {
        let Some(databases) = self.databases.take() else { return };
        let thread = Rc::clone(&self.thread);
        let store = &thread.shared.store;
        let before = store.databases.load_full();
        let (flushed, changed) = (databases.flushed_since(&before), databases.changed_since(&before));
        let successor = |id| flushed.iter().find(|(old, _)| *old == id).map(|(_, new)| *new);
        let changed: Vec<_> = changed.into_iter().map(|id| (id, successor(id))).collect();
        let moved = databases.moved_since(&before);
        begin_changes(&thread, &changed).await;
        self.databases_seen = Arc::new(databases);
        store.databases.store(Arc::clone(&self.databases_seen));
        end_changes(&thread, &changed).await;
        let brought = brought(&thread, &self.databases_seen, &moved).await;
        self.ready.extend(brought);
    }
}

/// A database that changes, and the one that takes its place where it is flushed.
type Change = (DatabaseId, Option<DatabaseId>);

/// What some keys cost that observers look at together, in bytes copied.
const PASS_BYTES: usize = 16 << 10;

/// Tells clients that watch keys of these databases, before others can read or write what they are
/// from now on. A client that watches for what is not there goes on watching.
async fn begin_changes(thread: &ServerThread, changed: &[Change]) {
    let observers = &thread.shared.observers;
    let mut turns = Turns::new(thread);
    observers.begin_changes(changed.iter().map(|(id, _)| *id));
    for (id, new) in changed {
        let mut last = observers.keys_change(*id, *new, None);
        while let Some(key) = last {
            turns.step(PASS_BYTES).await;
            last = observers.keys_change(*id, *new, Some(&key));
        }
    }
}

/// The databases are others now: tells clients that watch keys of them.
async fn end_changes(thread: &ServerThread, changed: &[Change]) {
    let observers = &thread.shared.observers;
    let mut turns = Turns::new(thread);
    for (id, new) in changed {
        let mut last = observers.keys_changed(*id, *new, None);
        while let Some(key) = last {
            turns.step(PASS_BYTES).await;
            last = observers.keys_changed(*id, *new, Some(&key));
        }
    }
    observers.have_changed();
}

/// Keys that clients wait for and where something stands, of indexes that mean other databases now.
async fn brought(thread: &ServerThread, databases: &Databases, indexes: &[u32]) -> Vec<LineKey> {
    let lines = &thread.shared.observers.lines;
    let keyspace = thread.shared.store.keyspaces.keys;
    let (mut brought, mut turns) = (Vec::new(), Turns::new(thread));
    for index in indexes {
        let mut keys = lines.some_keys(*index, None);
        while let Some(last) = keys.last().cloned() {
            for key in keys {
                turns.step(key.bytes().len()).await;
                // What cannot be read its clients are told of, as they try.
                if thread.engine.is_stored(keyspace, &key.engine_key(databases)).await.unwrap_or(true) {
                    brought.push(key);
                }
            }
            keys = lines.some_keys(*index, Some(&last));
        }
    }
    brought
}
