//! What tasks wait for.

use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use firn_engine::{
    Batch, BatchLimit, Completion, Error, KeyLocks, KeyspaceId, OrderedBatch, Outcome, Position, ReadAt,
    Scan, ScanBatch, ScanRange, Ticket, Values, WriteOptions,
};

use super::{COUNTING, Worker};
use crate::bounds::{BATCH_BYTES_MAX, BATCH_OPS_MAX, READ_TOGETHER_BYTES_MAX};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::handover::Handed;
use crate::large_writes::LargeWrite;
use crate::net::Received;
use crate::statistics::Measure;

/// The client.
impl Worker {
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
        let is_over = || client.is_closing.get() || client.output.borrow().len() <= unread_bytes_max;
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
        if !self.is_in_place.get() {
            self.pause().await;
            if self.tasks.current() > COUNTING {
                self.counters().add(Measure::Turns, 1);
            }
        }
    }

    /// Waits until the client may look at its keys, or until its wait ends. That is at `until_ms`
    /// of [`monotonic_ms`](Self::monotonic_ms) (`None` = never), on CLIENT UNBLOCK, or when it is
    /// gone.
    ///
    /// What it is handed is kept for it from here on, until it says that it takes no more.
    pub(crate) async fn told_to_look(&self, client: &Rc<Client>, until_ms: Option<u64>) -> Told {
        let task = self.tasks.current();
        let since_ns = self.monotonic_ns();
        // What was answered before does not wait with it.
        self.mark_dirty(client);
        self.counters().block();
        if let Some(until_ms) = until_ms {
            self.timers.borrow_mut().insert((until_ms, task));
        }
        client.is_waiting.set(true);
        client.takes_hands.set(true);
        let told = poll_fn(|_| {
            if let Some(handed) = client.hands.borrow_mut().pop_front() {
                return Poll::Ready(Told::Handed(handed));
            }
            let is_over = until_ms.is_some_and(|until_ms| self.monotonic_ms() >= until_ms);
            match client.is_told_to_look.replace(false) {
                true => Poll::Ready(Told::Look),
                false if is_over || client.is_closing.get() || client.is_unblocked.get().is_some() => {
                    Poll::Ready(Told::Over)
                }
                false if self.sockets.borrow().is_hung_up(client.id) => Poll::Ready(Told::Over),
                false => Poll::Pending,
            }
        })
        .await;
        client.is_waiting.set(false);
        if let Some(until_ms) = until_ms {
            self.timers.borrow_mut().remove(&(until_ms, task));
        }
        self.counters().unblock();
        client.idle_ns.set(client.idle_ns.get() + self.monotonic_ns() - since_ns);
        told
    }

    /// Whether the client will read no more replies.
    pub(crate) fn is_gone(&self, client: &Rc<Client>) -> bool {
        client.is_closing.get() || self.sockets.borrow().is_hung_up(client.id)
    }

    /// Waits until the clock says `until_ms` (of [`monotonic_ms`](Self::monotonic_ms)).
    pub(crate) async fn sleep_until(&self, until_ms: u64) {
        let timer = (until_ms, self.tasks.current());
        self.timers.borrow_mut().insert(timer);
        poll_fn(|_| match self.monotonic_ms() >= until_ms {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        self.timers.borrow_mut().remove(&timer);
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
        self.shared.statistics.unix_us(clock.unix_ms(), clock.now())
    }

    /// Waits until `is_over` says so. The code that brings that about sends
    /// [`Message::Wake`](super::Message::Wake) to [`current_task`](Self::current_task).
    pub(crate) async fn until(&self, is_over: impl Fn() -> bool) {
        poll_fn(|_| if is_over() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// The number of the task that runs.
    pub(crate) fn current_task(&self) -> u32 {
        self.tasks.current()
    }

    /// Milliseconds since the Unix epoch, as of the beginning of this round.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }
}

/// The engine.
impl Worker {
    /// Waits for the completion of `ticket`.
    async fn completion(&self, ticket: Ticket) -> Completion {
        self.waits.set(self.waits.get() + 1);
        self.waiting.borrow_mut().insert(ticket, Some(self.tasks.current()));
        let _expected = Expected { worker: self, ticket };
        poll_fn(|_| match self.arrived.borrow_mut().remove(&ticket) {
            Some(completion) => Poll::Ready(completion),
            None => Poll::Pending,
        })
        .await
    }

    /// Whether `key` has a value, which is in `out` then.
    #[inline]
    pub(crate) async fn get_at(
        &self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let outcome = self.session.borrow_mut().get(at, keyspace, key, out)?;
        match outcome {
            Outcome::Done(found) => Ok(found),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Value(Some(value)) => {
                    *out = value;
                    Ok(true)
                }
                Completion::Value(None) => Ok(false),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Whether a value of `key` is stored, one that has expired included.
    pub(crate) async fn is_stored(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
        let outcome = self.session.borrow_mut().is_stored(keyspace, key)?;
        match outcome {
            Outcome::Done(is_stored) => Ok(is_stored),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Value(value) => Ok(value.is_some()),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Has the engine load what reads of `keys` need.
    pub(crate) fn prefetch(&self, keyspace: KeyspaceId, keys: &[&[u8]]) {
        self.session.borrow_mut().prefetch(keyspace, keys);
    }

    /// Values of the first of `keys`, one at least, as of one moment: as many as have together the
    /// bytes that are read at once.
    pub(crate) async fn multi_get(
        &self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
    ) -> Result<Values> {
        let mut values = Values::with_bytes_max(READ_TOGETHER_BYTES_MAX);
        let outcome = self.session.borrow_mut().multi_get(at, keyspace, keys, &mut values)?;
        match outcome {
            Outcome::Done(()) => Ok(values),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Values(values) => Ok(values),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Opens a scan.
    pub(crate) fn scan(
        &self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        range: ScanRange,
    ) -> Result<Box<dyn Scan>> {
        Ok(self.session.borrow_mut().scan(at, keyspace, range)?)
    }

    /// The next records of `scan`, which this worker's session has opened.
    pub(crate) async fn next_batch(
        &self,
        scan: &mut dyn Scan,
        limit: BatchLimit,
        out: &mut ScanBatch,
    ) -> Result<()> {
        match scan.next_batch(limit, out)? {
            Outcome::Done(()) => Ok(()),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Scanned(batch) => {
                    *out = batch;
                    Ok(())
                }
                other => Err(unexpected(other)),
            },
        }
    }

    /// Writes `batch`, which may be empty.
    pub(crate) async fn write(&self, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let options = self.write_options(batch.len());
        let outcome = self.session.borrow_mut().write(batch, options)?;
        self.written(outcome).await
    }

    /// Writes `batch`, which may delete ranges and may be empty.
    pub(crate) async fn write_ordered(&self, batch: &OrderedBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let options = self.write_options(batch.len());
        let outcome = self.session.borrow_mut().write_ordered(batch, options)?;
        self.written(outcome).await
    }

    /// How a write of `count` operations, which are counted, is done.
    fn write_options(&self, count: usize) -> WriteOptions {
        self.counters().add(Measure::Changes, count as u64);
        WriteOptions { durability: self.shared.parameters.durability(), ..WriteOptions::default() }
    }

    async fn written(&self, outcome: Outcome<Position>) -> Result<()> {
        match outcome {
            Outcome::Done(_) => Ok(()),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Written(_) => Ok(()),
                other => Err(unexpected(other)),
            },
        }
    }

    /// The same, and gives the batch back. A large batch is written on a thread beside the workers,
    /// which serve others meanwhile; it comes back empty once it is written.
    pub(crate) async fn write_all(&self, batch: Batch) -> (Batch, Result<()>) {
        let is_large = batch.len() > BATCH_OPS_MAX || batch.data_bytes() > BATCH_BYTES_MAX;
        if !is_large || self.is_in_place.get() {
            let written = self.write(&batch).await;
            return (batch, written);
        }
        let write = LargeWrite::begin(&self.shared, batch, (self.index, self.tasks.current()));
        self.until(|| write.is_over()).await;
        write.take()
    }

    /// Locks `keys` against every other command that may write them.
    pub(crate) async fn lock(&self, keys: &[(KeyspaceId, &[u8])]) -> Result<KeyLocks> {
        let outcome = self.session.borrow_mut().lock(keys);
        self.locked(outcome).await
    }

    /// Locks every key against every other command that may write.
    pub(crate) async fn lock_all(&self) -> Result<KeyLocks> {
        let outcome = self.session.borrow_mut().lock_all();
        self.locked(outcome).await
    }

    /// Whether reads wait with the whole worker, instead of letting others have a turn.
    pub(crate) fn wait_in_place(&self, in_place: bool) {
        self.is_in_place.set(in_place);
        self.session.borrow_mut().set_inline(in_place);
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
        let mut completion = std::pin::pin!(self.completion(ticket));
        loop {
            let due_ms = self.monotonic_ms() + BUSY_LOOK_MS;
            self.timers.borrow_mut().insert((due_ms, task));
            let found = poll_fn(|context| match completion.as_mut().poll(context) {
                Poll::Ready(completion) => Poll::Ready(Some(completion)),
                Poll::Pending if self.monotonic_ms() >= due_ms => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await;
            self.timers.borrow_mut().remove(&(due_ms, task));
            if let Some(completion) = found {
                return Ok(completion);
            }
            let since_ms = self.monotonic_ms().checked_sub(self.shared.parameters.busy_ms());
            // What the server does by itself waits as long as it takes.
            let is_client = self.client(task).is_some();
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
pub(crate) enum Told {
    /// Another client's command lets it look, and waits for what becomes of that.
    Handed(Handed),
    /// Something may be there.
    Look,
    /// Its time is over, or it is.
    Over,
}

/// A completion that is waited for. Where the wait ends before it comes, it is still taken from the
/// session, and dropped. Otherwise locks that are granted then would stay for ever.
struct Expected<'w> {
    worker: &'w Worker,
    ticket: Ticket,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.worker.waiting.borrow_mut().get_mut(&self.ticket) {
            *task = None;
        }
        self.worker.arrived.borrow_mut().remove(&self.ticket);
    }
}

fn unexpected(completion: Completion) -> Failure {
    match completion {
        Completion::Failed(error) => error.into(),
        other => Error::bug(format!("an operation completed as {other:?}")).into(),
    }
}
