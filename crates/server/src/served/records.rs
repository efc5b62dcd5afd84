//! Records of a keyspace that lie in a range of keys, whichever engine keeps it.

use firn::{AllRecords, EngineKind, PointKeyspace, Record, Scan, ScanRange};
use firn_engine::Result;

/// Records of a range: in order where the engine keeps one, else by the hashes of their keys.
pub(super) enum Records {
    Ordered(Box<Scan>),
    /// All of the keyspace, of which those in the range are taken.
    Hashed(Box<AllRecords>, Vec<u8>, Vec<u8>),
}

impl Records {
    /// Those of `keyspace` from `start` on and before `end`; where that is empty, to the last one.
    /// Without order this reads all of the keyspace.
    ///
    /// # Errors
    /// What the engine says.
    pub(super) fn of(keyspace: &PointKeyspace, start: &[u8], end: &[u8]) -> Result<Self> {
        if let Some(db) = keyspace.database().ordered() {
            let end = (!end.is_empty()).then(|| end.to_vec());
            let range = ScanRange { start: start.to_vec(), end, ..ScanRange::default() };
            let records = db.in_keyspace(keyspace.id()).range(range)?;
            return Ok(Self::Ordered(Box::new(records)));
        }
        Ok(Self::Hashed(Box::new(keyspace.all_records()?), start.to_vec(), end.to_vec()))
    }
}

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Ordered(records) => records.next(),
            Self::Hashed(records, start, end) => {
                let is_inside = |key: &Vec<u8>| *key >= *start && (end.is_empty() || *key < *end);
                let is_wanted = |record: &Result<firn::StoredRecord>| {
                    record.as_ref().map_or(true, |it| is_inside(&it.key))
                };
                let found = records.find(is_wanted)?;
                Some(found.map(|record| (record.key, record.value)))
            }
        }
    }
}

/// Whether records of `keyspace` come in the order of their keys.
pub(super) fn is_ordered(keyspace: &PointKeyspace) -> bool {
    keyspace.database().engine_kind() == EngineKind::Tree
}
