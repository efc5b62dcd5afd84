//! Dead records that a walk meets: it seeks past the gaps that are known, and learns others from
//! what it passes.
//!
//! ```text
//!   ── live ── dead dead dead dead ─────[ gap ]───── dead ── live ──►
//!              └── a row: it becomes      └ sought    └ a row beside a gap: the gap
//!                  a gap                    past        becomes longer
//! ```
//! A row of dead keys ends at a live key, at a gap, or at the range's end. It also ends where the
//! walk has passed so much that others must have a turn. From [`ROW_MIN`] records on it becomes a
//! gap. A row beside a gap always does, since that gap then only becomes longer. So between two
//! live keys a walk passes fewer than [`ROW_MIN`] records that a walk has passed before, or seeks
//! past one gap. What gaps are, and why they hold: `memtable/gaps.rs`.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use firn_engine::Direction;
use firn_format::{Position, Sequence};
use firn_jobs::MergeCursor;

use super::source::{Source, Walked};
use crate::log::Log;
use crate::memtable::{Gap, GapList, KeyRange, Passed};
use crate::version::Keyspace;
use crate::version::catalog::Catalog;

/// Dead records in a row from which on they become a gap: to pass fewer takes less time than a
/// seek.
const ROW_MIN: u64 = 8;

/// Records that one batch passes without giving them, at most: a few milliseconds.
pub(super) const PASSED_MAX: u64 = 4096;

/// From where a row may reach back.
#[derive(Debug)]
enum From {
    /// The beginning of the walk.
    Start,
    /// A live key: the row begins with its first dead one.
    Live,
    /// A gap that was sought past (or just learnt), whose other side is this key; `None` = there
    /// are no keys beyond.
    Gap(Option<Vec<u8>>),
}

/// What one walk knows of dead keys.
#[derive(Debug)]
pub(super) struct DeadRows {
    direction: Direction,
    before: Sequence,
    /// What a reader of everything saw with the walk's version, a moment after `before` was chosen.
    latest: Sequence,
    now_ms: u64,
    /// Gaps there were when the walk began; `None` = none.
    list: Option<Arc<GapList>>,
    /// The next gap that is of use, in the direction of the walk.
    next: Option<Arc<Gap>>,
    from: From,
    /// The row: dead keys, their records, the first key, and a time by which the expired ones had
    /// expired.
    keys: u32,
    records: u64,
    first: Vec<u8>,
    as_of_ms: u64,
    /// Records passed since the batch began.
    pub(super) passed: u64,
    /// Memtables that the walk has a source for.
    walked: Walked,
}

/// What a row of dead keys ends at.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowEnd<'k> {
    /// A live key.
    Live(&'k [u8]),
    /// A gap.
    Gap(&'k Gap),
    /// A key that is still to be looked at.
    Turn(&'k [u8]),
    /// There is nothing more in the walk's range.
    Range,
}

impl DeadRows {
    /// For a walk that sees what lies below `before`, which it has chosen. All below `latest` can
    /// be seen.
    pub(super) fn new(
        latest: Position,
        catalog: &Catalog,
        keyspace: &Keyspace,
        (before, direction): (Sequence, Direction),
    ) -> Self {
        let list = keyspace.memtable.gaps().list();
        // The time is asked only where it matters.
        let now_ms = list.as_ref().map_or(0, |_| catalog.now_ms());
        Self {
            direction,
            before,
            latest: latest.sequence(),
            now_ms,
            list,
            next: None,
            from: From::Start,
            keys: 0,
            records: 0,
            first: Vec::new(),
            as_of_ms: 0,
            passed: 0,
            walked: Walked::default(),
        }
    }

    /// The walk has a source for each of these memtables.
    pub(super) fn note_walked(&mut self, walked: Walked) {
        self.walked = walked;
    }

    /// The gap that holds the walk's beginning, if one does: `start` forward, what lies before
    /// `end` backward.
    pub(super) fn gap_at_beginning(&mut self, start: &[u8], end: Option<&[u8]>) -> Option<Arc<Gap>> {
        self.find_next(match self.direction {
            Direction::Forward => Some(start),
            Direction::Backward => end,
        });
        let gap = self.next.as_ref()?;
        let is_inside = match self.direction {
            Direction::Forward => gap.start() <= start,
            Direction::Backward => gap.end().is_none_or(|gap_end| end.is_some_and(|end| end <= gap_end)),
        };
        is_inside.then(|| Arc::clone(gap))
    }

    /// Whether there may be a gap to seek past.
    #[inline]
    pub(super) fn has_gap(&self) -> bool {
        self.next.is_some()
    }

    /// The gap that holds `key`, on which the walk stands.
    pub(super) fn gap_at(&mut self, key: &[u8]) -> Option<Arc<Gap>> {
        loop {
            let gap = self.next.as_ref()?;
            let is_ahead = match self.direction {
                Direction::Forward => key < gap.start(),
                Direction::Backward => gap.end().is_some_and(|end| key >= end),
            };
            if is_ahead {
                return None;
            }
            let is_inside = key >= gap.start() && gap.end().is_none_or(|end| key < end);
            if is_inside {
                return Some(Arc::clone(gap));
            }
            match self.direction {
                Direction::Forward => self.find_next(Some(key)),
                Direction::Backward => self.find_next(Some(&after(key))),
            }
        }
    }

    /// The walk seeks past `gap`.
    pub(super) fn skip(&mut self, gap: &Gap) {
        if let Some(list) = &self.list {
            gap.note_use(list);
        }
        let beyond = match self.direction {
            Direction::Forward => gap.end(),
            Direction::Backward => Some(gap.start()),
        };
        match beyond {
            Some(key) => self.find_next(Some(key)),
            None => self.next = None,
        }
        self.from = From::Gap(beyond.map(<[u8]>::to_vec));
    }

    fn find_next(&mut self, key: Option<&[u8]>) {
        let (before, now_ms) = (self.before, self.now_ms);
        let list = self.list.as_ref();
        self.next = match self.direction {
            Direction::Forward => list.and_then(|list| list.first_after(key.unwrap_or(&[]), before, now_ms)),
            Direction::Backward => list.and_then(|list| list.last_before(key, before, now_ms)),
        }
        .map(Arc::clone);
    }

    /// The walk has passed `key`, which has `records` and no value; at `expired_ms` it had expired
    /// (0 = it is deleted).
    pub(super) fn pass(&mut self, key: &[u8], records: u64, expired_ms: u64) {
        if self.keys == 0 {
            self.first.clear();
            self.first.extend_from_slice(key);
            self.as_of_ms = 0;
        }
        self.keys = self.keys.saturating_add(1);
        self.records += records;
        self.as_of_ms = self.as_of_ms.max(expired_ms);
        self.passed += records;
    }

    /// Whether dead keys were passed since the last live one.
    #[inline]
    pub(super) fn is_in_row(&self) -> bool {
        self.keys > 0
    }

    /// The walk has come to a live key, and there was no row before it.
    #[inline]
    pub(super) fn note_live(&mut self) {
        // Asked first: mostly there is nothing to drop.
        if !matches!(self.from, From::Live) {
            self.from = From::Live;
        }
    }

    /// Ends the row; answers what was passed if it is worth learning. The walk is over keys from
    /// `start` to before `end`.
    pub(super) fn end_row(&mut self, at: RowEnd<'_>, (start, end): (&[u8], Option<&[u8]>)) -> Option<Passed> {
        let (keys, records) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.records));
        let is_beside_gap = matches!(self.from, From::Gap(_)) || matches!(at, RowEnd::Gap(_));
        let is_worth_it = records >= ROW_MIN || keys > 0 && is_beside_gap;
        let passed = is_worth_it.then(|| {
            let (start, end) = match self.direction {
                Direction::Forward => (self.near(start), far_forward(at, end)),
                Direction::Backward => (far_backward(at, start), self.near_backward(end)),
            };
            Passed { start, end, through: self.before, as_of_ms: self.as_of_ms, keys }
        });
        self.from = match at {
            RowEnd::Turn(key) if is_worth_it => From::Gap(Some(match self.direction {
                Direction::Forward => key.to_vec(),
                Direction::Backward => after(key),
            })),
            // A row that is too short is passed again: the next one begins behind it.
            _ => From::Live,
        };
        passed.filter(|passed| passed.end.as_ref().is_none_or(|end| passed.start < *end))
    }

    fn near(&self, start: &[u8]) -> Vec<u8> {
        match &self.from {
            From::Start => start.to_vec(),
            From::Gap(Some(key)) => key.clone(),
            From::Live | From::Gap(None) => self.first.clone(),
        }
    }

    fn near_backward(&self, end: Option<&[u8]>) -> Option<Vec<u8>> {
        match &self.from {
            From::Start => end.map(<[u8]>::to_vec),
            From::Gap(Some(key)) => Some(key.clone()),
            From::Live | From::Gap(None) => Some(after(&self.first)),
        }
    }

    /// Keeps what was passed for other walks, unless a writer has written there since.
    pub(super) fn learn(
        &self,
        log: &Log,
        catalog: &Catalog,
        keyspace: &Keyspace,
        cursor: &MergeCursor<Source>,
        passed: Passed,
    ) {
        // The walk's version may have records that the walk does not see, and later ones will.
        if !self.sees_all(keyspace) || keyspace.ingested_through.sequence() > self.before {
            return;
        }
        let range = (passed.start.clone(), passed.end.clone());
        let is_disturbed = || self.is_disturbed(log, catalog, keyspace, cursor, &range);
        keyspace.memtable.gaps().learn(passed, is_disturbed);
    }

    /// Whether runs and tables have no record that the walk does not see: it might be a live one.
    fn sees_all(&self, keyspace: &Keyspace) -> bool {
        let before = self.before;
        let sees_places = || {
            let mut runs = keyspace.runs.iter();
            keyspace.flushed_through.sequence() <= before
                && runs.all(|run| run.span().end.sequence() <= before)
        };
        before >= self.latest || sees_places()
    }

    /// Whether a record that can be live, and that the walk does not see, may lie in the range.
    fn is_disturbed(
        &self,
        log: &Log,
        catalog: &Catalog,
        keyspace: &Keyspace,
        cursor: &MergeCursor<Source>,
        (start, end): &(Vec<u8>, Option<Vec<u8>>),
    ) -> bool {
        fence(Ordering::SeqCst);
        // Writers to another memtable than the walk's must have loaded that memtable's version
        // first.
        let version = catalog.version.load();
        let is_same = |now: &Arc<Keyspace>| {
            Arc::ptr_eq(&now.memtable, &keyspace.memtable)
                && now.ingested_through == keyspace.ingested_through
        };
        if !version.keyspace(keyspace.id()).is_ok_and(is_same) {
            return true;
        }
        let published = log.watermark().sequence();
        let range = KeyRange { start, end: end.as_deref() };
        let mut cursors = cursor.sources().iter().filter_map(Source::as_memtable);
        keyspace.memtables().enumerate().any(|(index, memtable)| {
            let cursor = self.walked.has(index).then(|| cursors.next()).flatten();
            memtable.may_have_live(range, cursor, (published, &*version.segments))
        })
    }
}

/// The first key after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

fn far_forward(at: RowEnd<'_>, end: Option<&[u8]>) -> Option<Vec<u8>> {
    match at {
        RowEnd::Live(key) | RowEnd::Turn(key) => Some(key.to_vec()),
        RowEnd::Gap(gap) => Some(gap.start().to_vec()),
        RowEnd::Range => end.map(<[u8]>::to_vec),
    }
}

fn far_backward(at: RowEnd<'_>, start: &[u8]) -> Vec<u8> {
    match at {
        RowEnd::Live(key) | RowEnd::Turn(key) => after(key),
        RowEnd::Gap(gap) => gap.end().map_or_else(|| start.to_vec(), <[u8]>::to_vec),
        RowEnd::Range => start.to_vec(),
    }
}
