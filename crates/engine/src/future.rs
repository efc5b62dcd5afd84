//! Calls that answer futures, for any executor and for none.
//!
//! [`Futures`] owns a [`Session`] and has the calls of [`Blocking`](crate::blocking::Blocking), in
//! the same shape, as `async fn`. Futures are woken through the session's
//! [`Notifier`](crate::Notifier): no thread, timer or runtime is involved.
//!
//! # Dropped futures
//! An operation begins when its future is polled first. A future that is dropped before it is ready
//! abandons its operation: a write is then done whole, or not at all, which only a read shows. The
//! session can be used on.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::blocking::{answering, modified, position, scanned, value, values};
use crate::{
    Batch, BatchLimit, Change, Completion, KeyspaceId, OrderedBatch, OrderedReadSet, OrderedSession, Outcome,
    Position, ReadAt, ReadSet, Result, Rmw, RmwAnswer, Scan, ScanBatch, Session, Ticket, Values,
    WriteOptions,
};

/// A session whose calls are futures.
///
/// Does one operation at a time: a program that has several under way has several of these. Errors
/// are those of the [`Session`] call of the same name, whether they came at once or later.
pub struct Futures<S: Session + ?Sized = dyn Session> {
    session: Box<S>,
    /// Completions that nothing has asked for yet: of scans' batches.
    arrived: BTreeMap<Ticket, Completion>,
    /// Tickets of futures that were dropped: their completions are discarded.
    abandoned: BTreeSet<Ticket>,
}

/// Futures of a session on an engine that keeps keys in order.
pub type OrderedFutures = Futures<dyn OrderedSession>;

impl<S: Session + ?Sized> Futures<S> {
    /// Wraps `session`, which is not inline.
    pub fn new(session: Box<S>) -> Self {
        Self { session, arrived: BTreeMap::new(), abandoned: BTreeSet::new() }
    }

    /// The value of `key`, or `None` if it has none.
    pub async fn get(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let outcome = self.session.get(at, keyspace, key, &mut out);
        self.over(outcome, |found| found.then_some(out), value).await
    }

    /// As [`get`](Self::get) for the bytes `range` of the value, cut to its length.
    pub async fn get_range(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        range: std::ops::Range<usize>,
    ) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let outcome = self.session.get_range(at, keyspace, key, range, &mut out);
        self.over(outcome, |found| found.then_some(out), value).await
    }

    /// Whether `key` has a value; reads no byte of it where that is not needed to know.
    pub async fn contains_key(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
        Ok(self.get_range(at, keyspace, key, 0..0).await?.is_some())
    }

    /// Whether a value of `key` is stored; counts a value that has expired and was not dropped yet.
    pub async fn is_stored(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
        let outcome = self.session.is_stored(keyspace, key);
        self.over(outcome, |stored| stored, |completion| Ok(value(completion)?.is_some())).await
    }

    /// Values of `keys` as of one point, in order.
    pub async fn multi_get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
    ) -> Result<Values> {
        let mut out = Values::new();
        let outcome = self.session.multi_get(at, keyspace, keys, &mut out);
        self.over(outcome, |()| out, values).await
    }

    /// Applies all of `batch` or none of it.
    pub async fn write(&mut self, batch: &Batch, options: WriteOptions) -> Result<Position> {
        let outcome = self.session.write(batch, options);
        self.written(outcome).await
    }

    /// Applies all of `batch` if no key of `reads` was written since, else nothing of it.
    pub async fn write_if(
        &mut self,
        batch: &Batch,
        reads: ReadSet,
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.write_if(batch, reads, options);
        self.written(outcome).await
    }

    /// Sets `key` to `value`.
    pub async fn put(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.put(keyspace, key, value, options);
        self.written(outcome).await
    }

    /// Removes `key`.
    pub async fn delete(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.delete(keyspace, key, options);
        self.written(outcome).await
    }

    /// Adds `operand` to `key` without reading it.
    pub async fn merge(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.merge(keyspace, key, operand, options);
        self.written(outcome).await
    }

    /// Replaces `key`'s value by what `f` makes of it, atomically, and answers what `f` answered.
    ///
    /// `f` may be called more than once, on any thread; the answer is that of the call that took
    /// effect.
    pub async fn update<R: Send + 'static>(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
        f: impl FnMut(Option<&[u8]>) -> (Change, R) + Send + 'static,
    ) -> Result<R> {
        let (f, answer) = answering(f);
        let outcome = self.session.update(keyspace, key, f, options);
        self.written(outcome).await?;
        answer.take()
    }

    /// Does `rmw` to the value of `key`, atomically.
    pub async fn rmw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        options: WriteOptions,
    ) -> Result<RmwAnswer> {
        let outcome = self.session.rmw(keyspace, key, rmw, options);
        self.over(outcome, |(_, answer)| answer, modified).await
    }

    /// The session itself, to open scans.
    pub fn session(&mut self) -> &mut S {
        &mut self.session
    }

    /// Whether nothing is under way: no future was dropped before it was ready, or all that they
    /// began is over.
    pub fn is_idle(&self) -> bool {
        self.abandoned.is_empty() && self.arrived.is_empty()
    }

    /// The completion of `ticket` if it is there; else the context's waker is called when it may
    /// be. For callers that hold scans: nothing is lost if it is not asked again.
    pub fn poll_completion(&mut self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Completion> {
        let Self { session, arrived, abandoned } = self;
        session.poll(&mut |ticket, completion| {
            if !abandoned.remove(&ticket) {
                arrived.insert(ticket, completion);
            }
        });
        match arrived.remove(&ticket) {
            Some(completion) => Poll::Ready(completion),
            None => {
                // Wakes at once if something has arrived since.
                session.notifier().register(context.waker());
                Poll::Pending
            }
        }
    }

    async fn written(&mut self, outcome: Result<Outcome<Position>>) -> Result<Position> {
        self.over(outcome, |position| position, position).await
    }

    async fn over<D, T>(
        &mut self,
        outcome: Result<Outcome<D>>,
        done: impl FnOnce(D) -> T,
        take: impl FnOnce(Completion) -> Result<T>,
    ) -> Result<T> {
        match outcome? {
            Outcome::Done(result) => Ok(done(result)),
            Outcome::Pending(ticket) => take(Arrival { futures: self, ticket, is_over: false }.await),
        }
    }

    fn abandon(&mut self, ticket: Ticket) {
        if self.arrived.remove(&ticket).is_none() {
            self.abandoned.insert(ticket);
        }
    }
}

impl<S: OrderedSession + ?Sized> Futures<S> {
    /// The next batch of `scan`, which was opened through [`session`](Self::session).
    ///
    /// If the future is dropped the batch is lost; [`poll_completion`](Self::poll_completion) is
    /// for callers that cannot have that.
    pub async fn next_batch(&mut self, scan: &mut dyn Scan, limit: BatchLimit) -> Result<ScanBatch> {
        let mut out = ScanBatch::new();
        let outcome = scan.next_batch(limit, &mut out);
        self.over(outcome, |()| out, scanned).await
    }

    /// Applies all of `batch`, range deletes included, or none of it.
    pub async fn write_ordered(&mut self, batch: &OrderedBatch, options: WriteOptions) -> Result<Position> {
        let outcome = self.session.write_ordered(batch, options);
        self.written(outcome).await
    }

    /// Applies all of `batch` if no key of `reads`, and none in a range of it, was written since,
    /// else nothing of it.
    pub async fn write_ordered_if(
        &mut self,
        batch: &OrderedBatch,
        reads: OrderedReadSet,
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.write_ordered_if(batch, reads, options);
        self.written(outcome).await
    }

    /// Removes every key of `start..end`.
    pub async fn delete_range(
        &mut self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        options: WriteOptions,
    ) -> Result<Position> {
        let outcome = self.session.delete_range(keyspace, start, end, options);
        self.written(outcome).await
    }
}

impl<S: Session + ?Sized> std::fmt::Debug for Futures<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Futures").field("abandoned", &self.abandoned).finish_non_exhaustive()
    }
}

/// The completion of one ticket, which nothing else waits for.
struct Arrival<'f, S: Session + ?Sized> {
    futures: &'f mut Futures<S>,
    ticket: Ticket,
    is_over: bool,
}

impl<S: Session + ?Sized> Future for Arrival<'_, S> {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        let ticket = self.ticket;
        let polled = self.futures.poll_completion(ticket, context);
        self.is_over |= polled.is_ready();
        polled
    }
}

impl<S: Session + ?Sized> Drop for Arrival<'_, S> {
    fn drop(&mut self) {
        if !self.is_over {
            self.futures.abandon(self.ticket);
        }
    }
}

#[cfg(test)]
mod tests;
