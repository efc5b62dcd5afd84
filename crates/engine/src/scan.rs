//! Reading keys in order, a batch at a time.

mod range;

use std::ops::Range;

pub use range::ScanRange;

use crate::expiries::Expiries;
use crate::{Outcome, Result};

/// Which way a scan walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key up.
    #[default]
    Forward,
    /// From the greatest key down.
    Backward,
}

/// How much one batch may hold; whichever limit is met first ends it, and one record always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimit {
    /// Most records of a batch, at least 1.
    pub records: usize,
    /// Bytes of keys and values after which a batch ends.
    pub bytes: usize,
}

impl Default for BatchLimit {
    fn default() -> Self {
        Self { records: 1024, bytes: 1 << 20 }
    }
}

/// Records a scan produced, in the scan's order, in one buffer that is reused.
#[derive(Clone, Debug, Default)]
pub struct ScanBatch {
    bytes: Vec<u8>,
    records: Vec<(Range<usize>, Range<usize>)>,
    expiries: Expiries,
    finished: bool,
}

impl ScanBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keys and values.
    pub fn records(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        self.records.iter().map(|(key, value)| (&self.bytes[key.clone()], &self.bytes[value.clone()]))
    }

    /// The record at `index`, `None` past the last.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.records.get(index)?.clone();
        Some((&self.bytes[key], &self.bytes[value]))
    }

    /// When the record at `index` expires, in milliseconds since the Unix epoch; 0 = never, or past
    /// the last. A value that operands were merged into says 0.
    pub fn expires_at_ms(&self, index: usize) -> u64 {
        self.expiries.get(index)
    }

    /// Key of the last record.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.records.last().map(|(key, _)| &self.bytes[key.clone()])
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the batch has no record.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether the scan has nothing after this batch.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Bytes of keys and values held.
    pub fn data_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the records and keeps the memory. For engines.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.expiries.truncate(0);
        self.finished = false;
    }

    /// Adds a record. For engines.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.records.push((start..middle, middle..self.bytes.len()));
    }

    /// Adds a record that expires then; 0 = never. For engines.
    #[inline]
    pub fn push_until(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) {
        self.expiries.note(self.records.len(), expires_at_ms);
        self.push(key, value);
    }

    /// Forgets all records but the first `count`. For engines.
    pub(crate) fn truncate(&mut self, count: usize) {
        if let Some((key, _)) = self.records.get(count) {
            self.bytes.truncate(key.start);
            self.records.truncate(count);
            self.expiries.truncate(count);
        }
    }

    /// Says that the scan ends with this batch. For engines.
    pub fn finish(&mut self) {
        self.finished = true;
    }
}

/// A scan in progress; owns what it pins and may outlive its session.
pub trait Scan: Send {
    /// Fills `out` with the next records in order.
    ///
    /// - Sees exactly what its [`crate::ReadAt`] named when the scan was opened, however long it
    ///   runs.
    /// - A batch may be empty without being the last one. An engine ends it after a bounded number
    ///   of records that are passed and not given (deleted, expired, superseded), so that no call
    ///   takes long. The next call goes on there.
    /// - `Pending` when bytes must come from a device: `out` is left empty and the batch arrives as
    ///   [`crate::Completion::Scanned`] at the session that opened the scan. One batch at a time.
    /// - After a batch with [`ScanBatch::is_finished`] every further batch is empty and finished.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Invalid` if the previous batch is still pending.
    fn next_batch(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<Outcome<()>>;

    /// Another scan: of `range` of the same keyspace, as of the point that this one sees, whatever
    /// was written, flushed or compacted since. Reads nothing yet.
    ///
    /// Neither scan moves the other. Its batches arrive at the same session. For readers that turn
    /// round, or go to another key.
    ///
    /// # Errors
    /// `Invalid` while a batch of this one is pending.
    fn reopen(&self, range: ScanRange) -> Result<Box<dyn Scan>>;
}
