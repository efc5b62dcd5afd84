//! A client's stream of operations on a tree.
//!
//! *Inline* (the blocking layer): reads that miss memory and waits for durability run on the
//! calling thread. Otherwise they are handed to the read pool, and writes that must wait stand in
//! [`line`](mod@line).

mod line;
mod streamed;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use firn_engine::{
    AnswerOfRmw, Batch, Completion, CompletionQueue, Durability, KeyLocks, KeyspaceId, Notifier, Op,
    OrderedBatch, OrderedOp, OrderedOpKind, OrderedReadSet, OrderedSession, Outcome, Position, ReadAt,
    ReadSet, Result, Rmw, RmwAnswer, Scan, ScanRange, Session, Ticket, UpdateFn, Values, WriteOptions,
};
use firn_storage::file::table::ReadMode;

use line::{Line, Write};

use crate::commit::{Appended, CommitEnv};
use crate::counters::count;
use crate::database::Database;
use crate::error::from_storage;
use crate::error::survived;
use crate::read::ahead::Ahead;
use crate::read::prefetch::TOGETHER;
use crate::read::scan::{Tickets, TreeScan};
use crate::read::{BesideReads, Found, Lookup, Wants, note_lookup};
use crate::reads::Reads;
use crate::version::Version;
use crate::version::observed::READS_FOR_EACH_LOOK;
use crate::write::update::{Update, Updates, lock_hash};

/// A session on a tree.
pub(crate) struct TreeSession {
    shared: Arc<Database>,
    queue: CompletionQueue,
    inline: bool,
    /// Writes at `Process` are answered before the kernel has them.
    deferred: bool,
    tickets: Arc<Tickets>,
    /// Bytes written and not yet added to the shared counter.
    uncounted_bytes: u64,
    /// Point reads since the last one that was counted in the statistics.
    unnoted_reads: u32,
    /// Reads of separated values since then.
    beside: BesideReads,
    line: Line,
    /// Answers of named changes that are under way.
    answers: BTreeMap<Ticket, AnswerOfRmw>,
}

/// Bytes a session writes before it adds them to the shared counter.
const COUNT_STEP_BYTES: u64 = 64 << 10;

impl TreeSession {
    pub(crate) fn new(shared: Arc<Database>) -> Self {
        Self {
            shared,
            queue: CompletionQueue::new(),
            inline: false,
            deferred: false,
            tickets: Arc::default(),
            uncounted_bytes: 0,
            unnoted_reads: 0,
            beside: BesideReads::default(),
            line: Line::default(),
            answers: BTreeMap::new(),
        }
    }

    /// `bytes` of operations as one frame. They are copied where they must wait.
    fn write_ops<'o>(
        &mut self,
        ops: impl Iterator<Item = OrderedOp<'o>> + Clone,
        bytes: usize,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.check_write(options)?;
        let database = &*self.shared;
        if self.inline {
            let end = database.commit.commit(database, ops, bytes, self.durability(options))?;
            self.count_written(bytes);
            return Ok(Outcome::Done(end));
        }
        database.commit.validate(ops.clone())?;
        if self.line.is_free() {
            match database.commit.append_ops(database, ops.clone(), None)? {
                Appended::At(end) => return self.acknowledge(end, bytes, options),
                Appended::Stopped | Appended::Raced => self.note_stopped()?,
            }
        }
        let mut batch = OrderedBatch::default();
        for op in ops {
            batch.push(op);
        }
        Ok(Outcome::Pending(self.line_up(Write::Batch(batch), options)))
    }

    /// Updates on the calling thread, waiting for the pace, for room, and for durability.
    fn update_inline(
        &mut self,
        update: &mut Update<'_>,
        bytes: usize,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let database = &*self.shared;
        let delay = database.commit.admit(database, bytes as u64);
        if !delay.is_zero() {
            database.clock.sleep(delay);
        }
        let end = Updates::of(database).update(update)?;
        database.commit.make_durable(database, end, self.durability(options))?;
        self.count_written(bytes);
        Ok(Outcome::Done(end))
    }

    /// What the completion of an update says where the update was a named change.
    fn with_answer(&mut self, ticket: Ticket, completion: Completion) -> Completion {
        if self.answers.is_empty() {
            return completion;
        }
        match (self.answers.remove(&ticket), completion) {
            (Some(answer), Completion::Written(position)) => match answer.take() {
                Ok(answer) => Completion::Modified(position, answer),
                Err(error) => Completion::Failed(error),
            },
            (_, completion) => completion,
        }
    }

    /// Counts bytes written, in steps that keep the shared counter off the path of each write.
    fn count_written(&mut self, bytes: usize) {
        self.uncounted_bytes += bytes as u64;
        if self.uncounted_bytes >= COUNT_STEP_BYTES {
            count(&self.shared.commit.user_write_bytes, std::mem::take(&mut self.uncounted_bytes));
        }
    }

    /// Refuses what cannot be written, or not with the durability asked for.
    fn check_write(&self, options: WriteOptions) -> Result<()> {
        self.shared.check_open()?;
        match self.durability(options) {
            Durability::Shared => self.shared.check_shared(),
            _ => Ok(()),
        }
    }

    fn durability(&self, options: WriteOptions) -> Durability {
        // The engine has no lesser promise.
        options.durability.unwrap_or(self.shared.settings.durability).max(Durability::Process)
    }

    fn mode(&self) -> ReadMode {
        if self.inline { ReadMode::Blocking } else { ReadMode::ResidentOnly }
    }

    /// Looks a key up; notes for every so many lookups what they took.
    #[inline]
    fn look_up(&mut self, version: &Version, lookup: &Lookup<'_>, out: &mut Vec<u8>) -> Result<Found> {
        let found = self.shared.reads.lookup(version, lookup, out)?;
        self.beside.note(found);
        self.unnoted_reads += 1;
        if self.unnoted_reads == READS_FOR_EACH_LOOK {
            self.unnoted_reads = 0;
            self.shared.reads.counters.take_reads(&mut self.beside);
            note_lookup(version, lookup, found);
        }
        Ok(found)
    }

    /// Looks up a part of a value, or whether there is one; on the pool if that has to wait.
    fn look_up_part(
        &mut self,
        at: ReadAt<'_>,
        (keyspace, key): (KeyspaceId, &[u8]),
        wants: Wants,
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        let version = self.shared.catalog.version.load();
        let before = point(&self.shared, &version, at)?;
        let lookup = Lookup { keyspace, key, before, mode: self.mode(), wants };
        let found = self.look_up(&version, &lookup, out)?;
        if found == Found::Miss {
            out.clear();
            let version = arc_swap::Guard::into_inner(version);
            let key = key.to_vec();
            let ticket = self.read_later(version, move |reads, version| {
                let lookup = Lookup { wants, ..Lookup::latest(keyspace, &key, before) };
                reads.read_missed(version, &lookup)
            });
            return Ok(Outcome::Pending(ticket));
        }
        Ok(Outcome::Done(matches!(found, Found::Value { .. })))
    }

    /// Reads the rest of several keys, which have to be waited for, and appends what they have to
    /// `out`. On the pool if this session does not wait itself.
    fn wait_for_many(
        &mut self,
        version: Arc<Version>,
        (keyspace, before): (KeyspaceId, Position),
        rest: &[&[u8]],
        out: &mut Values,
    ) -> Result<Outcome<()>> {
        if self.inline {
            let rest = rest.iter().copied();
            self.shared.reads.read_many(&version, (keyspace, before), rest, out)?;
            return Ok(Outcome::Done(()));
        }
        let mut values = std::mem::take(out);
        let rest: Vec<Vec<u8>> = rest.iter().map(|key| key.to_vec()).collect();
        let ticket = self.read_later(version, move |reads, version| {
            let rest = rest.iter().map(Vec::as_slice);
            reads.read_many(version, (keyspace, before), rest, &mut values)?;
            Ok(Completion::Values(values))
        });
        Ok(Outcome::Pending(ticket))
    }

    /// Runs `read` on the pool with the version it began with.
    fn read_later(
        &mut self,
        version: Arc<Version>,
        read: impl FnOnce(&Reads, &Version) -> Result<Completion> + Send + 'static,
    ) -> Ticket {
        let ticket = self.tickets.next();
        let reads = Arc::clone(&self.shared.reads);
        let sender = self.queue.sender();
        count(&reads.counters.miss_count, 1);
        self.shared.reads.on_pool(move || {
            let completion = survived("a read", || read(&reads, &version)).unwrap_or_else(Completion::Failed);
            sender.send(ticket, completion);
        });
        ticket
    }
}

impl Drop for TreeSession {
    fn drop(&mut self) {
        count(&self.shared.commit.user_write_bytes, self.uncounted_bytes);
        self.shared.reads.counters.take_reads(&mut self.beside);
    }
}

/// The point a read sees; `Closed` after `close`. The version is loaded before.
#[inline]
fn point(shared: &Database, version: &Version, at: ReadAt<'_>) -> Result<Position> {
    shared.check_not_closed()?;
    Ok(match at {
        ReadAt::Latest => shared.commit.read_position(version),
        ReadAt::Snapshot(snapshot) => snapshot.position(),
    })
}

impl Session for TreeSession {
    fn get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        let version = self.shared.catalog.version.load();
        let before = point(&self.shared, &version, at)?;
        let lookup = Lookup { keyspace, key, before, mode: self.mode(), wants: Wants::ALL };
        match self.look_up(&version, &lookup, out)? {
            Found::Value { .. } => Ok(Outcome::Done(true)),
            Found::Absent { .. } | Found::Asked { .. } => {
                out.clear();
                Ok(Outcome::Done(false))
            }
            Found::Miss => {
                out.clear();
                let version = arc_swap::Guard::into_inner(version);
                let key = key.to_vec();
                let ticket = self.read_later(version, move |reads, version| {
                    reads.read_missed(version, &Lookup::latest(keyspace, &key, before))
                });
                Ok(Outcome::Pending(ticket))
            }
        }
    }

    fn get_range(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        self.look_up_part(at, (keyspace, key), Wants::Part { start: range.start, end: range.end }, out)
    }

    fn is_stored(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Outcome<bool>> {
        self.look_up_part(ReadAt::Latest, (keyspace, key), Wants::Stored, &mut Vec::new())
    }

    fn multi_get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
    ) -> Result<Outcome<()>> {
        let version = self.shared.catalog.version.load();
        let before = point(&self.shared, &version, at)?;
        out.clear();
        let state = version.keyspace(keyspace.0)?;
        let (mut value, mut ahead) = (Vec::new(), Ahead::default());
        // With several keys, those that are not in memory are waited for together, at the end.
        let are_many = keys.len() > 1;
        let mode = if are_many { ReadMode::ResidentOnly } else { self.mode() };
        let wants = if are_many && !version.blobs.is_empty() { Wants::Ahead } else { Wants::ALL };
        for (index, key) in keys.iter().enumerate() {
            // Not all at once: the first would have left the processor's caches when their turn
            // comes.
            if are_many && index.is_multiple_of(TOGETHER) {
                version.prefetch(state, &keys[index..keys.len().min(index + TOGETHER)]);
            }
            let lookup = Lookup { keyspace, key, before, mode, wants };
            let found = self.look_up(&version, &lookup, &mut value)?;
            let mut is_here = found != Found::Miss;
            if is_here {
                ahead.take(found, key, &value, out);
            }
            let next = index + 1;
            if !is_here || ahead.is_full() || next.is_multiple_of(TOGETHER) || next == keys.len() {
                let from = (&**version, mode);
                is_here &= self
                    .shared
                    .reads
                    .catch_up(from, &mut ahead, &mut self.beside, |_, given| given.add_to(out))?;
            }
            if !is_here {
                let rest = keys.get(out.len()..).unwrap_or_default();
                return self.wait_for_many(
                    arc_swap::Guard::into_inner(version),
                    (keyspace, before),
                    rest,
                    out,
                );
            }
            if out.is_full() && ahead.is_empty() {
                break;
            }
        }
        Ok(Outcome::Done(()))
    }

    fn prefetch(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) {
        let version = self.shared.catalog.version.load();
        // Where the keyspace does not exist, or the database is closed, the reads report that.
        if let Ok(keyspace) = version.keyspace(keyspace.0)
            && self.shared.check_not_closed().is_ok()
        {
            version.prefetch(keyspace, keys);
        }
    }

    fn write(&mut self, batch: &Batch, options: WriteOptions) -> Result<Outcome<Position>> {
        let ops = batch.ops().map(OrderedOp::from);
        self.write_ops(ops, batch.data_bytes(), options)
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
        let expires_at_ms = options.expires_at_ms;
        let op = Op { keyspace, kind: OrderedOpKind::Put, key, value, expires_at_ms };
        self.write_ops(std::iter::once(op), key.len() + value.len(), options)
    }

    fn delete(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let op = Op { keyspace, kind: OrderedOpKind::Delete, key, value: &[], expires_at_ms: 0 };
        self.write_ops(std::iter::once(op), key.len(), options)
    }

    fn merge(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let op = Op { keyspace, kind: OrderedOpKind::Merge, key, value: operand, expires_at_ms: 0 };
        self.write_ops(std::iter::once(op), key.len() + operand.len(), options)
    }

    fn update(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        f: UpdateFn,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.check_write(options)?;
        self.shared.commit.validate(std::iter::once(Op {
            keyspace,
            kind: OrderedOpKind::Put,
            key,
            value: &[],
            expires_at_ms: 0,
        }))?;
        if self.inline {
            let mut update = Update::new(keyspace, key, f, options.expires_at_ms);
            return self.update_inline(&mut update, key.len(), options);
        }
        // The update takes its place in the line even where it is the first: later calls are
        // written later.
        let ticket = self.line_up(Write::Update { keyspace, key: key.to_vec(), f }, options);
        self.go_on();
        Ok(Outcome::Pending(ticket))
    }

    fn rmw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        options: WriteOptions,
    ) -> Result<Outcome<(Position, RmwAnswer)>> {
        let (f, answer) = rmw.as_update(self.shared.commit.value_bytes_max());
        match self.update(keyspace, key, f, options)? {
            Outcome::Done(position) => Ok(Outcome::Done((position, answer.take()?))),
            Outcome::Pending(ticket) => {
                self.answers.insert(ticket, answer);
                Ok(Outcome::Pending(ticket))
            }
        }
    }

    fn lock(&mut self, keys: &[(KeyspaceId, &[u8])]) -> Outcome<KeyLocks> {
        let hash = |(keyspace, key): &(KeyspaceId, &[u8])| lock_hash(*keyspace, key);
        let tickets = &self.tickets;
        self.shared.reads.locks.lock(keys.iter().map(hash), &self.queue.sender(), || tickets.next())
    }

    fn lock_all(&mut self) -> Outcome<KeyLocks> {
        self.shared.reads.locks.lock_all(&self.queue.sender(), || self.tickets.next())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Ticket, Completion)) -> usize {
        // First, so that a nudge that comes during `go_on` is kept for the next wait.
        self.queue.take_nudge();
        self.go_on();
        let mut delivered = 0;
        while let Some((ticket, completion)) = self.queue.pop() {
            self.tickets.delivered();
            delivered += 1;
            sink(ticket, self.with_answer(ticket, completion));
        }
        delivered
    }

    fn wait(&mut self, deadline: Option<Instant>) -> bool {
        if self.tickets.outstanding() == 0 && deadline.is_none() {
            return false;
        }
        let notifier = self.queue.notifier();
        loop {
            self.go_on();
            if self.shared.is_manual() && !self.line.is_free() && self.shared.wait_to_retry().is_err() {
                return true;
            }
            match self.next_due() {
                None => return notifier.wait(deadline),
                Some(step) => {
                    if notifier.wait(Some(deadline.map_or(step, |deadline| deadline.min(step)))) {
                        return true;
                    }
                    if deadline.is_some_and(|deadline| deadline <= step) {
                        return false;
                    }
                }
            }
        }
    }

    fn notifier(&self) -> Notifier {
        self.queue.notifier()
    }

    fn set_inline(&mut self, inline: bool) {
        self.inline = inline;
    }

    fn set_deferred(&mut self, deferred: bool) {
        self.deferred = deferred;
    }

    fn settle(&mut self) -> Result<()> {
        // Everything that a reader has seen lies below the watermark.
        let log = &self.shared.commit.log;
        log.write_through(log.watermark()).map_err(from_storage)
    }
}

impl OrderedSession for TreeSession {
    fn scan(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, range: ScanRange) -> Result<Box<dyn Scan>> {
        let version = self.shared.catalog.version.load();
        let before = point(&self.shared, &version, at)?;
        let later = (!self.inline).then(|| (self.queue.sender(), Arc::clone(&self.tickets)));
        let scan = TreeScan::open(&self.shared, &version, before, keyspace, range, later)?;
        Ok(Box::new(scan))
    }

    fn write_ordered(&mut self, batch: &OrderedBatch, options: WriteOptions) -> Result<Outcome<Position>> {
        self.write_ops(batch.ops(), batch.data_bytes(), options)
    }

    fn write_ordered_if(
        &mut self,
        batch: &OrderedBatch,
        reads: OrderedReadSet,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.check_write(options)?;
        let (database, bytes) = (&*self.shared, batch.data_bytes());
        if self.inline {
            let end = database.commit.write_if(database, batch.ops(), bytes, &reads)?;
            database.commit.make_durable(database, end, self.durability(options))?;
            self.count_written(bytes);
            return Ok(Outcome::Done(end));
        }
        database.commit.validate(batch.ops())?;
        let ticket = self.line_up(Write::BatchIf(batch.clone(), reads), options);
        self.go_on();
        Ok(Outcome::Pending(ticket))
    }

    fn delete_range(
        &mut self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let kind = OrderedOpKind::DeleteRange;
        let op = Op { keyspace, kind, key: start, value: end, expires_at_ms: 0 };
        self.write_ops(std::iter::once(op), start.len() + end.len(), options)
    }
}
