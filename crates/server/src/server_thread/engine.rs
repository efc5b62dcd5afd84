//! What a thread asks of the engine, and which of its tasks waits for which answer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use firn_engine::{
    Batch, BatchLimit, Completion, Error, HashBatch, HashScan, KeyLocks, KeyspaceId, OrderedBatch, Outcome,
    Position, ReadAt, Scan, ScanBatch, ScanRange, Ticket, Values, WriteOptions,
};

use crate::bounds::READ_TOGETHER_BYTES_MAX;
use crate::failure::{Failure, Result};
use crate::store::ServerSession;
use crate::task::Tasks;

/// A thread's session of the engine.
///
/// An answer that does not come at once has a ticket. The task that asked waits for it and is woken
/// when it is there; the thread serves others meanwhile.
pub(crate) struct EngineSession {
    session: RefCell<ServerSession>,
    tasks: Rc<Tasks>,
    /// Which task waits for which ticket; `None` where it does no more.
    waiting: RefCell<HashMap<Ticket, Option<u32>>>,
    arrived: RefCell<HashMap<Ticket, Completion>>,
    /// How often a task has waited.
    waits: Cell<u64>,
    /// See [`wait_in_place`](Self::wait_in_place).
    is_in_place: Cell<bool>,
}

impl EngineSession {
    /// `session`, for `tasks`.
    pub(super) fn new(session: ServerSession, tasks: Rc<Tasks>) -> Self {
        Self {
            session: RefCell::new(session),
            tasks,
            waiting: RefCell::default(),
            arrived: RefCell::default(),
            waits: Cell::new(0),
            is_in_place: Cell::new(false),
        }
    }

    /// Hands completions to the tasks that wait for them; whether there were any.
    pub(super) fn deliver(&self) -> bool {
        if self.waiting.borrow().is_empty() {
            return false;
        }
        let mut arrived = Vec::new();
        self.session.borrow_mut().points().poll(&mut |ticket, completion| arrived.push((ticket, completion)));
        let is_any = !arrived.is_empty();
        for (ticket, completion) in arrived {
            // What no task waits for any more goes here, locks with it.
            if let Some(Some(task)) = self.waiting.borrow_mut().remove(&ticket) {
                self.arrived.borrow_mut().insert(ticket, completion);
                self.tasks.wake(task);
            }
        }
        is_any
    }

    /// Has `waker` woken when a completion comes, if one is waited for.
    pub(super) fn register(&self, waker: &Waker) {
        if !self.waiting.borrow().is_empty() {
            self.session.borrow_mut().points().notifier().register(waker);
        }
    }

    /// All tasks are gone.
    pub(super) fn end(&self) {
        debug_assert!(self.waiting.borrow().values().all(Option::is_none), "a task that is gone waits");
        debug_assert!(self.arrived.borrow().is_empty(), "something came for a task that is gone");
    }

    /// Lets what clients are about to hear of survive the process. Until that succeeds no client
    /// may hear of anything.
    pub(super) fn settle(&self) -> std::result::Result<(), Error> {
        self.session.borrow_mut().points().settle()
    }

    /// How often a task has waited for the engine.
    #[inline]
    pub(crate) fn waits(&self) -> u64 {
        self.waits.get()
    }

    /// Waits for the completion of `ticket`.
    pub(super) async fn completion(&self, ticket: Ticket) -> Completion {
        self.waits.set(self.waits.get() + 1);
        self.waiting.borrow_mut().insert(ticket, Some(self.tasks.current()));
        let _expected = Expected { engine: self, ticket };
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
        let outcome = self.session.borrow_mut().points().get(at, keyspace, key, out)?;
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
        let outcome = self.session.borrow_mut().points().is_stored(keyspace, key)?;
        match outcome {
            Outcome::Done(is_stored) => Ok(is_stored),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Value(value) => Ok(value.is_some()),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Has the engine load what it has in memory of `keys`, which are about to be written.
    pub(crate) fn prefetch(&self, keyspace: KeyspaceId, keys: &[&[u8]]) {
        self.session.borrow_mut().points().prefetch(keyspace, keys);
    }

    /// Has the engine load what reads of `keys` need; pending while it reads that from the device.
    pub(crate) fn load(&self, keyspace: KeyspaceId, keys: &[&[u8]]) -> Outcome<()> {
        self.session.borrow_mut().points().load(keyspace, keys)
    }

    /// Waits until what was asked for by [`load`](Self::load) is there.
    pub(crate) async fn loaded(&self, ticket: Ticket) {
        // What cannot be read is reported by the command that reads it.
        let _loaded = self.completion(ticket).await;
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
        let outcome = self.session.borrow_mut().points().multi_get(at, keyspace, keys, &mut values)?;
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
        match &mut *self.session.borrow_mut() {
            ServerSession::Ordered(session) => Ok(session.scan(at, keyspace, range)?),
            ServerSession::Hashed(_) => Err(Failure::NO_ORDER),
        }
    }

    /// The next records of a walk over all keys, which an engine without order allows.
    pub(crate) async fn scan_by_hash(&self, at: ReadAt<'_>, scan: HashScan) -> Result<HashBatch> {
        let mut batch = HashBatch::new();
        let outcome = match &mut *self.session.borrow_mut() {
            ServerSession::Hashed(session) => session.scan_by_hash(at, scan, &mut batch)?,
            ServerSession::Ordered(_) => return Err(Error::bug("keys in order are walked over so").into()),
        };
        match outcome {
            Outcome::Done(()) => Ok(batch),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::ScannedByHash(batch) => Ok(batch),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Whether the engine keeps keys in order.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(*self.session.borrow(), ServerSession::Ordered(_))
    }

    /// The next records of `scan`, which this thread's session has opened.
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

    /// Writes `batch`.
    pub(super) async fn write(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        let outcome = self.session.borrow_mut().points().write(batch, options)?;
        self.written(outcome).await
    }

    /// Sets `key` to `value`.
    pub(super) async fn put(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        let outcome = self.session.borrow_mut().points().put(keyspace, key, value, options)?;
        self.written(outcome).await
    }

    /// Writes `batch`, which may delete ranges.
    pub(super) async fn write_ordered(&self, batch: &OrderedBatch, options: WriteOptions) -> Result<()> {
        let outcome = match &mut *self.session.borrow_mut() {
            ServerSession::Ordered(session) => session.write_ordered(batch, options)?,
            ServerSession::Hashed(_) => return Err(Failure::NO_ORDER),
        };
        self.written(outcome).await
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

    /// Begins to lock `keys` against every other command that may write them.
    pub(super) fn begin_lock(&self, keys: &[(KeyspaceId, &[u8])]) -> Outcome<KeyLocks> {
        self.session.borrow_mut().points().lock(keys)
    }

    /// Begins to lock every key.
    pub(super) fn begin_lock_all(&self) -> Outcome<KeyLocks> {
        self.session.borrow_mut().points().lock_all()
    }

    /// Whether reads wait with the whole thread, instead of letting others have a turn.
    pub(crate) fn wait_in_place(&self, in_place: bool) {
        self.is_in_place.set(in_place);
        self.session.borrow_mut().points().set_inline(in_place);
    }

    /// Whether they do.
    #[inline]
    pub(crate) fn is_in_place(&self) -> bool {
        self.is_in_place.get()
    }
}

/// A completion that is waited for. Where the wait ends before it comes, it is still taken from the
/// session, and dropped. Otherwise locks that are granted then would stay for ever.
struct Expected<'e> {
    engine: &'e EngineSession,
    ticket: Ticket,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.engine.waiting.borrow_mut().get_mut(&self.ticket) {
            *task = None;
        }
        self.engine.arrived.borrow_mut().remove(&self.ticket);
    }
}

pub(super) fn unexpected(completion: Completion) -> Failure {
    match completion {
        Completion::Failed(error) => error.into(),
        other => Error::bug(format!("an operation completed as {other:?}")).into(),
    }
}
