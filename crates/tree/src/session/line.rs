//! Writes of a session that does not block, and have to wait: for room, for an update before them,
//! for their pace.
//!
//! Writes happen in call order. So each write that comes while another stands in the line joins it.
//! An update, whose function belongs on the pool, holds the line until it has been written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_engine::{
    Completion, CompletionSender, Durability, KeyspaceId, OrderedBatch, Outcome, Position, Result, Ticket,
    UpdateFn, WriteOptions,
};

use super::TreeSession;
use crate::commit::Appended;
use crate::database::Database;
use crate::error::from_storage;
use crate::error::survived;
use crate::write::update::Update;

/// Writes that wait, and what for.
#[derive(Default)]
pub(super) struct Line {
    /// Writes not yet written, in call order.
    waiting: VecDeque<(Ticket, Write, WriteOptions)>,
    /// An update is being worked on by the pool; nothing that waits may be written before it.
    updating: Arc<AtomicBool>,
    /// Since when (engine's clock) the first one finds no room.
    stopped_since: Option<Duration>,
    /// Acknowledgements that admission delays: when (engine's clock), which, of what.
    delayed: Vec<(Duration, Ticket, Position, Durability)>,
}

/// A write that is kept until it may be written.
pub(super) enum Write {
    Batch(OrderedBatch),
    Update { keyspace: KeyspaceId, key: Vec<u8>, f: UpdateFn },
}

impl Line {
    /// Whether a write may be written now, before no other.
    pub(super) fn is_free(&self) -> bool {
        self.waiting.is_empty() && !self.is_updating()
    }

    fn is_updating(&self) -> bool {
        self.updating.load(Ordering::Acquire)
    }
}

/// An update that the pool works on; lets the line go on when it is written, given up, or panics.
struct Updating {
    flag: Arc<AtomicBool>,
    session: CompletionSender,
}

impl Drop for Updating {
    fn drop(&mut self) {
        self.flag.store(false, Ordering::Release);
        self.session.nudge();
    }
}

impl Database {
    /// Waits until everything below `end` has `durability`, and then completes the write at the
    /// session.
    fn tell_durable(
        &self,
        session: &CompletionSender,
        ticket: Ticket,
        end: Position,
        durability: Durability,
    ) {
        let durable = self.commit.make_durable(self, end, durability);
        let written = durable.map_or_else(Completion::Failed, |()| Completion::Written(end));
        session.send(ticket, written);
    }
}

impl TreeSession {
    /// Puts `write` at the end of the line.
    pub(super) fn line_up(&mut self, write: Write, options: WriteOptions) -> Ticket {
        let ticket = self.tickets.next();
        self.line.waiting.push_back((ticket, write, options));
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
            self.make_durable_later(ticket, end, durability);
        } else {
            let due = self.shared.clock.now() + delay;
            self.line.delayed.push((due, ticket, end, durability));
            self.shared.commit.admission.wait_in(&self.queue.sender());
        }
        Ok(Outcome::Pending(ticket))
    }

    fn make_durable_later(&self, ticket: Ticket, end: Position, durability: Durability) {
        let shared = Arc::clone(&self.shared);
        let sender = self.queue.sender();
        self.shared
            .reads
            .on_pool_for(durability, move || shared.tell_durable(&sender, ticket, end, durability));
    }

    /// Brings the line on: writes what may be written, and hands over delayed acknowledgements that
    /// are due.
    pub(super) fn go_on(&mut self) {
        while !self.line.is_updating()
            && let Some((ticket, write, options)) = self.line.waiting.pop_front()
        {
            match write {
                Write::Update { keyspace, key, f } => self.update_later(ticket, keyspace, key, f, options),
                Write::Batch(batch) => match self.shared.commit.append_ops(&*self.shared, batch.ops()) {
                    Ok(Appended::Stopped | Appended::Raced) => {
                        if let Err(error) = self.note_stopped() {
                            self.queue.sender().send(ticket, Completion::Failed(error));
                            continue;
                        }
                        self.line.waiting.push_front((ticket, Write::Batch(batch), options));
                        break;
                    }
                    Ok(Appended::At(end)) => {
                        self.note_written();
                        self.count_written(batch.data_bytes());
                        let delay = self.shared.commit.admit(&*self.shared, batch.data_bytes() as u64);
                        let due = self.shared.clock.now() + delay;
                        self.line.delayed.push((due, ticket, end, self.durability(options)));
                    }
                    Err(error) => self.queue.sender().send(ticket, Completion::Failed(error)),
                },
            }
        }
        if self.line.waiting.is_empty() {
            self.note_written();
        }
        // When the database closes, acknowledgements are delayed no more.
        let is_closed = self.shared.closed.load(Ordering::Acquire);
        let now = if is_closed { Duration::MAX } else { self.shared.clock.now() };
        let mut index = 0;
        while index < self.line.delayed.len() {
            if self.line.delayed[index].0 > now {
                index += 1;
                continue;
            }
            let (_, ticket, end, durability) = self.line.delayed.swap_remove(index);
            self.make_durable_later(ticket, end, durability);
        }
        if !self.line.waiting.is_empty() || !self.line.delayed.is_empty() {
            self.shared.commit.admission.wait_in(&self.queue.sender());
        }
    }

    /// The first of the line finds no room. `Err` if none can be made.
    pub(super) fn note_stopped(&mut self) -> Result<()> {
        if self.line.stopped_since.is_some() {
            return self.shared.refused_room();
        }
        self.line.stopped_since = Some(self.shared.clock.now());
        self.shared.retry_drains();
        Ok(())
    }

    /// The line is empty or was written: counts how long there was no room.
    fn note_written(&mut self) {
        if let Some(since) = self.line.stopped_since.take() {
            self.shared.commit.admission.stopped_for(self.shared.clock.now().saturating_sub(since));
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
        self.line.updating.store(true, Ordering::Release);
        let updating = Updating { flag: Arc::clone(&self.line.updating), session: self.queue.sender() };
        self.shared.reads.on_pool(move || {
            let written = survived("an update", || {
                let mut update = Update::new(keyspace, &key, f, options.expires_at_ms);
                shared.update(&mut update)
            });
            drop(updating);
            match (written, durability) {
                (Err(error), _) => sender.send(ticket, Completion::Failed(error)),
                (Ok(end), Durability::Process | Durability::Disk) => {
                    shared.tell_durable(&sender, ticket, end, durability);
                }
                // Threads for reads have other work than to wait for shared storage.
                (Ok(end), Durability::Shared) => {
                    let database = Arc::clone(&shared);
                    shared.reads.on_pool_for(durability, move || {
                        database.tell_durable(&sender, ticket, end, durability);
                    });
                }
            }
        });
    }

    /// When the line should be looked at again; `None` if a nudge or nothing will come.
    pub(super) fn next_due(&self) -> Option<Instant> {
        #[expect(clippy::disallowed_methods, reason = "`wait` takes its deadline as an Instant")]
        let now = Instant::now();
        let clock = self.shared.clock.now();
        let due = self.line.delayed.iter().map(|(due, ..)| due.saturating_sub(clock)).min();
        let again = (!self.line.waiting.is_empty()).then_some(Duration::from_millis(10));
        let wait = match (due, again) {
            (Some(due), Some(again)) => due.min(again),
            (due, again) => due.or(again)?,
        };
        Some(now + wait.max(Duration::from_micros(50)))
    }
}
