//! The reference engine's sessions and scans.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use firn_engine::{
    Batch, BatchLimit, Change, Completion, CompletionQueue, CompletionSender, Direction, Error, KeyLocks,
    KeyspaceId, LockTable, Notifier, OrderedBatch, OrderedOp, OrderedOpKind, OrderedReadSet, OrderedSession,
    Outcome, Position, ReadAt, ReadSet, Result, Rmw, RmwAnswer, Scan, ScanBatch, ScanRange, Session, Ticket,
    UpdateFn, Values, WriteOptions, conflict,
};

use super::{Fault, Shared};
use crate::model::{Model, Moment, VALUE_BYTES_MAX};

#[derive(Debug)]
pub(super) struct ReferenceSession {
    shared: Arc<Shared>,
    queue: CompletionQueue,
    tickets: Tickets,
    inline: bool,
    /// Locks asked for and not yet delivered.
    locks_awaited: u64,
}

/// Decides which operations answer `Pending`; cloned into scans.
#[derive(Clone, Debug)]
struct Tickets {
    given: Arc<std::sync::atomic::AtomicU64>,
    every: u64,
    is_twin: bool,
    sender: CompletionSender,
}

impl Tickets {
    fn next(&self) -> Ticket {
        Ticket(self.given.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1)
    }

    /// A ticket for this operation, if the operation is to answer `Pending`.
    fn ticket(&self, inline: bool) -> Option<Ticket> {
        let ticket = self.next();
        (!inline && self.every > 0 && ticket.0.is_multiple_of(self.every)).then_some(ticket)
    }

    fn complete(&self, ticket: Ticket, completion: Completion) {
        if let (true, Completion::Written(position)) = (self.is_twin, &completion) {
            self.sender.send(ticket, Completion::Written(*position));
        }
        self.sender.send(ticket, completion);
    }
}

impl ReferenceSession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let queue = CompletionQueue::new();
        let tickets = Tickets {
            given: Arc::default(),
            every: shared.options.pending_every,
            is_twin: shared.is(Fault::TwinCompletion),
            sender: queue.sender(),
        };
        Self { shared, queue, tickets, inline: false, locks_awaited: 0 }
    }

    fn read(&self, at: ReadAt<'_>, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = self.shared.lock();
        state.check_not_closed(&self.shared)?;
        state.model.get(moment(&self.shared, at, state.model.end()), keyspace, key, now_ms(&self.shared))
    }

    fn answer(&mut self, value: Option<Vec<u8>>, out: &mut Vec<u8>) -> Outcome<bool> {
        out.clear();
        match self.tickets.ticket(self.inline) {
            Some(ticket) => {
                self.tickets.complete(ticket, Completion::Value(value));
                Outcome::Pending(ticket)
            }
            None => {
                out.extend_from_slice(value.as_deref().unwrap_or_default());
                Outcome::Done(value.is_some())
            }
        }
    }

    fn written(&mut self, position: Position) -> Outcome<Position> {
        match self.tickets.ticket(self.inline) {
            Some(ticket) => {
                self.tickets.complete(ticket, Completion::Written(position));
                Outcome::Pending(ticket)
            }
            None => Outcome::Done(position),
        }
    }

    fn write_one(&mut self, op: OrderedOp<'_>, options: WriteOptions) -> Result<Outcome<Position>> {
        let expires_at_ms = if op.kind == OrderedOpKind::Put { options.expires_at_ms } else { 0 };
        self.write_ordered(OrderedBatch::default().push(OrderedOp { expires_at_ms, ..op }), options)
    }
}

fn moment(shared: &Shared, at: ReadAt<'_>, end: Moment) -> Moment {
    match at {
        ReadAt::Snapshot(snapshot) if !shared.is(Fault::LeakySnapshot) => snapshot.position().0,
        _ => end,
    }
}

fn now_ms(shared: &Shared) -> u64 {
    shared.options.clock.unix_ms()
}

fn is_stored(model: &Model, at: Moment, (keyspace, key): (KeyspaceId, &[u8])) -> Result<bool> {
    // Nothing has expired at the beginning of time.
    Ok(model.get(at, keyspace, key, 0)?.is_some())
}

impl Session for ReferenceSession {
    fn get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        let value = self.read(at, keyspace, key)?;
        Ok(self.answer(value, out))
    }

    fn get_range(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        let value = self.read(at, keyspace, key)?.map(|value| {
            let end = range.end.min(value.len());
            value[range.start.min(end)..end].to_vec()
        });
        Ok(self.answer(value, out))
    }

    fn is_stored(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Outcome<bool>> {
        let is_stored = {
            let state = self.shared.lock();
            state.check_not_closed(&self.shared)?;
            is_stored(&state.model, state.model.end(), (keyspace, key))?
        };
        Ok(self.answer(is_stored.then(Vec::new), &mut Vec::new()))
    }

    fn multi_get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
    ) -> Result<Outcome<()>> {
        let mut values = std::mem::take(out);
        values.clear();
        {
            let state = self.shared.lock();
            state.check_not_closed(&self.shared)?;
            let at = moment(&self.shared, at, state.model.end());
            for key in keys {
                let value = state.model.get(at, keyspace, key, now_ms(&self.shared))?;
                match value {
                    Some(value) => {
                        let expires_at_ms =
                            state.model.expires_at_ms(at, keyspace, key, now_ms(&self.shared))?;
                        values.push_until(&value, expires_at_ms);
                    }
                    None if is_stored(&state.model, at, (keyspace, key))? => values.push_expired(),
                    None => values.push(None),
                }
                if values.is_full() {
                    break;
                }
            }
        }
        match self.tickets.ticket(self.inline) {
            Some(ticket) => {
                self.tickets.complete(ticket, Completion::Values(values));
                Ok(Outcome::Pending(ticket))
            }
            None => {
                *out = values;
                Ok(Outcome::Done(()))
            }
        }
    }

    fn write(&mut self, batch: &Batch, options: WriteOptions) -> Result<Outcome<Position>> {
        self.write_ordered(&batch.clone().into(), options)
    }

    fn write_if(
        &mut self,
        batch: &Batch,
        reads: ReadSet,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write_ordered_if(&batch.clone().into(), reads.into(), options)
    }

    fn put(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write_one(
            OrderedOp { keyspace, kind: OrderedOpKind::Put, key, value, expires_at_ms: 0 },
            options,
        )
    }

    fn delete(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write_one(
            OrderedOp { keyspace, kind: OrderedOpKind::Delete, key, value: &[], expires_at_ms: 0 },
            options,
        )
    }

    fn merge(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write_one(
            OrderedOp { keyspace, kind: OrderedOpKind::Merge, key, value: operand, expires_at_ms: 0 },
            options,
        )
    }

    fn update(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        mut f: UpdateFn,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let mut state = self.shared.lock();
        let now_ms = match self.shared.is(Fault::ExpiredInUpdate) {
            true => 0,
            false => now_ms(&self.shared),
        };
        let value = state.model.get(state.model.end(), keyspace, key, now_ms)?;
        if self.shared.is(Fault::UnlockedUpdate) {
            drop(state);
            std::thread::yield_now();
            state = self.shared.lock();
        }
        let mut batch = OrderedBatch::default();
        match f(value.as_deref()) {
            Change::Put(value) => _ = batch.put(keyspace, key, &value),
            Change::Delete => _ = batch.delete(keyspace, key),
            Change::Keep => return Ok(Outcome::Done(Position(state.model.end()))),
        }
        let position = self.shared.write(&mut state, &batch, options)?;
        drop(state);
        Ok(self.written(position))
    }

    fn rmw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        options: WriteOptions,
    ) -> Result<Outcome<(Position, RmwAnswer)>> {
        let (f, answer) = rmw.as_update(VALUE_BYTES_MAX);
        let is_inline = std::mem::replace(&mut self.inline, true);
        let updated = self.update(keyspace, key, f, options);
        self.inline = is_inline;
        let Outcome::Done(position) = updated? else { return Err(Error::bug("an inline update is pending")) };
        let answer = answer.take()?;
        Ok(match self.tickets.ticket(self.inline) {
            Some(ticket) => {
                self.tickets.complete(ticket, Completion::Modified(position, answer));
                Outcome::Pending(ticket)
            }
            None => Outcome::Done((position, answer)),
        })
    }

    fn lock(&mut self, keys: &[(KeyspaceId, &[u8])]) -> Outcome<KeyLocks> {
        let hash = |key: &(KeyspaceId, &[u8])| BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let table = match self.shared.is(Fault::OpenLocks) {
            true => LockTable::new(),
            false => Arc::clone(&self.shared.locks),
        };
        let outcome = table.lock(keys.iter().map(hash), &self.queue.sender(), || self.tickets.next());
        self.locks_awaited += u64::from(matches!(outcome, Outcome::Pending(_)));
        outcome
    }

    fn lock_all(&mut self) -> Outcome<KeyLocks> {
        let table = match self.shared.is(Fault::OpenLocks) {
            true => LockTable::new(),
            false => Arc::clone(&self.shared.locks),
        };
        let outcome = table.lock_all(&self.queue.sender(), || self.tickets.next());
        self.locks_awaited += u64::from(matches!(outcome, Outcome::Pending(_)));
        outcome
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Ticket, Completion)) -> usize {
        let mut count = 0;
        self.queue.take_nudge();
        while let Some((ticket, completion)) = self.queue.pop() {
            self.locks_awaited -= u64::from(matches!(completion, Completion::Locked(_)));
            sink(ticket, completion);
            count += 1;
        }
        count
    }

    fn wait(&mut self, deadline: Option<Instant>) -> bool {
        // Completions of all but locks are queued by the calls themselves: for those there is
        // nothing to wait for.
        if self.locks_awaited > 0 {
            return self.queue.notifier().wait(deadline);
        }
        #[expect(clippy::disallowed_methods, reason = "a deadline that has passed: only look")]
        let now = Instant::now();
        self.queue.notifier().wait(Some(now))
    }

    fn notifier(&self) -> Notifier {
        self.queue.notifier()
    }

    fn set_inline(&mut self, inline: bool) {
        self.inline = inline;
    }
}

impl OrderedSession for ReferenceSession {
    fn scan(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, range: ScanRange) -> Result<Box<dyn Scan>> {
        let shared = Arc::clone(&self.shared);
        let at = {
            let state = shared.lock();
            state.check_not_closed(&shared)?;
            moment(&shared, at, state.model.end())
        };
        let (tickets, inline) = (self.tickets.clone(), self.inline);
        Ok(Box::new(ReferenceScan::open(shared, at, keyspace, &range, (tickets, inline))?))
    }

    fn write_ordered(&mut self, batch: &OrderedBatch, options: WriteOptions) -> Result<Outcome<Position>> {
        // Each operation of a batch has its own.
        let options = WriteOptions { expires_at_ms: 0, ..options };
        if self.shared.is(Fault::SplitBatch) && batch.len() > 1 {
            self.shared.lock().model.check(batch)?;
            let mut position = Position(0);
            for op in batch.ops() {
                let mut state = self.shared.lock();
                position = self.shared.write(&mut state, OrderedBatch::default().push(op), options)?;
                drop(state);
                std::thread::yield_now();
            }
            return Ok(self.written(position));
        }
        let mut state = self.shared.lock();
        let position = self.shared.write(&mut state, batch, options)?;
        drop(state);
        Ok(self.written(position))
    }

    fn write_ordered_if(
        &mut self,
        batch: &OrderedBatch,
        reads: OrderedReadSet,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let options = WriteOptions { expires_at_ms: 0, ..options };
        let since = reads.keys().position().0;
        let mut state = self.shared.lock();
        state.model.check(batch)?;
        let mut is_written = false;
        if !self.shared.is(Fault::UnlockedUpdate) {
            for (keyspace, key) in reads.keys().keys() {
                is_written |= state.model.is_written(since, keyspace, key)?;
            }
            for range in reads.ranges() {
                is_written |= state.model.is_range_written(since, range)?;
            }
        }
        if is_written {
            return Err(conflict());
        }
        let position = self.shared.write(&mut state, batch, options)?;
        drop(state);
        Ok(self.written(position))
    }

    fn delete_range(
        &mut self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        if start >= end {
            return Err(Error::invalid("a range to delete must end after it starts"));
        }
        let kind = OrderedOpKind::DeleteRange;
        self.write_one(OrderedOp { keyspace, kind, key: start, value: end, expires_at_ms: 0 }, options)
    }
}

struct ReferenceScan {
    shared: Arc<Shared>,
    at: Moment,
    keyspace: KeyspaceId,
    records: VecDeque<(Vec<u8>, Vec<u8>)>,
    tickets: Tickets,
    inline: bool,
}

impl ReferenceScan {
    fn open(
        shared: Arc<Shared>,
        at: Moment,
        keyspace: KeyspaceId,
        range: &ScanRange,
        (tickets, inline): (Tickets, bool),
    ) -> Result<Self> {
        let mut wanted = range.clone();
        if let (true, Some(end)) = (shared.is(Fault::InclusiveScan), &mut wanted.end) {
            end.push(0);
        }
        let records = shared.lock().model.scan(at, keyspace, &wanted, now_ms(&shared))?;
        let mut records = VecDeque::from(records);
        if shared.is(Fault::ShortBackwardScan) && range.direction == Direction::Backward {
            records.pop_front();
        }
        Ok(Self { shared, at, keyspace, records, tickets, inline })
    }
}

impl Scan for ReferenceScan {
    fn next_batch(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<Outcome<()>> {
        if limit.records == 0 {
            return Err(Error::invalid("a batch has at least one record"));
        }
        let mut batch = ScanBatch::new();
        while batch.len() < limit.records && (batch.is_empty() || batch.data_bytes() < limit.bytes) {
            let Some((key, value)) = self.records.pop_front() else { break };
            let (at, now_ms) = (self.at, now_ms(&self.shared));
            let expires_at_ms =
                self.shared.lock().model.expires_at_ms(at, self.keyspace, &key, now_ms).unwrap_or(0);
            batch.push_until(&key, &value, expires_at_ms);
        }
        if self.records.is_empty() {
            batch.finish();
        }
        out.clear();
        match self.tickets.ticket(self.inline) {
            Some(ticket) => {
                self.tickets.complete(ticket, Completion::Scanned(batch));
                Ok(Outcome::Pending(ticket))
            }
            None => {
                *out = batch;
                Ok(Outcome::Done(()))
            }
        }
    }
    fn reopen(&self, range: ScanRange) -> Result<Box<dyn Scan>> {
        let shared = Arc::clone(&self.shared);
        let at = match shared.is(Fault::LeakyReopen) {
            true => shared.lock().model.end(),
            false => self.at,
        };
        let how = (self.tickets.clone(), self.inline);
        Ok(Box::new(Self::open(shared, at, self.keyspace, &range, how)?))
    }
}
