//! Several operations that become visible together, and are recovered together or not at all.
//!
//! Records of a batch are always new ones. While they become visible one by one the batch holds the
//! stripes of its keys; readers of several keys look at those. The redo log gets one entry for all
//! of them. No snapshot and no checkpoint is taken between two of its records.

use std::sync::PoisonError;

use firn_engine::{Batch, Error, Op, OpKind, Position, ReadSet, Result, conflict};

use super::{Caller, index_full};
use crate::epoch::Inside;
use crate::log::Parts;
use crate::ops::{Attempt, Key, Store, not_durable, operand_of, parts_of, reference_of, tombstone_of};
use crate::sync::Patience;
use crate::values::REFERENCE_BYTES;

/// An operation that is ready to be made a record.
struct Ready<'b> {
    key: Key<'b>,
    op: Op<'b>,
    reference: Option<[u8; REFERENCE_BYTES]>,
}

impl Ready<'_> {
    fn parts(&self) -> Parts<'_> {
        match (self.op.kind, &self.reference) {
            (OpKind::Delete, _) => tombstone_of(self.key),
            (OpKind::Put, None) => parts_of(self.key, self.op.value, self.op.expires_at_ms),
            (OpKind::Put, Some(reference)) => reference_of(self.key, reference, self.op.expires_at_ms, false),
            (OpKind::Merge, None) => operand_of(self.key, self.op.value),
            (OpKind::Merge, Some(reference)) => reference_of(self.key, reference, 0, true),
        }
    }
}

impl Caller {
    /// Applies all of `batch`; `None` if it would have to be waited for, and nothing was done.
    pub(crate) fn write_batch(&mut self, batch: &Batch) -> Result<Option<Position>> {
        if batch.is_empty() {
            return Err(Error::invalid("a batch without operations has nothing to acknowledge"));
        }
        if let (1, Some(op)) = (batch.len(), batch.ops().next()) {
            return self.write(&op);
        }
        let ready = self.ready(batch)?;
        if !self.has_room(&ready)? {
            return Ok(None);
        }
        let database = std::sync::Arc::clone(&self.database);
        let _whole = database.moments.batches.read().unwrap_or_else(PoisonError::into_inner);
        let _held = database.moments.stripes.hold(ready.iter().map(|ready| ready.key.hash));
        let mut addresses = Vec::with_capacity(ready.len());
        for ready in &ready {
            let parts = ready.parts();
            addresses.push(self.publish_surely(ready.key, &parts)?);
        }
        let position = {
            let (store, inside) = self.access.enter();
            let logged = log_batch(store, &inside, &ready, &addresses);
            logged.inspect_err(|error| self.database.note_final(error))?;
            self.database.snapshots.next()
        };
        self.count_written(batch.data_bytes());
        Ok(Some(position))
    }

    /// Applies all of `batch` if no key of `reads` was written since; `None` as above.
    pub(crate) fn write_batch_if(&mut self, batch: &Batch, reads: &ReadSet) -> Result<Option<Position>> {
        if batch.is_empty() {
            return Err(Error::invalid("a batch without operations has nothing to acknowledge"));
        }
        let end = self.end_of(reads.read_at())?;
        for (keyspace, key) in reads.keys() {
            self.check_key(keyspace, key)?;
        }
        let ready = self.ready(batch)?;
        self.check_fits(&ready)?;
        let database = std::sync::Arc::clone(&self.database);
        loop {
            if !self.has_room(&ready)? {
                return Ok(None);
            }
            let _held = database.moments.stripes.hold(ready.iter().map(|ready| ready.key.hash));
            let stopped = database.store.epochs.stop();
            let (store, inside) = self.access.enter_stopped(&stopped);
            for (keyspace, key) in reads.keys() {
                if store.is_newer(Key::new(keyspace.0, key), end) {
                    return Err(conflict());
                }
            }
            if !store.log.has_room(words_of(&ready)) {
                continue;
            }
            let mut addresses = Vec::with_capacity(ready.len());
            for ready in &ready {
                addresses.push(publish_alone(store, ready)?);
            }
            let position = self.database.snapshots.next();
            let logged = log_batch(store, &inside, &ready, &addresses);
            logged.inspect_err(|error| self.database.note_final(error))?;
            drop(inside);
            self.count_written(batch.data_bytes());
            return Ok(Some(position));
        }
    }

    /// Checks all operations, and writes the values that lie alone.
    fn ready<'b>(&mut self, batch: &'b Batch) -> Result<Vec<Ready<'b>>> {
        batch.ops().try_for_each(|op| self.check(&op))?;
        let mut all = Vec::with_capacity(batch.len());
        for op in batch.ops() {
            let mut ready = Ready { key: Key::new(op.keyspace.0, op.key), op, reference: None };
            if !self.database.store.log.holds(&ready.parts()) {
                ready.reference = Some(self.database.values.write(op.value)?);
            }
            all.push(ready);
        }
        Ok(all)
    }

    /// Refuses what does not fit in a page: it is written while no other operation is under way,
    /// and so are no pages.
    fn check_fits(&self, ready: &[Ready<'_>]) -> Result<()> {
        let (words, most) = (words_of(ready), self.database.store.log.tail.page_words());
        if words <= most {
            return Ok(());
        }
        let (bytes, most) = (8 * words, 8 * most);
        Err(Error::invalid(format!(
            "a transaction that writes {bytes} bytes after it has read: {most} is the limit, a page of the log; \
             write less in one, or make the database with larger page_bytes"
        )))
    }

    /// Waits until there seems to be memory for all records; `false` if that may not be waited for.
    fn has_room(&self, ready: &[Ready<'_>]) -> Result<bool> {
        self.database.store.catch_up().inspect_err(|error| self.database.note_final(error))?;
        if !self.keeps_pace()? {
            return Ok(false);
        }
        let log = &self.database.store.log;
        // A batch that memory could never hold at once goes through it page by page.
        let words = words_of(ready).min(log.tail.page_words());
        while !log.has_room(words) {
            if !self.may_wait {
                self.database.maintenance.schedule.wake();
                return Ok(false);
            }
            self.database.wait_for_room(log.end_of_room(words))?;
        }
        Ok(true)
    }

    /// Makes a record visible, however long that takes: others of its batch are already.
    fn publish_surely(&mut self, key: Key<'_>, parts: &Parts<'_>) -> Result<u64> {
        let mut patience = Patience::default();
        loop {
            let outcome = {
                let (store, _inside) = self.access.enter();
                store.publish_silently(key, store.find(key), parts)
            };
            match outcome {
                Attempt::Done(address) => return Ok(address),
                Attempt::Again | Attempt::OnDevice => patience.wait(),
                Attempt::NoRoom(beyond) => self.database.wait_for_room(beyond)?,
                Attempt::IndexFull => return Err(index_full()),
                Attempt::Failed(error) => return Err(error),
            }
        }
    }
}

/// Words of all records.
fn words_of(ready: &[Ready<'_>]) -> u64 {
    ready.iter().map(|ready| ready.parts().shape.words() as u64).sum()
}

/// Has the redo log know of a whole batch.
fn log_batch(store: &Store, inside: &Inside<'_>, ready: &[Ready<'_>], addresses: &[u64]) -> Result<()> {
    let Some((redo, writer)) = store.redo_of(inside) else { return Ok(()) };
    let logged = redo.append_made(writer, |entry| {
        for (ready, address) in ready.iter().zip(addresses) {
            entry.push(&ready.parts().change(*address, 0));
        }
    });
    logged.map_err(not_durable)
}

/// Makes a record visible while no other operation is under way.
fn publish_alone(store: &Store, ready: &Ready<'_>) -> Result<u64> {
    match store.publish_silently(ready.key, store.find(ready.key), &ready.parts()) {
        Attempt::Done(address) => Ok(address),
        Attempt::IndexFull => Err(index_full()),
        Attempt::Failed(error) => Err(error),
        Attempt::Again | Attempt::NoRoom(_) | Attempt::OnDevice => {
            Err(Error::bug("a write that nothing could be in the way of"))
        }
    }
}
