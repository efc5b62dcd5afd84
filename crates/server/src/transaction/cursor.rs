//! Records in key order: the engine's, with the transaction's own writes in their places.

use std::collections::VecDeque;
use std::rc::Rc;

use firn_engine::{BatchLimit, Direction, KeyspaceId, Scan, ScanBatch, ScanRange};

use super::{Transaction, read_at};
use crate::failure::Result;
use crate::server_thread::ServerThread;

/// Records of the first batch, since many ask for few; later ones hold more.
const FIRST_RECORDS: usize = 32;

/// Most records of a batch: others have a turn after it.
const RECORDS_MAX: usize = 1024;

/// Records and bytes of a batch of a walk over much that is only looked at: its turns are short.
const GLANCES_MAX: usize = 256;
const GLANCE_BYTES_MAX: usize = 256 << 10;

/// A walk over a range of keys.
///
/// Sees what was there when it was opened, own writes included, and nothing that is written later.
pub(crate) struct Cursor {
    thread: Rc<ServerThread>,
    scan: Box<dyn Scan>,
    direction: Direction,
    batch: ScanBatch,
    next: usize,
    /// Of the next batch.
    records: usize,
    /// What a batch holds at most.
    batch_max: BatchLimit,
    is_begun: bool,
    /// Batches that may still be asked for.
    batches_left: usize,
    /// In the order of the walk.
    own: VecDeque<(Vec<u8>, Option<Vec<u8>>)>,
    /// The own write that was answered last.
    current: (Vec<u8>, Vec<u8>),
}

impl Transaction {
    /// Opens a walk over `range`.
    pub(crate) fn scan(&mut self, keyspace: KeyspaceId, range: ScanRange) -> Result<Cursor> {
        self.choose_moment()?;
        let (start, end) = range.bounds();
        let mut own = VecDeque::from(self.own.range(keyspace, &start, end.as_deref()));
        let direction = range.direction;
        if direction == Direction::Backward {
            own.make_contiguous().reverse();
        }
        let scan = self.thread.engine.scan(read_at(&self.reads), keyspace, range)?;
        Ok(Cursor {
            thread: Rc::clone(&self.thread),
            scan,
            direction,
            batch: ScanBatch::new(),
            next: 0,
            records: FIRST_RECORDS,
            batch_max: BatchLimit { records: RECORDS_MAX, ..BatchLimit::default() },
            is_begun: false,
            batches_left: usize::MAX,
            own,
            current: (Vec::new(), Vec::new()),
        })
    }
}

/// Where the next record comes from.
enum Source {
    Engine,
    Own,
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
                Some(Source::Own) => {
                    let Some((key, value)) = self.own.pop_front() else { return Ok(None) };
                    if self.batch.get(self.next).is_some_and(|(engine, _)| engine == key) {
                        self.next += 1;
                    }
                    if let Some(value) = value {
                        self.current = (key, value);
                        return Ok(Some((&self.current.0, &self.current.1)));
                    }
                }
            }
        }
    }

    fn source(&self) -> Option<Source> {
        match (self.batch.get(self.next), self.own.front()) {
            (None, None) => None,
            (Some(_), None) => Some(Source::Engine),
            (None, Some(_)) => Some(Source::Own),
            (Some((engine, _)), Some((own, _))) => {
                let engine_first = match self.direction {
                    Direction::Forward => engine < own.as_slice(),
                    Direction::Backward => engine > own.as_slice(),
                };
                Some(if engine_first { Source::Engine } else { Source::Own })
            }
        }
    }

    async fn refill(&mut self) -> Result<()> {
        // Also after a batch without a record: the engine has passed many that are deleted then.
        if std::mem::replace(&mut self.is_begun, true) {
            self.thread.breathe().await;
        }
        let limit = BatchLimit { records: self.records, ..self.batch_max };
        self.batches_left -= 1;
        self.thread.engine.next_batch(self.scan.as_mut(), limit, &mut self.batch).await?;
        self.next = 0;
        self.records = (self.records * 4).min(self.batch_max.records);
        Ok(())
    }
}
