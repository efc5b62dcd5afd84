//! Deleting what was deleted, on an engine without order: by name where names are known, else by a
//! walk over all keys.

use firn_engine::{Batch, HashCursor, KeyspaceId, ScanRange};
use firn_format::datatype::value::FRAGMENT_BYTES;
use firn_format::datatype::{DatabaseId, Field, Purge, Tag, range};

use super::Duty;
use crate::failure::Result;
use crate::transaction::Transaction;

/// Keys that are deleted together, and looked at between two turns of others.
const AT_ONCE: usize = 512;

impl Duty {
    /// Does the purge of what had parts; how many were deleted. Where nothing has order, that is a
    /// long string, whose fragments are known by its length.
    pub(super) async fn purge_parts_by_name(&self, purge: &Purge, record: &[u8]) -> Result<usize> {
        let keyspaces = self.thread.shared.store.keyspaces;
        let mut deleted = 0;
        let mut batch = Batch::new();
        if let Purge::Collection { collection, tag: Tag::LongString, count } = purge {
            let mut front = Vec::new();
            collection.encode(&mut front);
            for index in 0..count.div_ceil(u64::from(FRAGMENT_BYTES)) {
                let mut key = front.clone();
                Field::Fragment(index as u32).encode(&mut key);
                batch.delete(keyspaces.fields, &key);
                deleted += 1;
                if batch.len() == AT_ONCE {
                    self.thread.write(&batch).await?;
                    batch.clear();
                    self.thread.pause().await;
                }
            }
        }
        batch.delete(keyspaces.purges, record);
        self.thread.write(&batch).await?;
        Ok(deleted)
    }

    /// Deletes all of a flushed database, and its purge if `is_last`.
    pub(super) async fn delete_database_by_hash(&self, id: DatabaseId, is_last: bool) -> Result<()> {
        let keyspaces = self.thread.shared.store.keyspaces;
        let (mut start, mut end, mut record) = (Vec::new(), Vec::new(), Vec::new());
        let purge = Purge::Database(id);
        purge.range(&mut start, &mut end);
        purge.encode_key(&mut record);
        self.delete_by_hash(keyspaces.keys, &start, &end).await?;
        self.delete_by_hash(keyspaces.fields, &start, &end).await?;
        // The purge of the whole is the first of its range, and stays until all is done.
        let after = [&record[..], &[0]].concat();
        self.delete_by_hash(keyspaces.purges, &after, &end).await?;
        start.clear();
        end.clear();
        range::buckets(id, None, &mut start, &mut end);
        self.delete_by_hash(keyspaces.catalog, &start, &end).await?;
        if is_last {
            let mut batch = Batch::new();
            batch.delete(keyspaces.purges, &record);
            self.thread.write(&batch).await?;
        }
        Ok(())
    }

    /// Deletes the keys of a range. Others have their turns meanwhile.
    async fn delete_by_hash(&self, keyspace: KeyspaceId, start: &[u8], end: &[u8]) -> Result<()> {
        let mut next = Some(HashCursor::START);
        while let Some(from) = next {
            let mut transaction = Transaction::reading(&self.thread);
            let walk = transaction.range_by_hash(keyspace, ScanRange::between(start, end), from);
            let mut walk = walk.in_batches(AT_ONCE, 1);
            let mut batch = Batch::new();
            while let Some((key, _)) = walk.next().await? {
                batch.delete(keyspace, key);
            }
            next = walk.place();
            self.thread.write(&batch).await?;
            self.thread.pause().await;
        }
        Ok(())
    }
}
