//! What a server does between requests. It removes expired collections, strings that a command has
//! found expired, and the parts of deleted collections.
//!
//! ```text
//!   expiry ─ due, or found ─► the key's lock ─► removed, as DEL does
//!          ─► purges ─► its parts are deleted ─► compaction frees room
//! ```
//! No command waits for it: what has expired is not found, and what is purged belongs to no key.
//! One task on the first server thread does it, some records at a time, with turns of other tasks
//! between them.
//!
//! Each work has its own time at which it is done next. A failed one is tried again, later and
//! later, and holds up no other. A record that cannot be read is passed over, counted and logged
//! once.

mod by_hash;
mod due;

use std::collections::HashMap;
use std::rc::Rc;

use firn_engine::{HashCursor, KeyspaceId, OrderedBatch, ScanRange};
use firn_format::datatype::value::FRAGMENT_BYTES;
use firn_format::datatype::{self, DatabaseId, Expiry, Purge, Tag, UserKey, Value, range};

use crate::failure::{Failure, Result};
use crate::log::{Field, LogLevel};
use crate::purge_queue::PurgeRecord;
use crate::server_thread::ServerThread;
use crate::statistics::Measure;
use crate::transaction::{Key, Transaction};
use due::Due;

/// Expired collections that one round removes.
const EXPIRED_PER_ROUND: usize = 128;

/// Purges that one round does, unless they have many parts.
const PURGES_PER_ROUND: usize = 64;

/// Parts after which a round does no further purge.
const PARTS_PER_ROUND: usize = 1024;

/// Purges that are read at once where some are in the keyspace only.
const PURGES_PER_READ: usize = 10_000;

/// Parts above which a collection is deleted as a range. One by one is better for few: ranges cost
/// reads until compaction is through with them.
const PARTS_ONE_BY_ONE_MAX: u64 = 512;

/// Milliseconds after which no command that began before the flush works on a flushed database.
const STRAGGLERS_MS: u64 = 60_000;

/// What is done, each at times of its own.
#[derive(Clone, Copy, Debug)]
enum Work {
    Expire,
    RemoveFound,
    Purge,
    PurgeDatabases,
}

impl Work {
    const ALL: [Self; 4] = [Self::Expire, Self::RemoveFound, Self::Purge, Self::PurgeDatabases];

    /// Its name in the log.
    fn name(self) -> &'static str {
        match self {
            Self::Expire => "remove_due",
            Self::RemoveFound => "remove_found",
            Self::Purge => "purge_collections",
            Self::PurgeDatabases => "purge_databases",
        }
    }
}

/// Runs until the server thread ends.
pub(crate) async fn run(thread: Rc<ServerThread>) {
    let mut duty = Duty {
        thread: Rc::clone(&thread),
        due: [Due::default(); Work::ALL.len()],
        expired_through_ms: 0,
        pass: None,
        read_from: None,
        purging: HashMap::new(),
    };
    loop {
        duty.round().await;
        let due_ms = duty.due.iter().map(Due::at_ms).min().unwrap_or(0);
        match due_ms <= thread.monotonic_ms() {
            true => thread.pause().await,
            false => thread.sleep_until(due_ms).await,
        }
    }
}

struct Duty {
    thread: Rc<ServerThread>,
    /// When each work is done next, in the order of [`Work::ALL`].
    due: [Due; Work::ALL.len()],
    /// Up to when everything that was due has gone, in milliseconds since the Unix epoch.
    expired_through_ms: u64,
    /// How far the pass over what is due has come, while it lasts.
    pass: Option<ExpiryPass>,
    /// Where in the keyspace purges are read next, while they are; `None` = they are all in the
    /// queue, or it says that they are not.
    read_from: Option<Place>,
    /// Flushed databases whose records were deleted, and when: stragglers may have written since.
    purging: HashMap<DatabaseId, u64>,
}

/// A pass over what is due, from longest ago on.
struct ExpiryPass {
    /// The time it began at, in milliseconds since the Unix epoch.
    began_ms: u64,
    /// Where it goes on: what comes before is gone, or cannot be read, or is not due.
    from: Place,
}

/// Keys and values of the engine.
type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Where a walk over a keyspace goes on.
#[derive(Clone, Debug)]
enum Place {
    /// At this key of a keyspace in order.
    Key(Vec<u8>),
    /// At this cursor of one without.
    Hash(HashCursor),
}

impl Duty {
    /// Does some of each work that is due.
    async fn round(&mut self) {
        for work in Work::ALL {
            if self.due[work as usize].at_ms() > self.thread.monotonic_ms() {
                continue;
            }
            let done = match work {
                Work::Expire => self.expire().await,
                Work::RemoveFound => self.remove_found().await,
                Work::Purge => self.purge().await,
                Work::PurgeDatabases => self.purge_databases().await,
            };
            let (now_ms, due) = (self.thread.monotonic_ms(), &mut self.due[work as usize]);
            let log = &self.thread.shared.diagnostics.log;
            let name = ("work", Field::Text(work.name()));
            match done {
                Ok(is_more) if due.succeeded(now_ms, is_more) => {
                    log.note(LogLevel::Warn, "duty_goes_on", &[name])
                }
                Ok(_) => {}
                Err(failure) if due.failed(now_ms) => {
                    log.note(LogLevel::Warn, "duty_failed", &[name, ("why", Field::Text(failure.line()))]);
                }
                Err(_) => {}
            }
        }
    }

    /// Removes collections that have expired; whether there are more. What went before is passed
    /// over, but for the last minute's: the write of a time of expiry may come late.
    async fn expire(&mut self) -> Result<bool> {
        if self.thread.shared.is_expiry_held() {
            return Ok(false);
        }
        let keyspaces = self.thread.shared.store.keyspaces;
        let now_ms = self.thread.now_ms();
        let (mut start, mut end) = (Vec::new(), Vec::new());
        range::due(now_ms, &mut start, &mut end);
        let first_ms = self.expired_through_ms.saturating_sub(STRAGGLERS_MS);
        let begun = self.pass.take();
        let from = || self.beginning(first_ms.to_be_bytes().to_vec());
        let mut pass = begun.unwrap_or_else(|| ExpiryPass { began_ms: now_ms, from: from() });
        let (due, next) = self.some(keyspaces.expiry, &pass.from, &end, EXPIRED_PER_ROUND).await?;
        for (record, meaning) in &due {
            if let Err(failure) = self.expire_record(record, meaning).await {
                if let Place::Key(from) = &mut pass.from {
                    from.clone_from(record);
                }
                self.pass = Some(pass);
                return Err(failure);
            }
            self.thread.pause().await;
        }
        match next {
            Some(next) => {
                pass.from = next;
                self.pass = Some(pass);
                Ok(true)
            }
            None => {
                // What is written behind the pass while it lasts is a minute late at most.
                self.expired_through_ms = pass.began_ms;
                Ok(false)
            }
        }
    }

    /// Removes what one record says has expired. One that cannot be read stays, and so does the
    /// collection whose own record cannot.
    async fn expire_record(&self, record: &[u8], meaning: &[u8]) -> Result<()> {
        let expiry = match Expiry::decode(record, meaning) {
            Ok(expiry) => expiry,
            Err(error) => {
                self.thread.note_damaged(datatype::EXPIRY, record, &error);
                return Ok(());
            }
        };
        match self.expire_one(record, &expiry).await {
            Err(failure) if failure.is_damage() => {
                let mut key = Vec::new();
                expiry.key.encode(&mut key);
                self.thread.note_damaged(datatype::KEYS, &key, &failure.line());
                Ok(())
            }
            done => done,
        }
    }

    async fn expire_one(&self, record: &[u8], expiry: &Expiry<'_>) -> Result<()> {
        let keyspaces = self.thread.shared.store.keyspaces;
        let key = Key::new(expiry.key.database(), expiry.key.bytes())?;
        let _locks = self.thread.lock(&[(keyspaces.keys, key.bytes())]).await?;
        let mut transaction =
            Transaction::locked(&self.thread, self.thread.shared.store.databases.load_full());
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
        // The command that found it first has counted it, unless there was no room for a note.
        let expired = &self.thread.shared.store.expired;
        if is_expired && !expired.removed(entry.key.bytes(), expiry.expires_at_ms) {
            self.thread.counters().add(Measure::Expired, 1);
        }
        Ok(())
    }

    /// Removes keys that commands have found expired; whether there are more.
    async fn remove_found(&self) -> Result<bool> {
        let shared = &self.thread.shared;
        if shared.is_expiry_held() {
            return Ok(false);
        }
        for _ in 0..EXPIRED_PER_ROUND {
            let Some(found) = shared.store.expired.first() else { return Ok(false) };
            match self.remove_one_found(&found).await {
                Err(failure) if failure.is_damage() => {
                    self.thread.note_damaged(datatype::KEYS, &found, &failure.line());
                    shared.store.expired.forget(&found);
                }
                removed => removed?,
            }
            self.thread.pause().await;
        }
        Ok(true)
    }

    async fn remove_one_found(&self, found: &[u8]) -> Result<()> {
        let shared = &self.thread.shared;
        let keyspaces = shared.store.keyspaces;
        let _locks = self.thread.lock(&[(keyspaces.keys, found)]).await?;
        let user = UserKey::decode(found).map_err(|error| Failure::damaged(&error))?;
        let key = Key::new(user.database(), user.bytes())?;
        let mut transaction = Transaction::locked(&self.thread, shared.store.databases.load_full());
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
        let thread = Rc::clone(&self.thread);
        let queue = &thread.shared.purges;
        if queue.is_empty() {
            self.read_purges().await?;
        }
        let mut part_count = 0;
        for _ in 0..PURGES_PER_ROUND {
            let Some(record) = queue.pop() else { return Ok(self.read_from.is_some()) };
            match self.purge_one(&record).await {
                Ok(parts) => part_count += parts,
                // It stays in the keyspace, and is met again at the next start.
                Err(failure) if failure.is_damage() => {
                    self.thread.note_damaged(datatype::PURGES, &record.0, &failure.line());
                }
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

    /// Puts into the empty queue what the keyspace holds, as far as some of it was not there. Each
    /// is read once, though those of databases stay in the keyspace for long; purging twice does no
    /// harm.
    async fn read_purges(&mut self) -> Result<()> {
        let thread = Rc::clone(&self.thread);
        let queue = &thread.shared.purges;
        if self.read_from.is_none() && queue.take_incomplete() {
            self.read_from = Some(self.beginning(Vec::new()));
        }
        let Some(from) = &self.read_from else { return Ok(()) };
        let keyspace = thread.shared.store.keyspaces.purges;
        let (records, next) = self.some(keyspace, from, &[u8::MAX; 5], PURGES_PER_READ).await?;
        self.read_from = next;
        records.into_iter().for_each(|record| queue.push(record));
        Ok(())
    }

    /// Does one purge; how many parts were deleted one by one.
    async fn purge_one(&mut self, (record, meaning): &PurgeRecord) -> Result<usize> {
        let purge = Purge::decode(record, meaning).map_err(|error| Failure::damaged(&error))?;
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
        if !self.thread.engine.is_ordered() {
            return self.purge_parts_by_name(&purge, record).await;
        }
        let keyspaces = self.thread.shared.store.keyspaces;
        let (mut start, mut end) = (Vec::new(), Vec::new());
        purge.range(&mut start, &mut end);
        let mut batch = OrderedBatch::default();
        if let Some(keys) = self.few(parts, &start, &end).await? {
            for key in &keys {
                batch.delete(keyspaces.fields, key);
            }
        } else {
            batch.delete_range(keyspaces.fields, &start, &end);
        }
        batch.delete(keyspaces.purges, record);
        self.thread.write_ordered(&batch).await?;
        Ok(batch.len())
    }

    /// The keys of a collection's `parts` if those are to be deleted one by one: they are few, and
    /// can be read.
    async fn few(&self, parts: u64, start: &[u8], end: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        if parts > PARTS_ONE_BY_ONE_MAX {
            return Ok(None);
        }
        let fields = self.thread.shared.store.keyspaces.fields;
        match self.some(fields, &Place::Key(start.to_vec()), end, usize::MAX).await {
            Err(failure) if failure.is_damage() => Ok(None),
            read => Ok(Some(read?.0.into_iter().map(|(key, _)| key).collect())),
        }
    }

    /// Does the last purge of databases whose stragglers are gone.
    async fn purge_databases(&mut self) -> Result<bool> {
        let now_ms = self.thread.monotonic_ms();
        let is_over = |since_ms: &u64| now_ms - since_ms >= STRAGGLERS_MS;
        let over = self.purging.iter().find(|(_, since_ms)| is_over(since_ms)).map(|(id, _)| *id);
        match over {
            Some(id) => self.purge_database(id, true).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Deletes all of a database that was flushed. Commands that had begun to write to it before go
    /// on for a moment. So it is deleted twice, and only the second time the purge itself is
    /// removed.
    async fn purge_database(&mut self, id: DatabaseId, is_last: bool) -> Result<()> {
        match self.thread.engine.is_ordered() {
            true => self.delete_database(id, is_last).await?,
            false => self.delete_database_by_hash(id, is_last).await?,
        }
        if is_last {
            self.purging.remove(&id);
        } else {
            self.purging.insert(id, self.thread.monotonic_ms());
        }
        Ok(())
    }

    async fn delete_database(&self, id: DatabaseId, is_last: bool) -> Result<()> {
        let keyspaces = self.thread.shared.store.keyspaces;
        let mut batch = OrderedBatch::default();
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
        self.thread.write_ordered(&batch).await
    }

    /// The first records of a walk that lie before `end`, about `count`, and where it goes on;
    /// `None` = there are no more.
    async fn some(
        &self,
        keyspace: KeyspaceId,
        from: &Place,
        end: &[u8],
        count: usize,
    ) -> Result<(Records, Option<Place>)> {
        let mut transaction = Transaction::reading(&self.thread);
        let mut cursor = match from {
            Place::Key(start) => transaction.scan(keyspace, ScanRange::between(start, end))?,
            Place::Hash(cursor) => {
                let walk = transaction.range_by_hash(keyspace, ScanRange::between(&[], end), *cursor);
                walk.in_batches(count, 1)
            }
        };
        let mut some = Vec::new();
        while matches!(from, Place::Hash(_)) || some.len() < count {
            let Some((key, value)) = cursor.next().await? else { break };
            some.push((key.to_vec(), value.to_vec()));
        }
        let next = match from {
            Place::Hash(_) => cursor.place().map(Place::Hash),
            Place::Key(_) => {
                let last = some.last().filter(|_| some.len() == count);
                last.map(|(key, _)| Place::Key([&key[..], &[0]].concat()))
            }
        };
        Ok((some, next))
    }

    /// Where a walk begins: of a keyspace in order at `key`.
    fn beginning(&self, key: Vec<u8>) -> Place {
        match self.thread.engine.is_ordered() {
            true => Place::Key(key),
            false => Place::Hash(HashCursor::START),
        }
    }
}
