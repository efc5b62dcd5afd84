//! Whether every record of a served database is one that a server writes, and whether those of one
//! collection fit together.
//!
//! Where the engine keeps keys in order, keys and parts lie slot by slot in both keyspaces, so one
//! pass over each is enough: the keys of a slot are remembered while its parts are read. Without
//! order all keys that have parts are, which are long strings.

mod owner;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter::Peekable;

use firn::PointKeyspace;
use firn_engine::Result;
use firn_format::datatype::key::SLOT_PREFIX_BYTES;
use firn_format::datatype::{
    self, Bucket, CatalogRecord, CollectionId, DatabaseId, Expiry, FieldKey, Purge, UserKey, Value,
};

use super::key::generation_of;
use super::records::{Records, is_ordered};
use super::{Served, decode_value};
use owner::Owner;

/// What is wrong with one record, or with what stands at one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which one, as people know it.
    place: String,
    why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedTotals {
    /// Keys of clients, those that have expired and are not removed yet included.
    pub keys: u64,
    /// Parts of collections, those that are deleted and not removed yet included.
    pub parts: u64,
}

impl Served {
    /// Reads every record of the server's keyspaces, and tells `found` of each that no server
    /// writes and of each key whose records do not fit together.
    ///
    /// Costs a scan of all of them, and a read for each collection that expires. Remembers the
    /// collections of one slot at a time, and where keys have no order all long strings.
    ///
    /// # Errors
    /// What the engine says.
    pub fn verify(&self, found: &mut dyn FnMut(Finding)) -> Result<ServedTotals> {
        let mut check =
            Check { served: self, found, flushed: BTreeSet::new(), totals: ServedTotals::default() };
        check.records(&self.catalog, datatype::CATALOG, |key, value| {
            CatalogRecord::decode(key, value).map(drop)
        })?;
        let mut flushed = BTreeSet::new();
        check.records(&self.purges, datatype::PURGES, |key, value| {
            if let Purge::Database(database) = Purge::decode(key, value)? {
                flushed.insert(database);
            }
            Ok(())
        })?;
        check.flushed = flushed;
        check.records(&self.expiry, datatype::EXPIRY, |key, value| Expiry::decode(key, value).map(drop))?;
        check.slots()?;
        Ok(check.totals)
    }
}

struct Check<'c> {
    served: &'c Served,
    found: &'c mut dyn FnMut(Finding),
    /// Databases that are gone, and whose records go.
    flushed: BTreeSet<DatabaseId>,
    totals: ServedTotals,
}

/// Key and value of a record.
type Record = (Vec<u8>, Vec<u8>);

impl Check<'_> {
    fn find(&mut self, place: String, why: impl Into<String>) {
        (self.found)(Finding { place, why: why.into() });
    }

    /// Has `decode` look at each record of `keyspace`, which is called `name`.
    fn records(
        &mut self,
        keyspace: &PointKeyspace,
        name: &str,
        mut decode: impl FnMut(&[u8], &[u8]) -> firn_format::Result<()>,
    ) -> Result<()> {
        for record in Records::of(keyspace, &[], &[])? {
            let (key, value) = record?;
            if let Err(error) = decode(&key, &value) {
                self.find(record_name(name, &key), NOT_SERVED.to_owned() + &error.to_string());
            }
        }
        Ok(())
    }

    /// Looks at keys and parts of one slot after the other.
    fn slots(&mut self) -> Result<()> {
        let front = if is_ordered(&self.served.keys) { front } else { whole };
        let mut keys = Records::of(&self.served.keys, &[], &[])?.peekable();
        let mut fields = Records::of(&self.served.fields, &[], &[])?.peekable();
        loop {
            let slot = match (slot_of(&mut keys, front)?, slot_of(&mut fields, front)?) {
                (None, None) => return Ok(()),
                (Some(slot), None) | (None, Some(slot)) => slot,
                (Some(one), Some(other)) => one.min(other),
            };
            let mut owners = BTreeMap::new();
            while let Some((key, value)) = next_of(&mut keys, front, &slot)? {
                self.totals.keys += 1;
                if let Some(owner) = self.key(&key, &value)?
                    && let Some(first) = owners.insert(owner.generation(), owner)
                    && let Some(second) = owners.get(&first.generation())
                {
                    let (place, other) = (self.place(&first), second.name());
                    self.find(place, format!("it has the parts of the key {other}"));
                }
            }
            let mut ownerless = BTreeMap::new();
            while let Some((key, value)) = next_of(&mut fields, front, &slot)? {
                self.totals.parts += 1;
                self.part(&key, &value, &mut owners, &mut ownerless)?;
            }
            for owner in owners.into_values() {
                if let Some(why) = owner.conclusion() {
                    let place = self.place(&owner);
                    self.find(place, why);
                }
            }
            for (collection, count) in ownerless {
                let database = self.served.name_of(collection.database);
                let place = format!("collection {} of {database}", collection.generation.0);
                self.find(place, format!("no key has it, and {count} of its parts are there"));
            }
        }
    }

    /// Looks at a record of `keys`; what it describes, if its parts are to be looked at.
    fn key(&mut self, record: &[u8], value: &[u8]) -> Result<Option<Owner>> {
        let key = match UserKey::decode(record) {
            Ok(key) => key,
            Err(error) => {
                self.find(record_name(datatype::KEYS, record), NOT_SERVED.to_owned() + &error.to_string());
                return Ok(None);
            }
        };
        if self.flushed.contains(&key.database()) {
            return Ok(None);
        }
        let place = key_name(self.served, &key);
        let value = match decode_value(value) {
            Ok(value) => value,
            Err(why) => {
                self.find(place, why);
                return Ok(None);
            }
        };
        let Some(database) = self.served.databases.with_id(key.database()) else {
            self.find(place, "no client can select its database");
            return Ok(None);
        };
        let Some(generation) = generation_of(&value) else { return Ok(None) };
        if generation.0 >= self.served.ceiling {
            self.find(place.clone(), format!("no collection was given the number {}", generation.0));
        }
        if !database.collections.is_possible(Bucket::of(&key)) {
            self.find(place.clone(), "the catalog does not say that a collection may be there");
        }
        if !self.expires_as_said(&key, &value)? {
            self.find(place, "it expires, and no record of `expiry` says so");
        }
        Ok(Owner::new(&key, &value))
    }

    fn expires_as_said(&self, key: &UserKey<'_>, value: &Value<'_>) -> Result<bool> {
        let (Some(generation), expires_at_ms @ 1..) = (generation_of(value), value.expires_at_ms()) else {
            return Ok(true);
        };
        let expiry = Expiry { expires_at_ms, key: *key, generation };
        let (mut record, mut expected) = (Vec::new(), Vec::new());
        expiry.encode_key(&mut record);
        expiry.encode_value(&mut expected);
        Ok(self.served.expiry.get(&record)?.is_some_and(|found| found == expected))
    }

    /// Looks at a record of `fields`, and counts it for its key or, without one, for its
    /// collection.
    fn part(
        &mut self,
        record: &[u8],
        value: &[u8],
        owners: &mut BTreeMap<u64, Owner>,
        ownerless: &mut BTreeMap<CollectionId, u64>,
    ) -> Result<()> {
        let part = match FieldKey::decode(record) {
            Ok(part) => part,
            Err(error) => {
                self.find(record_name(datatype::FIELDS, record), NOT_SERVED.to_owned() + &error.to_string());
                return Ok(());
            }
        };
        if self.flushed.contains(&part.collection.database) {
            return Ok(());
        }
        if let Some(owner) = owners.get_mut(&part.collection.generation.0) {
            owner.take(&part.field, value);
        } else if !self.is_purged(&part.collection)? {
            *ownerless.entry(part.collection).or_default() += 1;
        }
        Ok(())
    }

    fn is_purged(&self, collection: &CollectionId) -> Result<bool> {
        let mut record = Vec::new();
        collection.encode(&mut record);
        Ok(self.served.purges.get(&record)?.is_some())
    }

    fn place(&self, owner: &Owner) -> String {
        let database = self.served.name_of(owner.database());
        format!("{} {} of {database}", owner.kind(), owner.name())
    }
}

const NOT_SERVED: &str = "it is none that `firn serve` writes: ";

/// How people call a record of the keyspace `name`.
fn record_name(name: &str, key: &[u8]) -> String {
    format!("record \"{}\" of keyspace `{name}`", key.escape_ascii())
}

fn key_name(served: &Served, key: &UserKey<'_>) -> String {
    format!("key \"{}\" of {}", key.bytes().escape_ascii(), served.name_of(key.database()))
}

/// The front of the next record, which all records of its slot share.
fn slot_of(
    records: &mut Peekable<impl Iterator<Item = Result<Record>>>,
    front: Front,
) -> Result<Option<Vec<u8>>> {
    match records.next_if(Result::is_err) {
        Some(Err(error)) => Err(error),
        _ => Ok(records.peek().and_then(|record| record.as_ref().ok()).map(|(key, _)| front(key).to_vec())),
    }
}

/// The next record, if it belongs to `slot`.
fn next_of(
    records: &mut Peekable<impl Iterator<Item = Result<Record>>>,
    front: Front,
    slot: &[u8],
) -> Result<Option<Record>> {
    records.next_if(|record| record.as_ref().map_or(true, |(key, _)| front(key) == slot)).transpose()
}

/// What records that are looked at together have in common at their beginning.
type Front = fn(&[u8]) -> &[u8];

/// Nothing: all are looked at together.
fn whole(_: &[u8]) -> &[u8] {
    &[]
}

/// Database and slot; of a record that is too short, all of it.
fn front(key: &[u8]) -> &[u8] {
    key.get(..SLOT_PREFIX_BYTES).unwrap_or(key)
}
