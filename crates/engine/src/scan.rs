//! Reading keys in order, a batch at a time.

use std::ops::Range;

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

/// Which keys a scan visits: `start..end`, both as bytes, and of those only the ones with `prefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanRange {
    /// First key, included; empty = from the first key there is.
    pub start: Vec<u8>,
    /// Key before which the scan ends; `None` = to the last key there is.
    pub end: Option<Vec<u8>>,
    /// Only keys that begin with these bytes; lets filters skip files where the keyspace has an
    /// extractor.
    pub prefix: Option<Vec<u8>>,
    /// The order of the batches and of the records in them.
    pub direction: Direction,
}

impl ScanRange {
    /// Every key, upward.
    pub fn all() -> Self {
        Self::default()
    }

    /// Keys of `start..end`, upward.
    pub fn between(start: &[u8], end: &[u8]) -> Self {
        Self { start: start.to_vec(), end: Some(end.to_vec()), ..Self::default() }
    }

    /// Keys from `start` on, upward.
    pub fn from(start: impl AsRef<[u8]>) -> Self {
        Self { start: start.as_ref().to_vec(), ..Self::default() }
    }

    /// Keys that begin with `prefix`, upward.
    pub fn with_prefix(prefix: impl AsRef<[u8]>) -> Self {
        Self { prefix: Some(prefix.as_ref().to_vec()), ..Self::default() }
    }

    /// The same keys in the other order.
    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// The bounds with the prefix folded in: first key included, end excluded (`None` = no end).
    pub fn bounds(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let Some(prefix) = &self.prefix else { return (self.start.clone(), self.end.clone()) };
        let start = if self.start > *prefix { self.start.clone() } else { prefix.clone() };
        let prefix_end = key_after_prefix(prefix);
        let end = match (&self.end, prefix_end) {
            (Some(end), Some(prefix_end)) => Some(end.clone().min(prefix_end)),
            (Some(end), None) => Some(end.clone()),
            (None, prefix_end) => prefix_end,
        };
        (start, end)
    }
}

/// The smallest key greater than every key that begins with `prefix`; `None` if there is none.
fn key_after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
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
}
