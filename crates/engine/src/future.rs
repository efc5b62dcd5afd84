//! Calls that answer futures, for any executor and for none.
//!
//! [`Futures`] owns a [`Session`]. Each call *begins* its operation at once, so the order of calls
//! is the order of writes. It answers a [`Reply`]: a future that is ready when the operation is
//! over. Replies are woken through the session's [`Notifier`](crate::Notifier); no thread, timer or
//! runtime is involved.
//!
//! Dropping a reply abandons its result and nothing else. A write goes on and may become durable; a
//! scan keeps its place, and its next call delivers the batch.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::blocking::{answering, modified, position, scanned, value, values};
use crate::{
    Batch, BatchLimit, Change, Completion, KeyspaceId, OrderedBatch, OrderedReadSet, OrderedSession, Outcome,
    Position, ReadAt, ReadSet, Result, Rmw, RmwAnswer, Scan, ScanBatch, ScanRange, Session, Ticket, Values,
    WriteOptions,
};

/// A session whose calls answer futures. Cheap to clone; clones share the session and its order of
/// writes.
pub struct Futures<S: Session + ?Sized = dyn Session> {
    line: Arc<Line<S>>,
}

/// Futures of a session on an engine that keeps keys in order.
pub type OrderedFutures = Futures<dyn OrderedSession>;

impl<S: Session + ?Sized> Clone for Futures<S> {
    fn clone(&self) -> Self {
        Self { line: Arc::clone(&self.line) }
    }
}

impl<S: Session + ?Sized + 'static> Futures<S> {
    /// Wraps `session`.
    pub fn new(session: Box<S>) -> Self {
        let state =
            State { session, arrived: BTreeMap::new(), waiting: BTreeMap::new(), abandoned: BTreeSet::new() };
        Self { line: Arc::new(Line { state: Mutex::new(state) }) }
    }

    /// The value of `key`, or `None` if it has none.
    pub fn get(&self, at: ReadAt<'_>, keyspace: KeyspaceId, key: &[u8]) -> Reply<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let outcome = self.line.lock().session.get(at, keyspace, key, &mut out);
        self.reply(outcome, |found| found.then_some(out), value)
    }

    /// As [`get`](Self::get) for the bytes `range` of the value, cut to its length.
    pub fn get_range(
        &self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        range: std::ops::Range<usize>,
    ) -> Reply<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let outcome = self.line.lock().session.get_range(at, keyspace, key, range, &mut out);
        self.reply(outcome, |found| found.then_some(out), value)
    }

    /// Whether a value of `key` is stored; counts a value that has expired and was not dropped yet.
    pub fn is_stored(&self, keyspace: KeyspaceId, key: &[u8]) -> Reply<bool> {
        let outcome = self.line.lock().session.is_stored(keyspace, key);
        self.reply(outcome, |stored| stored, |completion| Ok(value(completion)?.is_some()))
    }

    /// Values of `keys` as of one point, in order.
    pub fn multi_get(&self, at: ReadAt<'_>, keyspace: KeyspaceId, keys: &[&[u8]]) -> Reply<Values> {
        let mut out = Values::new();
        let outcome = self.line.lock().session.multi_get(at, keyspace, keys, &mut out);
        self.reply(outcome, |()| out, values)
    }

    /// Applies all of `batch` or none of it.
    pub fn write(&self, batch: &Batch, options: WriteOptions) -> Reply<Position> {
        let outcome = self.line.lock().session.write(batch, options);
        self.written(outcome)
    }

    /// Applies all of `batch` if no key of `reads` was written since, else nothing of it.
    pub fn write_if(&self, batch: &Batch, reads: ReadSet, options: WriteOptions) -> Reply<Position> {
        let outcome = self.line.lock().session.write_if(batch, reads, options);
        self.written(outcome)
    }

    /// Sets `key` to `value`.
    pub fn put(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Reply<Position> {
        let outcome = self.line.lock().session.put(keyspace, key, value, options);
        self.written(outcome)
    }

    /// Removes `key`.
    pub fn delete(&self, keyspace: KeyspaceId, key: &[u8], options: WriteOptions) -> Reply<Position> {
        let outcome = self.line.lock().session.delete(keyspace, key, options);
        self.written(outcome)
    }

    /// Adds `operand` to `key` without reading it.
    pub fn merge(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Reply<Position> {
        let outcome = self.line.lock().session.merge(keyspace, key, operand, options);
        self.written(outcome)
    }

    /// Replaces `key`'s value by what `f` makes of it, atomically; the reply is `f`'s answer.
    ///
    /// `f` may be called more than once; the answer is that of the call that took effect.
    pub fn update<R: Send + 'static>(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Reply<R> {
        let (f, answer) = answering(f);
        let outcome = self.line.lock().session.update(keyspace, key, f, options);
        let take = move |completion| position(completion).and_then(|_| answer.take());
        match outcome {
            Ok(Outcome::Done(position)) => Reply::ready(take(Completion::Written(position))),
            Ok(Outcome::Pending(ticket)) => Reply::pending(&self.line, ticket, take),
            Err(error) => Reply::ready(Err(error)),
        }
    }

    /// Does `rmw` to the value of `key`, atomically.
    pub fn rmw(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        options: WriteOptions,
    ) -> Reply<RmwAnswer> {
        let outcome = self.line.lock().session.rmw(keyspace, key, rmw, options);
        self.reply(outcome, |(_, answer)| answer, modified)
    }

    fn written(&self, outcome: Result<Outcome<Position>>) -> Reply<Position> {
        self.reply(outcome, |position| position, position)
    }

    fn reply<D, T: Send + 'static>(
        &self,
        outcome: Result<Outcome<D>>,
        done: impl FnOnce(D) -> T,
        take: impl FnOnce(Completion) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        match outcome {
            Ok(Outcome::Done(result)) => Reply::ready(Ok(done(result))),
            Ok(Outcome::Pending(ticket)) => Reply::pending(&self.line, ticket, take),
            Err(error) => Reply::ready(Err(error)),
        }
    }
}

impl<S: OrderedSession + ?Sized + 'static> Futures<S> {
    /// Opens a scan.
    pub fn scan(&self, at: ReadAt<'_>, keyspace: KeyspaceId, range: ScanRange) -> Result<Batches<S>> {
        let scan = self.line.lock().session.scan(at, keyspace, range)?;
        Ok(Batches { line: Arc::clone(&self.line), scan, pending: None })
    }

    /// Applies all of `batch`, range deletes included, or none of it.
    pub fn write_ordered(&self, batch: &OrderedBatch, options: WriteOptions) -> Reply<Position> {
        let outcome = self.line.lock().session.write_ordered(batch, options);
        self.written(outcome)
    }

    /// Applies all of `batch` if no key of `reads`, and none in a range of it, was written since,
    /// else nothing of it.
    pub fn write_ordered_if(
        &self,
        batch: &OrderedBatch,
        reads: OrderedReadSet,
        options: WriteOptions,
    ) -> Reply<Position> {
        let outcome = self.line.lock().session.write_ordered_if(batch, reads, options);
        self.written(outcome)
    }

    /// Removes every key of `start..end`.
    pub fn delete_range(
        &self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        options: WriteOptions,
    ) -> Reply<Position> {
        let outcome = self.line.lock().session.delete_range(keyspace, start, end, options);
        self.written(outcome)
    }
}

impl<S: Session + ?Sized> std::fmt::Debug for Futures<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Futures").finish_non_exhaustive()
    }
}

/// The result of one operation, when it is over. MUST NOT be polled again after it was ready.
///
/// Dropping it abandons the result, not the operation.
#[must_use = "the operation has begun, but only its reply tells whether it succeeded"]
pub struct Reply<T> {
    stage: Stage<T>,
}

type Take<T> = Box<dyn FnOnce(Completion) -> Result<T> + Send>;

enum Stage<T> {
    Ready(Result<T>),
    Pending(Arc<dyn Await>, Ticket, Take<T>),
    Taken,
}

impl<T> Reply<T> {
    fn ready(result: Result<T>) -> Self {
        Self { stage: Stage::Ready(result) }
    }

    fn pending<S: Session + ?Sized + 'static>(
        line: &Arc<Line<S>>,
        ticket: Ticket,
        take: impl FnOnce(Completion) -> Result<T> + Send + 'static,
    ) -> Self {
        let line: Arc<dyn Await> = Arc::<Line<S>>::clone(line);
        Self { stage: Stage::Pending(line, ticket, Box::new(take)) }
    }
}

/// Nothing in a reply is pinned.
impl<T> Unpin for Reply<T> {}

impl<T> Future for Reply<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Ready(result) => Poll::Ready(result),
            Stage::Pending(line, ticket, take) => match line.poll(ticket, context.waker()) {
                Some(completion) => Poll::Ready(take(completion)),
                None => {
                    self.stage = Stage::Pending(line, ticket, take);
                    Poll::Pending
                }
            },
            Stage::Taken => panic!("a reply was polled after it was ready"),
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Stage::Pending(line, ticket, _) = &self.stage {
            line.abandon(*ticket);
        }
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

/// A scan, batch by batch.
pub struct Batches<S: OrderedSession + ?Sized = dyn OrderedSession> {
    line: Arc<Line<S>>,
    scan: Box<dyn Scan>,
    /// The batch under way, if the future that asked for it was dropped or has not been ready yet.
    pending: Option<Ticket>,
}

impl<S: OrderedSession + ?Sized> Batches<S> {
    /// The next records in order; no batch is lost when a future is dropped, the next call delivers
    /// it.
    pub fn next_batch(&mut self, limit: BatchLimit) -> impl Future<Output = Result<ScanBatch>> + Send + '_ {
        let mut begun = false;
        std::future::poll_fn(move |context| {
            if !begun && self.pending.is_none() {
                begun = true;
                let mut out = ScanBatch::new();
                match self.scan.next_batch(limit, &mut out) {
                    Ok(Outcome::Done(())) => return Poll::Ready(Ok(out)),
                    Ok(Outcome::Pending(ticket)) => self.pending = Some(ticket),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let Some(ticket) = self.pending else { panic!("a batch was polled after it was ready") };
            match self.line.poll(ticket, context.waker()) {
                Some(completion) => {
                    self.pending = None;
                    begun = true;
                    Poll::Ready(scanned(completion))
                }
                None => Poll::Pending,
            }
        })
    }
}

impl<S: OrderedSession + ?Sized> Drop for Batches<S> {
    fn drop(&mut self) {
        if let Some(ticket) = self.pending {
            self.line.abandon(ticket);
        }
    }
}

impl<S: OrderedSession + ?Sized> std::fmt::Debug for Batches<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// The session with its completions, shared by all replies.
///
/// Invariants: 1. a ticket is in at most one of `arrived`, `waiting`, `abandoned`. 2. Wakers are
/// called with the lock released, for they may poll at once.
struct Line<S: Session + ?Sized> {
    state: Mutex<State<S>>,
}

struct State<S: Session + ?Sized> {
    session: Box<S>,
    /// Completions whose reply has not asked yet.
    arrived: BTreeMap<Ticket, Completion>,
    /// Replies that asked and found nothing.
    waiting: BTreeMap<Ticket, Waker>,
    /// Tickets whose replies were dropped: their completions are discarded.
    abandoned: BTreeSet<Ticket>,
}

/// What a reply asks of a session of any kind.
trait Await: Send + Sync {
    /// The completion of `ticket` if it is there; else `waker` is called when it may be.
    fn poll(&self, ticket: Ticket, waker: &Waker) -> Option<Completion>;

    /// Discards the completion of `ticket`, now or when it comes.
    fn abandon(&self, ticket: Ticket);
}

impl<S: Session + ?Sized> Line<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Session + ?Sized> Await for Line<S> {
    fn poll(&self, ticket: Ticket, waker: &Waker) -> Option<Completion> {
        let mut woken = Vec::new();
        let mut state = self.lock();
        let State { session, arrived, waiting, abandoned } = &mut *state;
        session.poll(&mut |other, completion| {
            if !abandoned.remove(&other) {
                arrived.insert(other, completion);
                woken.extend(waiting.remove(&other));
            }
        });
        let completion = arrived.remove(&ticket);
        if completion.is_some() {
            waiting.remove(&ticket);
        } else {
            waiting.insert(ticket, waker.clone());
        }
        let notifier = completion.is_none().then(|| session.notifier());
        drop(state);
        // A poll that empties the queue between these lines finds the waker in `waiting`: nothing
        // is missed.
        if let Some(notifier) = notifier {
            notifier.register(waker);
        }
        woken.into_iter().for_each(Waker::wake);
        completion
    }

    fn abandon(&self, ticket: Ticket) {
        let mut state = self.lock();
        state.waiting.remove(&ticket);
        if state.arrived.remove(&ticket).is_none() {
            state.abandoned.insert(ticket);
        }
    }
}

#[cfg(test)]
mod tests;
