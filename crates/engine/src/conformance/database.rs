//! The database a check works on: short calls that panic where the contract says they succeed.

use std::sync::Arc;

use super::{Harness, OpenWith};
use crate::blocking::{Blocking, OrderedBlocking};
use crate::{
    Batch, Engine, KEYSPACE_DEFAULT, KeyspaceId, Ordered, Position, ReadAt, ScanRange, WriteOptions,
};

/// Keys and values, in scan order.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A harness with its engine open and one blocking session.
pub(super) struct Database {
    pub(super) harness: Box<dyn Harness>,
    pub(super) with: OpenWith,
    /// The keyspace the short calls work on.
    pub(super) keyspace: KeyspaceId,
    /// Options of the short calls' writes.
    pub(super) options: WriteOptions,
    open: Option<Open>,
}

/// An engine with its sessions.
struct Open {
    session: Blocking,
    /// For what needs order; `None` if the engine keeps none.
    ordered: Option<OrderedBlocking>,
    engine: Arc<dyn Engine>,
}

impl Open {
    fn of(engine: Arc<dyn Engine>) -> Self {
        let ordered = Arc::clone(&engine).ordered();
        let ordered = ordered.map(|ordered| Blocking::new(ordered.ordered_session()));
        Self { session: Blocking::new(engine.session()), ordered, engine }
    }
}

impl Database {
    pub(super) fn open(mut harness: Box<dyn Harness>, with: OpenWith) -> Self {
        let engine = harness.open(with).expect("an empty storage opens");
        let open = Some(Open::of(engine));
        Self { harness, with, keyspace: KEYSPACE_DEFAULT, options: WriteOptions::default(), open }
    }

    pub(super) fn engine(&self) -> &Arc<dyn Engine> {
        &self.open.as_ref().expect("the database is open").engine
    }

    /// The session the short calls use.
    pub(super) fn db(&mut self) -> &mut Blocking {
        &mut self.open.as_mut().expect("the database is open").session
    }

    /// The session of checks that need order.
    pub(super) fn ordered_db(&mut self) -> &mut OrderedBlocking {
        let open = self.open.as_mut().expect("the database is open");
        open.ordered.as_mut().expect("the engine is ordered")
    }

    /// A further session.
    pub(super) fn session(&self) -> Blocking {
        Blocking::new(self.engine().session())
    }

    pub(super) fn is_ordered(&self) -> bool {
        Arc::clone(self.engine()).ordered().is_some()
    }

    pub(super) fn ordered(&self) -> Arc<dyn Ordered> {
        Arc::clone(self.engine()).ordered().expect("the engine is ordered")
    }

    #[track_caller]
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Position {
        let (keyspace, options) = (self.keyspace, self.options);
        self.db().put(keyspace, key, value, options).expect("put")
    }

    #[track_caller]
    pub(super) fn delete(&mut self, key: &[u8]) -> Position {
        let (keyspace, options) = (self.keyspace, self.options);
        self.db().delete(keyspace, key, options).expect("delete")
    }

    #[track_caller]
    pub(super) fn merge(&mut self, key: &[u8], operand: &[u8]) -> Position {
        let (keyspace, options) = (self.keyspace, self.options);
        self.db().merge(keyspace, key, operand, options).expect("merge")
    }

    #[track_caller]
    pub(super) fn write(&mut self, batch: &Batch) -> Position {
        let options = self.options;
        self.db().write(batch, options).expect("write")
    }

    #[track_caller]
    pub(super) fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Position {
        let (keyspace, options) = (self.keyspace, self.options);
        self.ordered_db().delete_range(keyspace, start, end, options).expect("delete_range")
    }

    #[track_caller]
    pub(super) fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_at(ReadAt::Latest, key)
    }

    #[track_caller]
    pub(super) fn get_at(&mut self, at: ReadAt<'_>, key: &[u8]) -> Option<Vec<u8>> {
        let keyspace = self.keyspace;
        self.db().get(at, keyspace, key).expect("get")
    }

    #[track_caller]
    pub(super) fn scan(&mut self, range: ScanRange) -> Pairs {
        self.scan_at(ReadAt::Latest, range)
    }

    #[track_caller]
    pub(super) fn scan_at(&mut self, at: ReadAt<'_>, range: ScanRange) -> Pairs {
        let keyspace = self.keyspace;
        let records = self.ordered_db().scan(at, keyspace, range).expect("scan");
        records.map(|record| record.expect("scan's next record")).collect()
    }

    /// Asserts that `key` has `value`, read every way there is.
    #[track_caller]
    pub(super) fn assert_value(&mut self, at: ReadAt<'_>, key: &[u8], value: Option<&[u8]>) {
        let shown = String::from_utf8_lossy(&key[..key.len().min(40)]).into_owned();
        assert_eq!(self.get_at(at, key).as_deref(), value, "get of {shown:?}");
        let keyspace = self.keyspace;
        let values = self.db().multi_get(at, keyspace, &[key, key]).expect("multi_get");
        assert_eq!((values.len(), values.get(1)), (2, value), "multi_get of {shown:?}");
        if self.is_ordered() {
            let found = self.scan_at(at, ScanRange::from(key..=key));
            let found: Vec<_> = found.iter().map(|(_, value)| &value[..]).collect();
            assert_eq!(found, value.into_iter().collect::<Vec<_>>(), "scan of {shown:?}");
        }
    }

    pub(super) fn flush(&self) {
        self.engine().flush().expect("flush");
    }

    /// Rewrites every keyspace into its last level, if the engine is ordered.
    pub(super) fn compact(&self) {
        for (name, id) in self.engine().keyspaces() {
            if let Some(ordered) = Arc::clone(self.engine()).ordered() {
                ordered
                    .compact_range(id, &[], None)
                    .unwrap_or_else(|error| panic!("compact {name}: {error}"));
            }
        }
    }

    /// Closes, drops and opens the engine again.
    pub(super) fn reopen(&mut self) {
        self.reopen_with(self.with);
    }

    pub(super) fn reopen_with(&mut self, with: OpenWith) {
        self.engine().close().expect("close");
        self.drop_engine();
        let engine = self.harness.open(with).expect("a closed database opens");
        self.with = with;
        self.open = Some(Open::of(engine));
    }

    /// Drops the last handle.
    pub(super) fn drop_engine(&mut self) {
        let Open { session, ordered, engine } = self.open.take().expect("the database is open");
        drop((session, ordered));
        drop(engine);
    }

    /// Runs `assertion` where the data is, after a flush, after a compaction, and after reopening.
    pub(super) fn everywhere(&mut self, assertion: &mut dyn FnMut(&mut Database)) {
        assertion(self);
        self.flush();
        assertion(self);
        self.compact();
        assertion(self);
        self.reopen();
        assertion(self);
    }
}

/// A key that orders as its number does.
pub(super) fn key(number: usize) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// `bytes` bytes that depend on `seed` and compress badly.
pub(super) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        out.extend_from_slice(&step());
    }
    out.truncate(bytes);
    out
}
