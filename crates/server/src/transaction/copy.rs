//! What stands at one key, put at another.

use firn_engine::ScanRange;
use firn_format::datatype::Value;

use super::{Entry, Transaction};
use crate::failure::Result;

impl Transaction {
    /// Lets what stands at `from` stand at `to` instead, where it replaces what there was.
    ///
    /// Within a slot of a database that is one record, however many parts there are; else the parts
    /// are copied.
    pub(crate) async fn rename(&mut self, from: &Entry, to: &Entry) -> Result<()> {
        let Some(value) = from.value()? else { return Ok(()) };
        let parts_stay = from.key.database == to.key.database && from.key.slot == to.key.slot;
        if value.collection().is_some() && !parts_stay {
            self.copy(from, to).await?;
            return self.remove(from).await;
        }
        self.discard(to)?;
        self.forget_expiry(&from.key, &value);
        self.delete(self.keyspaces().keys, from.key.bytes());
        self.touch(&from.key);
        if value.collection().is_some() {
            self.expect_collection(&to.key);
        }
        self.note_expiry(&to.key, &value);
        self.put_value(&to.key, &value);
        Ok(())
    }

    /// Lets a copy of what stands at `from` stand at `to`, where it replaces what there was. It
    /// expires when the original does.
    pub(crate) async fn copy(&mut self, from: &Entry, to: &Entry) -> Result<()> {
        let Some(value) = from.value()? else { return Ok(()) };
        if let Value::String { bytes, expires_at_ms } = value {
            return self.put_string_record(to, bytes, expires_at_ms);
        }
        let Some(original) = from.collection(value.tag())? else { return Ok(()) };
        let mut copy = self.create(to, value.tag()).await?;
        if !self.thread.engine.is_ordered() {
            self.copy_fragments(&original, &copy).await?;
            copy.set_count(original.count());
            self.set_collection_expiry(&mut copy, original.expires_at_ms());
            self.save(&mut copy);
            return Ok(());
        }
        let keyspace = self.keyspaces().fields;
        let (mut start, mut end) = (Vec::new(), Vec::new());
        original.id().range(&mut start, &mut end);
        let mut cursor = self.scan(keyspace, ScanRange::between(&start, &end))?;
        while let Some((key, part)) = cursor.next().await? {
            let key = copy.field_key(original.field_of(key)?);
            self.put(keyspace, &key, part);
        }
        copy.set_count(original.count());
        copy.set_ends(original.ends(), original.count());
        self.set_collection_expiry(&mut copy, original.expires_at_ms());
        self.save(&mut copy);
        Ok(())
    }
}
