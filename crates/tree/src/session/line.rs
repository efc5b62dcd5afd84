//! Writes of a session that does not block, and have to wait: for room, for an update before them,
//! for their pace.
//!
//! Writes happen in call order, in a [line](queue::Line). An update, whose function belongs on the
//! pool, holds the line until it has been written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firn_engine::{
    Completion, CompletionQueue, CompletionSender, Durability, KeyspaceId, OrderedBatch, OrderedReadSet,
    Outcome, Position, Result, Ticket, UpdateFn, WriteOptions, queue,
};

use super::TreeSession;
use crate::commit::Appended;
use crate::counters::count;
use crate::database::Database;
use crate::error::from_storage;
use crate::error::survived;
use crate::write::update::{Update, Updates};
use crate::write::{refused_room, retry_flushes};

/// Writes of a session that wait, and acknowledgements that its pace delays.
pub(super) type Line = queue::Line<Waiting, Delayed>;

/// A write that waits.
pub(super) struct Waiting {
    write: Write,
    options: WriteOptions,
}

/// What is to be acknowledged.
pub(super) struct Delayed {
    end: Position,
    durability: Durability,
}

/// A write that is kept until it may be written.
pub(super) enum Write {
    Batch(OrderedBatch),
    BatchIf(OrderedBatch, OrderedReadSet),
    Update { keyspace: KeyspaceId, key: Vec<u8>, f: UpdateFn },
}

/// Waits until everything below `end` has `durability`, and then completes the write at the
/// session.
fn complete_when_durable(
    database: &Database,
    session: &CompletionSender,
    ticket: Ticket,
    end: Position,
    durability: Durability,
) {
    let durable = database.commit.make_durable(database, end, durability);
    let written = durable.map_or_else(Completion::Failed, |()| Completion::Written(end));
    session.send(ticket, written);
}

/// Completes what was written on the pool, once it has `durability`. Threads for reads have other
/// work than to wait for shared storage.
fn complete_written(
    database: &Arc<Database>,
    session: CompletionSender,
    ticket: Ticket,
    written: Result<Position>,
    durability: Durability,
) {
    match (written, durability) {
        (Err(error), _) => session.send(ticket, Completion::Failed(error)),
        (Ok(end), Durability::Shared) => {
            let owned = Arc::clone(database);
            database.reads.on_pool_for(durability, move || {
                complete_when_durable(&owned, &session, ticket, end, durability);
            });
        }
        (Ok(end), _) => {
            complete_when_durable(database, &session, ticket, end, durability);
        }
    }
}

impl TreeSession {
    /// Puts `write` at the end of the line.
    pub(super) fn line_up(&mut self, write: Write, options: WriteOptions) -> Ticket {
        let ticket = self.tickets.next();
        self.line.push(ticket, Waiting { write, options });
        self.shared.commit.admission.wait_in(&self.queue.sender());
        ticket
    }

    /// Answers a published write: at once, or when its pace and its durability allow.
    pub(super) fn acknowledge(
        &mut self,
        end: Position,
        bytes: usize,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.count_written(bytes);
        let delay = self.shared.commit.admit(&*self.shared, bytes as u64);
        let durability = self.durability(options);
        if delay.is_zero() && durability == Durability::Process {
            // Where another thread is still copying an earlier frame, the write is not visible yet.
            let is_visible = self.deferred && self.shared.commit.log.advance().map_err(from_storage)? >= end;
            if !is_visible {
                self.shared.commit.make_durable(&*self.shared, end, durability)?;
            }
            return Ok(Outcome::Done(end));
        }
        let ticket = self.tickets.next();
        if delay.is_zero() {
            make_durable_later(&self.shared, &self.queue, ticket, Delayed { end, durability });
        } else {
            let due = self.shared.clock.now() + delay;
            self.line.delay(ticket, Delayed { end, durability }, due);
            self.shared.commit.admission.wait_in(&self.queue.sender());
        }
        Ok(Outcome::Pending(ticket))
    }

    /// Brings the line on: writes what may be written, and hands over delayed acknowledgements that
    /// are due.
    pub(super) fn go_on(&mut self) {
        while let Some((ticket, Waiting { write, options })) = self.line.pop() {
            match write {
                Write::Update { keyspace, key, f } => self.update_later(ticket, keyspace, key, f, options),
                Write::BatchIf(batch, reads) => self.write_if_later(ticket, batch, reads, options),
                Write::Batch(batch) => {
                    match self.shared.commit.append_ops(&*self.shared, batch.ops(), None) {
                        Ok(Appended::Stopped | Appended::Raced) => {
                            if let Err(error) = self.note_stopped() {
                                self.queue.sender().send(ticket, Completion::Failed(error));
                                continue;
                            }
                            let waiting = Waiting { write: Write::Batch(batch), options };
                            self.line.put_back(ticket, waiting);
                            break;
                        }
                        Ok(Appended::At(end)) => {
                            self.note_written();
                            self.count_written(batch.data_bytes());
                            let delay = self.shared.commit.admit(&*self.shared, batch.data_bytes() as u64);
                            let due = self.shared.clock.now() + delay;
                            let durability = self.durability(options);
                            self.line.delay(ticket, Delayed { end, durability }, due);
                        }
                        Err(error) => self.queue.sender().send(ticket, Completion::Failed(error)),
                    }
                }
            }
        }
        if self.line.has_no_writes() {
            self.note_written();
        }
        // When the database closes, acknowledgements are delayed no more.
        let is_closed = self.shared.closed.load(Ordering::Acquire);
        let now = if is_closed { Duration::MAX } else { self.shared.clock.now() };
        let (shared, queue) = (&self.shared, &self.queue);
        self.line.take_due(now, |ticket, delayed| make_durable_later(shared, queue, ticket, delayed));
        if !self.line.is_empty() {
            self.shared.commit.admission.wait_in(&self.queue.sender());
        }
    }

    /// The first of the line finds no room. `Err` if none can be made.
    pub(super) fn note_stopped(&mut self) -> Result<()> {
        let now = self.shared.clock.now();
        if !self.line.note_stopped(now) {
            if let Some(since) = self.line.stopped_since() {
                self.shared.commit.admission.still_stopped(since, now);
            }
            let Database { maintenance, catalog, clock, .. } = &*self.shared;
            return refused_room(maintenance, catalog, &**clock);
        }
        retry_flushes(&self.shared.maintenance);
        Ok(())
    }

    /// The line is empty or was written: counts how long there was no room.
    fn note_written(&mut self) {
        if let Some(since) = self.line.note_written() {
            self.shared.commit.admission.stopped(since, self.shared.clock.now());
        }
    }

    /// Runs an update on the pool: its read may need a device, and its function may run long.
    fn update_later(
        &mut self,
        ticket: Ticket,
        keyspace: KeyspaceId,
        key: Vec<u8>,
        f: UpdateFn,
        options: WriteOptions,
    ) {
        let (shared, sender) = (Arc::clone(&self.shared), self.queue.sender());
        let durability = self.durability(options);
        let updating = self.line.hold(self.queue.sender());
        self.shared.reads.on_pool(move || {
            let written = survived("an update", || {
                let mut update = Update::new(keyspace, &key, f, options.expires_at_ms);
                Updates::of(&shared).update(&mut update)
            });
            drop(updating);
            complete_written(&shared, sender, ticket, written, durability);
        });
    }

    /// Writes on the pool if nothing of `reads` was written: to find out may need a device.
    fn write_if_later(
        &mut self,
        ticket: Ticket,
        batch: OrderedBatch,
        reads: OrderedReadSet,
        options: WriteOptions,
    ) {
        let (shared, sender) = (Arc::clone(&self.shared), self.queue.sender());
        let durability = self.durability(options);
        let (writing, bytes) = (self.line.hold(self.queue.sender()), batch.data_bytes());
        self.shared.reads.on_pool(move || {
            let written = survived("a conditional write", || {
                shared.commit.write_if(&*shared, batch.ops(), bytes, &reads)
            });
            drop(writing);
            if written.is_ok() {
                count(&shared.commit.user_write_bytes, bytes as u64);
            }
            complete_written(&shared, sender, ticket, written, durability);
        });
    }

    /// When the line should be looked at again; `None` if a nudge or nothing will come.
    pub(super) fn next_due(&self) -> Option<Instant> {
        #[expect(clippy::disallowed_methods, reason = "`wait` takes its deadline as an Instant")]
        let now = Instant::now();
        Some(now + self.line.next_look(self.shared.clock.now())?)
    }
}

/// Has a written frame acknowledged once it has its durability.
fn make_durable_later(shared: &Arc<Database>, queue: &CompletionQueue, ticket: Ticket, delayed: Delayed) {
    let Delayed { end, durability } = delayed;
    let (database, sender) = (Arc::clone(shared), queue.sender());
    shared
        .reads
        .on_pool_for(durability, move || complete_when_durable(&database, &sender, ticket, end, durability));
}
