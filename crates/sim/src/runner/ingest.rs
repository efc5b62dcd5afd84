//! Ingestions on both sides.

use firn_engine::{ErrorKind, Ingestion, OrderedBatch, OrderedOp, OrderedOpKind, WriteOptions};

use super::{Runner, Stop};
use crate::ops::{Record, key, value};

/// An ingestion under way, and what it writes once it is finished.
pub(super) struct OpenIngestion {
    records: Box<dyn Ingestion>,
    /// The same for the model.
    batch: OrderedBatch,
}

impl Runner<'_> {
    pub(super) fn ingest_begin(&mut self, slot: u8, space: u8, records: &[Record]) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(space)? else { return Ok(()) };
        let ordered = self.opened()?.opened.ordered().map_err(|error| self.failed("ingest", &error))?;
        let ingestion = ordered.ingest(id).map_err(|error| self.failed("ingest", &error))?;
        let mut open = OpenIngestion { records: ingestion, batch: OrderedBatch::default() };
        for record in records {
            let (key, value) = (key(record.key), value(space, record.bytes, record.seed));
            let expires_at_ms = match record.ttl_ms {
                0 => 0,
                ttl_ms => self.now_ms() + u64::from(ttl_ms),
            };
            let rises = open.batch.ops().last().is_none_or(|last| last.key < key.as_slice());
            match open.records.put(&key, &value, expires_at_ms) {
                Ok(()) if rises => {
                    let kind = OrderedOpKind::Put;
                    let (key, value) = (&key[..], &value[..]);
                    open.batch.push(OrderedOp { keyspace: model_id, kind, key, value, expires_at_ms });
                }
                Ok(()) => return Err(Stop::Violation("a key that does not rise was taken".to_owned())),
                Err(error) if !rises && error.kind() == ErrorKind::Invalid => {}
                Err(error) => return Err(self.failed("a record of an ingestion", &error)),
            }
        }
        self.opened()?.ingestions.insert(slot, open);
        Ok(())
    }

    pub(super) fn ingest_finish(&mut self, slot: u8) -> Result<(), Stop> {
        let Some(open) = self.opened()?.ingestions.remove(&slot) else { return Ok(()) };
        let OpenIngestion { records, batch } = open;
        let expected = if batch.is_empty() { Ok(()) } else { self.model.check(&batch) };
        match (records.finish(), expected) {
            (Ok(_), Ok(())) => {
                self.ingested(&batch);
                // It makes durable what was written before it, too.
                self.acknowledge(!batch.is_empty());
                Ok(())
            }
            (Err(found), Err(expected)) if found.kind() == expected.kind() => Ok(()),
            (Err(error), Ok(())) => {
                // It may have been done, or not; recovery shall tell.
                self.ingested(&batch);
                Err(self.failed("an ingestion", &error))
            }
            (found, expected) if !self.is_gone() => {
                Err(Stop::Violation(format!("an ingestion: {found:?}, expected {expected:?}")))
            }
            _ => Err(Stop::Gone),
        }
    }

    /// The model has all records of an ingestion, at one moment.
    fn ingested(&mut self, batch: &OrderedBatch) {
        if !batch.is_empty() {
            self.ingest_count += 1;
            self.model.apply(batch, WriteOptions::default());
        }
    }
}
