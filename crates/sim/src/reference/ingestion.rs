//! Ingestion: a batch that is written when it is finished.

use std::sync::Arc;

use firn_engine::{
    Durability, Ingestion, KeyspaceId, OrderedBatch, OrderedOp, OrderedOpKind, Position, Result, RisingKeys,
    WriteOptions,
};

use super::{Fault, Shared};

const DISK: WriteOptions = WriteOptions { durability: Some(Durability::Disk), expires_at_ms: 0 };

pub(super) struct ReferenceIngestion {
    shared: Arc<Shared>,
    keyspace: KeyspaceId,
    keys: RisingKeys,
    batch: OrderedBatch,
}

impl ReferenceIngestion {
    pub(super) fn begin(shared: &Arc<Shared>, keyspace: KeyspaceId) -> Result<Self> {
        let state = shared.lock();
        state.check_open(shared)?;
        state.model.set_separate_bytes(keyspace)?;
        let (keys, batch) = Default::default();
        Ok(Self { shared: Arc::clone(shared), keyspace, keys, batch })
    }

    fn write(&self, batch: &OrderedBatch) -> Result<Position> {
        self.shared.write(&mut self.shared.lock(), batch, DISK)
    }
}

impl Ingestion for ReferenceIngestion {
    fn put(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        let op = OrderedOp { keyspace: self.keyspace, kind: OrderedOpKind::Put, key, value, expires_at_ms };
        let mut one = OrderedBatch::default();
        one.push(op);
        let state = self.shared.lock();
        state.check_open(&self.shared)?;
        state.model.check(&one)?;
        drop(state);
        self.keys.check(key)?;
        self.keys.note(key);
        if self.shared.is(Fault::EarlyIngestion) {
            self.write(&one)?;
        }
        self.batch.push(op);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Position> {
        if self.batch.is_empty() {
            let state = self.shared.lock();
            state.check_open(&self.shared)?;
            return Ok(Position(state.model.end()));
        }
        self.write(&self.batch)
    }
}
