//! Keys in order: every place's cursor merged, versions resolved key by key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use firn_engine::{
    BatchLimit, Completion, CompletionSender, Direction, Error, KeyspaceId, Outcome, Result, Scan, ScanBatch,
    ScanRange, Ticket,
};
use firn_format::key::Entry;
use firn_format::{Kind, Position, Sequence};
use firn_jobs::{Cursor, MergeCursor};
use firn_storage::file::table::ReadMode;

use super::BesideReads;
use super::ahead::{Ahead, Given};
use super::dead::{DeadRows, PASSED_MAX, RowEnd};
use super::resolve::{Hit, Resolution, Resolved, Wants};
use super::source::{Source, sources};
use super::tombstones::Covers;
use crate::counters::count;
use crate::database::Database;
use crate::error::{from_storage, survived};
use crate::memtable::Gap;
use crate::version::{Keyspace, Version};

/// Tickets of one session, which its scans draw from too.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    given: AtomicU64,
    /// Given and not yet delivered.
    outstanding: AtomicU64,
}

impl Tickets {
    pub(crate) fn next(&self) -> Ticket {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        Ticket(self.given.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn delivered(&self) {
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }
}

/// A scan as its session sees it.
pub(crate) struct TreeScan {
    walk: Arc<Mutex<Walk>>,
    /// Where batches go that the pool reads; `None` = read on the calling thread.
    pool: Option<(Arc<Database>, CompletionSender, Arc<Tickets>)>,
    /// No batch needs a device: the pool reads the first batch at most.
    is_resident: bool,
}

/// Entries of memtables that the first batch sorts on the calling thread, at most: about a
/// millisecond.
const SORTED_MAX: usize = 4096;

impl TreeScan {
    /// A scan of `keyspace` as of `before`. With `later`, batches that may need a device come
    /// through it, and so does a first batch that has much to sort.
    pub(crate) fn open(
        shared: &Arc<Database>,
        version: Arc<Version>,
        before: Position,
        keyspace: KeyspaceId,
        range: ScanRange,
        later: Option<(CompletionSender, Arc<Tickets>)>,
    ) -> Result<Self> {
        let walk = Walk::open(Arc::clone(shared), version, before, keyspace, range)?;
        let is_resident = walk.keyspace.levels.tables().all(|(_, table)| table.reader().reads_in_place())
            && !walk.version.values.may_wait()
            && walk.keyspace.definition.compression == firn_engine::Compression::None;
        let to_sort = || walk.keyspace.memtables().map(|it| it.entries_to_sort(walk.before)).sum::<usize>();
        let later = later.filter(|_| !is_resident || to_sort() > SORTED_MAX);
        let pool = later.map(|(sender, tickets)| (Arc::clone(shared), sender, tickets));
        Ok(Self { walk: Arc::new(Mutex::new(walk)), pool, is_resident })
    }
}

impl Scan for TreeScan {
    fn next_batch(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<Outcome<()>> {
        out.clear();
        let Some((shared, sender, tickets)) = &self.pool else {
            return match self.walk.try_lock() {
                Ok(mut walk) => walk.fill(limit, out).map(Outcome::Done),
                Err(TryLockError::WouldBlock) => Err(still_pending()),
                Err(TryLockError::Poisoned(_)) => Err(panicked_earlier()),
            };
        };
        if let Err(TryLockError::WouldBlock) = self.walk.try_lock() {
            return Err(still_pending());
        }
        let ticket = tickets.next();
        let (walk, sender) = (Arc::clone(&self.walk), sender.clone());
        shared.reads.on_pool(move || {
            let mut batch = ScanBatch::new();
            let filled = survived("a scan", || match walk.lock() {
                Ok(mut walk) => walk.fill(limit, &mut batch),
                Err(_) => Err(panicked_earlier()),
            });
            let completion = match filled {
                Ok(()) => Completion::Scanned(batch),
                Err(error) => Completion::Failed(error),
            };
            sender.send(ticket, completion);
        });
        if self.is_resident {
            self.pool = None;
        }
        Ok(Outcome::Pending(ticket))
    }
}

fn still_pending() -> Error {
    Error::invalid("the scan's previous batch is still pending")
}

/// Why a scan gives nothing more. Another scan may: its operator is asked again.
fn panicked_earlier() -> Error {
    Error::invalid("this scan panicked in an earlier batch: begin another")
}

/// The walk itself; owns the version it reads.
struct Walk {
    shared: Arc<Database>,
    /// Taken by the first batch.
    range: Option<ScanRange>,
    /// Over no place before the first batch.
    cursor: MergeCursor<Source>,
    tombstones: Covers,
    dead: DeadRows,
    keyspace: Arc<Keyspace>,
    version: Arc<Version>,
    before: Sequence,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    direction: Direction,
    finished: bool,
    /// The key being resolved, or the last resolved one.
    key: Vec<u8>,
    value: Vec<u8>,
    /// What is asked of the key's value.
    wants: Wants,
    /// Rows behind the last one given, whose values were asked for.
    ahead: Ahead,
    /// Values that were read for the batch.
    reads: BesideReads,
    /// Backward: versions of the key, oldest first.
    versions: Vec<Held>,
}

/// A version kept while the walk moves on.
struct Held {
    sequence: Sequence,
    kind: Kind,
    expires_at_ms: u64,
    value: Vec<u8>,
}

impl Walk {
    fn open(
        shared: Arc<Database>,
        version: Arc<Version>,
        before: Position,
        keyspace: KeyspaceId,
        range: ScanRange,
    ) -> Result<Self> {
        let keyspace = Arc::clone(version.keyspace(keyspace.0)?);
        let before = before.sequence();
        let (start, end) = range.bounds();
        let direction = range.direction;
        let dead = DeadRows::new((&shared, &version), &keyspace, (before, direction));
        let wants = if version.values.is_empty() { Wants::ALL } else { Wants::Ahead };
        Ok(Self {
            shared,
            range: Some(range),
            cursor: MergeCursor::new(Vec::new()),
            tombstones: Covers::new(Vec::new(), before),
            dead,
            keyspace,
            version,
            before,
            start,
            end,
            direction,
            finished: false,
            key: Vec::new(),
            value: Vec::new(),
            wants,
            ahead: Ahead::default(),
            reads: BesideReads::default(),
            versions: Vec::new(),
        })
    }

    fn fill(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<()> {
        self.dead.passed = 0;
        let filled = self.walk(limit, out);
        self.shared.counters.take_reads(&mut self.reads);
        if self.dead.passed > 0 {
            count(&self.shared.counters.scan_dead_passed, self.dead.passed);
        }
        filled
    }

    fn walk(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<()> {
        if let Some(range) = self.range.take() {
            self.begin(&range);
            self.position().map_err(from_storage)?;
        }
        while !self.finished {
            let (records, bytes) = (out.len() + self.ahead.len(), out.data_bytes() + self.ahead.bytes());
            if records >= limit.records.max(1) || (records > 0 && bytes >= limit.bytes) {
                return self.catch_up(out);
            }
            if self.dead.passed >= PASSED_MAX {
                self.end_row_here();
                return self.catch_up(out);
            }
            if self.dead.has_gap() && self.seek_past_gap().map_err(from_storage)? {
                continue;
            }
            match self.direction {
                Direction::Forward => self.step_forward(out)?,
                Direction::Backward => self.step_backward(out)?,
            }
        }
        if self.dead.is_in_row() {
            self.end_row(RowEnd::Range);
        }
        self.catch_up(out)?;
        out.finish();
        Ok(())
    }

    /// Gives the row of the key, which has so many `records` and whose value was found to be so.
    fn give(&mut self, (resolved, records): (Resolved, u64), out: &mut ScanBatch) -> Result<()> {
        match resolved {
            Resolved::Value | Resolved::Asked => {
                if self.dead.is_in_row() {
                    let key = std::mem::take(&mut self.key);
                    self.end_row(RowEnd::Live(&key));
                    self.key = key;
                }
                self.dead.note_live();
                self.dead.passed += records.saturating_sub(1);
            }
            Resolved::Absent | Resolved::Older | Resolved::Miss => self.dead.pass(&self.key, records, 0),
            Resolved::Expired => self.dead.pass(&self.key, records, self.shared.catalog.now_ms()),
        }
        match resolved {
            Resolved::Value if self.ahead.is_empty() => out.push(&self.key, &self.value),
            Resolved::Value => self.ahead.push(&self.key, Given::Value(&self.value)),
            Resolved::Asked => self.ahead.push_asked(&self.key, &self.value),
            Resolved::Absent | Resolved::Expired | Resolved::Older | Resolved::Miss => {}
        }
        if self.ahead.is_full() {
            return self.catch_up(out);
        }
        Ok(())
    }

    /// Reads the values that were asked for.
    fn catch_up(&mut self, out: &mut ScanBatch) -> Result<()> {
        let Self { shared, version, ahead, reads, .. } = self;
        let give = |key: &[u8], given: Given<'_>| {
            // A key without a value has no row.
            if let Given::Value(value) = given {
                out.push(key, value);
            }
        };
        shared.catch_up((version, ReadMode::Blocking), ahead, reads, give)?;
        Ok(())
    }

    /// Opens a cursor over each place, which may sort what was written last.
    fn begin(&mut self, range: &ScanRange) {
        let (sources, tombstones, walked) = sources(&self.version, &self.keyspace, self.before, range);
        self.cursor = MergeCursor::new(sources);
        self.tombstones = Covers::new(tombstones, self.before);
        self.dead.note_walked(walked);
    }

    /// Stands on the first record, past the gap where one holds the beginning.
    fn position(&mut self) -> firn_storage::Result<()> {
        if let Some(gap) = self.dead.gap_at_beginning(&self.start, self.end.as_deref()) {
            return self.seek_past(&gap);
        }
        match (self.direction, &self.end) {
            (Direction::Forward, _) if self.start.is_empty() => self.cursor.seek_first(),
            (Direction::Forward, _) => self.cursor.seek(&self.start),
            (Direction::Backward, None) => self.cursor.seek_last(),
            (Direction::Backward, Some(end)) => self.cursor.seek_before(end),
        }
    }

    /// Seeks past the gap that the cursor stands in; whether it does.
    fn seek_past_gap(&mut self) -> firn_storage::Result<bool> {
        let Some(entry) = self.cursor.entry() else { return Ok(false) };
        let Some(gap) = self.dead.gap_at(entry.key) else { return Ok(false) };
        if self.dead.is_in_row() {
            self.end_row(RowEnd::Gap(&gap));
        }
        self.seek_past(&gap)?;
        Ok(true)
    }

    fn seek_past(&mut self, gap: &Gap) -> firn_storage::Result<()> {
        self.dead.skip(gap);
        match self.direction {
            Direction::Forward => match gap.end() {
                Some(end) if self.end.as_deref().is_none_or(|last| end < last) => self.cursor.seek(end),
                _ => {
                    self.finished = true;
                    Ok(())
                }
            },
            Direction::Backward if gap.start() > self.start.as_slice() => {
                self.cursor.seek_before(gap.start())
            }
            Direction::Backward => {
                self.finished = true;
                Ok(())
            }
        }
    }

    /// Ends the row of dead keys, which is learnt if it is worth it.
    fn end_row(&mut self, at: RowEnd<'_>) {
        if let Some(passed) = self.dead.end_row(at, (&self.start, self.end.as_deref())) {
            self.dead.learn((&self.shared, &self.keyspace), &self.cursor, passed);
        }
    }

    /// As [`end_row`](Self::end_row) where the walk stands, to go on later.
    fn end_row_here(&mut self) {
        let key = self.cursor.entry().map(|entry| entry.key.to_vec());
        let is_inside = |key: &Vec<u8>| match self.direction {
            Direction::Forward => self.end.as_ref().is_none_or(|end| key < end),
            Direction::Backward => *key >= self.start,
        };
        match key.filter(is_inside) {
            Some(key) if self.dead.is_in_row() => self.end_row(RowEnd::Turn(&key)),
            // The row ends with the range, which the next step finds out.
            _ => {}
        }
    }

    /// Resolves the key the cursor stands on, whose versions come newest first, and moves past it.
    fn step_forward(&mut self, out: &mut ScanBatch) -> Result<()> {
        let Some(entry) =
            self.cursor.entry().filter(|entry| self.end.as_deref().is_none_or(|end| entry.key < end))
        else {
            self.finished = true;
            return Ok(());
        };
        let plain = entry.kind == Kind::Put && entry.expires_at_ms == 0 && entry.sequence < self.before;
        if plain && self.tombstones.is_empty() && self.ahead.is_empty() && !self.dead.is_in_row() {
            // Nothing can hide this version: it goes to the batch from where it lies.
            out.push(entry.key, entry.value);
            self.dead.note_live();
            let word = self.cursor.word();
            self.cursor.next().map_err(from_storage)?;
            let mut older = 0;
            while self.cursor.word() == word
                && self.cursor.entry().is_some_and(|entry| out.last_key() == Some(entry.key))
            {
                older += 1;
                if older == STEPS_MAX {
                    let behind = [out.last_key().unwrap_or_default(), &[0]].concat();
                    self.cursor.seek(&behind).map_err(from_storage)?;
                    break;
                }
                self.cursor.next().map_err(from_storage)?;
            }
            self.dead.passed += older;
            return Ok(());
        }
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        let operator = self.keyspace.definition.merge_operator.as_deref();
        let mut resolution = Resolution::new(
            &self.key,
            (&self.shared, &self.version),
            (self.wants, ReadMode::Blocking),
            operator,
        );
        resolution.cover(self.tombstones.newest(&self.key));
        let (mut resolved, mut records, mut older) = (Resolved::Older, 0, 0);
        while let Some(entry) = self.cursor.entry().filter(|entry| entry.key == self.key.as_slice()) {
            records += 1;
            if resolved == Resolved::Older && entry.sequence < self.before {
                resolved = resolution.take(hit(&entry), &mut self.value)?;
            } else {
                older += 1;
            }
            if older == STEPS_MAX && resolved != Resolved::Older {
                let behind = [self.key.as_slice(), &[0]].concat();
                self.cursor.seek(&behind).map_err(from_storage)?;
                break;
            }
            self.cursor.next().map_err(from_storage)?;
        }
        if resolved == Resolved::Older {
            resolved = resolution.end(&mut self.value)?;
        }
        self.reads.add(resolution.beside());
        self.give((resolved, records), out)
    }

    /// Resolves the key the cursor stands on, whose versions come oldest first, and moves before
    /// it.
    fn step_backward(&mut self, out: &mut ScanBatch) -> Result<()> {
        let Some(entry) = self.cursor.entry().filter(|entry| entry.key >= self.start.as_slice()) else {
            self.finished = true;
            return Ok(());
        };
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.versions.clear();
        let mut records = 0;
        while let Some(entry) = self.cursor.entry().filter(|entry| entry.key == self.key.as_slice()) {
            records += 1;
            if records == STEPS_MAX {
                self.hold_newest().map_err(from_storage)?;
                break;
            }
            if entry.sequence < self.before {
                if entry.kind != Kind::Merge {
                    self.versions.clear();
                }
                self.versions.push(held(&entry));
            }
            self.cursor.prev().map_err(from_storage)?;
        }
        let operator = self.keyspace.definition.merge_operator.as_deref();
        let mut resolution = Resolution::new(
            &self.key,
            (&self.shared, &self.version),
            (self.wants, ReadMode::Blocking),
            operator,
        );
        resolution.cover(self.tombstones.newest(&self.key));
        let mut resolved = Resolved::Older;
        for held in self.versions.iter().rev() {
            if resolved == Resolved::Older {
                let Held { sequence, kind, expires_at_ms, value } = held;
                let hit = Hit { sequence: *sequence, kind: *kind, expires_at_ms: *expires_at_ms, value };
                resolved = resolution.take(hit, &mut self.value)?;
            }
        }
        if resolved == Resolved::Older {
            resolved = resolution.end(&mut self.value)?;
        }
        self.reads.add(resolution.beside());
        self.give((resolved, records), out)
    }
}

/// Versions of a key that are stepped over behind the version that decides: past more of them a
/// seek is faster.
const STEPS_MAX: u64 = 16;

impl Walk {
    /// Holds the versions that decide the key's value, found from its newest one on, and moves
    /// before the key.
    fn hold_newest(&mut self) -> firn_storage::Result<()> {
        self.versions.clear();
        self.cursor.seek(&self.key)?;
        while let Some(entry) = self.cursor.entry().filter(|entry| entry.key == self.key.as_slice()) {
            if entry.sequence < self.before {
                self.versions.push(held(&entry));
                if entry.kind != Kind::Merge {
                    break;
                }
            }
            self.cursor.next()?;
        }
        self.versions.reverse();
        self.cursor.seek_before(&self.key)
    }
}

fn held(entry: &Entry<'_>) -> Held {
    let Entry { sequence, kind, expires_at_ms, value, .. } = *entry;
    Held { sequence, kind, expires_at_ms, value: value.to_vec() }
}

fn hit<'e>(entry: &Entry<'e>) -> Hit<'e> {
    Hit { sequence: entry.sequence, kind: entry.kind, expires_at_ms: entry.expires_at_ms, value: entry.value }
}
