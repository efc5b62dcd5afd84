//! Writes on both sides.

use firn_engine::{
    Batch, Change, Completion, Durability, Op, OpKind, OrderedBatch, OrderedOp, OrderedOpKind, Outcome,
    Position, WriteOptions,
};

use super::read::unordered;
use super::{Runner, Stop, TakeTime};
use crate::model::{Moment, shown};
use crate::ops::{Part, UpdateKind, has_sums, key, may_be_gone, value};

/// Longest value an update leaves.
const GROWN_BYTES_MAX: usize = 4096;

impl Runner<'_> {
    /// The operations on both sides: for the engine, and for the model. Those to keyspaces that are
    /// not there are left out.
    pub(super) fn batches(&mut self, parts: &[Part]) -> Result<(OrderedBatch, OrderedBatch), Stop> {
        let (mut batch, mut modelled) = (OrderedBatch::default(), OrderedBatch::default());
        let keeps_order = self.keeps_order()?;
        let is_offered = |part: &&Part| keeps_order || part.kind != OrderedOpKind::DeleteRange;
        for part in parts.iter().filter(is_offered) {
            let Some((id, model_id)) = self.space(part.space)? else { continue };
            let (key, value) = (part.key_bytes(), part.value_bytes());
            let is_empty_range = part.kind == OrderedOpKind::DeleteRange && key >= value;
            let expires_at_ms = match part.ttl_ms {
                0 => 0,
                ttl_ms => self.now_ms() + u64::from(ttl_ms),
            };
            if !is_empty_range {
                let op = OrderedOp { keyspace: id, kind: part.kind, key: &key, value: &value, expires_at_ms };
                batch.push(op);
                modelled.push(OrderedOp { keyspace: model_id, ..op });
            }
        }
        Ok((batch, modelled))
    }

    pub(super) fn write(&mut self, parts: &[Part], single: bool, disk: bool) -> Result<(), Stop> {
        let (batch, modelled) = self.batches(parts)?;
        if batch.is_empty() {
            return Ok(());
        }
        let options =
            WriteOptions { durability: disk.then_some(Durability::Disk), ..WriteOptions::default() };
        let is_disk = self.is_disk(disk);
        let outcome = match (single, batch.len(), without_ranges(&batch)) {
            (true, 1, _) => self.write_single(&batch, options)?,
            (_, _, Some(batch)) => self.opened()?.session.write(&batch, options),
            (_, _, None) => match self.opened()?.session.ordered() {
                Some(session) => session.write_ordered(&batch, options),
                None => return Err(unordered()),
            },
        };
        let written = self.settle(outcome, TakeTime::Yes, |completion| match completion {
            Completion::Written(position) => Some(position),
            _ => None,
        })?;
        match (written, self.model.check(&modelled)) {
            (Ok(_), Ok(())) => {
                self.model.apply(&modelled, WriteOptions::default());
                self.acknowledge(is_disk);
                Ok(())
            }
            (Err(found), Err(expected)) if found.kind() == expected.kind() => Ok(()),
            (Err(error), Ok(())) => {
                // It may have been done, or not; recovery shall tell.
                self.model.apply(&modelled, WriteOptions::default());
                Err(self.failed("a write", &error))
            }
            (found, expected) if !self.is_gone() => {
                Err(Stop::Violation(format!("a write: {found:?}, expected {expected:?}")))
            }
            _ => Err(Stop::Gone),
        }
    }

    /// Writes a batch of one by the call for its kind.
    fn write_single(
        &mut self,
        batch: &OrderedBatch,
        options: WriteOptions,
    ) -> Result<firn_engine::Result<Outcome<Position>>, Stop> {
        let open = self.opened()?;
        let Some(op) = batch.ops().next() else { return Ok(Err(firn_engine::Error::bug("an empty batch"))) };
        let OrderedOp { keyspace, kind, key, value, expires_at_ms } = op;
        let options = WriteOptions { expires_at_ms, ..options };
        Ok(match kind {
            OrderedOpKind::Put => open.session.put(keyspace, key, value, options),
            OrderedOpKind::Delete => open.session.delete(keyspace, key, options),
            OrderedOpKind::Merge => open.session.merge(keyspace, key, value, options),
            OrderedOpKind::DeleteRange => match open.session.ordered() {
                Some(session) => session.delete_range(keyspace, key, value, options),
                None => return Err(unordered()),
            },
        })
    }

    pub(super) fn acknowledge(&mut self, is_disk: bool) {
        self.acknowledged = self.model.end();
        if is_disk {
            self.durable = self.acknowledged;
        }
    }

    pub(super) fn update(&mut self, space: u8, number: u16, kind: UpdateKind, seed: u64) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(space)? else { return Ok(()) };
        let key = key(number);
        let before = self.modelled_value(self.model.end(), model_id, &key)?;
        let (sender, calls) = std::sync::mpsc::channel();
        let f = Box::new(move |current: Option<&[u8]>| {
            let _ = sender.send(current.map(<[u8]>::to_vec));
            change(space, kind, seed, current)
        });
        let outcome = self.opened()?.session.update(id, &key, f, WriteOptions::default());
        let updated = self.settle(outcome, TakeTime::Yes, |completion| match completion {
            Completion::Written(position) => Some(position),
            _ => None,
        })?;
        // The update may have been slowed, and the value may have expired meanwhile.
        let after = self.modelled_value(self.model.end(), model_id, &key)?;
        let seen = calls.try_iter().last();
        let is_right = seen.as_ref().is_some_and(|seen| *seen == before || *seen == after)
            || seen == Some(None) && before.as_ref().is_some_and(|value| may_be_gone(space, value));
        if updated.is_ok() && !is_right {
            let show = |value: &Option<Vec<u8>>| value.as_deref().map_or("nothing".to_owned(), shown);
            let found = seen.as_ref().map_or("no call".to_owned(), show);
            return Err(Stop::Violation(format!("an update saw {found}, expected {}", show(&before))));
        }
        let mut modelled = OrderedBatch::default();
        match change(space, kind, seed, seen.unwrap_or(before).as_deref()) {
            Change::Put(value) => _ = modelled.put(model_id, &key, &value),
            Change::Delete => _ = modelled.delete(model_id, &key),
            Change::Keep => {}
        }
        if !modelled.is_empty() {
            self.model.apply(&modelled, WriteOptions::default());
        }
        match updated {
            Ok(_) => {
                // What keeps a value makes nothing durable.
                let is_disk = self.is_disk(false) && !modelled.is_empty();
                self.acknowledge(is_disk);
                Ok(())
            }
            Err(error) => Err(self.failed("an update", &error)),
        }
    }

    pub(super) fn modelled_value(
        &self,
        at: Moment,
        id: firn_engine::KeyspaceId,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Stop> {
        let value = self.model.get(at, id, key, self.now_ms());
        value.map_err(|error| Stop::Violation(format!("the model itself fails: {error}")))
    }
}

/// What the update makes of `current`: a pure function, so that both sides do the same.
fn change(space: u8, kind: UpdateKind, seed: u64, current: Option<&[u8]>) -> Change {
    match kind {
        UpdateKind::Delete => Change::Delete,
        UpdateKind::Keep => Change::Keep,
        UpdateKind::Grow if has_sums(space) => {
            let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            let sum = current.map_or(0, number).wrapping_add(seed & 0xffff);
            Change::Put(sum.to_le_bytes().to_vec())
        }
        UpdateKind::Grow => {
            let mut grown = current.unwrap_or_default().to_vec();
            if grown.len() > GROWN_BYTES_MAX {
                grown.clear();
            }
            grown.extend_from_slice(&value(space, 16, seed));
            Change::Put(grown)
        }
    }
}

/// The same operations as a batch for any engine, if none deletes a range.
pub(super) fn without_ranges(batch: &OrderedBatch) -> Option<Batch> {
    let mut points = Batch::new();
    for OrderedOp { keyspace, kind, key, value, expires_at_ms } in batch.ops() {
        let kind = match kind {
            OrderedOpKind::Put => OpKind::Put,
            OrderedOpKind::Delete => OpKind::Delete,
            OrderedOpKind::Merge => OpKind::Merge,
            OrderedOpKind::DeleteRange => return None,
        };
        points.push(Op { keyspace, kind, key, value, expires_at_ms });
    }
    Some(points)
}
