//! A session that is woken all the time, mostly for nothing.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::{
    Batch, Completion, Error, KeyLocks, KeyspaceId, Notifier, OrderedBatch, OrderedReadSet, OrderedSession,
    Outcome, Position, ReadAt, ReadSet, Result, Rmw, RmwAnswer, Scan, ScanRange, Session, Ticket, UpdateFn,
    Values, WriteOptions,
};
use firn_storage::{Clock, ManualClock};

/// The one operation that it has.
pub(super) const TICKET: Ticket = Ticket(7);
/// How long that takes.
pub(super) const TIME: Duration = Duration::from_secs(2);

/// No more than waits for [`TICKET`].
pub(super) struct Restless {
    pub(super) inner: Box<dyn OrderedSession>,
    pub(super) clock: Arc<ManualClock>,
}

fn none<T>() -> Result<Outcome<T>> {
    Err(Error::bug("this session has one operation"))
}

impl Session for Restless {
    fn get(&mut self, _: ReadAt<'_>, _: KeyspaceId, _: &[u8], _: &mut Vec<u8>) -> Result<Outcome<bool>> {
        none()
    }

    fn get_range(
        &mut self,
        _: ReadAt<'_>,
        _: KeyspaceId,
        _: &[u8],
        _: Range<usize>,
        _: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        none()
    }

    fn is_stored(&mut self, _: KeyspaceId, _: &[u8]) -> Result<Outcome<bool>> {
        none()
    }

    fn multi_get(
        &mut self,
        _: ReadAt<'_>,
        _: KeyspaceId,
        _: &[&[u8]],
        _: &mut Values,
    ) -> Result<Outcome<()>> {
        none()
    }

    fn write(&mut self, _: &Batch, _: WriteOptions) -> Result<Outcome<Position>> {
        none()
    }

    fn write_if(&mut self, _: &Batch, _: ReadSet, _: WriteOptions) -> Result<Outcome<Position>> {
        none()
    }

    fn put(&mut self, _: KeyspaceId, _: &[u8], _: &[u8], _: WriteOptions) -> Result<Outcome<Position>> {
        none()
    }

    fn delete(&mut self, _: KeyspaceId, _: &[u8], _: WriteOptions) -> Result<Outcome<Position>> {
        none()
    }

    fn merge(&mut self, _: KeyspaceId, _: &[u8], _: &[u8], _: WriteOptions) -> Result<Outcome<Position>> {
        none()
    }

    fn update(&mut self, _: KeyspaceId, _: &[u8], _: UpdateFn, _: WriteOptions) -> Result<Outcome<Position>> {
        none()
    }

    fn rmw(
        &mut self,
        _: KeyspaceId,
        _: &[u8],
        _: Rmw<'_>,
        _: WriteOptions,
    ) -> Result<Outcome<(Position, RmwAnswer)>> {
        none()
    }

    fn lock(&mut self, keys: &[(KeyspaceId, &[u8])]) -> Outcome<KeyLocks> {
        self.inner.lock(keys)
    }

    fn lock_all(&mut self) -> Outcome<KeyLocks> {
        self.inner.lock_all()
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Ticket, Completion)) -> usize {
        if self.clock.now() < TIME {
            return 0;
        }
        sink(TICKET, Completion::Written(Position(1)));
        1
    }

    fn wait(&mut self, _: Option<Instant>) -> bool {
        true
    }

    fn notifier(&self) -> Notifier {
        self.inner.notifier()
    }

    fn set_inline(&mut self, _: bool) {}
}

impl OrderedSession for Restless {
    fn scan(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, range: ScanRange) -> Result<Box<dyn Scan>> {
        self.inner.scan(at, keyspace, range)
    }

    fn write_ordered(&mut self, _: &OrderedBatch, _: WriteOptions) -> Result<Outcome<Position>> {
        none()
    }

    fn write_ordered_if(
        &mut self,
        _: &OrderedBatch,
        _: OrderedReadSet,
        _: WriteOptions,
    ) -> Result<Outcome<Position>> {
        none()
    }

    fn delete_range(
        &mut self,
        _: KeyspaceId,
        _: &[u8],
        _: &[u8],
        _: WriteOptions,
    ) -> Result<Outcome<Position>> {
        none()
    }
}
