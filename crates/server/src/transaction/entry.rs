//! What stands at a user's key.

use std::rc::Rc;

use firn_engine::{Op, OpKind};
use firn_format::datatype::{CatalogRecord, CollectionId, Expiry, Purge, Tag, UserKey, Value};

use super::{EXPIRY_GRACE_MS, Key, Transaction};
use crate::bounds::READ_TOGETHER_MAX;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::statistics::Measure;

/// A key and its record, as it was read.
///
/// 1. What has expired counts as missing. It still has to be replaced with care, since its parts
///    exist.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    record: Option<Vec<u8>>,
    is_live: bool,
    /// Whether the engine holds a record, one that it does not show any more included; `None` if it
    /// was not asked.
    is_stored: Option<bool>,
}

impl Entry {
    /// Whether the key exists.
    pub(crate) fn exists(&self) -> bool {
        self.is_live
    }

    /// What stands there; `None` if the key does not exist.
    pub(crate) fn value(&self) -> Result<Option<Value<'_>>> {
        if self.is_live { self.stored() } else { Ok(None) }
    }

    /// The same, also if it has expired.
    pub(crate) fn stored(&self) -> Result<Option<Value<'_>>> {
        self.record.as_deref().map(decode_value).transpose()
    }

    /// Bytes of its record, without the key.
    pub(crate) fn record_bytes(&self) -> usize {
        self.record.as_ref().map_or(0, Vec::len)
    }

    /// The collection that stands there, whatever its type; `None` if there is none.
    pub(crate) fn collection_id(&self) -> Result<Option<CollectionId>> {
        Ok(self.value()?.and_then(|value| collection_id(&self.key, &value)))
    }

    /// When it expires, in milliseconds since the Unix epoch; 0 = never, or no such key.
    pub(crate) fn expires_at_ms(&self) -> Result<u64> {
        Ok(self.value()?.map_or(0, |value| value.expires_at_ms()))
    }
}

/// The value of a record, or what is wrong with it.
pub(crate) fn decode_value(bytes: &[u8]) -> Result<Value<'_>> {
    Value::decode(bytes).map_err(|error| Failure::damaged(&error))
}

/// Which collection `value` describes; `None` for a string that is all in its record.
pub(super) fn collection_id(key: &Key, value: &Value<'_>) -> Option<CollectionId> {
    let generation = value.collection()?.generation;
    Some(CollectionId { database: key.database, slot: key.slot, generation })
}

impl Transaction {
    /// Reads what stands at `key`.
    pub(crate) async fn entry(&mut self, key: Key) -> Result<Entry> {
        let record = self.get(self.keyspaces().keys, key.bytes()).await?;
        self.counted_entry(key, record)
    }

    /// What stands at `key`, for a command that replaces it by a string whatever it was. It is read
    /// only where a collection, with parts to discard, may stand there.
    pub(crate) async fn entry_to_replace(&mut self, key: Key) -> Result<Entry> {
        let database = self.database_with_id(key.database);
        match database.is_some_and(|database| database.collections.is_possible(key.bucket())) {
            true => self.entry(key).await,
            false => Ok(Entry { key, record: None, is_live: false, is_stored: None }),
        }
    }

    /// Reads what stands at each of `keys`, and whether the engine holds there what it does not
    /// show any more.
    pub(crate) async fn entries(&mut self, keys: Vec<Key>) -> Result<Vec<Entry>> {
        let thread = Rc::clone(&self.thread);
        let mut turns = Turns::new(&thread);
        let mut entries = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter();
        while keys.len() > 0 {
            let some = self.some_entries(&mut keys).await?;
            for entry in some {
                turns.step(entry.record_bytes()).await;
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    /// The same at the first of `keys`, one at least, which are taken out: as many as are read
    /// together.
    pub(crate) async fn some_entries(&mut self, keys: &mut std::vec::IntoIter<Key>) -> Result<Vec<Entry>> {
        let wanted: Vec<&[u8]> = keys.as_slice().iter().take(READ_TOGETHER_MAX).map(Key::bytes).collect();
        let keyspace = self.keyspaces().keys;
        let values = self.engine_values(keyspace, &wanted).await?;
        let mut entries = Vec::with_capacity(values.len());
        for (index, key) in keys.by_ref().take(values.len()).enumerate() {
            let (record, is_stored) = match self.own.get(keyspace, key.bytes()) {
                Some(own) => (own, own.is_some()),
                None => (values.get(index), values.is_stored(index)),
            };
            let record = record.map(<[u8]>::to_vec);
            entries.push(Entry { is_stored: Some(is_stored), ..self.counted_entry(key, record)? });
        }
        Ok(entries)
    }

    /// The entry of a record that a command looked up. For a transaction that only reads it counts
    /// as a hit or a miss.
    fn counted_entry(&self, key: Key, record: Option<Vec<u8>>) -> Result<Entry> {
        let entry = self.entry_of(key, record)?;
        if !self.is_locked() {
            let measure = if entry.exists() { Measure::Hits } else { Measure::Misses };
            self.thread.counters().add(measure, 1);
        }
        Ok(entry)
    }

    /// The entry of a record that was read by other means. One that has expired is counted.
    pub(crate) fn entry_of(&self, key: Key, record: Option<Vec<u8>>) -> Result<Entry> {
        let is_live = match &record {
            None => false,
            Some(record) => {
                let value = decode_value(record)?;
                let is_live = value.is_live(self.now_ms);
                if !is_live {
                    self.thread.note_expired(key.bytes(), value.expires_at_ms());
                }
                is_live
            }
        };
        Ok(Entry { key, record, is_live, is_stored: None })
    }

    /// Lets a string that is all in its record stand at the key, whatever stood there.
    pub(super) fn put_string_record(
        &mut self,
        entry: &Entry,
        bytes: &[u8],
        expires_at_ms: u64,
    ) -> Result<()> {
        self.discard(entry)?;
        self.put_value(&entry.key, &Value::String { bytes, expires_at_ms });
        Ok(())
    }

    /// Writes the record of `key`. A caller that replaces a collection by another one discards it
    /// first.
    pub(super) fn put_value(&mut self, key: &Key, value: &Value<'_>) {
        let mut record = Vec::new();
        value.encode(&mut record);
        // Only strings go by themselves: a collection that did would leave its parts behind for
        // ever.
        let expires_at_ms = match value {
            Value::String { expires_at_ms: 1.., .. } => value.expires_at_ms().saturating_add(EXPIRY_GRACE_MS),
            _ => 0,
        };
        let keyspace = self.keyspaces().keys;
        self.own.push(Op { keyspace, kind: OpKind::Put, key: key.bytes(), value: &record, expires_at_ms });
        self.touch(key);
    }

    /// Removes the key with all that stands there, what has expired included: it is gone also if
    /// the clock is set back.
    pub(crate) async fn remove(&mut self, entry: &Entry) -> Result<()> {
        if entry.is_live {
            self.touch(&entry.key);
            return self.remove_record(entry);
        }
        // What expired long ago the engine does not show, and may hold all the same.
        let is_stored = match entry.is_stored {
            Some(is_stored) => is_stored,
            None if entry.record.is_some() => true,
            None => self.is_stored(self.keyspaces().keys, entry.key.bytes()).await?,
        };
        if is_stored {
            self.remove_expired(entry)?;
        }
        Ok(())
    }

    /// Removes what has expired: only clients that watched it while it was there are told.
    pub(crate) fn remove_expired(&mut self, entry: &Entry) -> Result<()> {
        if self.thread.shared.observers.is_any() {
            self.rid.push(entry.key.bytes().to_vec());
        }
        self.remove_record(entry)
    }

    fn remove_record(&mut self, entry: &Entry) -> Result<()> {
        self.discard(entry)?;
        self.delete(self.keyspaces().keys, entry.key.bytes());
        Ok(())
    }

    /// Leaves the parts of what stands at the key to be purged. Its record must be written or
    /// deleted next.
    pub(super) fn discard(&mut self, entry: &Entry) -> Result<()> {
        let Some(value) = entry.stored()? else { return Ok(()) };
        let Some(collection) = collection_id(&entry.key, &value) else { return Ok(()) };
        let count = value.collection().map_or(0, |collection| collection.count);
        self.put_purge(&Purge::Collection { collection, tag: value.tag(), count });
        self.forget_expiry(&entry.key, &value);
        Ok(())
    }

    /// Removes what `expiry` says of a collection.
    pub(super) fn forget_expiry(&mut self, key: &Key, value: &Value<'_>) {
        if let Some(record) = expiry_record(key, value) {
            self.delete(self.keyspaces().expiry, &record.0);
        }
    }

    /// Lets the key expire at `expires_at_ms` (0 = never).
    pub(crate) fn set_expiry(&mut self, entry: &Entry, expires_at_ms: u64) -> Result<()> {
        let Some(mut value) = entry.value()? else { return Ok(()) };
        self.forget_expiry(&entry.key, &value);
        match &mut value {
            Value::String { expires_at_ms: at, .. } => *at = expires_at_ms,
            collection => {
                if let Some(collection) = collection.collection_mut() {
                    collection.expires_at_ms = expires_at_ms;
                }
            }
        }
        self.note_expiry(&entry.key, &value);
        self.put_value(&entry.key, &value);
        Ok(())
    }

    /// Tells `expiry` when a collection expires, if it does.
    pub(super) fn note_expiry(&mut self, key: &Key, value: &Value<'_>) {
        if let Some((record, meaning)) = expiry_record(key, value) {
            self.put(self.keyspaces().expiry, &record, &meaning);
        }
    }

    /// The catalog learns that a collection may stand at `key`, unless it knows.
    pub(super) fn expect_collection(&mut self, key: &Key) {
        let bucket = key.bucket();
        // A database that was flushed meanwhile needs no map: no command writes to it any more.
        let database = self.database_with_id(key.database);
        if database.is_some_and(|database| database.collections.expect(bucket)) {
            self.put_catalog(&CatalogRecord::Bucket { database: key.database, bucket });
            self.buckets.push((key.database, bucket));
        }
    }
}

/// The record of `expiry` for a collection that expires.
fn expiry_record(key: &Key, value: &Value<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let collection = value.collection().filter(|collection| collection.expires_at_ms != 0)?;
    let user = UserKey::of(key.database, key.user())?;
    let expiry =
        Expiry { expires_at_ms: collection.expires_at_ms, key: user, generation: collection.generation };
    let (mut record, mut meaning) = (Vec::new(), Vec::new());
    expiry.encode_key(&mut record);
    expiry.encode_value(&mut meaning);
    Some((record, meaning))
}

/// Name of a type as `TYPE` answers it.
pub(crate) fn type_name(tag: Tag) -> &'static str {
    match tag {
        Tag::String | Tag::ExpiringString | Tag::LongString => "string",
        Tag::Hash => "hash",
        Tag::List => "list",
        Tag::Set => "set",
        Tag::SortedSet => "zset",
    }
}
