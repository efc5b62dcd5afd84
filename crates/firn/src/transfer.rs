//! All that a database holds, written to another one, whichever engine each has.

use firn_engine::{Batch, KeyspaceSettings, Result};
use firn_format::key::key_hash;

use crate::{PointDb, StoredRecord};

/// Bytes of keys and values that are written together; more only of one record.
const BATCH_BYTES: usize = 64 << 10;

/// How many records there are, and what they hold, whatever order they are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTotals {
    /// Records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// The sum of a hash of each: of keyspace, key, value and expiry.
    pub sum: u64,
}

impl RecordTotals {
    /// Counts a record of the keyspace `name`.
    pub fn add(&mut self, name: &str, record: &StoredRecord) {
        self.records += 1;
        self.bytes += (record.key.len() + record.value.len()) as u64;
        let parts = [key_hash(name.as_bytes()), key_hash(&record.key), key_hash(&record.value)];
        let mix = |mixed: u64, part: u64| (mixed.rotate_left(23) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = self.sum.wrapping_add(parts.into_iter().fold(record.expires_at_ms, mix));
    }
}

impl PointDb {
    /// Writes all keyspaces of this database, with their settings, and all their records, with when
    /// they expire, to `to`, whichever engine each of both has. Counts what was written.
    ///
    /// - Each keyspace is read as of one moment, one after another: let nothing write meanwhile.
    /// - Merge operands are put into the values that they belong to; those do not expire any more.
    /// - `keep` sees each record and the name of its keyspace, and says whether it is written.
    /// - A keyspace that `to` has already must fit, and keeps what it holds.
    /// - A value at a time, and a batch of short ones, is in memory. On return everything is
    ///   durable at `Disk`.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let memory = || std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// use firn::{EngineKind, PointDb};
    ///
    /// let tree = PointDb::builder("cities")
    /// #   .storage(memory())
    ///     .open_points()?;
    /// tree.put("oslo", "709037")?;
    /// let hash = PointDb::builder("cities-by-hash")
    /// #   .storage(memory())
    ///     .engine(EngineKind::Hash)
    ///     .open_points()?;
    /// let written = tree.transfer_to(&hash, &mut |_, _| true)?;
    /// assert_eq!(hash.record_totals(&mut |_, _| {})?, written);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading and of writing; `Conflict` for a keyspace that does not fit. A part is
    /// written then.
    pub fn transfer_to(
        &self,
        to: &PointDb,
        keep: &mut dyn FnMut(&str, &StoredRecord) -> bool,
    ) -> Result<RecordTotals> {
        let mut totals = RecordTotals::default();
        for (name, id) in self.keyspaces() {
            let settings = self.keyspace_settings(id)?;
            let separate_bytes = settings.separate_bytes;
            let there = to.engine().keyspace(&name).map(|id| to.keyspace_settings(id)).transpose()?;
            let settings = match there {
                // Where keys lie in it is its own.
                Some(KeyspaceSettings { in_one_slot, has_slot_in_key, .. }) => {
                    KeyspaceSettings { in_one_slot, has_slot_in_key, ..settings }
                }
                None => settings,
            };
            let into = to.create_keyspace(&name, settings)?;
            if to.keyspace_settings(into)?.separate_bytes != separate_bytes {
                to.set_separate_bytes(into, separate_bytes)?;
            }
            let mut batch = Batch::new();
            let mut bytes = 0;
            for record in self.in_keyspace(id).all_records()? {
                let record = record?;
                if keep(&name, &record) {
                    totals.add(&name, &record);
                    bytes += record.key.len() + record.value.len();
                    batch.put_until(into, &record.key, &record.value, record.expires_at_ms);
                }
                if bytes >= BATCH_BYTES {
                    to.write(&batch)?;
                    batch.clear();
                    bytes = 0;
                }
            }
            if !batch.is_empty() {
                to.write(&batch)?;
            }
        }
        to.sync()?;
        Ok(totals)
    }

    /// Counts all records of all keyspaces; `each` sees them and the names of their keyspaces.
    /// Reads everything; as of one moment in each keyspace.
    ///
    /// # Errors
    /// Those of reading.
    pub fn record_totals(&self, each: &mut dyn FnMut(&str, &StoredRecord)) -> Result<RecordTotals> {
        let mut totals = RecordTotals::default();
        for (name, id) in self.keyspaces() {
            for record in self.in_keyspace(id).all_records()? {
                let record = record?;
                totals.add(&name, &record);
                each(&name, &record);
            }
        }
        Ok(totals)
    }
}
