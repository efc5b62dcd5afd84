//! Records of the engine, with the transaction's own writes: in key order, or by hash.
//!
//! In key order own writes have their places. By hash what is overwritten keeps its place, and keys
//! that the engine does not have come last.

use std::collections::BTreeMap;
use std::rc::Rc;

use firn_engine::{
    BatchLimit, Direction, HashCursor, HashScan, KeyspaceId, ReadAt, Scan, ScanBatch, ScanRange, Snapshot,
};
use firn_format::datatype::{DatabaseId, range};

use super::{Reads, Transaction, read_at};
use crate::failure::Result;
use crate::server_thread::ServerThread;

/// Records of the first batch, since many ask for few; later ones hold more.
const FIRST_RECORDS: usize = 32;

/// Most records of a batch: others have a turn after it.
const RECORDS_MAX: usize = 1024;

/// Records and bytes of a batch of a walk over much that is only looked at: its turns are short.
const GLANCES_MAX: usize = 256;
const GLANCE_BYTES_MAX: usize = 256 << 10;

/// How the engine is walked over.
enum Walk {
    InOrder(Box<dyn Scan>, Direction),
    ByHash(HashWalk),
}

/// A walk over the keys of a range where these have no order.
struct HashWalk {
    keyspace: KeyspaceId,
    at: Option<Snapshot>,
    /// Where the next batch begins; `None` behind the last.
    next: Option<HashCursor>,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

/// A walk over a range of keys.
///
/// In key order it sees what was there when it was opened, own writes included, and nothing that is
/// written later. By hash that holds where the transaction reads a moment or holds all locks; else
/// what is written meanwhile is seen or not.
pub(crate) struct Cursor {
    thread: Rc<ServerThread>,
    walk: Walk,
    batch: ScanBatch,
    next: usize,
    /// Of the next batch.
    records: usize,
    /// What a batch holds at most.
    batch_max: BatchLimit,
    is_begun: bool,
    /// Batches that may still be asked for.
    batches_left: usize,
    /// Own writes that were not met yet.
    own: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The own write that was answered last.
    current: (Vec<u8>, Vec<u8>),
}

impl Transaction {
    /// Opens a walk over `range` in its order.
    ///
    /// # Errors
    /// The engine keeps no order.
    pub(crate) fn scan(&mut self, keyspace: KeyspaceId, range: ScanRange) -> Result<Cursor> {
        self.choose_moment()?;
        let direction = range.direction;
        let (start, end) = range.bounds();
        let scan = self.thread.engine.scan(read_at(&self.reads), keyspace, range)?;
        Ok(self.cursor(keyspace, (&start, end.as_deref()), Walk::InOrder(scan, direction)))
    }

    /// Opens a walk over all keys of a database, in the engine's order.
    pub(crate) fn keys_of(&mut self, database: DatabaseId) -> Result<Cursor> {
        if !self.thread.engine.is_ordered() {
            return Ok(self.keys_by_hash(database, HashCursor::START));
        }
        let (mut start, mut end) = (Vec::new(), Vec::new());
        range::database(database, &mut start, &mut end);
        self.scan(self.keyspaces().keys, ScanRange::between(&start, &end))
    }

    /// Opens a walk over the keys of a database of an engine without order, from a cursor on.
    pub(crate) fn keys_by_hash(&mut self, database: DatabaseId, from: HashCursor) -> Cursor {
        let (mut start, mut end) = (Vec::new(), Vec::new());
        range::database(database, &mut start, &mut end);
        self.range_by_hash(self.keyspaces().keys, ScanRange::between(&start, &end), from)
    }

    /// Opens a walk over the keys of a range of an engine without order, from a cursor on.
    pub(crate) fn range_by_hash(
        &mut self,
        keyspace: KeyspaceId,
        range: ScanRange,
        from: HashCursor,
    ) -> Cursor {
        let at = match &self.reads {
            Reads::Moment(moment) => moment.clone(),
            Reads::Locked | Reads::Latest { .. } => None,
        };
        let (start, end) = range.bounds();
        let walk = HashWalk { keyspace, at, next: Some(from), start: start.clone(), end: end.clone() };
        self.cursor(keyspace, (&start, end.as_deref()), Walk::ByHash(walk))
    }

    fn cursor(&mut self, keyspace: KeyspaceId, bounds: (&[u8], Option<&[u8]>), walk: Walk) -> Cursor {
        Cursor {
            thread: Rc::clone(&self.thread),
            walk,
            batch: ScanBatch::new(),
            next: 0,
            records: FIRST_RECORDS,
            batch_max: BatchLimit { records: RECORDS_MAX, ..BatchLimit::default() },
            is_begun: false,
            batches_left: usize::MAX,
            own: self.own.range(keyspace, bounds.0, bounds.1).into_iter().collect(),
            current: (Vec::new(), Vec::new()),
        }
    }
}

impl HashWalk {
    /// The next records, of which a batch may have none.
    async fn next_batch(&mut self, thread: &ServerThread, limit: BatchLimit) -> Result<ScanBatch> {
        let mut records = ScanBatch::new();
        if let Some(from) = self.next {
            let at = self.at.as_ref().map_or(ReadAt::Latest, ReadAt::Snapshot);
            let scan = HashScan { keyspace: self.keyspace, from, limit, has_values: true };
            let batch = thread.engine.scan_by_hash(at, scan).await?;
            let is_within =
                |key: &[u8]| key >= self.start.as_slice() && self.end.as_deref().is_none_or(|end| key < end);
            let wanted = batch.records().records().filter(|(key, _)| is_within(key));
            wanted.for_each(|(key, value)| records.push(key, value));
            self.next = batch.next();
        }
        if self.next.is_none() {
            records.finish();
        }
        Ok(records)
    }
}

/// Where the next record comes from.
enum Source {
    Engine,
    /// The own write of this key; the engine's record of it, if it stands there, is passed.
    Own(Vec<u8>),
}

impl Cursor {
    /// The same walk in shorter turns: it is long, and others must not feel it.
    pub(crate) fn in_short_turns(mut self) -> Self {
        self.batch_max = BatchLimit { records: GLANCES_MAX, bytes: GLANCE_BYTES_MAX };
        self
    }

    /// The same walk, which [is cut short](Self::is_cut_short) after so many batches: also where it
    /// passes more that is deleted or has expired than it gives.
    pub(crate) fn within(mut self, batches: usize) -> Self {
        self.batches_left = batches;
        self
    }

    /// Batches that it has not asked for.
    pub(crate) fn batches_left(&self) -> usize {
        self.batches_left
    }

    /// Whether the walk ended before its range does.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.batches_left == 0 && !self.batch.is_finished()
    }

    /// The same walk of an engine without order in batches of `records`, at most `batches` of them.
    pub(crate) fn in_batches(mut self, records: usize, batches: usize) -> Self {
        let records = records.clamp(1, RECORDS_MAX);
        self.batch_max.records = records;
        (self.records, self.batches_left) = (records, batches);
        self
    }

    /// Where the next batch of a walk by hash begins; `None` behind the last.
    pub(crate) fn place(&self) -> Option<HashCursor> {
        match &self.walk {
            Walk::ByHash(walk) => walk.next,
            Walk::InOrder(..) => None,
        }
    }

    /// Says before the first record that so many will be asked for: it reads no more than that at
    /// first.
    pub(crate) fn expect(&mut self, records: u64) {
        // Some of them may be deleted by own writes.
        let records = records.saturating_add(self.own.len() as u64);
        self.records = (records.max(1)).min(FIRST_RECORDS as u64) as usize;
    }

    /// The next record's key and value; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            if self.next == self.batch.len() && !self.batch.is_finished() {
                if self.batches_left == 0 {
                    return Ok(None);
                }
                self.refill().await?;
                continue;
            }
            match self.source() {
                None => return Ok(None),
                Some(Source::Engine) => {
                    self.next += 1;
                    return Ok(self.batch.get(self.next - 1));
                }
                Some(Source::Own(key)) => {
                    if self.batch.get(self.next).is_some_and(|(engine, _)| engine == key) {
                        self.next += 1;
                    }
                    if let Some(value) = self.own.remove(&key).flatten() {
                        self.current = (key, value);
                        return Ok(Some((&self.current.0, &self.current.1)));
                    }
                }
            }
        }
    }

    fn source(&self) -> Option<Source> {
        let engine = self.batch.get(self.next).map(|(key, _)| key);
        let own = match &self.walk {
            Walk::InOrder(_, Direction::Forward) => self.own.keys().next(),
            Walk::InOrder(_, Direction::Backward) => self.own.keys().next_back(),
            Walk::ByHash(_) => match engine {
                Some(engine) => self.own.get_key_value(engine).map(|(key, _)| key),
                None => self.own.keys().next(),
            },
        };
        let (engine, own) = match (engine, own) {
            (None, None) => return None,
            (Some(_), None) => return Some(Source::Engine),
            (None, Some(own)) => return Some(Source::Own(own.clone())),
            (Some(engine), Some(own)) => (engine, own),
        };
        let is_engine_first = match &self.walk {
            Walk::InOrder(_, Direction::Forward) => engine < own.as_slice(),
            Walk::InOrder(_, Direction::Backward) => engine > own.as_slice(),
            Walk::ByHash(_) => false,
        };
        Some(if is_engine_first { Source::Engine } else { Source::Own(own.clone()) })
    }

    async fn refill(&mut self) -> Result<()> {
        // Also after a batch without a record: the engine has passed many that are deleted then.
        if std::mem::replace(&mut self.is_begun, true) {
            self.thread.breathe().await;
        }
        let limit = BatchLimit { records: self.records, ..self.batch_max };
        self.batches_left -= 1;
        match &mut self.walk {
            Walk::InOrder(scan, _) => {
                self.thread.engine.next_batch(scan.as_mut(), limit, &mut self.batch).await?;
            }
            Walk::ByHash(walk) => self.batch = walk.next_batch(&self.thread, limit).await?,
        }
        self.next = 0;
        self.records = (self.records * 4).min(self.batch_max.records);
        Ok(())
    }
}
