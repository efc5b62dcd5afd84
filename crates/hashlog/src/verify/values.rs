//! Values that lie alone: those of the newest records are there and what was written.

use std::collections::{BTreeMap, HashMap};

use firn_engine::Severity;
use firn_format::checksum::Hasher;
use firn_format::file_name::{FileName, value};
use firn_format::hybrid::redo::RedoChange;
use firn_format::hybrid::{COLD_MIN, Shape};

use super::Verifier;
use crate::values::REFERENCE_BYTES;

/// A keyspace and a key in it.
pub(super) type Key = (u32, Vec<u8>);

/// Bytes of a value that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Which of two records of a key is newer: where it is (0 = the cold log, 1 = the log, then redo
/// logs by generation), its address, its count of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64, u64, u32);

impl Stamp {
    pub(super) fn of_record(address: u64) -> Self {
        Self(u64::from(address < COLD_MIN), address, 0)
    }

    pub(super) fn of_change(generation: u64, change: &RedoChange<'_>) -> Self {
        Self(generation + 1, change.address, change.sequence)
    }
}

/// Keys that have, or had, a value that lies alone.
#[derive(Default)]
pub(super) struct References(HashMap<Key, Found>);

/// What is known of one key.
#[derive(Default)]
struct Found {
    /// Of the newest record that does not depend on those before it.
    newest: Stamp,
    /// Where the values of its records lie.
    references: Vec<(Stamp, Reference, bool)>,
}

/// Number, bytes and checksum of a value.
type Reference = [u64; 3];

/// Bytes and checksum of a value, and whether it was there before the machine started again: loss
/// of power may take it, with its record in the redo log.
type Expected = (u64, u64, bool);

impl References {
    /// A record of `key`; all of a key come in their order, or their key was noted before.
    pub(super) fn add_record(&mut self, key: &Key, shape: Shape, value: &[u8], stamp: Stamp) {
        self.add(key, shape, value, (stamp, true));
    }

    fn add(&mut self, key: &Key, shape: Shape, value: &[u8], (stamp, is_sure): (Stamp, bool)) {
        if shape.is_reference {
            self.0.entry(key.clone()).or_default();
        }
        let Some(found) = self.0.get_mut(key) else { return };
        if !shape.is_operand {
            found.newest = found.newest.max(stamp);
        }
        if let (true, Some(reference)) = (shape.is_reference, reference(value)) {
            found.references.push((stamp, reference, is_sure));
        }
    }

    /// Notes the key of `change` if its value lies alone.
    pub(super) fn note_key(&mut self, change: &RedoChange<'_>) {
        if change.shape.is_reference {
            self.0.entry((change.keyspace, change.key.to_vec())).or_default();
        }
    }

    /// A change of a key; `is_sure` if what it needs cannot have been lost with power.
    pub(super) fn add_change(&mut self, change: &RedoChange<'_>, stamp: Stamp, is_sure: bool) {
        if !self.0.is_empty() {
            let key = (change.keyspace, change.key.to_vec());
            self.add(&key, change.shape, change.value, (stamp, is_sure));
        }
    }

    /// Each value that a key still has, by number.
    fn live(&self) -> BTreeMap<u64, Expected> {
        let of_key = |found: &Found| {
            let newest = found.newest;
            let live = found.references.iter().filter(move |(stamp, ..)| *stamp >= newest);
            let expected = |(_, [number, bytes, checksum], is_sure): &(Stamp, Reference, bool)| {
                (*number, (*bytes, *checksum, *is_sure))
            };
            live.map(expected).collect::<Vec<_>>()
        };
        self.0.values().flat_map(of_key).collect()
    }
}

fn reference(value: &[u8]) -> Option<Reference> {
    let (words, _) = value.get(..REFERENCE_BYTES)?.as_chunks::<8>();
    let words: &[[u8; 8]; 3] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

impl Verifier<'_> {
    /// Checks the values of the newest records, and names those that no record leads to.
    pub(super) fn check_values(&mut self, references: &References) {
        let live = references.live();
        for (name, number) in self.named(|name| match name {
            FileName::Value(number) => Some(number),
            _ => None,
        }) {
            if !live.contains_key(&number) {
                self.leftover(&name, None, "no newest record leads to this value");
                self.advance(&name);
            }
        }
        for (number, expected) in live {
            let name = value(number);
            self.report.totals.values += 1;
            self.check_value(&name, expected);
            self.advance(&name);
        }
    }

    fn check_value(&mut self, name: &str, (bytes, checksum, is_sure): Expected) {
        let severity = if is_sure { Severity::Damage } else { Severity::Leftover };
        let found = match self.files.get(name) {
            None => "no file".to_owned(),
            Some(found) if *found < bytes => format!("{found} bytes"),
            Some(_) => match self.sum(name, bytes) {
                Ok(found) if found == checksum => return,
                Ok(found) => format!("{found:016x}"),
                Err(error) => return self.refused(name, &error),
            },
        };
        let message =
            format!("expected a value of {bytes} bytes with checksum {checksum:016x}, found {found}");
        self.report.note(severity, name, None, message);
    }

    /// The checksum of the first `bytes` of a value.
    fn sum(&self, name: &str, bytes: u64) -> firn_storage::Result<u64> {
        let file = self.storage.open_read(name)?;
        let (mut hasher, mut at, mut piece) = (Hasher::new(), 0, Vec::new());
        while at < bytes {
            piece.resize(PIECE_BYTES.min(bytes - at) as usize, 0);
            file.read_at(at, &mut piece)?;
            hasher.update(&piece);
            at += piece.len() as u64;
        }
        Ok(hasher.finish())
    }
}
