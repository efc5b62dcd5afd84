//! Transactions on both sides.

use std::collections::BTreeSet;

use firn_engine::{
    Completion, Durability, Error, ErrorKind, KeyspaceId, OrderedBatch, OrderedReadSet, Position, ReadAt,
    ReadRange, Result as EngineResult, Snapshot, WriteOptions,
};

use super::read::{range, unordered};
use super::write::without_ranges;
use super::{Runner, Stop, TakeTime};
use crate::model::Moment;
use crate::ops::{Part, Visit, key};

/// A transaction under way: the point it reads at, and what it has read.
pub(super) struct OpenTransaction {
    snapshot: Snapshot,
    reads: OrderedReadSet,
    since: Moment,
    /// The same for the model.
    keys: BTreeSet<(KeyspaceId, Vec<u8>)>,
    ranges: Vec<ReadRange>,
}

/// Whether something was written to what a transaction has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    No,
    /// Only to keys that had no value and have none again: an engine may not know of it any more.
    Perhaps,
    Yes,
}

impl Runner<'_> {
    pub(super) fn transaction_begin(&mut self, slot: u8) -> Result<(), Stop> {
        let snapshot = self.opened()?.opened.engine.snapshot();
        let snapshot = snapshot.map_err(|error| self.failed("snapshot", &error))?;
        let (reads, since) = (OrderedReadSet::new(snapshot.clone()), self.model.end());
        let (keys, ranges) = (BTreeSet::new(), Vec::new());
        let transaction = OpenTransaction { snapshot, reads, since, keys, ranges };
        self.opened()?.transactions.insert(slot, transaction);
        Ok(())
    }

    pub(super) fn transaction_get(&mut self, slot: u8, space: u8, number: u16) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(space)? else { return Ok(()) };
        let Some(mut transaction) = self.opened()?.transactions.remove(&slot) else { return Ok(()) };
        let key = key(number);
        let added = transaction.reads.keys_mut().add(id, &key);
        added.map_err(|error| self.failed("a read set", &error))?;
        transaction.keys.insert((model_id, key.clone()));
        let expected = self.modelled_value(transaction.since, model_id, &key)?;
        let mut out = Vec::new();
        let at = ReadAt::Snapshot(&transaction.snapshot);
        let outcome = self.opened()?.session.get(at, id, &key, &mut out);
        let outcome = outcome.map(|outcome| match outcome {
            firn_engine::Outcome::Done(found) => firn_engine::Outcome::Done(found.then_some(out)),
            firn_engine::Outcome::Pending(ticket) => firn_engine::Outcome::Pending(ticket),
        });
        let found = self.settle(outcome, TakeTime::No, |completion| match completion {
            Completion::Value(value) => Some(value),
            _ => None,
        })?;
        let found = found.map_err(|error| self.failed("a transaction's get", &error))?;
        self.same("a transaction's get", space, &key, found.as_deref(), expected.as_deref())?;
        self.opened()?.transactions.insert(slot, transaction);
        Ok(())
    }

    pub(super) fn transaction_scan(&mut self, slot: u8, visit: Visit) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(visit.space)? else { return Ok(()) };
        let Some(mut transaction) = self.opened()?.transactions.remove(&slot) else { return Ok(()) };
        let range = range(visit);
        let (start, end) = range.bounds();
        if OrderedReadSet::check_ranges(transaction.ranges.len() + 1).is_ok() {
            let read = ReadRange { keyspace: id, start, end };
            transaction.ranges.push(ReadRange { keyspace: model_id, ..read.clone() });
            transaction.reads.add_range(read).map_err(|error| self.failed("a read set", &error))?;
        }
        let expected = self.model.scan(transaction.since, model_id, &range, self.now_ms());
        let expected =
            expected.map_err(|error| Stop::Violation(format!("the model itself fails: {error}")))?;
        let at = ReadAt::Snapshot(&transaction.snapshot);
        let Some(session) = self.opened()?.session.ordered() else { return Err(unordered()) };
        let scan = session.scan(at, id, range);
        let mut scan = scan.map_err(|error| self.failed("a transaction's scan", &error))?;
        self.walk(&mut *scan, visit.space, usize::from(visit.records.max(1)), expected)?;
        self.opened()?.transactions.insert(slot, transaction);
        Ok(())
    }

    pub(super) fn transaction_commit(&mut self, slot: u8, parts: &[Part], disk: bool) -> Result<(), Stop> {
        let (batch, modelled) = self.batches(parts)?;
        let Some(transaction) = self.opened()?.transactions.remove(&slot) else { return Ok(()) };
        if batch.is_empty() {
            return Ok(());
        }
        let expected = self.model.check(&modelled).and_then(|()| self.written(&transaction));
        let found = self.commit(&batch, transaction.reads, disk)?;
        match (found, expected) {
            (Ok(_), Ok(Written::No | Written::Perhaps)) => {
                self.model.apply(&modelled, WriteOptions::default());
                let is_disk = self.is_disk(disk);
                self.acknowledge(is_disk);
                Ok(())
            }
            (Err(error), Ok(Written::Yes | Written::Perhaps)) if error.kind() == ErrorKind::Conflict => {
                Ok(())
            }
            (Err(found), Err(expected)) if found.kind() == expected.kind() => Ok(()),
            (Err(error), Ok(Written::No | Written::Perhaps)) if error.kind() != ErrorKind::Conflict => {
                // It may have been done, or not; recovery shall tell.
                self.model.apply(&modelled, WriteOptions::default());
                Err(self.failed("a transaction", &error))
            }
            (found, expected) if !self.is_gone() => {
                Err(Stop::Violation(format!("a transaction: {found:?}, written since: {expected:?}")))
            }
            _ => Err(Stop::Gone),
        }
    }

    fn commit(
        &mut self,
        batch: &OrderedBatch,
        reads: OrderedReadSet,
        disk: bool,
    ) -> Result<EngineResult<Position>, Stop> {
        let durability = disk.then_some(Durability::Disk);
        let options = WriteOptions { durability, ..WriteOptions::default() };
        let session = &mut self.opened()?.session;
        let outcome = match without_ranges(batch) {
            Some(points) if reads.ranges().is_empty() => {
                session.write_if(&points, reads.keys().clone(), options)
            }
            _ => match session.ordered() {
                Some(session) => session.write_ordered_if(batch, reads, options),
                None => return Err(unordered()),
            },
        };
        self.settle(outcome, TakeTime::Yes, |completion| match completion {
            Completion::Written(position) => Some(position),
            _ => None,
        })
    }

    /// What the model says was written to what `transaction` has read.
    fn written(&self, transaction: &OpenTransaction) -> EngineResult<Written> {
        let OpenTransaction { since, keys, ranges, .. } = transaction;
        let now_ms = self.now_ms();
        let (mut is_written, mut must_be_seen) = (false, false);
        for (id, key) in keys {
            is_written |= self.model.is_written(*since, *id, key)?;
            must_be_seen |= self.model.must_be_seen(*since, *id, key, now_ms)?;
        }
        for range in ranges {
            is_written |= self.model.is_range_written(*since, range)?;
            must_be_seen |= self.model.must_be_seen_in(*since, range, now_ms)?;
        }
        match (is_written, must_be_seen) {
            (false, false) => Ok(Written::No),
            (true, false) => Ok(Written::Perhaps),
            (true, true) => Ok(Written::Yes),
            (false, true) => Err(Error::bug("the model sees what was not written")),
        }
    }
}
