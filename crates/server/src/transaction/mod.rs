//! What a command reads and writes: one command's, or everything of an EXEC or a script.
//!
//! ```text
//!   locks ─► Transaction ─ reads ─► own writes, then the engine
//!                │           (get, entry, collection, scan)
//!                └─ writes ─► one batch ─► commit ─► watchers and waiting clients are told
//! ```
//! Reads see the transaction's own writes. Nothing is written before [`Transaction::commit`], and
//! then all of it at once; a transaction that is dropped has done nothing. Nothing here locks: a
//! caller that may write holds the locks of every key it names, and reads the latest state under
//! them. A transaction that only reads sees one moment: a snapshot's where keys are in order, else
//! the one for which it holds the locks of what it reads.

mod own;
mod key;
mod cursor;
mod entry;
mod collection;
mod long_string;
mod copy;
mod coverage;
mod flush;
mod savepoint;

use std::rc::Rc;
use std::sync::Arc;

use firn_engine::{Batch, KeyLocks, KeyspaceId, Op, OpKind, ReadAt, Snapshot, Values};
use firn_format::datatype::{Bucket, CatalogRecord, DatabaseId, Generation, Purge};

use crate::bounds::READ_TOGETHER_MAX;
use crate::failure::{Failure, Result};
use crate::lines::LineKey;
use crate::purge_queue::PurgeRecord;
use crate::server_thread::{ServerThread, Turns};
use crate::store::{Databases, Keyspaces, NextGeneration};
use crate::subscriptions::{Addressee, Published};

pub(crate) use collection::Collection;
pub(crate) use coverage::{Coverage, Demand};
pub(crate) use cursor::Cursor;
pub(crate) use entry::{Entry, decode_value, type_name};
pub(crate) use key::{Key, encode_key};
pub(crate) use long_string::STRING_BYTES_MAX;
use own::OwnWrites;

/// Milliseconds for which the engine keeps a string that has expired. What has expired is decided
/// here, by one clock, and what a turn found alive stays while the turn lasts.
const EXPIRY_GRACE_MS: u64 = 30_000;

/// What reads see.
#[derive(Debug)]
enum Reads {
    /// The latest state; the locks of all keys are held.
    Locked,
    /// One moment, which the first read chooses.
    Moment(Option<Snapshot>),
    /// The latest state, and what is written only by others. Where the keys are named before they
    /// are read, their locks are held, so that they are read as of one moment. Of an engine whose
    /// snapshots cost more than locks do.
    Latest { _locks: Option<KeyLocks> },
}

/// Reads and writes that belong together.
///
/// Owned by the task that runs the command.
pub(crate) struct Transaction {
    thread: Rc<ServerThread>,
    reads: Reads,
    own: OwnWrites,
    /// The time it happens at, for everything that expires.
    now_ms: u64,
    /// Keys that changed, for the clients that watch or wait for them.
    touched: Vec<Vec<u8>>,
    /// Keys that were written to and that clients wait for.
    ready: Vec<LineKey>,
    /// Keys at which something had expired and is removed.
    rid: Vec<Vec<u8>>,
    /// Messages to be sent once it is written.
    messages: Vec<(Published, Vec<Addressee>)>,
    /// Memory that they take.
    messages_bytes: usize,
    /// What the batch leaves to be purged.
    purges: Vec<PurgeRecord>,
    /// Buckets that the batch tells the catalog of.
    buckets: Vec<(DatabaseId, Bucket)>,
    /// What the indexes mean, and what they mean once it is written, if that is something else.
    databases_seen: Arc<Databases>,
    databases: Option<Databases>,
    /// What the unit that it belongs to holds the locks of, if it is one's.
    coverage: Option<Rc<Coverage>>,
}

impl Transaction {
    /// A transaction that may write: the caller holds the locks of every key it will name, until it
    /// is committed or dropped. Indexes mean `databases` in it, by which those keys were named.
    pub(crate) fn locked(thread: &Rc<ServerThread>, databases: Arc<Databases>) -> Self {
        Self::new(thread, Reads::Locked, databases)
    }

    /// A transaction that only reads: as of one moment where keys are in order.
    pub(crate) fn reading(thread: &Rc<ServerThread>) -> Self {
        let reads = match thread.engine.is_ordered() {
            true => Reads::Moment(None),
            false => Reads::Latest { _locks: None },
        };
        Self::new(thread, reads, thread.shared.store.databases.load_full())
    }

    /// A transaction that only reads keys whose locks are `locks`. Indexes mean `databases` in it,
    /// by which those keys were named.
    pub(crate) fn reading_locked(
        thread: &Rc<ServerThread>,
        databases: Arc<Databases>,
        locks: Option<KeyLocks>,
    ) -> Self {
        Self::new(thread, Reads::Latest { _locks: locks }, databases)
    }

    /// From now on it reads what is there at this moment, without locks: what it has read under
    /// locks belongs to that moment too.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn fix_moment(&mut self) -> Result<()> {
        if let Reads::Latest { .. } = &self.reads {
            self.reads = Reads::Moment(Some(self.thread.shared.store.engines.snapshot()?));
        }
        Ok(())
    }

    fn new(thread: &Rc<ServerThread>, reads: Reads, databases: Arc<Databases>) -> Self {
        Self {
            thread: Rc::clone(thread),
            reads,
            own: OwnWrites::default(),
            now_ms: thread.now_ms(),
            touched: Vec::new(),
            ready: Vec::new(),
            rid: Vec::new(),
            messages: Vec::new(),
            messages_bytes: 0,
            purges: Vec::new(),
            buckets: Vec::new(),
            databases_seen: databases,
            databases: None,
            coverage: None,
        }
    }

    /// Says what the unit that it belongs to holds the locks of.
    pub(crate) fn cover(&mut self, coverage: Rc<Coverage>) {
        self.coverage = Some(coverage);
    }

    /// What the unit that it belongs to holds the locks of.
    pub(crate) fn coverage(&self) -> Option<&Rc<Coverage>> {
        self.coverage.as_ref()
    }

    /// Bytes that it will write and send.
    pub(crate) fn held_bytes(&self) -> usize {
        self.own.batch().data_bytes() + self.messages_bytes
    }

    /// The time it happens at, in milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Where things lie.
    pub(crate) fn keyspaces(&self) -> Keyspaces {
        self.thread.shared.store.keyspaces
    }

    /// Whether it may write.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.reads, Reads::Locked)
    }

    /// The value at the engine's key `key`.
    pub(crate) async fn get(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.own.get(keyspace, key) {
            return Ok(value.map(<[u8]>::to_vec));
        }
        self.choose_moment()?;
        let mut value = Vec::new();
        let is_found = self.thread.engine.get_at(read_at(&self.reads), keyspace, key, &mut value).await?;
        Ok(is_found.then_some(value))
    }

    /// Whether a value is stored at the engine's key `key`, one that has expired for the engine too
    /// included.
    async fn is_stored(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
        match self.own.get(keyspace, key) {
            Some(value) => Ok(value.is_some()),
            None => self.thread.engine.is_stored(keyspace, key).await,
        }
    }

    /// The values at the first of the engine's keys `keys`, one at least: as many as are read
    /// together.
    pub(crate) async fn some_values(
        &mut self,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let values = self.engine_values(keyspace, keys).await?;
        let mut found: Vec<Option<Vec<u8>>> = values.iter().map(|value| value.map(<[u8]>::to_vec)).collect();
        for (found, key) in found.iter_mut().zip(keys) {
            if let Some(own) = self.own.get(keyspace, key) {
                *found = own.map(<[u8]>::to_vec);
            }
        }
        Ok(found)
    }

    /// The values at the first of the engine's keys `keys`, one at least, without what the
    /// transaction has written itself.
    async fn engine_values(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) -> Result<Values> {
        self.choose_moment()?;
        let keys = keys.get(..READ_TOGETHER_MAX).unwrap_or(keys);
        self.thread.engine.multi_get(read_at(&self.reads), keyspace, keys).await
    }

    /// Sets the engine's key `key`.
    pub(crate) fn put(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) {
        self.own.push(Op { keyspace, kind: OpKind::Put, key, value, expires_at_ms: 0 });
    }

    /// Removes the engine's key `key`.
    pub(crate) fn delete(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        self.own.push(Op { keyspace, kind: OpKind::Delete, key, value: &[], expires_at_ms: 0 });
    }

    /// Puts `record` into the catalog.
    fn put_catalog(&mut self, record: &CatalogRecord<'_>) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.encode_key(&mut key);
        record.encode_value(&mut value);
        self.put(self.keyspaces().catalog, &key, &value);
    }

    fn choose_moment(&mut self) -> Result<()> {
        if let Reads::Moment(moment @ None) = &mut self.reads {
            *moment = Some(self.thread.shared.store.engines.snapshot()?);
        }
        Ok(())
    }

    /// Leaves something to be purged once it is written.
    fn put_purge(&mut self, purge: &Purge) {
        let (mut key, mut meaning) = (Vec::new(), Vec::new());
        purge.encode_key(&mut key);
        purge.encode_value(&mut meaning);
        self.put(self.keyspaces().purges, &key, &meaning);
        self.purges.push((key, meaning));
    }

    /// A number for a new collection.
    async fn generation(&self) -> Result<Generation> {
        let generations = &self.thread.shared.store.generations;
        loop {
            match generations.next() {
                NextGeneration::Given(generation) => return Ok(generation),
                NextGeneration::Wait => self.thread.pause().await,
                NextGeneration::Raise(ceiling) => {
                    let mut batch = Batch::new();
                    let (mut key, mut value) = (Vec::new(), Vec::new());
                    CatalogRecord::Ceiling(ceiling).encode_key(&mut key);
                    CatalogRecord::Ceiling(ceiling).encode_value(&mut value);
                    batch.put(self.keyspaces().catalog, &key, &value);
                    let mut raise = RaiseGuard { generations, ceiling: None };
                    self.thread.write(&batch).await?;
                    raise.ceiling = Some(ceiling);
                }
            }
        }
    }

    /// The user's key changed: clients that watch it or wait for it are told once that is written.
    pub(crate) fn touch(&mut self, key: &Key) {
        if self.thread.shared.observers.is_any() && self.touched.last().is_none_or(|last| last != key.bytes())
        {
            self.touched.push(key.bytes().to_vec());
        }
    }

    /// A message to be sent to these subscribers once everything is written.
    pub(crate) fn publish(&mut self, message: Published, addressees: Vec<Addressee>) {
        if !addressees.is_empty() {
            self.messages_bytes += message.bytes() + size_of::<Published>();
            self.messages_bytes += addressees.len() * size_of::<Addressee>();
            self.messages.push((message, addressees));
        }
    }

    /// Writes everything, returns once that is acknowledged, and notifies every client that
    /// it concerns.
    ///
    /// # Errors
    /// What the engine says: nothing was written then, or (after a failed sync) it is unknown.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        let ready = self.commit_ready().await?;
        self.notify_waiting(&ready);
        Ok(())
    }

    /// As [`commit`](Self::commit), but clients that wait for keys are not notified: these keys are
    /// returned, and the caller hands them over.
    pub(crate) async fn commit_ready(&mut self) -> Result<Vec<LineKey>> {
        self.write().await?;
        for (message, addressees) in self.messages.drain(..) {
            self.thread.publish(message, addressees);
        }
        Ok(std::mem::take(&mut self.ready))
    }

    /// Lets the client that waits longest for each of these keys look.
    fn notify_waiting(&self, ready: &[LineKey]) {
        let shared = &self.thread.shared;
        let waiters = ready.iter().filter_map(|key| shared.observers.lines.first(key));
        waiters.for_each(|(_, waiter)| shared.threads.look(waiter));
    }

    async fn write(&mut self) -> Result<()> {
        if self.own.is_empty() {
            // Commands that change nothing may count as changes all the same.
            self.notify_observers();
            return Ok(());
        }
        if !self.is_locked() {
            return Err(Failure::of("ERR a command that only reads has written: this is a bug".into()));
        }
        let thread = Rc::clone(&self.thread);
        let (batch, written) = thread.write_all(self.own.take_batch()).await;
        self.own.put_back(batch);
        if let Err(failure) = written {
            self.follow().await;
            return Err(failure);
        }
        if self.own.has_long_index() {
            Turns::new(&thread).discard(self.own.take_index()).await;
        }
        self.own.clear();
        let store = &thread.shared.store;
        for (id, bucket) in self.buckets.drain(..) {
            if let Some(database) = store.databases.load().with_id(id) {
                database.collections.record(bucket);
            }
        }
        self.replace_databases().await;
        for purge in self.purges.drain(..) {
            thread.shared.purges.push(purge);
        }
        self.notify_observers();
        Ok(())
    }

    /// Lets the server go on from what is there after a failed write. On a full disk the engine may
    /// have written it without making it durable.
    async fn follow(&mut self) {
        if self.databases.is_some() && self.is_in_catalog().await {
            self.replace_databases().await;
        }
        let shared = &self.thread.shared;
        if !self.purges.is_empty() {
            shared.purges.set_incomplete();
        }
        self.notify_observers();
        let ready = std::mem::take(&mut self.ready);
        self.notify_waiting(&ready);
    }

    /// Notifies clients that watch a key that was written to; keys that clients wait for are
    /// `ready` then.
    fn notify_observers(&mut self) {
        let shared = &self.thread.shared;
        let lines = &shared.observers.lines;
        let databases = shared.store.databases.load();
        let is_outdated = !Arc::ptr_eq(&databases, &self.databases_seen);
        for key in self.touched.drain(..) {
            shared.observers.changed(&key);
            if lines.is_empty() {
                continue;
            }
            if is_outdated
                && let Some((_, first)) = LineKey::of(&databases, &key).and_then(|key| lines.first(&key))
            {
                // Databases were swapped since the locks were taken, maybe before this was written.
                shared.threads.look(first);
            }
            if let Some(key) = LineKey::of(&self.databases_seen, &key)
                && lines.has(&key)
                && !self.ready.contains(&key)
            {
                self.ready.push(key);
            }
        }
        self.rid.drain(..).for_each(|key| shared.observers.rid_of_expired(&key));
    }

    /// Whether the catalog holds what the transaction would put there.
    async fn is_in_catalog(&mut self) -> bool {
        let catalog = self.keyspaces().catalog;
        for (key, meant) in self.own.range(catalog, &[], None) {
            let mut found = Vec::new();
            let is_found = self.thread.engine.get_at(ReadAt::Latest, catalog, &key, &mut found).await;
            if is_found.map(|is_found| is_found.then_some(found)) != Ok(meant) {
                return false;
            }
        }
        true
    }
}

/// Says that this task raises the ceiling no more, also when it is dropped while it does.
struct RaiseGuard<'g> {
    generations: &'g crate::store::Generations,
    ceiling: Option<Generation>,
}

impl Drop for RaiseGuard<'_> {
    fn drop(&mut self) {
        self.generations.raised(self.ceiling);
    }
}

fn read_at(reads: &Reads) -> ReadAt<'_> {
    match reads {
        Reads::Locked | Reads::Latest { .. } | Reads::Moment(None) => ReadAt::Latest,
        Reads::Moment(Some(snapshot)) => ReadAt::Snapshot(snapshot),
    }
}
