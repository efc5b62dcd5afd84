//! A collection that a command works on.

use firn_engine::ScanRange;
use firn_format::datatype::value::{FRAGMENT_BYTES, LIST_MIDDLE};
use firn_format::datatype::{Collection as Description, CollectionId, Field, FieldKind, Tag, Value};

use std::rc::Rc;

use super::entry::collection_id;
use super::{Cursor, Entry, Key, Transaction};
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;

/// A collection's description, changed as the command goes on, and written by
/// [`Transaction::save`].
///
/// Owned by the command. Fields are written one by one and are not counted here: code that adds or
/// removes one says so in [`count`](Self::count_mut).
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    pub(crate) key: Key,
    /// Never a string.
    value: Value<'static>,
    id: CollectionId,
    /// The front of its fields' keys.
    prefix: Vec<u8>,
    /// What its record says; `None` if it has none yet.
    saved: Option<Value<'static>>,
}

impl Collection {
    fn new(key: Key, value: Value<'static>, is_saved: bool) -> Result<Self> {
        let id = collection_id(&key, &value).ok_or(Failure::WRONG_TYPE)?;
        let mut prefix = Vec::new();
        id.encode(&mut prefix);
        Ok(Self { key, value, id, prefix, saved: is_saved.then_some(value) })
    }

    fn description(&self) -> Description {
        // `new` lets no string in.
        self.value.collection().copied().unwrap_or(Description {
            generation: self.id.generation,
            count: 0,
            expires_at_ms: 0,
        })
    }

    /// How many elements it has; of a long string, bytes.
    pub(crate) fn count(&self) -> u64 {
        self.description().count
    }

    /// Sets how many elements it has.
    pub(crate) fn set_count(&mut self, count: u64) {
        if let Some(description) = self.value.collection_mut() {
            description.count = count;
        }
    }

    /// Counts an element that was added.
    pub(crate) fn add_one(&mut self) {
        self.set_count(self.count() + 1);
    }

    /// Counts an element that was removed.
    pub(crate) fn remove_one(&mut self) {
        self.set_count(self.count().saturating_sub(1));
    }

    /// Index of a list's first element, and the index after its last.
    pub(crate) fn ends(&self) -> (u64, u64) {
        match self.value {
            Value::List { head, tail, .. } => (head, tail),
            _ => (LIST_MIDDLE, LIST_MIDDLE),
        }
    }

    /// Sets both ends of a list, and how many elements it has, which may be fewer than lie between
    /// them.
    pub(crate) fn set_ends(&mut self, ends: (u64, u64), elements: u64) {
        if let Value::List { collection, head, tail } = &mut self.value {
            (*head, *tail) = ends;
            collection.count = elements;
        }
    }

    /// When it expires, in milliseconds since the Unix epoch; 0 = never.
    pub(crate) fn expires_at_ms(&self) -> u64 {
        self.description().expires_at_ms
    }

    /// Bytes of each fragment of a long string.
    pub(super) fn fragment_bytes(&self) -> usize {
        match self.value {
            Value::LongString { fragment_bytes, .. } => fragment_bytes as usize,
            _ => FRAGMENT_BYTES as usize,
        }
    }

    /// Which one it is.
    pub(crate) fn id(&self) -> CollectionId {
        self.id
    }

    /// The engine's key of a field.
    pub(crate) fn field_key(&self, field: Field<'_>) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + field.member().len() + 16);
        key.extend_from_slice(&self.prefix);
        field.encode(&mut key);
        key
    }

    /// The field that an engine's key of this collection names.
    pub(crate) fn field_of<'k>(&self, key: &'k [u8]) -> Result<Field<'k>> {
        let rest = key.get(self.prefix.len()..).unwrap_or_default();
        Field::decode(rest)
            .map_err(|error| Failure::of(format!("ERR a part of a collection is damaged: {error}")))
    }
}

/// A value of a collection that owns nothing.
fn unborrowed(value: &Value<'_>) -> Option<Value<'static>> {
    match *value {
        Value::String { .. } => None,
        Value::LongString { collection, fragment_bytes } => {
            Some(Value::LongString { collection, fragment_bytes })
        }
        Value::Hash(collection) => Some(Value::Hash(collection)),
        Value::List { collection, head, tail } => Some(Value::List { collection, head, tail }),
        Value::Set(collection) => Some(Value::Set(collection)),
        Value::SortedSet(collection) => Some(Value::SortedSet(collection)),
    }
}

impl Transaction {
    /// The collection at `key`; `None` if the key does not exist.
    ///
    /// # Errors
    /// `WRONGTYPE` if something else stands there.
    pub(crate) async fn collection(&mut self, key: Key, tag: Tag) -> Result<Option<Collection>> {
        let entry = self.entry(key).await?;
        entry.collection(tag)
    }

    /// The collection at `key`, or a new one, which is nothing until it is [saved](Self::save) with
    /// an element.
    ///
    /// # Errors
    /// `WRONGTYPE` if something else stands there.
    pub(crate) async fn collection_or_new(&mut self, key: Key, tag: Tag) -> Result<Collection> {
        let entry = self.entry(key).await?;
        match entry.collection(tag)? {
            Some(collection) => Ok(collection),
            None => self.create(&entry, tag).await,
        }
    }

    /// A new, empty collection in place of what stands at the entry's key, which is discarded at
    /// once.
    pub(crate) async fn create(&mut self, entry: &Entry, tag: Tag) -> Result<Collection> {
        let collection = Description { generation: self.generation().await?, count: 0, expires_at_ms: 0 };
        let value = match tag {
            Tag::Hash => Value::Hash(collection),
            Tag::Set => Value::Set(collection),
            Tag::SortedSet => Value::SortedSet(collection),
            Tag::List => Value::List { collection, head: LIST_MIDDLE, tail: LIST_MIDDLE },
            Tag::String | Tag::ExpiringString | Tag::LongString => {
                Value::LongString { collection, fragment_bytes: FRAGMENT_BYTES }
            }
        };
        let is_stored = entry.stored()?.is_some();
        self.discard(entry)?;
        if is_stored {
            // If the new one stays empty, nothing is to stand there.
            self.delete(self.keyspaces().keys, entry.key.bytes());
        }
        self.expect_collection(&entry.key);
        Collection::new(entry.key.clone(), value, false)
    }

    /// Writes what the collection's description has become: one without elements is removed.
    pub(crate) fn save(&mut self, collection: &mut Collection) {
        self.touch(&collection.key);
        if collection.count() == 0 {
            if let Some(saved) = collection.saved.take() {
                self.forget_expiry(&collection.key, &saved);
                self.delete(self.keyspaces().keys, collection.key.bytes());
            }
            return;
        }
        if collection.saved != Some(collection.value) {
            self.put_value(&collection.key, &collection.value);
            collection.saved = Some(collection.value);
        }
    }

    /// Lets the collection expire at `expires_at_ms` (0 = never), once it is saved.
    pub(crate) fn set_collection_expiry(&mut self, collection: &mut Collection, expires_at_ms: u64) {
        if expires_at_ms == collection.expires_at_ms() {
            return;
        }
        self.forget_expiry(&collection.key, &collection.value);
        if let Some(description) = collection.value.collection_mut() {
            description.expires_at_ms = expires_at_ms;
        }
        self.note_expiry(&collection.key, &collection.value);
    }

    /// The value of a field.
    pub(crate) async fn field(
        &mut self,
        collection: &Collection,
        field: Field<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let key = collection.field_key(field);
        self.get(self.keyspaces().fields, &key).await
    }

    /// The values of the first of several fields, one at least: as many as are read together.
    pub(crate) async fn some_field_values(
        &mut self,
        collection: &Collection,
        fields: impl Iterator<Item = Field<'_>>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = fields.map(|field| collection.field_key(field)).collect();
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.some_values(self.keyspaces().fields, &wanted).await
    }

    /// Which of several fields there are. Others have their turns meanwhile.
    pub(crate) async fn has_fields(
        &mut self,
        collection: &Collection,
        fields: impl Iterator<Item = Field<'_>>,
    ) -> Result<Vec<bool>> {
        let thread = Rc::clone(&self.thread);
        let mut turns = Turns::new(&thread);
        let keys: Vec<Vec<u8>> = fields.map(|field| collection.field_key(field)).collect();
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut are_there = Vec::with_capacity(keys.len());
        while let Some(rest) = wanted.get(are_there.len()..).filter(|rest| !rest.is_empty()) {
            for value in self.some_values(self.keyspaces().fields, rest).await? {
                turns.step(value.as_ref().map_or(0, Vec::len)).await;
                are_there.push(value.is_some());
            }
        }
        Ok(are_there)
    }

    /// Writes a field.
    pub(crate) fn put_field(&mut self, collection: &Collection, field: Field<'_>, value: &[u8]) {
        let key = collection.field_key(field);
        self.put(self.keyspaces().fields, &key, value);
    }

    /// Removes a field.
    pub(crate) fn delete_field(&mut self, collection: &Collection, field: Field<'_>) {
        let key = collection.field_key(field);
        self.delete(self.keyspaces().fields, &key);
    }

    /// A walk over all fields of one kind.
    pub(crate) fn fields(&mut self, collection: &Collection, kind: FieldKind) -> Result<Cursor> {
        let (mut start, mut end) = (Vec::new(), Vec::new());
        collection.id.kind_range(kind, &mut start, &mut end);
        self.scan(self.keyspaces().fields, ScanRange::between(&start, &end))
    }

    /// A walk over the fields of one kind, which lies in the order of hashes, from a hash on.
    pub(crate) fn fields_from_hash(
        &mut self,
        collection: &Collection,
        kind: FieldKind,
        hash: u32,
    ) -> Result<Cursor> {
        let (mut start, mut end) = (Vec::new(), Vec::new());
        collection.id.hash_range(kind, hash, &mut start, &mut end);
        self.scan(self.keyspaces().fields, ScanRange::between(&start, &end))
    }
}

impl Entry {
    /// The collection that stands here; `None` if the key does not exist, `WRONGTYPE` if it is
    /// something else.
    pub(crate) fn collection(&self, tag: Tag) -> Result<Option<Collection>> {
        let Some(value) = self.value()? else { return Ok(None) };
        let value = unborrowed(&value).filter(|value| value.tag() == tag).ok_or(Failure::WRONG_TYPE)?;
        Collection::new(self.key.clone(), value, true).map(Some)
    }
}
