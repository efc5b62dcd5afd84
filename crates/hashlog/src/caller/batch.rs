//! Several operations that become visible together, and are recovered together or not at all.
//!
//! Records of a batch are always new ones. While they become visible one by one the batch holds the
//! stripes of its keys; readers of several keys look at those. Room for all of them is there before
//! the first becomes visible, so nothing keeps the others from it. The redo log gets one entry for
//! all. No snapshot and no checkpoint is taken between two of its records.
//!
//! A batch that has read is made while no other operation is under way.

use std::sync::PoisonError;

use firn_engine::{Batch, Error, Op, OpKind, Position, ReadSet, Result, conflict};

use super::Caller;
use crate::database::Database;
use crate::epoch::Inside;
use crate::log::Parts;
use crate::ops::{Attempt, Key, Store, not_durable, operand_of, parts_of, reference_of, tombstone_of};
use crate::values::REFERENCE_BYTES;

/// An operation that is ready to be made a record.
struct Ready<'b> {
    key: Key<'b>,
    op: Op<'b>,
    reference: Option<[u8; REFERENCE_BYTES]>,
}

/// A batch takes at most this part of the memory that the log can always get: with the rests of
/// pages that is half of it.
const BATCH_PART: u64 = 3;

/// Records up to this long lie in the log, however long their batch is.
const ALONE_WORDS_MIN: u64 = 512;

impl Ready<'_> {
    /// Words of the record in the log, with its value.
    fn words(&self) -> u64 {
        self.parts().shape.words() as u64
    }

    /// Words of the record, if values of records longer than this lie alone.
    fn words_by(&self, longest: u64) -> u64 {
        let words = self.words();
        let alone =
            || reference_of(self.key, &[0; REFERENCE_BYTES], self.op.expires_at_ms, false).shape.words();
        if words > longest { alone() as u64 } else { words }
    }

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
        let records = records_of(&ready);
        let database = std::sync::Arc::clone(&self.database);
        let mut is_full = false;
        loop {
            if std::mem::take(&mut is_full) && !self.may_have_entries(records.len())?
                || !self.has_room(&records)?
            {
                forget_values(&database, &ready);
                return Ok(None);
            }
            let _whole = database.moments.batches.read().unwrap_or_else(PoisonError::into_inner);
            let _held = database.store.stripes.hold(records.iter().map(|(key, _)| key.hash));
            // From now on no other thread puts a record in front of these chains.
            database.store.epochs.pass();
            let (store, inside) = self.access.enter();
            match make(&database, store, &inside, &records)? {
                Made::Whole(position) => {
                    drop(inside);
                    self.count_written(batch.data_bytes());
                    return Ok(Some(position));
                }
                Made::NoRoom => {}
                Made::IndexFull => is_full = true,
            }
        }
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
        let records = records_of(&ready);
        let database = std::sync::Arc::clone(&self.database);
        let mut is_full = false;
        loop {
            if std::mem::take(&mut is_full) && !self.may_have_entries(records.len())?
                || !self.has_room(&records)?
            {
                forget_values(&database, &ready);
                return Ok(None);
            }
            let _held = database.store.stripes.hold(records.iter().map(|(key, _)| key.hash));
            let stopped = database.store.epochs.stop();
            let (store, inside) = self.access.enter_stopped(&stopped);
            for (keyspace, key) in reads.keys() {
                if store.is_newer(Key::new(keyspace.0, key), end) {
                    forget_values(&database, &ready);
                    return Err(conflict());
                }
            }
            match make(&database, store, &inside, &records)? {
                Made::Whole(position) => {
                    drop(inside);
                    self.count_written(batch.data_bytes());
                    return Ok(Some(position));
                }
                Made::NoRoom => {}
                Made::IndexFull => is_full = true,
            }
        }
    }

    /// Checks all operations, and writes the values that lie alone: those that are too long for a
    /// page, and as many more as it takes for there to be room for all records at once.
    fn ready<'b>(&mut self, batch: &'b Batch) -> Result<Vec<Ready<'b>>> {
        batch.ops().try_for_each(|op| self.check(&op))?;
        let key = |op: &Op<'b>| Key::new(op.keyspace.0, op.key);
        let mut all: Vec<_> = batch.ops().map(|op| Ready { key: key(&op), op, reference: None }).collect();
        let longest = self.longest_in_log(&all)?;
        for ready in &mut all {
            if ready.words() > longest {
                ready.reference = Some(self.database.values.write(ready.op.value)?);
            }
        }
        Ok(all)
    }

    /// Words of the longest record of a batch whose value lies in the log.
    fn longest_in_log(&self, all: &[Ready<'_>]) -> Result<u64> {
        let (log, division) = (&self.database.store.log, &self.database.store.division);
        let most = division.batch_words(log) / BATCH_PART;
        let mut longest = log.tail.page_words() / 4;
        loop {
            let words = all.iter().map(|ready| ready.words_by(longest)).sum::<u64>();
            if words <= most {
                return Ok(longest);
            }
            if longest <= ALONE_WORDS_MIN {
                let (bytes, most) = (8 * words, 8 * most);
                return Err(Error::invalid(format!(
                    "a batch whose records take {bytes} bytes of the log: {most} is the limit, a third of \
                     the memory that the log can always get; write it in parts, or raise memory_bytes"
                )));
            }
            longest /= 2;
        }
    }

    /// Waits until there seems to be memory for all records; `false` if that may not be waited for.
    fn has_room(&self, records: &[Record<'_>]) -> Result<bool> {
        self.database.store.catch_up().inspect_err(|error| self.database.note_final(error))?;
        if !self.keeps_pace()? {
            return Ok(false);
        }
        let (log, words) = (&self.database.store.log, words_of(records));
        while !log.has_room(words) {
            let beyond = log.end_of_room(words);
            if !self.may_wait {
                log.want_room(&self.database.store.epochs, beyond);
                self.database.maintenance.schedule.wake();
                return Ok(false);
            }
            self.database.wait_for_room(beyond)?;
        }
        Ok(true)
    }
}

/// A key, and what its new record has.
type Record<'r> = (Key<'r>, Parts<'r>);

fn records_of<'r>(ready: &'r [Ready<'_>]) -> Vec<Record<'r>> {
    ready.iter().map(|ready| (ready.key, ready.parts())).collect()
}

/// Words of all records.
fn words_of(records: &[Record<'_>]) -> u64 {
    records.iter().map(|(_, parts)| parts.shape.words() as u64).sum()
}

/// What became of the records of a batch.
enum Made {
    Whole(Position),
    /// Nothing: others have taken their room.
    NoRoom,
    /// Nothing: the index has no memory for as many entries.
    IndexFull,
}

/// Makes all records, and has the redo log know of them. The caller has kept other threads from the
/// chains.
fn make(database: &Database, store: &Store, inside: &Inside<'_>, records: &[Record<'_>]) -> Result<Made> {
    let addresses = match store.append_together(inside, records) {
        Attempt::Done(addresses) => addresses,
        Attempt::IndexFull => return Ok(Made::IndexFull),
        _ => return Ok(Made::NoRoom),
    };
    if let Some((redo, writer)) = store.redo_of(inside) {
        let logged = redo.append_made(writer, |entry| {
            for ((_, parts), address) in records.iter().zip(&addresses) {
                entry.push(&parts.change(*address, 0));
            }
        });
        logged.map_err(not_durable).inspect_err(|error| database.note_final(error))?;
    }
    Ok(Made::Whole(database.snapshots.next()))
}

/// Removes the values that lie alone of a batch that is not made.
fn forget_values(database: &Database, ready: &[Ready<'_>]) {
    ready.iter().filter_map(|ready| ready.reference.as_ref()).for_each(|reference| {
        database.values.forget(reference);
    });
}
