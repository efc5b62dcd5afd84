//! What is left of a scan between its two ends. Reads nothing itself: a caller that waits and one
//! that answers futures bring it its batches.
//!
//! ```text
//!   passed ──► │ front batch │    not read yet    │ back batch │ ◄── passed
//! ```
//! The back is opened by the first call that takes from there, at the point that the front sees. A
//! scan that is only walked forward has none. Writes of a transaction lie over both.

use std::cmp::Ordering;
use std::ops::Range;

use firn_engine::{BatchLimit, Direction, Result, ScanBatch, ScanRange};

use crate::Record;

/// Keys that were written, in the order of the scan, each with its value, or `None` where it was
/// removed.
pub(crate) type Written = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Records of a first batch; each further one doubles it up to the default limit, so that short
/// scans stay cheap.
const RECORDS_FIRST: usize = 16;

/// Which end of the scan is taken from; the front is where it begins, upward or downward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Front,
    Back,
}

/// What is next at one end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record, which is taken.
    Record(Record),
    /// The end needs its next batch, then it can be asked again.
    Fetch,
    /// Nothing is left.
    Over,
}

/// A batch that an end needs: what is to be called, how, and where its records go.
pub(crate) struct Fetch<'e> {
    pub(crate) scan: &'e mut dyn firn_engine::Scan,
    pub(crate) limit: BatchLimit,
    pub(crate) batch: &'e mut ScanBatch,
}

/// Both ends.
pub(crate) struct Ends {
    range: ScanRange,
    front: End,
    back: Option<End>,
    written: Written,
    /// Those of `written` that neither end has passed.
    written_left: Range<usize>,
    has_failed: bool,
}

/// One end: batches from there on.
struct End {
    scan: Box<dyn firn_engine::Scan>,
    batch: ScanBatch,
    next_index: usize,
    records_max: usize,
    /// The last key before the batch; `None` = the batch is the first.
    before: Option<Passed>,
}

/// Where an end has come from.
struct Passed {
    key: Vec<u8>,
    /// Whether the key itself was passed, too.
    is_through: bool,
}

impl Ends {
    /// `scan` of `range`, which has not begun, with `written` over it. Its first batch has at most
    /// `records` records.
    pub(crate) fn new(
        scan: Box<dyn firn_engine::Scan>,
        range: ScanRange,
        mut written: Written,
        records: Option<usize>,
    ) -> Self {
        if range.direction == Direction::Backward {
            written.reverse();
        }
        let front = End::new(scan, records.unwrap_or(RECORDS_FIRST));
        let written_left = 0..written.len();
        Self { range, front, back: None, written, written_left, has_failed: false }
    }

    /// Takes what is next at `side`.
    pub(crate) fn take(&mut self, side: Side) -> Step {
        loop {
            if self.has_failed {
                return Step::Over;
            }
            let there = match self.there(side) {
                Ok(there) => there,
                Err(NoBatch) => return Step::Fetch,
            };
            let written = match side {
                Side::Front => self.written_left.clone().next(),
                Side::Back => self.written_left.clone().next_back(),
            };
            let written = written.map(|index| &self.written[index]);
            let first = match (there, written) {
                (None, None) => return Step::Over,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((there, _)), Some((written, _))) => {
                    let order = self.order(there, written);
                    if side == Side::Front { order } else { order.reverse() }
                }
            };
            let record = match first {
                Ordering::Less => there.map(|(key, value)| (key.to_vec(), value.to_vec())),
                Ordering::Equal | Ordering::Greater => {
                    written.and_then(|(key, value)| Some((key.clone(), value.clone()?)))
                }
            };
            self.pass(side, first);
            if let Some(record) = record {
                return Step::Record(record);
            }
        }
    }

    /// What the next batch of `side` is read by.
    ///
    /// # Errors
    /// As [`firn_engine::Scan::reopen`]. After it, as after an error of the batch, the caller calls
    /// [`fail`](Self::fail).
    pub(crate) fn fetch(&mut self, side: Side) -> Result<Fetch<'_>> {
        let end = match side {
            Side::Front => &mut self.front,
            Side::Back => {
                let back = match self.back.take() {
                    Some(back) => back,
                    None => End::new(self.front.scan.reopen(turned(&self.range))?, RECORDS_FIRST),
                };
                self.back.insert(back)
            }
        };
        end.before = end.passed().map(|(key, is_through)| Passed { key: key.to_vec(), is_through });
        let full = BatchLimit::default();
        let limit = BatchLimit { records: end.records_max, ..full };
        end.next_index = 0;
        end.records_max = (end.records_max * 2).min(full.records);
        end.batch.clear();
        Ok(Fetch { scan: &mut *end.scan, limit, batch: &mut end.batch })
    }

    /// A batch of `side` that came later than it was asked for.
    pub(crate) fn arrived(&mut self, side: Side, batch: ScanBatch) {
        match (side, &mut self.back) {
            (Side::Front, _) => self.front.batch = batch,
            (Side::Back, Some(back)) => back.batch = batch,
            (Side::Back, None) => {}
        }
    }

    /// Nothing more is given.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Moves the front to `key`, or to the first key behind it that there is.
    ///
    /// # Errors
    /// As [`firn_engine::Scan::reopen`]; nothing has moved then.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        let direction = self.range.direction;
        if !self.front.step_to(key, direction) {
            let range = from_key(&self.range, key);
            self.front.scan = self.front.scan.reopen(range)?;
            self.front.batch.clear();
            self.front.next_index = 0;
            self.front.records_max = RECORDS_FIRST;
            self.front.before = Some(Passed { key: key.to_vec(), is_through: false });
        }
        let start = self.written.partition_point(|(written, _)| order(written, key, direction).is_lt());
        self.written_left.start = start.min(self.written_left.end);
        Ok(())
    }

    /// The next record of the database at `side`; `None` if none is left.
    fn there(&self, side: Side) -> std::result::Result<Option<Borrowed<'_>>, NoBatch> {
        let (end, other) = match side {
            Side::Front => (Some(&self.front), self.back.as_ref()),
            Side::Back => (self.back.as_ref(), Some(&self.front)),
        };
        if other.is_some_and(End::is_exhausted) {
            return Ok(None);
        }
        let end = end.ok_or(NoBatch)?;
        let Some(record) = end.batch.get(end.next_index) else {
            return if end.batch.is_finished() { Ok(None) } else { Err(NoBatch) };
        };
        let has_met = other.and_then(End::passed).is_some_and(|(passed, is_through)| {
            let order = self.order(record.0, passed);
            let order = if side == Side::Front { order.reverse() } else { order };
            order.is_lt() || order.is_eq() && is_through
        });
        Ok((!has_met).then_some(record))
    }

    /// Passes the first of both places at `side`: `Less` the database's, `Greater` what was
    /// written.
    fn pass(&mut self, side: Side, first: Ordering) {
        if first.is_le() {
            match (side, &mut self.back) {
                (Side::Front, _) => self.front.next_index += 1,
                (Side::Back, Some(back)) => back.next_index += 1,
                (Side::Back, None) => {}
            }
        }
        if first.is_ge() {
            match side {
                Side::Front => self.written_left.start += 1,
                Side::Back => self.written_left.end -= 1,
            }
        }
    }

    fn order(&self, one: &[u8], other: &[u8]) -> Ordering {
        order(one, other, self.range.direction)
    }
}

/// A record where it lies in its batch.
type Borrowed<'e> = (&'e [u8], &'e [u8]);

/// The end needs a batch first.
struct NoBatch;

impl End {
    fn new(scan: Box<dyn firn_engine::Scan>, records_max: usize) -> Self {
        Self { scan, batch: ScanBatch::new(), next_index: 0, records_max, before: None }
    }

    /// The last key that was passed, and whether it was itself.
    fn passed(&self) -> Option<(&[u8], bool)> {
        let index = self.next_index.checked_sub(1);
        let given = index.and_then(|index| self.batch.get(index)).map(|(key, _)| (key, true));
        given.or_else(|| self.before.as_ref().map(|before| (before.key.as_slice(), before.is_through)))
    }

    /// Whether all records to the other end of the range were passed.
    fn is_exhausted(&self) -> bool {
        self.batch.is_finished() && self.next_index >= self.batch.len()
    }

    /// Moves to the first record at or behind `key` if the batch shows which one that is.
    fn step_to(&mut self, key: &[u8], direction: Direction) -> bool {
        let is_ahead = self.passed().is_none_or(|(passed, is_through)| {
            let order = order(key, passed, direction);
            order.is_gt() || order.is_eq() && !is_through
        });
        let is_within = self.batch.is_finished()
            || self.batch.last_key().is_some_and(|last| order(key, last, direction).is_le());
        if is_ahead && is_within {
            let left = self.batch.records().skip(self.next_index);
            self.next_index += left.take_while(|(found, _)| order(found, key, direction).is_lt()).count();
        }
        is_ahead && is_within
    }
}

/// `one` and `other` in the order of a scan.
fn order(one: &[u8], other: &[u8], direction: Direction) -> Ordering {
    match direction {
        Direction::Forward => one.cmp(other),
        Direction::Backward => other.cmp(one),
    }
}

/// The same keys in the other order.
fn turned(range: &ScanRange) -> ScanRange {
    let direction = match range.direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    };
    ScanRange { direction, ..range.clone() }
}

/// Those keys of `range` that come at `key` or behind it.
fn from_key(range: &ScanRange, key: &[u8]) -> ScanRange {
    let mut range = range.clone();
    match range.direction {
        Direction::Forward if *key > *range.start => range.start = key.to_vec(),
        Direction::Forward => {}
        Direction::Backward => {
            let through = ScanRange::from(..=key).end;
            range.end = match range.end.take() {
                Some(end) => through.map(|through| through.min(end)),
                None => through,
            };
        }
    }
    range
}
