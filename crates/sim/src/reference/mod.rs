//! An engine simple enough to be believed: a [`Model`] behind a lock, and a journal of every
//! change.
//!
//! It runs the conformance suite, so that the suite is tested, and the scripts and crashes of this
//! crate, so that they are. It can be told to break one promise at a time ([`Fault`]), so that they
//! are seen to fail.

mod fault;
mod ingestion;
mod journal;
mod session;

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_engine::blocking::Blocking;
use firn_engine::{
    DatabaseCopy, Durability, Engine, Error, ErrorKind, Ingestion, KeyspaceId, KeyspaceSettings, LockTable,
    Ordered, OrderedBatch, OrderedOpKind, OrderedSession, Position, Result, Semantics, Session, Snapshot,
    SnapshotPin, Stats, ValueSource, WriteOptions,
};
use firn_storage::{Clock, Storage, StorageLock};

use crate::model::{KEY_BYTES_MAX, Model};
pub use fault::Fault;
use ingestion::ReferenceIngestion;
use journal::{Entry, JOURNAL, Journal, from_storage};
use session::ReferenceSession;

/// What the reference engine needs.
#[derive(Clone, Debug)]
pub struct ReferenceOptions {
    /// Where its journal lies.
    pub storage: Arc<dyn Storage>,
    /// Code behind names.
    pub semantics: Semantics,
    /// Decides what has expired.
    pub clock: Arc<dyn Clock>,
    /// The default durability.
    pub durability: Durability,
    /// Every so-manieth operation of a session that is not inline answers `Pending`; 0 = none.
    pub pending_every: u64,
    /// Whether it has the ordered half of the contract.
    pub is_ordered: bool,
    /// The promise to break.
    pub fault: Option<Fault>,
}

/// The engine.
#[derive(Debug)]
pub struct Reference {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: ReferenceOptions,
    state: Mutex<State>,
    snapshots: Arc<AtomicU64>,
    locks: Arc<LockTable>,
    _lock: Box<dyn StorageLock>,
}

#[derive(Debug)]
struct State {
    model: Model,
    journal: Journal,
    /// Why no more writes are taken.
    closed: Option<Error>,
    /// It was closed, and no failure did so.
    is_over: bool,
    write_count: u64,
    stats: Stats,
}

impl Reference {
    /// Opens the database in `options.storage`, or begins one.
    pub fn open(options: ReferenceOptions) -> Result<Self> {
        let lock = options.storage.lock(true).map_err(from_storage)?;
        let (journal, mut entries) = Journal::open(&*options.storage)?;
        distort_recovery(options.fault, &mut entries);
        let mut model = Model::new(options.semantics.clone());
        for entry in entries {
            match entry {
                Entry::Batch(batch) => drop(model.apply(&batch, WriteOptions::default())),
                Entry::CreateKeyspace(name, settings) => drop(model.create_keyspace(&name, &settings)?),
                Entry::DropKeyspace(id) => model.drop_keyspace(id)?,
            }
        }
        let state =
            State { model, journal, closed: None, is_over: false, write_count: 0, stats: Stats::default() };
        let shared = Shared {
            options,
            state: Mutex::new(state),
            snapshots: Arc::new(AtomicU64::new(0)),
            locks: LockTable::new(),
            _lock: lock,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

fn distort_recovery(fault: Option<Fault>, entries: &mut Vec<Entry>) {
    let count = entries.len();
    match (fault, entries.last_mut()) {
        (Some(Fault::ForgetLast), Some(Entry::Batch(_))) => drop(entries.pop()),
        (Some(Fault::SwapLast), Some(Entry::Batch(_))) if count > 1 => entries.swap(count - 1, count - 2),
        (Some(Fault::HalfBatch), Some(Entry::Batch(batch))) => {
            let mut half = OrderedBatch::default();
            batch.ops().take(batch.len().div_ceil(2)).for_each(|op| _ = half.push(op));
            *batch = half;
        }
        _ => {}
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, fault: Fault) -> bool {
        self.options.fault == Some(fault)
    }

    /// Journals and applies one batch. The caller holds the lock, so that an update can have read
    /// before.
    fn write(&self, state: &mut State, batch: &OrderedBatch, options: WriteOptions) -> Result<Position> {
        state.check_open(self)?;
        match state.model.check(batch) {
            Err(_) if self.is(Fault::LongKeys) && batch.ops().any(|op| op.key.len() > KEY_BYTES_MAX) => {}
            checked => checked?,
        }
        let mut journaled = OrderedBatch::default();
        for mut op in batch.ops() {
            if op.expires_at_ms == 0 && op.kind == OrderedOpKind::Put {
                op.expires_at_ms = options.expires_at_ms;
            }
            journaled.push(op);
        }
        if let Some(fault) = self.options.fault {
            journaled = fault.distort(&journaled);
        }
        state.write_count += 1;
        state.stats.user_write_bytes_total += batch.data_bytes() as u64;
        if self.is(Fault::LoseWrite(state.write_count)) {
            return Ok(Position(state.model.end() + 1));
        }
        let entry = Entry::Batch(journaled);
        let late_count = match self.options.fault {
            Some(Fault::LateJournal(count)) => count,
            _ => 0,
        };
        let written = state.journal.append(&entry, late_count);
        state.stats.log_write_bytes_total += state.poison(written)?;
        if options.durability.unwrap_or(self.options.durability) >= Durability::Disk {
            self.sync(state)?;
        }
        let Entry::Batch(journaled) = entry else { return Err(Error::bug("the entry is a batch")) };
        Ok(Position(state.model.apply(&journaled, WriteOptions::default())))
    }

    fn sync(&self, state: &mut State) -> Result<()> {
        if self.is(Fault::SkipSync) {
            return Ok(());
        }
        let synced = state.journal.sync();
        state.stats.sync_count += 1;
        state.poison(synced)
    }
}

impl State {
    /// Reads go on after a failure, and end with `close`.
    pub(super) fn check_not_closed(&self, shared: &Shared) -> Result<()> {
        match self.is_over && !shared.is(Fault::OpenAfterClose) {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Closed, "the engine is closed")),
        }
    }

    fn check_open(&self, shared: &Shared) -> Result<()> {
        match &self.closed {
            Some(_) if shared.is(Fault::OpenAfterClose) => Ok(()),
            Some(cause) => {
                Err(Error::new(ErrorKind::Closed, "the engine takes no more writes").because(cause.clone()))
            }
            None => Ok(()),
        }
    }

    /// After a failure of the storage no write is taken any more.
    fn poison<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.closed.get_or_insert_with(|| error.clone());
        }
        result
    }
}

impl Engine for Reference {
    fn session(&self) -> Box<dyn Session> {
        Box::new(ReferenceSession::new(Arc::clone(&self.shared)))
    }

    fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<KeyspaceId> {
        let mut state = self.shared.lock();
        state.check_open(&self.shared)?;
        let existed = state.model.keyspace(name).is_some();
        let id = state.model.create_keyspace(name, &settings)?;
        if !existed {
            let written = state.journal.append(&Entry::CreateKeyspace(name.to_owned(), settings), 0);
            state.poison(written)?;
            let synced = state.journal.sync();
            state.poison(synced)?;
        }
        Ok(id)
    }

    fn set_separate_bytes(&self, id: KeyspaceId, _: Option<u32>) -> Result<()> {
        let state = self.shared.lock();
        state.check_open(&self.shared)?;
        state.model.set_separate_bytes(id)
    }

    fn keyspace(&self, name: &str) -> Option<KeyspaceId> {
        self.shared.lock().model.keyspace(name)
    }

    fn keyspaces(&self) -> Vec<(String, KeyspaceId)> {
        self.shared.lock().model.keyspaces()
    }

    fn keyspace_settings(&self, id: KeyspaceId) -> Result<KeyspaceSettings> {
        let settings = self.shared.lock().model.settings(id).cloned();
        settings.ok_or_else(|| Error::invalid(format!("{id} does not exist")))
    }

    fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        let mut state = self.shared.lock();
        state.check_open(&self.shared)?;
        state.model.drop_keyspace(id)?;
        let written = state.journal.append(&Entry::DropKeyspace(id), 0);
        state.poison(written)?;
        let synced = state.journal.sync();
        state.poison(synced)
    }

    fn put_from(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value_bytes: u64,
        source: &mut dyn Read,
        options: WriteOptions,
    ) -> Result<Position> {
        // It holds all values in memory.
        let value = match self.shared.is(Fault::ShortSource) {
            true => {
                let mut value = Vec::new();
                // What comes before an error is taken for all.
                let _read = source.read_to_end(&mut value);
                value
            }
            false => ValueSource::new(source, value_bytes).whole()?,
        };
        Blocking::new(self.session()).put(keyspace, key, &value, options)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let state = self.shared.lock();
        let count = Arc::clone(&self.shared.snapshots);
        if !self.shared.is(Fault::UncountedSnapshot) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Snapshot::new(Position(state.model.end()), Arc::new(Pin { count })))
    }

    fn flush(&self) -> Result<()> {
        self.sync().map(|_| ())
    }

    fn sync(&self) -> Result<Position> {
        let mut state = self.shared.lock();
        state.check_open(&self.shared)?;
        self.shared.sync(&mut state)?;
        Ok(Position(state.model.end()))
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn copy_to(&self, path: &Path) -> Result<DatabaseCopy> {
        let state = self.shared.lock();
        let storage = &self.shared.options.storage;
        let mut bytes = state.journal.copy(&**storage)?;
        if self.shared.is(Fault::StaleCopy) {
            bytes.pop();
        }
        let backend = storage.link_into(&[], path).map_err(from_storage)?;
        backend.publish(JOURNAL, &bytes).map_err(from_storage)?;
        Ok(DatabaseCopy { path: path.to_owned(), position: Position(state.model.end()) })
    }

    fn stats(&self) -> Stats {
        let state = self.shared.lock();
        Stats { snapshot_count: self.shared.snapshots.load(Ordering::SeqCst), ..state.stats.clone() }
    }

    fn close(&self) -> Result<()> {
        let mut state = self.shared.lock();
        state.is_over = true;
        if state.closed.is_none() {
            let synced = state.journal.sync();
            state.closed = Some(Error::new(ErrorKind::Closed, "the engine was closed"));
            synced?;
        }
        Ok(())
    }

    fn ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        self.shared.options.is_ordered.then_some(self as Arc<dyn Ordered>)
    }
}

impl Ordered for Reference {
    fn ordered_session(&self) -> Box<dyn OrderedSession> {
        Box::new(ReferenceSession::new(Arc::clone(&self.shared)))
    }

    fn compact_range(&self, _keyspace: KeyspaceId, _start: &[u8], _end: Option<&[u8]>) -> Result<()> {
        self.flush()
    }

    fn ingest(&self, keyspace: KeyspaceId) -> Result<Box<dyn Ingestion>> {
        Ok(Box::new(ReferenceIngestion::begin(&self.shared, keyspace)?))
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // A caller that wants to know whether the last sync worked calls `close`.
        let _ = self.close();
    }
}

#[derive(Debug)]
struct Pin {
    count: Arc<AtomicU64>,
}

impl SnapshotPin for Pin {}

impl Drop for Pin {
    fn drop(&mut self) {
        let _ = self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }
}

#[cfg(test)]
mod tests;
