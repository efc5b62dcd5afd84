//! Calls that wait: the thin layer most programs want.
//!
//! [`Blocking`] owns a [`Session`], turns its inline mode on, and turns every `Pending` into a wait
//! for that one ticket. Completions of other tickets (operations begun through
//! [`Blocking::session`]) are set apart. [`Blocking::wait_for`] and [`Blocking::poll`] hand them
//! out.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Batch, BatchLimit, Change, Completion, Error, ErrorKind, HashBatch, HashScan, HashedSession, KeyLocks,
    KeyspaceId, OrderedBatch, OrderedReadSet, OrderedSession, Outcome, Position, ReadAt, ReadSet, Result,
    Rmw, RmwAnswer, Scan, ScanBatch, ScanRange, Session, Snapshot, Ticket, UpdateFn, Values, WriteOptions,
};

/// Bytes of a value that [`Blocking::read_into`] has in memory at once.
const PIECE_BYTES: usize = 4 << 20;

/// A session whose calls return when they are over.
///
/// Owned by one thread at a time. Every call may block on the device, on admission, or on a sync,
/// as long as that takes. Errors are those of the [`Session`] call of the same name, whether they
/// came at once or later.
pub struct Blocking<S: Session + ?Sized = dyn Session> {
    session: Box<S>,
    /// Completions that arrived while another ticket was waited for.
    apart: BTreeMap<Ticket, Completion>,
}

/// A blocking session on an engine that keeps keys in order.
pub type OrderedBlocking = Blocking<dyn OrderedSession>;

impl<S: Session + ?Sized> Blocking<S> {
    /// Wraps `session` and turns its inline mode on.
    pub fn new(mut session: Box<S>) -> Self {
        session.set_inline(true);
        Self { session, apart: BTreeMap::new() }
    }

    /// The value of `key`, or `None` if it has none.
    pub fn get(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.get_into(at, keyspace, key, &mut out)?.then_some(out))
    }

    /// Whether `key` has a value; if so `out` holds it, else `out` is empty. Reuses `out`'s memory.
    pub fn get_into(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        out.clear();
        let outcome = self.session.get(at, keyspace, key, out)?;
        self.found(outcome, out)
    }

    /// As [`get_into`](Self::get_into) for the bytes `range` of the value, cut to its length.
    pub fn get_range_into(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        range: std::ops::Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        out.clear();
        let outcome = self.session.get_range(at, keyspace, key, range, out)?;
        self.found(outcome, out)
    }

    /// Whether `key` has a value; reads no byte of it where that is not needed to know.
    pub fn contains_key(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
        self.get_range_into(at, keyspace, key, 0..0, &mut Vec::new())
    }

    /// Whether a value of `key` is stored; counts a value that has expired and was not dropped yet.
    pub fn is_stored(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
        let outcome = self.session.is_stored(keyspace, key)?;
        self.found(outcome, &mut Vec::new())
    }

    /// Writes the value that `key` has at `snapshot` to `out`, a few MiB at a time, and returns its
    /// length. `None`, and nothing written, if there is no value.
    ///
    /// # Errors
    /// `Retry` if the value expires meanwhile, `Invalid` if `out` refuses it; after an error a part
    /// of it may be written.
    pub fn read_into(
        &mut self,
        snapshot: &Snapshot,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut dyn Write,
    ) -> Result<Option<u64>> {
        let (mut start, mut piece) = (0, Vec::new());
        loop {
            let (at, range) = (ReadAt::Snapshot(snapshot), start..start + PIECE_BYTES);
            if !self.get_range_into(at, keyspace, key, range, &mut piece)? {
                let message = "the value expired while it was read";
                return if start == 0 { Ok(None) } else { Err(Error::new(ErrorKind::Retry, message)) };
            }
            out.write_all(&piece).map_err(|error| {
                Error::invalid(format!("a value cannot be handed on from byte {start} on")).because(error)
            })?;
            start += piece.len();
            if piece.len() < PIECE_BYTES {
                return Ok(Some(start as u64));
            }
        }
    }

    /// Values of `keys` as of one point, in order.
    pub fn multi_get(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, keys: &[&[u8]]) -> Result<Values> {
        let mut out = Values::new();
        match self.session.multi_get(at, keyspace, keys, &mut out)? {
            Outcome::Done(()) => Ok(out),
            Outcome::Pending(ticket) => values(self.wait_for(ticket)?),
        }
    }

    /// Applies all of `batch` or none of it.
    pub fn write(&mut self, batch: &Batch, options: WriteOptions) -> Result<Position> {
        let outcome = self.session.write(batch, options)?;
        self.written(outcome)
    }

    /// Applies all of `batch` if no key of `reads` was written since, else nothing of it.
    pub fn write_if(&mut self, batch: &Batch, reads: ReadSet, options: WriteOptions) -> Result<Position> {
        let outcome = self.session.write_if(batch, reads, options)?;
        self.written(outcome)
    }

    /// Sets `key` to `value`.
    pub fn put(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.put(keyspace, key, value, options)?;
        self.written(outcome)
    }

    /// Removes `key`.
    pub fn delete(&mut self, keyspace: KeyspaceId, key: &[u8], options: WriteOptions) -> Result<Position> {
        let outcome = self.session.delete(keyspace, key, options)?;
        self.written(outcome)
    }

    /// Adds `operand` to `key` without reading it.
    pub fn merge(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.merge(keyspace, key, operand, options)?;
        self.written(outcome)
    }

    /// Replaces `key`'s value by what `f` makes of it, atomically, and returns `f`'s answer.
    ///
    /// `f` may be called more than once; the answer is that of the call that took effect.
    pub fn update<R: Send + 'static>(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        let (f, answer) = answering(f);
        let outcome = self.session.update(keyspace, key, f, options)?;
        self.written(outcome)?;
        answer.take()
    }

    /// Does `rmw` to the value of `key`, atomically.
    pub fn rmw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        options: WriteOptions,
    ) -> Result<RmwAnswer> {
        match self.session.rmw(keyspace, key, rmw, options)? {
            Outcome::Done((_, answer)) => Ok(answer),
            Outcome::Pending(ticket) => modified(self.wait_for(ticket)?),
        }
    }

    /// Locks `keys` until the answer is dropped; waits while one of them is held.
    ///
    /// A caller that holds locks must not ask for more: it would wait for itself.
    pub fn lock(&mut self, keys: &[(KeyspaceId, &[u8])]) -> Result<KeyLocks> {
        let outcome = self.session.lock(keys);
        self.locked(outcome)
    }

    /// Locks every key until the answer is dropped; otherwise as [`lock`](Self::lock).
    pub fn lock_all(&mut self) -> Result<KeyLocks> {
        let outcome = self.session.lock_all();
        self.locked(outcome)
    }

    fn locked(&mut self, outcome: Outcome<KeyLocks>) -> Result<KeyLocks> {
        match outcome {
            Outcome::Done(locks) => Ok(locks),
            Outcome::Pending(ticket) => match self.wait_for(ticket)? {
                Completion::Locked(locks) => Ok(locks),
                other => Err(unexpected("a lock", other)),
            },
        }
    }

    /// The session itself, to begin operations without waiting for them.
    ///
    /// Completions taken by polling it directly are the caller's. Those that arrive while a
    /// blocking call waits are kept for [`wait_for`](Self::wait_for) and [`poll`](Self::poll).
    pub fn session(&mut self) -> &mut S {
        &mut self.session
    }

    /// Waits for one ticket; completions of others are set apart.
    ///
    /// # Errors
    /// `Bug` if the session has nothing under way that could complete `ticket` (taken already, or
    /// never given).
    pub fn wait_for(&mut self, ticket: Ticket) -> Result<Completion> {
        loop {
            if let Some(completion) = self.apart.remove(&ticket) {
                return Ok(completion);
            }
            let apart = &mut self.apart;
            let mut twice = None;
            let count = self.session.poll(&mut |arrived, completion| {
                if apart.insert(arrived, completion).is_some() {
                    twice = Some(arrived);
                }
            });
            if let Some(Ticket(number)) = twice {
                return Err(Error::bug(format!("ticket {number} completed twice")));
            }
            if count == 0 && !self.session.wait(None) {
                return Err(Error::bug(format!("nothing under way completes ticket {}", ticket.0)));
            }
        }
    }

    /// Hands every completion that was set apart or is ready to `sink` and returns how many; never
    /// blocks.
    pub fn poll(&mut self, sink: &mut dyn FnMut(Ticket, Completion)) -> usize {
        let apart = std::mem::take(&mut self.apart);
        let count = apart.len();
        apart.into_iter().for_each(|(ticket, completion)| sink(ticket, completion));
        count + self.session.poll(sink)
    }

    fn found(&mut self, outcome: Outcome<bool>, out: &mut Vec<u8>) -> Result<bool> {
        match outcome {
            Outcome::Done(found) => Ok(found),
            Outcome::Pending(ticket) => match value(self.wait_for(ticket)?)? {
                Some(value) => {
                    out.clear();
                    out.extend_from_slice(&value);
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    fn written(&mut self, outcome: Outcome<Position>) -> Result<Position> {
        match outcome {
            Outcome::Done(position) => Ok(position),
            Outcome::Pending(ticket) => position(self.wait_for(ticket)?),
        }
    }
}

impl<S: OrderedSession + ?Sized> Blocking<S> {
    /// Opens a scan; its records come through the returned iterator, which borrows this session.
    pub fn scan(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, range: ScanRange) -> Result<Records<'_, S>> {
        let scan = self.session.scan(at, keyspace, range)?;
        Ok(Records {
            session: self,
            scan,
            batch: ScanBatch::new(),
            next_index: 0,
            records_max: RECORDS_FIRST,
        })
    }

    /// The next batch of a scan opened through [`session`](Self::session), for callers that hold
    /// several.
    pub fn next_batch(&mut self, scan: &mut dyn Scan, limit: BatchLimit, out: &mut ScanBatch) -> Result<()> {
        match scan.next_batch(limit, out)? {
            Outcome::Done(()) => Ok(()),
            Outcome::Pending(ticket) => {
                *out = scanned(self.wait_for(ticket)?)?;
                Ok(())
            }
        }
    }

    /// Applies all of `batch`, range deletes included, or none of it.
    pub fn write_ordered(&mut self, batch: &OrderedBatch, options: WriteOptions) -> Result<Position> {
        let outcome = self.session.write_ordered(batch, options)?;
        self.written(outcome)
    }

    /// Applies all of `batch` if no key of `reads`, and none in a range of it, was written since,
    /// else nothing of it.
    pub fn write_ordered_if(
        &mut self,
        batch: &OrderedBatch,
        reads: OrderedReadSet,
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.write_ordered_if(batch, reads, options)?;
        self.written(outcome)
    }

    /// Removes every key of `start..end`.
    pub fn delete_range(
        &mut self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.delete_range(keyspace, start, end, options)?;
        self.written(outcome)
    }
}

impl<S: HashedSession + ?Sized> Blocking<S> {
    /// The next records from a cursor on.
    pub fn scan_by_hash(&mut self, at: ReadAt<'_>, scan: HashScan, out: &mut HashBatch) -> Result<()> {
        match self.session.scan_by_hash(at, scan, out)? {
            Outcome::Done(()) => Ok(()),
            Outcome::Pending(ticket) => match self.wait_for(ticket)? {
                Completion::ScannedByHash(batch) => {
                    *out = batch;
                    Ok(())
                }
                other => Err(unexpected("a scan by hash", other)),
            },
        }
    }
}

impl<S: Session + ?Sized> std::fmt::Debug for Blocking<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocking").field("apart", &self.apart).finish_non_exhaustive()
    }
}

/// Records of a first batch; each further batch doubles it up to the default limit, so that short
/// scans stay cheap.
const RECORDS_FIRST: usize = 16;

/// The records of a scan, in its order.
///
/// As an iterator it yields copies; [`next_record`](Self::next_record) lends each record without
/// copying. Fetches a batch at a time and may block doing so. After an error records may have been
/// skipped: a caller that goes on asking does so at its own risk.
pub struct Records<'s, S: OrderedSession + ?Sized = dyn OrderedSession> {
    session: &'s mut Blocking<S>,
    scan: Box<dyn Scan>,
    batch: ScanBatch,
    next_index: usize,
    records_max: usize,
}

impl<S: OrderedSession + ?Sized> Records<'_, S> {
    /// The next record, `None` after the last one.
    pub fn next_record(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.next_index >= self.batch.len() {
            if self.batch.is_finished() {
                return Ok(None);
            }
            let full = BatchLimit::default();
            let limit = BatchLimit { records: self.records_max, ..full };
            self.next_index = 0;
            self.records_max = (self.records_max * 2).min(full.records);
            self.batch.clear();
            self.session.next_batch(&mut *self.scan, limit, &mut self.batch)?;
        }
        self.next_index += 1;
        Ok(self.batch.get(self.next_index - 1))
    }
}

impl<S: OrderedSession + ?Sized> Iterator for Records<'_, S> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.next_record().transpose()?;
        Some(record.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

impl<S: OrderedSession + ?Sized> std::fmt::Debug for Records<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("batch_records", &self.batch.len()).finish_non_exhaustive()
    }
}

/// Where the answer of an update's function waits for its caller.
pub(crate) struct Answer<R>(Arc<Mutex<Option<R>>>);

impl<R> Answer<R> {
    /// The answer of the last call.
    pub(crate) fn take(&self) -> Result<R> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take().ok_or_else(|| Error::bug("an update succeeded without calling its function"))
    }
}

/// Splits a function that changes and answers into the change for the engine and the answer for the
/// caller.
pub(crate) fn answering<R: Send + 'static>(
    mut f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
) -> (UpdateFn, Answer<R>) {
    let slot = Arc::new(Mutex::new(None));
    let answer = Answer(Arc::clone(&slot));
    let f = Box::new(move |current: Option<&[u8]>| {
        let (change, answer) = f(current);
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        change
    });
    (f, answer)
}

/// The position of a write's completion.
pub(crate) fn position(completion: Completion) -> Result<Position> {
    match completion {
        Completion::Written(position) => Ok(position),
        other => Err(unexpected("a write", other)),
    }
}

/// What the completion of a named change says.
pub(crate) fn modified(completion: Completion) -> Result<RmwAnswer> {
    match completion {
        Completion::Modified(_, answer) => Ok(answer),
        other => Err(unexpected("a named change", other)),
    }
}

/// The value of a read's completion.
pub(crate) fn value(completion: Completion) -> Result<Option<Vec<u8>>> {
    match completion {
        Completion::Value(value) => Ok(value),
        other => Err(unexpected("a read", other)),
    }
}

/// The values of a multi-get's completion.
pub(crate) fn values(completion: Completion) -> Result<Values> {
    match completion {
        Completion::Values(values) => Ok(values),
        other => Err(unexpected("a multi-get", other)),
    }
}

/// The batch of a scan's completion.
pub(crate) fn scanned(completion: Completion) -> Result<ScanBatch> {
    match completion {
        Completion::Scanned(batch) => Ok(batch),
        other => Err(unexpected("a scan", other)),
    }
}

/// The failure inside `completion`, or a complaint that it is of the wrong kind.
fn unexpected(what: &str, completion: Completion) -> Error {
    match completion {
        Completion::Failed(error) => error,
        other => Error::bug(format!("{what} completed as {other:?}")),
    }
}

#[cfg(test)]
pub(crate) mod delayed;
#[cfg(test)]
mod tests;
