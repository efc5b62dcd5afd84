//! What a server does between requests: collections that have expired go, strings that somebody has found expired, and the
//! parts of what was deleted.
//!
//! ```text
//!   expiry ─ due, or found ─► the key's lock ─► removed, as DEL does ─► purges ─► its parts are deleted ─► compaction frees room
//! ```
//! Nobody waits for it: what has expired is not found, and what is purged belongs to nobody. One task on the first worker
//! does it, some records at a time, with everybody else's turns between them.

use std::collections::HashMap;
use std::rc::Rc;

use firn_engine::{Batch, KeyspaceId, ScanRange};
use firn_format::datatype::value::FRAGMENT_BYTES;
use firn_format::datatype::{DatabaseId, Expiry, Purge, Tag, UserKey, Value, range};

use crate::failure::{Failure, Result};
use crate::purge_queue::PurgeRecord;
use crate::statistics::Measure;
use crate::transaction::{Key, Transaction};
use crate::worker::Worker;

/// Milliseconds between rounds in which nothing was found.
const PAUSE_MS: u64 = 100;

/// Milliseconds after a failure, which may well be the disk's.
const PAUSE_AFTER_FAILURE_MS: u64 = 5_000;

/// Expired collections that one round removes.
const EXPIRED_PER_ROUND: usize = 128;

/// Purges that one round does, unless they have many parts.
const PURGES_PER_ROUND: usize = 64;

/// Parts after which a round does no further purge.
const PARTS_PER_ROUND: usize = 1024;

/// Purges that are read at once where some are in the keyspace only.
const PURGES_PER_READ: usize = 10_000;

/// Parts above which a collection is deleted as a range. One by one is better for few: ranges cost reads until
/// compaction is through with them.
const PARTS_ONE_BY_ONE_MAX: u64 = 512;

/// Milliseconds after which nobody works on a flushed database any more, although he began before.
const STRAGGLERS_MS: u64 = 60_000;

/// Runs until the worker ends.
pub(crate) async fn run(worker: Rc<Worker>) {
    let mut duty = Duty {
        worker: Rc::clone(&worker),
        expired_through_ms: 0,
        expire_due_ms: 0,
        read_from: None,
        purging: HashMap::new(),
    };
    loop {
        let pause_ms = match duty.round().await {
            Ok(true) => 0,
            Ok(false) => PAUSE_MS,
            Err(_) => PAUSE_AFTER_FAILURE_MS,
        };
        match pause_ms {
            0 => worker.pause().await,
            ms => worker.sleep_until(worker.monotonic_ms() + ms).await,
        }
    }
}

struct Duty {
    worker: Rc<Worker>,
    /// Up to when everything that was due has gone, in milliseconds since the Unix epoch.
    expired_through_ms: u64,
    /// When it is looked for what has expired, by the clock that never goes back.
    expire_due_ms: u64,
    /// Where in the keyspace purges are read next, while they are; `None` = they are all in the queue, or it says that they
    /// are not.
    read_from: Option<Vec<u8>>,
    /// Flushed databases whose records were deleted, and when: stragglers may have written since.
    purging: HashMap<DatabaseId, u64>,
}

impl Duty {
    /// Does some of what there is to do; whether there is more.
    async fn round(&mut self) -> Result<bool> {
        let now_ms = self.worker.monotonic_ms();
        if now_ms >= self.expire_due_ms && !self.expire().await? && !self.remove_found().await? {
            self.expire_due_ms = now_ms + PAUSE_MS;
        }
        Ok(self.purge().await? || self.worker.monotonic_ms() >= self.expire_due_ms)
    }

    /// Removes collections that have expired. What went before is passed over, but for the last minute's: whoever said
    /// when it expires may have been slow to write that.
    async fn expire(&mut self) -> Result<bool> {
        if self.worker.shared.is_expiry_held() {
            return Ok(false);
        }
        let keyspaces = self.worker.shared.store.keyspaces;
        let now_ms = self.worker.now_ms();
        let (mut start, mut end) = (Vec::new(), Vec::new());
        range::due(now_ms, &mut start, &mut end);
        start = self.expired_through_ms.saturating_sub(STRAGGLERS_MS).to_be_bytes().to_vec();
        let due = self.some(keyspaces.expiry, &start, &end, EXPIRED_PER_ROUND).await?;
        for (record, meaning) in &due {
            let expiry = Expiry::decode(record, meaning).map_err(|error| damaged("expiry", &error))?;
            self.expire_one(record, &expiry).await?;
            self.worker.pause().await;
        }
        let is_more = due.len() == EXPIRED_PER_ROUND;
        if !is_more {
            self.expired_through_ms = now_ms;
        }
        Ok(is_more)
    }

    async fn expire_one(&self, record: &[u8], expiry: &Expiry<'_>) -> Result<()> {
        let keyspaces = self.worker.shared.store.keyspaces;
        let key = Key::new(expiry.key.database(), expiry.key.bytes())?;
        let _locks = self.worker.lock(&[(keyspaces.keys, key.bytes())]).await?;
        let mut transaction =
            Transaction::locked(&self.worker, self.worker.shared.store.databases.load_full());
        let entry = transaction.entry(key).await?;
        let is_meant = |value: &Value<'_>| {
            value.collection().is_some_and(|collection| {
                collection.generation == expiry.generation && collection.expires_at_ms == expiry.expires_at_ms
            })
        };
        let is_expired = entry.stored()?.is_some_and(|value| is_meant(&value));
        match is_expired {
            true => transaction.remove_expired(&entry)?,
            // The key means something else by now, or its database was flushed.
            false => transaction.delete(keyspaces.expiry, record),
        }
        transaction.commit().await?;
        // Who found it first has counted it, unless there was no room for a note.
        let expired = &self.worker.shared.store.expired;
        if is_expired && !expired.removed(entry.key.bytes(), expiry.expires_at_ms) {
            self.worker.counters().add(Measure::Expired, 1);
        }
        Ok(())
    }

    /// Removes keys that commands have found expired; whether there are more.
    async fn remove_found(&self) -> Result<bool> {
        let shared = &self.worker.shared;
        if shared.is_expiry_held() {
            return Ok(false);
        }
        for _ in 0..EXPIRED_PER_ROUND {
            let Some(found) = shared.store.expired.first() else { return Ok(false) };
            self.remove_one_found(&found).await?;
            self.worker.pause().await;
        }
        Ok(true)
    }

    async fn remove_one_found(&self, found: &[u8]) -> Result<()> {
        let shared = &self.worker.shared;
        let keyspaces = shared.store.keyspaces;
        let _locks = self.worker.lock(&[(keyspaces.keys, found)]).await?;
        let user = UserKey::decode(found).map_err(|error| damaged("keys", &error))?;
        let key = Key::new(user.database(), user.bytes())?;
        let mut transaction = Transaction::locked(&self.worker, shared.store.databases.load_full());
        let entry = transaction.entry(key).await?;
        let expires_at_ms = entry.stored()?.map(|value| value.expires_at_ms());
        match expires_at_ms {
            Some(expires_at_ms) if !entry.exists() => {
                transaction.remove_expired(&entry)?;
                transaction.commit().await?;
                shared.store.expired.removed(found, expires_at_ms);
            }
            _ => shared.store.expired.forget(found),
        }
        Ok(())
    }

    /// Deletes the parts of what was deleted; whether there is more.
    async fn purge(&mut self) -> Result<bool> {
        let worker = Rc::clone(&self.worker);
        let queue = &worker.shared.purges;
        if queue.is_empty() {
            self.read_purges().await?;
        }
        let mut part_count = 0;
        for done in 0..PURGES_PER_ROUND {
            let Some(record) = queue.pop() else {
                return if done == 0 { self.purge_databases().await } else { Ok(true) };
            };
            match self.purge_one(&record).await {
                Ok(parts) => part_count += parts,
                Err(failure) => {
                    queue.push(record);
                    return Err(failure);
                }
            }
            if part_count > PARTS_PER_ROUND {
                break;
            }
        }
        Ok(true)
    }

    /// Puts into the empty queue what the keyspace holds, as far as some of it was not there. Each is read once, though those
    /// of databases stay in the keyspace for long; purging twice does no harm.
    async fn read_purges(&mut self) -> Result<()> {
        let worker = Rc::clone(&self.worker);
        let queue = &worker.shared.purges;
        if self.read_from.is_none() && queue.take_incomplete() {
            self.read_from = Some(Vec::new());
        }
        let Some(from) = &self.read_from else { return Ok(()) };
        let keyspace = worker.shared.store.keyspaces.purges;
        let records = self.some(keyspace, from, &[u8::MAX; 5], PURGES_PER_READ).await?;
        let last = records.last().filter(|_| records.len() == PURGES_PER_READ);
        self.read_from = last.map(|(key, _)| [&key[..], &[0]].concat());
        records.into_iter().for_each(|record| queue.push(record));
        Ok(())
    }

    /// Does one purge; how many parts were deleted one by one.
    async fn purge_one(&mut self, (record, meaning): &PurgeRecord) -> Result<usize> {
        let purge = Purge::decode(record, meaning).map_err(|error| damaged("purges", &error))?;
        let Purge::Collection { tag, count, .. } = purge else {
            let Purge::Database(id) = purge else { return Ok(0) };
            // Not again if it was done once already.
            if !self.purging.contains_key(&id) {
                self.purge_database(id, false).await?;
            }
            return Ok(0);
        };
        let parts = match tag {
            Tag::LongString => count / u64::from(FRAGMENT_BYTES) + 1,
            Tag::SortedSet => count.saturating_mul(2),
            _ => count,
        };
        let keyspaces = self.worker.shared.store.keyspaces;
        let (mut start, mut end) = (Vec::new(), Vec::new());
        purge.range(&mut start, &mut end);
        let mut batch = Batch::new();
        if parts > PARTS_ONE_BY_ONE_MAX {
            batch.delete_range(keyspaces.fields, &start, &end);
        } else {
            for (key, _) in self.some(keyspaces.fields, &start, &end, usize::MAX).await? {
                batch.delete(keyspaces.fields, &key);
            }
        }
        batch.delete(keyspaces.purges, record);
        self.worker.write(&batch).await?;
        Ok(batch.len())
    }

    /// Does the last purge of databases whose stragglers are gone.
    async fn purge_databases(&mut self) -> Result<bool> {
        let now_ms = self.worker.monotonic_ms();
        let is_over = |since_ms: &u64| now_ms - since_ms >= STRAGGLERS_MS;
        let over = self.purging.iter().find(|(_, since_ms)| is_over(since_ms)).map(|(id, _)| *id);
        match over {
            Some(id) => self.purge_database(id, true).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Deletes all of a database that was flushed. Who had begun to write to it before goes on for a moment: so it is
    /// done twice, and only the second time the purge itself goes.
    async fn purge_database(&mut self, id: DatabaseId, is_last: bool) -> Result<()> {
        let keyspaces = self.worker.shared.store.keyspaces;
        let mut batch = Batch::new();
        let (mut start, mut end, mut record) = (Vec::new(), Vec::new(), Vec::new());
        let purge = Purge::Database(id);
        purge.range(&mut start, &mut end);
        purge.encode_key(&mut record);
        batch.delete_range(keyspaces.keys, &start, &end);
        batch.delete_range(keyspaces.fields, &start, &end);
        // The purge of the whole is the first of its range, and stays until all is done.
        let after = [&record[..], &[0]].concat();
        batch.delete_range(keyspaces.purges, &after, &end);
        start.clear();
        end.clear();
        range::buckets(id, None, &mut start, &mut end);
        batch.delete_range(keyspaces.catalog, &start, &end);
        if is_last {
            batch.delete(keyspaces.purges, &record);
        }
        self.worker.write(&batch).await?;
        if is_last {
            self.purging.remove(&id);
        } else {
            self.purging.insert(id, self.worker.monotonic_ms());
        }
        Ok(())
    }

    /// The first records from `start` to before `end`, at most `count`.
    async fn some(
        &self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        count: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut transaction = Transaction::reading(&self.worker);
        let mut cursor = transaction.scan(keyspace, ScanRange::between(start, end))?;
        let mut some = Vec::new();
        while some.len() < count {
            let Some((key, value)) = cursor.next().await? else { break };
            some.push((key.to_vec(), value.to_vec()));
        }
        Ok(some)
    }
}

fn damaged(keyspace: &str, error: &firn_format::Error) -> Failure {
    Failure::of(format!("ERR a record of `{keyspace}` is damaged: {error}"))
}
