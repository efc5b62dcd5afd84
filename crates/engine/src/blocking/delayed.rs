//! A session for tests that answers `Pending` to everything and completes on command.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::*;

type Records = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// Completions that have been worked out and are held back.
#[derive(Clone, Default)]
pub(crate) struct Held {
    queue: Arc<Mutex<VecDeque<(Ticket, Completion)>>>,
    sender: Arc<Mutex<Option<CompletionSender>>>,
}

impl Held {
    /// Lets the completion at `index` of those held go.
    pub(crate) fn release(&self, index: usize) {
        let (ticket, completion) = self.queue.lock().unwrap().remove(index).expect("nothing held there");
        self.sender.lock().unwrap().as_ref().unwrap().send(ticket, completion);
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        self.queue.lock().unwrap().len()
    }

    /// Releases everything, now and later, from another thread, newest first.
    #[expect(clippy::disallowed_methods, reason = "a test wants a real second thread")]
    pub(crate) fn release_in_background(&self) -> std::thread::JoinHandle<()> {
        let held = self.clone();
        std::thread::spawn(move || {
            while Arc::strong_count(&held.queue) > 1 {
                match held.count() {
                    0 => std::thread::yield_now(),
                    count => held.release(count - 1),
                }
            }
        })
    }
}

/// The session.
#[derive(Default)]
pub(crate) struct Delayed {
    queue: CompletionQueue,
    held: Held,
    tickets: u64,
    records: Records,
}

impl Delayed {
    pub(crate) fn pair() -> (Box<dyn OrderedSession>, Held) {
        let session = Delayed::default();
        *session.held.sender.lock().unwrap() = Some(session.queue.sender());
        let held = session.held.clone();
        (Box::new(session), held)
    }

    fn hold<T>(&mut self, completion: Completion) -> Result<Outcome<T>> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.held.queue.lock().unwrap().push_back((ticket, completion));
        Ok(Outcome::Pending(ticket))
    }

    fn hold_locks(&mut self, locked: Outcome<KeyLocks>) -> Outcome<KeyLocks> {
        let locks = locked.done().expect("nothing else locks");
        self.hold(Completion::Locked(locks)).expect("it is held")
    }
}

impl Session for Delayed {
    fn get(&mut self, _: ReadAt<'_>, _: KeyspaceId, key: &[u8], _: &mut Vec<u8>) -> Result<Outcome<bool>> {
        let value = self.records.lock().unwrap().get(key).cloned();
        self.hold(Completion::Value(value))
    }

    fn get_range(
        &mut self,
        _: ReadAt<'_>,
        _: KeyspaceId,
        key: &[u8],
        range: Range<usize>,
        _: &mut Vec<u8>,
    ) -> Result<Outcome<bool>> {
        let value = self.records.lock().unwrap().get(key).map(|value| value[range].to_vec());
        self.hold(Completion::Value(value))
    }

    fn is_stored(&mut self, _: KeyspaceId, key: &[u8]) -> Result<Outcome<bool>> {
        let value = self.records.lock().unwrap().get(key).map(|_| Vec::new());
        self.hold(Completion::Value(value))
    }

    fn multi_get(
        &mut self,
        _: ReadAt<'_>,
        _: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
    ) -> Result<Outcome<()>> {
        let mut values = std::mem::take(out);
        values.clear();
        for key in keys {
            values.push(self.records.lock().unwrap().get(*key).map(Vec::as_slice));
            if values.is_full() {
                break;
            }
        }
        self.hold(Completion::Values(values))
    }

    fn write(&mut self, batch: &Batch, _: WriteOptions) -> Result<Outcome<Position>> {
        let mut records = self.records.lock().unwrap();
        for op in batch.ops() {
            records.insert(op.key.to_vec(), op.value.to_vec());
        }
        drop(records);
        let position = Position(self.tickets + 1);
        self.hold(Completion::Written(position))
    }

    fn write_if(&mut self, batch: &Batch, _: ReadSet, options: WriteOptions) -> Result<Outcome<Position>> {
        self.write(batch, options)
    }

    fn put(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        o: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write(Batch::new().put(keyspace, key, value), o)
    }

    fn delete(&mut self, _: KeyspaceId, key: &[u8], _: WriteOptions) -> Result<Outcome<Position>> {
        self.records.lock().unwrap().remove(key);
        let position = Position(self.tickets + 1);
        self.hold(Completion::Written(position))
    }

    fn merge(&mut self, _: KeyspaceId, _: &[u8], _: &[u8], _: WriteOptions) -> Result<Outcome<Position>> {
        self.hold(Completion::Failed(Error::invalid("no merge operator")))
    }

    fn update(
        &mut self,
        _: KeyspaceId,
        key: &[u8],
        mut f: UpdateFn,
        _: WriteOptions,
    ) -> Result<Outcome<Position>> {
        let current = self.records.lock().unwrap().get(key).cloned();
        f(None);
        if let Change::Put(value) = f(current.as_deref()) {
            self.records.lock().unwrap().insert(key.to_vec(), value);
        }
        let position = Position(self.tickets + 1);
        self.hold(Completion::Written(position))
    }

    fn rmw(
        &mut self,
        _: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        _: WriteOptions,
    ) -> Result<Outcome<(Position, RmwAnswer)>> {
        let mut records = self.records.lock().unwrap();
        let (change, answer) = rmw.apply(records.get(key).map(Vec::as_slice), u64::MAX)?;
        if let Change::Put(value) = change {
            records.insert(key.to_vec(), value);
        }
        drop(records);
        let position = Position(self.tickets + 1);
        self.hold(Completion::Modified(position, answer))
    }

    fn lock(&mut self, keys: &[(KeyspaceId, &[u8])]) -> Outcome<KeyLocks> {
        let sender = self.queue.sender();
        let locked =
            LockTable::new()
                .lock(keys.iter().map(|(keyspace, _)| u64::from(keyspace.0)), &sender, || Ticket(0));
        self.hold_locks(locked)
    }

    fn lock_all(&mut self) -> Outcome<KeyLocks> {
        let locked = LockTable::new().lock_all(&self.queue.sender(), || Ticket(0));
        self.hold_locks(locked)
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Ticket, Completion)) -> usize {
        let mut count = 0;
        while let Some((ticket, completion)) = self.queue.pop() {
            sink(ticket, completion);
            count += 1;
        }
        count
    }

    fn wait(&mut self, deadline: Option<Instant>) -> bool {
        self.queue.notifier().wait(deadline)
    }

    fn notifier(&self) -> Notifier {
        self.queue.notifier()
    }

    fn set_inline(&mut self, _: bool) {}
}

impl OrderedSession for Delayed {
    fn scan(&mut self, _: ReadAt<'_>, _: KeyspaceId, _: ScanRange) -> Result<Box<dyn Scan>> {
        let all: Vec<_> = self.records.lock().unwrap().clone().into_iter().collect();
        self.tickets += 1000;
        let next = Arc::new(Mutex::new(self.tickets * 1000));
        Ok(Box::new(DelayedScan { held: self.held.clone(), records: all.clone().into(), all, next }))
    }

    fn write_ordered(&mut self, _: &OrderedBatch, _: WriteOptions) -> Result<Outcome<Position>> {
        self.hold(Completion::Failed(Error::invalid("no range deletes")))
    }

    fn write_ordered_if(
        &mut self,
        batch: &OrderedBatch,
        _: OrderedReadSet,
        options: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.write_ordered(batch, options)
    }

    fn delete_range(
        &mut self,
        _: KeyspaceId,
        start: &[u8],
        end: &[u8],
        _: WriteOptions,
    ) -> Result<Outcome<Position>> {
        self.records.lock().unwrap().retain(|key, _| key < &start.to_vec() || key >= &end.to_vec());
        let position = Position(self.tickets + 1);
        self.hold(Completion::Written(position))
    }
}

struct DelayedScan {
    held: Held,
    all: Vec<(Vec<u8>, Vec<u8>)>,
    records: VecDeque<(Vec<u8>, Vec<u8>)>,
    next: Arc<Mutex<u64>>,
}

impl Scan for DelayedScan {
    fn next_batch(&mut self, limit: BatchLimit, _: &mut ScanBatch) -> Result<Outcome<()>> {
        let mut batch = ScanBatch::new();
        for (key, value) in self.records.drain(..limit.records.min(self.records.len())) {
            batch.push(&key, &value);
        }
        if self.records.is_empty() {
            batch.finish();
        }
        let mut next = self.next.lock().unwrap();
        *next += 1;
        self.held.queue.lock().unwrap().push_back((Ticket(*next), Completion::Scanned(batch)));
        Ok(Outcome::Pending(Ticket(*next)))
    }
    /// Knows directions and no bounds.
    fn reopen(&self, range: ScanRange) -> Result<Box<dyn Scan>> {
        let (all, held, next) = (self.all.clone(), self.held.clone(), Arc::clone(&self.next));
        let mut records: VecDeque<_> = all.clone().into();
        if range.direction == Direction::Backward {
            records = records.into_iter().rev().collect();
        }
        Ok(Box::new(DelayedScan { held, all, records, next }))
    }
}
