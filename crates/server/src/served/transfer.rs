//! What a server has written, as it goes to a database of another engine.
//!
//! An engine that keeps no order takes strings alone. What was deleted, and was not removed yet, is
//! left behind then: its parts can only be found by their order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use firn::{EngineKind, PointDb, StoredRecord};
use firn_engine::Result;
use firn_format::datatype::{self, Expiry, FieldKey, Tag, UserKey};

use super::{Kind, Served, decode_value};
use crate::store::Keyspaces;

/// Collections that an engine without order cannot take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// How many there are of each kind.
    counts: Vec<(Kind, u64)>,
    /// The key and database of one.
    first: (Vec<u8>, u32),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, count)) in self.counts.iter().enumerate() {
            let between = if index == 0 { "" } else { ", " };
            write!(f, "{between}{count} of type {kind}")?;
        }
        let (key, database) = &self.first;
        write!(f, " (the first at key \"{}\" of database {database})", key.escape_ascii())
    }
}

/// Which records go to the other database.
#[derive(Debug)]
pub struct Transfer {
    /// Generations of the long strings whose parts go; `None` = all records do.
    long_strings: Option<BTreeSet<u64>>,
    /// Databases that no client can select are left behind then.
    databases: BTreeSet<u32>,
}

impl Served {
    /// Makes a server's keyspaces in `to`, a new database, as its engine needs them.
    ///
    /// # Errors
    /// What the engine says.
    pub fn prepare(to: &PointDb) -> Result<()> {
        Keyspaces::of(to).map(drop)
    }

    /// What goes to a database of the engine `to`, or what it cannot take. Live at `now_ms`. Reads
    /// all keys where `to` keeps no order.
    ///
    /// # Errors
    /// What the engine says; `Corrupt` if a record is none that a server writes.
    pub fn transfer(&self, to: EngineKind, now_ms: u64) -> Result<std::result::Result<Transfer, Unfit>> {
        let databases = (0..Self::DATABASES).map(|index| self.databases.get(index).id.number()).collect();
        if to == EngineKind::Tree {
            return Ok(Ok(Transfer { long_strings: None, databases }));
        }
        let (mut long_strings, mut counts, mut first) = (BTreeSet::new(), BTreeMap::new(), None);
        for key in self.keys(None, now_ms)? {
            let key = key?;
            let value = key.value();
            match value.tag() {
                Tag::String | Tag::ExpiringString => {}
                Tag::LongString => {
                    long_strings.extend(value.collection().map(|collection| collection.generation.0));
                }
                Tag::Hash | Tag::List | Tag::Set | Tag::SortedSet => {
                    counts.entry(key.kind().name()).or_insert((key.kind(), 0)).1 += 1;
                    first.get_or_insert((key.key().to_vec(), key.database()));
                }
            }
        }
        Ok(match first {
            Some(first) => Err(Unfit { counts: counts.into_values().collect(), first }),
            None => Ok(Transfer { long_strings: Some(long_strings), databases }),
        })
    }
}

impl Transfer {
    /// Whether a record of the keyspace `name` goes to the other database.
    pub fn takes(&self, name: &str, record: &StoredRecord) -> bool {
        let Some(long_strings) = &self.long_strings else { return true };
        match name {
            datatype::KEYS => {
                let is_there = UserKey::decode(&record.key)
                    .is_ok_and(|key| self.databases.contains(&key.database().number()));
                let value = decode_value(&record.value);
                is_there
                    && value.is_ok_and(|value| {
                        value.collection().is_none_or(|it| long_strings.contains(&it.generation.0))
                    })
            }
            datatype::FIELDS => FieldKey::decode(&record.key)
                .is_ok_and(|part| long_strings.contains(&part.collection.generation.0)),
            datatype::EXPIRY => Expiry::decode(&record.key, &record.value)
                .is_ok_and(|expiry| long_strings.contains(&expiry.generation.0)),
            // What they say of has no parts there.
            datatype::PURGES => false,
            _ => true,
        }
    }
}
