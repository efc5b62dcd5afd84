//! What tasks wait for.

use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use firn_engine::{Batch, Completion, KeyLocks, KeyspaceId, OrderedBatch, Outcome, Ticket, WriteOptions};

use super::engine::unexpected;
use super::{BACKGROUND_TASKS, ServerThread};
use crate::bounds::{BATCH_BYTES_MAX, BATCH_OPS_MAX};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::handover::Handed;
use crate::net::Received;
use crate::statistics::Measure;
use crate::wake::TaskWaker;

/// Keys that are looked for in memory together before the first of them is written: as many as a
/// processor's cache has with their records.
const PREFETCHED: usize = 32;

/// The client.
impl ServerThread {
    /// Appends what the client sends next to `input`; `false` when it sends no more.
    pub(crate) async fn receive(&self, client: &Rc<Client>, input: &mut Vec<u8>) -> bool {
        self.mark_dirty(client);
        if self.sockets.borrow().is_readable(client.id) {
            // More than was read at once: others come first.
            self.turn(client).await;
        }
        let is_any = poll_fn(|_| {
            if client.is_closing.get() {
                // Another task has ended the connection.
                return Poll::Ready(false);
            }
            match self.sockets.borrow_mut().receive(client.id, input) {
                Received::Bytes(bytes) => {
                    self.peaks.note_input(input.capacity());
                    self.counters().add(Measure::InputBytes, bytes as u64);
                    self.counters().add(Measure::Reads, 1);
                    Poll::Ready(true)
                }
                Received::Nothing => Poll::Pending,
                Received::End => Poll::Ready(false),
            }
        })
        .await;
        client.description.active_ms.set(self.monotonic_ms());
        is_any
    }

    /// Sends what the client has not been sent, and waits until it has read most of it.
    pub(crate) async fn drained(&self, client: &Rc<Client>) {
        let unread_bytes_max = self.shared.settings.unread_bytes_max;
        self.turn(client).await;
        let is_over = || client.is_closing.get() || client.outbox.output.borrow().len() <= unread_bytes_max;
        poll_fn(|_| match is_over() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Sends what the client has not been sent, and lets all other tasks have a turn.
    pub(crate) async fn turn(&self, client: &Rc<Client>) {
        self.mark_dirty(client);
        self.pause().await;
    }

    /// Lets all other tasks have a turn.
    pub(crate) async fn pause(&self) {
        self.tasks.wake(self.tasks.current());
        let mut had_turn = false;
        poll_fn(|_| match std::mem::replace(&mut had_turn, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// The same in the middle of long work, which goes on at once where it must not be suspended.
    pub(crate) async fn breathe(&self) {
        if !self.engine.is_in_place() {
            self.pause().await;
            if self.tasks.current() >= BACKGROUND_TASKS {
                self.counters().add(Measure::Turns, 1);
            }
        }
    }

    /// Waits until the client may look at its keys, or until its wait ends. That is at `until_ms`
    /// of [`monotonic_ms`](Self::monotonic_ms) (`None` = never), on CLIENT UNBLOCK, or when it is
    /// gone.
    ///
    /// What it is handed is kept for it from here on, until it says that it takes no more.
    pub(crate) async fn until_notified(&self, client: &Rc<Client>, until_ms: Option<u64>) -> WaitOutcome {
        let since_ns = self.monotonic_ns();
        // What was answered before does not wait with it.
        self.mark_dirty(client);
        self.counters().block();
        let timer = until_ms.map(|until_ms| self.tasks.set_timer(until_ms));
        client.waiting.is_waiting.set(true);
        client.waiting.takes_hands.set(true);
        let outcome = poll_fn(|_| {
            if let Some(handed) = client.waiting.hands.borrow_mut().pop_front() {
                return Poll::Ready(WaitOutcome::Handed(handed));
            }
            let is_over = until_ms.is_some_and(|until_ms| self.monotonic_ms() >= until_ms);
            match client.waiting.is_notified.replace(false) {
                true => Poll::Ready(WaitOutcome::Look),
                false
                    if is_over || client.is_closing.get() || client.waiting.is_unblocked.get().is_some() =>
                {
                    Poll::Ready(WaitOutcome::Over)
                }
                false if self.sockets.borrow().is_hung_up(client.id) => Poll::Ready(WaitOutcome::Over),
                false => Poll::Pending,
            }
        })
        .await;
        client.waiting.is_waiting.set(false);
        timer.into_iter().for_each(|timer| self.tasks.clear_timer(timer));
        self.counters().unblock();
        client.waiting.idle_ns.set(client.waiting.idle_ns.get() + self.monotonic_ns() - since_ns);
        outcome
    }

    /// Whether the client will read no more replies.
    pub(crate) fn is_gone(&self, client: &Rc<Client>) -> bool {
        client.is_closing.get() || self.sockets.borrow().is_hung_up(client.id)
    }

    /// Waits until the clock says `until_ms` (of [`monotonic_ms`](Self::monotonic_ms)).
    pub(crate) async fn sleep_until(&self, until_ms: u64) {
        let timer = self.tasks.set_timer(until_ms);
        poll_fn(|_| match self.monotonic_ms() >= until_ms {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        self.tasks.clear_timer(timer);
    }

    /// Milliseconds since some moment, which never go back.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        self.shared.store.clock.now().as_millis() as u64
    }

    /// Nanoseconds since some moment, which never go back.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.shared.store.clock.now().as_nanos() as u64
    }

    /// Microseconds since the Unix epoch.
    pub(crate) fn unix_us(&self) -> u64 {
        let clock = &self.shared.store.clock;
        self.shared.diagnostics.statistics.unix_us(clock.unix_ms(), clock.now())
    }

    /// Waits until `is_over` says so. The code that brings that about uses
    /// [`waker`](Self::waker).
    pub(crate) async fn until(&self, is_over: impl Fn() -> bool) {
        poll_fn(|_| if is_over() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// What wakes the task that runs, from other threads.
    pub(crate) fn waker(&self) -> TaskWaker {
        self.shared.threads.mailboxes[self.index].wakes.waker(self.tasks.current())
    }

    /// Milliseconds since the Unix epoch, as of the beginning of this round.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }
}

/// The engine.
impl ServerThread {
    /// Writes `batch`, which may be empty.
    pub(crate) async fn write(&self, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let options = self.write_options(batch.len());
        self.engine.write(batch, options).await
    }

    /// Whether writes that need not be whole together cost less one by one.
    pub(crate) fn writes_one_by_one(&self) -> bool {
        !self.engine.is_ordered() && !self.shared.parameters.syncs_each_write()
    }

    /// Writes the operations of `batch`, all of one keyspace, one after another; how many were
    /// written, from the first on, and why the others were not.
    pub(crate) async fn write_each(&self, batch: &Batch) -> (usize, Result<()>) {
        let options = self.write_options(batch.len());
        let keys: Vec<&[u8]> = batch.ops().map(|op| op.key).collect();
        for (index, op) in batch.ops().enumerate() {
            if index % PREFETCHED == 0 {
                self.engine.prefetch(op.keyspace, &keys[index..keys.len().min(index + PREFETCHED)]);
            }
            if let Err(failure) = self.engine.put(op.keyspace, op.key, op.value, options).await {
                return (index, Err(failure));
            }
        }
        (batch.len(), Ok(()))
    }

    /// Writes `batch`, which may delete ranges and may be empty.
    pub(crate) async fn write_ordered(&self, batch: &OrderedBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let options = self.write_options(batch.len());
        self.engine.write_ordered(batch, options).await
    }

    /// How a write of `count` operations, which are counted, is done.
    fn write_options(&self, count: usize) -> WriteOptions {
        self.counters().add(Measure::Changes, count as u64);
        WriteOptions { durability: self.shared.parameters.durability(), ..WriteOptions::default() }
    }

    /// The same, and gives the batch back. A large batch is written on a thread beside the server
    /// threads, which serve others meanwhile; it comes back empty once it is written.
    pub(crate) async fn write_all(&self, batch: Batch) -> (Batch, Result<()>) {
        let is_large = batch.len() > BATCH_OPS_MAX || batch.data_bytes() > BATCH_BYTES_MAX;
        if !is_large || self.engine.is_in_place() {
            let written = self.write(&batch).await;
            return (batch, written);
        }
        let write = self.shared.large_writes.begin(batch, self.waker());
        self.until(|| write.is_over()).await;
        write.take()
    }

    /// Locks `keys` against every other command that may write them.
    pub(crate) async fn lock(&self, keys: &[(KeyspaceId, &[u8])]) -> Result<KeyLocks> {
        self.locked(self.engine.begin_lock(keys)).await
    }

    /// Locks every key against every other command that may write.
    pub(crate) async fn lock_all(&self) -> Result<KeyLocks> {
        self.locked(self.engine.begin_lock_all()).await
    }

    async fn locked(&self, outcome: Outcome<KeyLocks>) -> Result<KeyLocks> {
        match outcome {
            Outcome::Done(locks) => Ok(locks),
            Outcome::Pending(ticket) => match self.completion_unless_busy(ticket).await? {
                Completion::Locked(locks) => Ok(locks),
                other => Err(unexpected(other)),
            },
        }
    }

    /// What a task waits for that a script may hold, unless that runs for very long.
    ///
    /// # Errors
    /// A client has waited, and meanwhile some script has run for longer than the parameter
    /// `busy-reply-threshold` says.
    async fn completion_unless_busy(&self, ticket: Ticket) -> Result<Completion> {
        let task = self.tasks.current();
        let mut completion = std::pin::pin!(self.engine.completion(ticket));
        loop {
            let due_ms = self.monotonic_ms() + BUSY_LOOK_MS;
            let timer = self.tasks.set_timer(due_ms);
            let found = poll_fn(|context| match completion.as_mut().poll(context) {
                Poll::Ready(completion) => Poll::Ready(Some(completion)),
                Poll::Pending if self.monotonic_ms() >= due_ms => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await;
            self.tasks.clear_timer(timer);
            if let Some(completion) = found {
                return Ok(completion);
            }
            let since_ms = self.monotonic_ms().checked_sub(self.shared.parameters.busy_ms());
            // What the server does by itself waits as long as it takes.
            let is_client = self.clients.get(task).is_some();
            if is_client && since_ms.is_some_and(|since_ms| self.shared.scripts.is_any_since(since_ms)) {
                return Err(Failure::BUSY);
            }
        }
    }
}

/// How often a client that waits for locks looks whether a script keeps them for too long.
const BUSY_LOOK_MS: u64 = 50;

/// Why a client that waits for a key goes on.
#[derive(Debug)]
pub(crate) enum WaitOutcome {
    /// Another client's command allows a look while it holds the key's lock. That command waits
    /// for the answer.
    Handed(Handed),
    /// Something may be there.
    Look,
    /// The time to wait is over, or the client has gone.
    Over,
}
