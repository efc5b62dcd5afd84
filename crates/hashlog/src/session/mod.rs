//! A client's stream of operations on a hashed engine.
//!
//! *Inline* (the blocking layer): whatever has to be waited for is waited for on the calling
//! thread. Otherwise a call that would have to wait is done by a thread of the pool, after those of
//! the session that wait already ([`line`]).

mod line;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use firn_engine::{
    Batch, Completion, CompletionQueue, Durability, HashBatch, HashScan, HashedSession, KeyLocks, KeyspaceId,
    Notifier, Op, OpKind, Outcome, Position, ReadAt, ReadSet, Result, Rmw, RmwAnswer, Session, Snapshot,
    Ticket, UpdateFn, ValueSource, Values, WriteOptions, check_value_bytes,
};

use crate::caller::{Caller, Looked};
use crate::database::Database;
use crate::ops::Key;
use line::Line;

/// A session on a hashed engine.
pub(crate) struct HashSession {
    caller: Result<Caller>,
    database: Arc<Database>,
    queue: CompletionQueue,
    line: Line,
    inline: bool,
}

impl HashSession {
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        let queue = CompletionQueue::new();
        let caller = Caller::new(database);
        // Whatever does them, its writes are in one file of the redo log, in their order.
        let writer = caller.as_ref().map_or(0, Caller::writer);
        let line = Line::new(database, queue.sender(), writer);
        Self { caller, database: Arc::clone(database), queue, line, inline: false }
    }

    /// The caller, which waits where this session does. A session for which there was no place
    /// says so at each call.
    fn caller(&mut self) -> Result<&mut Caller> {
        let may_wait = self.inline;
        let caller = self.caller.as_mut().map_err(|error| error.clone())?;
        caller.may_wait = may_wait;
        Ok(caller)
    }

    /// Whether a write may be done at once: none of this session's waits before it.
    fn is_free(&self) -> bool {
        self.inline || self.line.is_free()
    }

    fn durability(&mut self, options: WriteOptions) -> Result<Durability> {
        self.database.check_writes()?;
        let durability = options.durability.unwrap_or(self.database.env.settings.durability);
        if durability == Durability::Shared {
            self.database.check_shared()?;
        }
        self.caller()?.promise(durability);
        Ok(durability)
    }

    /// Answers a write that is done, once it is as durable as it should be.
    fn acknowledge(&mut self, position: Position, durability: Durability) -> Result<Outcome<Position>> {
        if durability <= Durability::Process {
            return Ok(Outcome::Done(position));
        }
        if self.inline {
            self.caller()?.make_durable(durability, position)?;
            return Ok(Outcome::Done(position));
        }
        Ok(Outcome::Pending(self.complete_later(position, durability, Completion::Written(position))))
    }

    /// Has the call that made the write at `position` end with `completion`, once that is as
    /// durable as it should be. Later writes of this session need not wait for other machines.
    fn complete_later(
        &mut self,
        position: Position,
        durability: Durability,
        completion: Completion,
    ) -> Ticket {
        if durability < Durability::Shared {
            return self.line.push(move |caller| {
                caller.make_durable(durability, position)?;
                Ok(completion)
            });
        }
        let (ticket, sender) = (self.line.ticket(), self.queue.sender());
        let acknowledge = move |shared: Result<()>| {
            sender.send(ticket, shared.map_or_else(Completion::Failed, |()| completion));
        };
        self.database.share_later(position, Box::new(acknowledge));
        ticket
    }

    fn write_one(&mut self, op: Op<'_>, options: WriteOptions) -> Result<Outcome<Position>> {
        let durability = self.durability(options)?;
        if self.is_free() {
            if let Some(position) = self.caller()?.write(&op)? {
                return self.acknowledge(position, durability);
            }
        } else {
            self.caller()?.check(&op)?;
        }
        let (keyspace, kind, expires_at_ms) = (op.keyspace, op.kind, op.expires_at_ms);
        let (key, value) = (op.key.to_vec(), op.value.to_vec());
        Ok(Outcome::Pending(self.line.push(move |caller| {
            caller.promise(durability);
            let op = Op { keyspace, kind, key: &key, value: &value, expires_at_ms };
            let position = done(caller.write(&op)?)?;
            caller.make_durable(durability, position)?;
            Ok(Completion::Written(position))
        })))
    }

    /// Sets `key` to what `source` brings.
    pub(crate) fn put_from(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        mut source: ValueSource<'_>,
        options: WriteOptions,
    ) -> Result<Position> {
        let durability = self.durability(options)?;
        let caller = self.caller()?;
        caller.check_key(keyspace, key)?;
        check_value_bytes(source.value_bytes(), caller.value_bytes_max())?;
        let position = match caller.is_short(key, source.value_bytes()) {
            true => {
                let value = source.whole()?;
                let expires_at_ms = options.expires_at_ms;
                let op = Op { keyspace, kind: OpKind::Put, key, value: &value, expires_at_ms };
                caller.database.check_writes()?;
                done(caller.write(&op)?)?
            }
            false => {
                let reference = caller.database.values.write_from(&mut source)?;
                if let Err(error) = source.end().and_then(|()| caller.database.check_writes()) {
                    caller.database.values.forget(&reference);
                    return Err(error);
                }
                caller.put_reference(keyspace, key, &reference, options.expires_at_ms)?
            }
        };
        caller.make_durable(durability, position)?;
        Ok(position)
    }

    /// A read that the pool does.
    fn read_later(
        &mut self,
        at: ReadAt<'_>,
        read: impl FnOnce(&mut Caller, ReadAt<'_>) -> Result<Completion> + Send + 'static,
    ) -> Ticket {
        let snapshot: Option<Snapshot> = match at {
            ReadAt::Latest => None,
            ReadAt::Snapshot(snapshot) => Some(snapshot.clone()),
        };
        self.line
            .push_read(move |caller| read(caller, snapshot.as_ref().map_or(ReadAt::Latest, ReadAt::Snapshot)))
    }
}

/// What a caller that may wait has done.
fn done<T>(result: Option<T>) -> Result<T> {
    result.ok_or_else(|| firn_engine::Error::bug("a caller that may wait did not"))
}

impl Session for HashSession {
    fn get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        match self.caller()?.get(at, keyspace, key, out)? {
            Looked::Value(_) => return Ok(Outcome::Done(true)),
            Looked::Expired | Looked::Nothing => return Ok(Outcome::Done(false)),
            Looked::MustWait => out.clear(),
        }
        let key = key.to_vec();
        Ok(Outcome::Pending(self.read_later(at, move |caller, at| {
            let mut out = Vec::new();
            let looked = caller.get(at, keyspace, &key, &mut out)?;
            Ok(Completion::Value(matches!(looked, Looked::Value(_)).then_some(out)))
        })))
    }

    fn get_range(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        match self.caller()?.get(at, keyspace, key, out)? {
            Looked::Value(_) => {
                cut(out, range);
                return Ok(Outcome::Done(true));
            }
            Looked::Expired | Looked::Nothing => return Ok(Outcome::Done(false)),
            Looked::MustWait => out.clear(),
        }
        let key = key.to_vec();
        Ok(Outcome::Pending(self.read_later(at, move |caller, at| {
            let mut out = Vec::new();
            let looked = caller.get(at, keyspace, &key, &mut out)?;
            cut(&mut out, range);
            Ok(Completion::Value(matches!(looked, Looked::Value(_)).then_some(out)))
        })))
    }

    fn multi_get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
    ) -> Result<Outcome<()>> {
        if self.caller()?.multi_get(at, keyspace, keys, out)?.is_some() {
            return Ok(Outcome::Done(()));
        }
        let mut values = std::mem::take(out);
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        Ok(Outcome::Pending(self.read_later(at, move |caller, at| {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            done(caller.multi_get(at, keyspace, &keys, &mut values)?)?;
            Ok(Completion::Values(values))
        })))
    }

    fn is_stored(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Outcome<bool>> {
        let mut out = Vec::new();
        match self.caller()?.get(ReadAt::Latest, keyspace, key, &mut out)? {
            Looked::Value(_) | Looked::Expired => return Ok(Outcome::Done(true)),
            Looked::Nothing => return Ok(Outcome::Done(false)),
            Looked::MustWait => {}
        }
        let key = key.to_vec();
        Ok(Outcome::Pending(self.read_later(ReadAt::Latest, move |caller, at| {
            let looked = caller.get(at, keyspace, &key, &mut Vec::new())?;
            Ok(Completion::Value((looked != Looked::Nothing).then(Vec::new)))
        })))
    }

    fn prefetch(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) {
        if let Ok(caller) = &mut self.caller {
            let _on_device = caller.prefetch(keyspace, keys);
        }
    }

    /// One thread of the pool reads for all of them, instead of one for each.
    fn load(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) -> Outcome<()> {
        let Ok(caller) = &mut self.caller else { return Outcome::Done(()) };
        let keys = caller.prefetch(keyspace, keys);
        if keys.len() < 2 || self.database.store.cache.is_none() {
            caller.ask_for(keyspace, &keys);
            return Outcome::Done(());
        }
        if self.inline {
            let _reported_by_the_reads = caller.load(keyspace, &keys);
            return Outcome::Done(());
        }
        let keys: Vec<Vec<u8>> = keys.into_iter().map(<[u8]>::to_vec).collect();
        Outcome::Pending(self.read_later(ReadAt::Latest, move |caller, _| {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let _reported_by_the_reads = caller.load(keyspace, &keys);
            Ok(Completion::Value(None))
        }))
    }

    fn write(&mut self, batch: &Batch, options: WriteOptions) -> Result<Outcome<Position>> {
        let durability = self.durability(options)?;
        if self.is_free()
            && let Some(position) = self.caller()?.write_batch(batch)?
        {
            return self.acknowledge(position, durability);
        }
        let batch = batch.clone();
        Ok(Outcome::Pending(self.line.push(move |caller| {
            caller.promise(durability);
            let position = done(caller.write_batch(&batch)?)?;
            caller.make_durable(durability, position)?;
            Ok(Completion::Written(position))
        })))
    }

    fn write_if(
        &mut self,
        batch: &Batch,
        reads: ReadSet,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let durability = self.durability(options)?;
        if self.is_free()
            && let Some(position) = self.caller()?.write_batch_if(batch, &reads)?
        {
            return self.acknowledge(position, durability);
        }
        let batch = batch.clone();
        Ok(Outcome::Pending(self.line.push(move |caller| {
            caller.promise(durability);
            let position = done(caller.write_batch_if(&batch, &reads)?)?;
            caller.make_durable(durability, position)?;
            Ok(Completion::Written(position))
        })))
    }

    fn put(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let expires_at_ms = options.expires_at_ms;
        self.write_one(Op { keyspace, kind: OpKind::Put, key, value, expires_at_ms }, options)
    }

    fn delete(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write_one(Op { keyspace, kind: OpKind::Delete, key, value: &[], expires_at_ms: 0 }, options)
    }

    fn merge(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write_one(Op { keyspace, kind: OpKind::Merge, key, value: operand, expires_at_ms: 0 }, options)
    }

    fn update(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        mut f: UpdateFn,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let durability = self.durability(options)?;
        let expires_at_ms = options.expires_at_ms;
        if self.is_free()
            && let Some(position) = self.caller()?.update_fn(keyspace, key, &mut f, expires_at_ms)?
        {
            return self.acknowledge(position, durability);
        }
        let key = key.to_vec();
        Ok(Outcome::Pending(self.line.push(move |caller| {
            caller.promise(durability);
            let position = done(caller.update_fn(keyspace, &key, &mut f, expires_at_ms)?)?;
            caller.make_durable(durability, position)?;
            Ok(Completion::Written(position))
        })))
    }

    fn rmw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        options: WriteOptions,
    ) -> Result<Outcome<(Position, RmwAnswer)>> {
        let durability = self.durability(options)?;
        let expires_at_ms = options.expires_at_ms;
        if self.is_free()
            && let Some((position, answer)) = self.caller()?.rmw(keyspace, key, rmw, expires_at_ms)?
        {
            if durability <= Durability::Process {
                return Ok(Outcome::Done((position, answer)));
            }
            if self.inline {
                self.caller()?.make_durable(durability, position)?;
                return Ok(Outcome::Done((position, answer)));
            }
            let completion = Completion::Modified(position, answer);
            return Ok(Outcome::Pending(self.complete_later(position, durability, completion)));
        }
        let (mut f, answer) = rmw.as_update(self.database.env.settings.value_bytes_max);
        let key = key.to_vec();
        Ok(Outcome::Pending(self.line.push(move |caller| {
            caller.promise(durability);
            let position = done(caller.update_fn(keyspace, &key, &mut f, expires_at_ms)?)?;
            let answer = answer.take()?;
            caller.make_durable(durability, position)?;
            Ok(Completion::Modified(position, answer))
        })))
    }

    fn lock(&mut self, keys: &[(KeyspaceId, &[u8])]) -> Outcome<KeyLocks> {
        let hash = |(keyspace, key): &(KeyspaceId, &[u8])| Key::new(keyspace.0, key).hash.bits();
        let line = &self.line;
        self.database.locks.lock(keys.iter().map(hash), &self.queue.sender(), || line.ticket())
    }

    fn lock_all(&mut self) -> Outcome<KeyLocks> {
        let line = &self.line;
        self.database.locks.lock_all(&self.queue.sender(), || line.ticket())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Ticket, Completion)) -> usize {
        self.queue.take_nudge();
        let mut delivered = 0;
        while let Some((ticket, completion)) = self.queue.pop() {
            self.line.delivered();
            delivered += 1;
            sink(ticket, completion);
        }
        delivered
    }

    fn wait(&mut self, deadline: Option<Instant>) -> bool {
        if self.line.outstanding() == 0 && deadline.is_none() {
            return false;
        }
        self.queue.notifier().wait(deadline)
    }

    fn notifier(&self) -> Notifier {
        self.queue.notifier()
    }

    fn set_inline(&mut self, inline: bool) {
        self.inline = inline;
    }
}

impl HashedSession for HashSession {
    fn scan_by_hash(&mut self, at: ReadAt<'_>, scan: HashScan, out: &mut HashBatch) -> Result<Outcome<()>> {
        if self.caller()?.scan(at, &scan, out)?.is_some() {
            return Ok(Outcome::Done(()));
        }
        let mut batch = std::mem::take(out);
        Ok(Outcome::Pending(self.read_later(at, move |caller, at| {
            done(caller.scan(at, &scan, &mut batch)?)?;
            Ok(Completion::ScannedByHash(batch))
        })))
    }
}

/// Leaves the bytes `range` of `value`, cut to its length.
fn cut(value: &mut Vec<u8>, range: Range<usize>) {
    let end = range.end.min(value.len());
    value.truncate(end);
    value.drain(..range.start.min(end));
}
