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
use super::bounds::Bounds;
use super::current::{Current, Held};
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

/// Where batches arrive that are read later.
type Later = (CompletionSender, Arc<Tickets>);

/// Entries of memtables that the first batch sorts on the calling thread, at most: about a
/// millisecond.
const SORTED_MAX: usize = 4096;

impl TreeScan {
    /// A scan of `keyspace` as of `before`. With `later`, batches that may need a device come
    /// through it, and so does a first batch that has much to sort.
    pub(crate) fn open(
        shared: &Arc<Database>,
        version: &Version,
        before: Position,
        keyspace: KeyspaceId,
        range: ScanRange,
        later: Option<Later>,
    ) -> Result<Self> {
        let keyspace = Arc::clone(version.keyspace(keyspace.0)?);
        let point = Point { before: before.sequence(), latest: shared.commit.read_position(version) };
        Ok(Self::over(Walk::open(Arc::clone(shared), version.records(), point, keyspace, range), later))
    }

    /// A scan that does `walk`.
    fn over(walk: Walk, later: Option<Later>) -> Self {
        let is_resident = walk.keyspace.levels.tables().all(|(_, table)| table.reader().reads_in_place())
            && !walk.version.blobs.may_wait()
            && walk.keyspace.definition.compression == firn_engine::Compression::None;
        let to_sort =
            || walk.keyspace.memtables().map(|it| it.entries_to_sort(walk.point.before)).sum::<usize>();
        let later = later.filter(|_| !is_resident || to_sort() > SORTED_MAX);
        let pool = later.map(|(sender, tickets)| (Arc::clone(&walk.shared), sender, tickets));
        Self { walk: Arc::new(Mutex::new(walk)), pool, is_resident }
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

    fn reopen(&self, range: ScanRange) -> Result<Box<dyn Scan>> {
        let walk = match self.walk.try_lock() {
            Ok(walk) => walk.begin_again(range),
            Err(TryLockError::WouldBlock) => return Err(still_pending()),
            Err(TryLockError::Poisoned(_)) => return Err(panicked_earlier()),
        };
        let later = self.pool.as_ref().map(|(_, sender, tickets)| (sender.clone(), Arc::clone(tickets)));
        Ok(Box::new(Self::over(walk, later)))
    }
}

fn still_pending() -> Error {
    Error::invalid("the scan's previous batch is still pending")
}

/// Why a scan gives nothing more. Another scan may: its operator is asked again.
fn panicked_earlier() -> Error {
    Error::invalid("this scan panicked in an earlier batch: begin another")
}

/// Which records a walk sees.
#[derive(Clone, Copy)]
struct Point {
    before: Sequence,
    /// Below it lay all that a reader of everything saw then.
    latest: Position,
}

/// The walk itself; owns the places it reads.
struct Walk {
    shared: Arc<Database>,
    /// Taken by the first batch.
    range: Option<ScanRange>,
    /// Over no place before the first batch.
    cursor: MergeCursor<Source>,
    tombstones: Covers,
    dead: DeadRows,
    keyspace: Arc<Keyspace>,
    /// Of the version that it began with: what its keyspace's records lie in.
    version: Version,
    point: Point,
    bounds: Bounds,
    finished: bool,
    current: Current,
    /// What is asked of a key's value.
    wants: Wants,
    /// Rows behind the last one given, whose values were asked for.
    ahead: Ahead,
    /// Values that were read for the batch.
    reads: BesideReads,
}

impl Walk {
    fn open(
        shared: Arc<Database>,
        version: Version,
        point: Point,
        keyspace: Arc<Keyspace>,
        range: ScanRange,
    ) -> Self {
        let Point { before, latest } = point;
        let bounds = Bounds::of(&range);
        let dead = DeadRows::new(latest, &shared.catalog, &keyspace, (before, range.direction));
        let wants = if version.blobs.is_empty() { Wants::ALL } else { Wants::Ahead };
        Self {
            shared,
            range: Some(range),
            cursor: MergeCursor::new(Vec::new()),
            tombstones: Covers::new(Vec::new(), before),
            dead,
            keyspace,
            version,
            point,
            bounds,
            finished: false,
            current: Current::default(),
            wants,
            ahead: Ahead::default(),
            reads: BesideReads::default(),
        }
    }

    /// A walk over `range` that sees what this one does.
    fn begin_again(&self, range: ScanRange) -> Self {
        let (shared, version) = (Arc::clone(&self.shared), self.version.records());
        Self::open(shared, version, self.point, Arc::clone(&self.keyspace), range)
    }

    fn fill(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<()> {
        // Holds the directory: what the walk has of its own does not.
        let _current = self.shared.catalog.version.load();
        self.shared.check_not_closed()?;
        self.dead.passed = 0;
        let filled = self.walk(limit, out);
        self.shared.reads.counters.take_reads(&mut self.reads);
        if self.dead.passed > 0 {
            count(&self.shared.reads.counters.dead_passed, self.dead.passed);
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
            match self.bounds.direction {
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
                    let key = std::mem::take(&mut self.current.key);
                    self.end_row(RowEnd::Live(&key));
                    self.current.key = key;
                }
                self.dead.note_live();
                self.dead.passed += records.saturating_sub(1);
            }
            Resolved::Absent | Resolved::Older | Resolved::Miss => {
                self.dead.pass(&self.current.key, records, 0)
            }
            Resolved::Expired => self.dead.pass(&self.current.key, records, self.shared.catalog.now_ms()),
        }
        let Current { key, value, expires_at_ms, .. } = &self.current;
        match resolved {
            Resolved::Value if self.ahead.is_empty() => out.push_until(key, value, *expires_at_ms),
            Resolved::Value => self.ahead.push(key, Given::Value(value, *expires_at_ms)),
            Resolved::Asked => self.ahead.push_asked(key, value, *expires_at_ms),
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
            if let Given::Value(value, expires_at_ms) = given {
                out.push_until(key, value, expires_at_ms);
            }
        };
        shared.reads.catch_up((version, ReadMode::Blocking), ahead, reads, give)?;
        Ok(())
    }

    /// Opens a cursor over each place, which may sort what was written last.
    fn begin(&mut self, range: &ScanRange) {
        let (sources, tombstones, walked) = sources(&self.version, &self.keyspace, self.point.before, range);
        self.cursor = MergeCursor::new(sources);
        self.tombstones = Covers::new(tombstones, self.point.before);
        self.dead.note_walked(walked);
    }

    /// Stands on the first record, past the gap where one holds the beginning.
    fn position(&mut self) -> firn_storage::Result<()> {
        let (start, end) = self.bounds.keys();
        match self.dead.gap_at_beginning(start, end) {
            Some(gap) => self.seek_past(&gap),
            None => self.bounds.seek_beginning(&mut self.cursor),
        }
    }

    /// Seeks past the gap that the cursor stands in; whether it does. Where the cursor has left the
    /// range it does not: places that hold no key of the range have no source, and what lies
    /// between the range and the gap was not looked at.
    fn seek_past_gap(&mut self) -> firn_storage::Result<bool> {
        let Some(entry) = self.cursor.entry().filter(|entry| self.bounds.holds(entry.key)) else {
            return Ok(false);
        };
        let Some(gap) = self.dead.gap_at(entry.key) else { return Ok(false) };
        if self.dead.is_in_row() {
            self.end_row(RowEnd::Gap(&gap));
        }
        self.seek_past(&gap)?;
        Ok(true)
    }

    fn seek_past(&mut self, gap: &Gap) -> firn_storage::Result<()> {
        self.dead.skip(gap);
        if !self.bounds.seek_past(gap, &mut self.cursor)? {
            self.finished = true;
        }
        Ok(())
    }

    /// Ends the row of dead keys, which is learnt if it is worth it.
    fn end_row(&mut self, at: RowEnd<'_>) {
        if let Some(passed) = self.dead.end_row(at, self.bounds.keys()) {
            let Database { commit, catalog, .. } = &*self.shared;
            self.dead.learn(&commit.log, catalog, &self.keyspace, &self.cursor, passed);
        }
    }

    /// As [`end_row`](Self::end_row) where the walk stands, to go on later.
    fn end_row_here(&mut self) {
        let key = self.cursor.entry().map(|entry| entry.key.to_vec());
        match key.filter(|key| self.bounds.holds(key)) {
            Some(key) if self.dead.is_in_row() => self.end_row(RowEnd::Turn(&key)),
            // The row ends with the range, which the next step finds out.
            _ => {}
        }
    }

    /// Resolves the key the cursor stands on, whose versions come newest first, and moves past it.
    fn step_forward(&mut self, out: &mut ScanBatch) -> Result<()> {
        let Some(entry) = self.cursor.entry().filter(|entry| self.bounds.is_before_end(entry.key)) else {
            self.finished = true;
            return Ok(());
        };
        let plain = entry.kind == Kind::Put && entry.expires_at_ms == 0 && entry.sequence < self.point.before;
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
        self.current.begin(entry.key);
        let operator = self.keyspace.definition.merge_operator.as_deref();
        let mut resolution = Resolution::new(
            &self.current.key,
            (&self.shared.reads, &self.version),
            (self.wants, ReadMode::Blocking),
            operator,
        );
        resolution.cover(self.tombstones.newest(&self.current.key));
        let (mut resolved, mut records, mut older) = (Resolved::Older, 0, 0);
        while let Some(entry) = self.cursor.entry().filter(|entry| self.current.is_of(entry.key)) {
            records += 1;
            if resolved == Resolved::Older && entry.sequence < self.point.before {
                resolved = resolution.take(hit(&entry), &mut self.current.value)?;
            } else {
                older += 1;
            }
            if older == STEPS_MAX && resolved != Resolved::Older {
                let behind = [self.current.key.as_slice(), &[0]].concat();
                self.cursor.seek(&behind).map_err(from_storage)?;
                break;
            }
            self.cursor.next().map_err(from_storage)?;
        }
        if resolved == Resolved::Older {
            resolved = resolution.end(&mut self.current.value)?;
        }
        self.reads.add(resolution.beside());
        self.current.expires_at_ms = resolution.expires_at_ms();
        self.give((resolved, records), out)
    }

    /// Resolves the key the cursor stands on, whose versions come oldest first, and moves before
    /// it.
    fn step_backward(&mut self, out: &mut ScanBatch) -> Result<()> {
        let Some(entry) = self.cursor.entry().filter(|entry| self.bounds.is_from_start(entry.key)) else {
            self.finished = true;
            return Ok(());
        };
        self.current.begin(entry.key);
        let mut records = 0;
        while let Some(entry) = self.cursor.entry().filter(|entry| self.current.is_of(entry.key)) {
            records += 1;
            if records == STEPS_MAX {
                self.hold_newest().map_err(from_storage)?;
                break;
            }
            if entry.sequence < self.point.before {
                self.current.hold_newer(&entry);
            }
            self.cursor.prev().map_err(from_storage)?;
        }
        let operator = self.keyspace.definition.merge_operator.as_deref();
        let mut resolution = Resolution::new(
            &self.current.key,
            (&self.shared.reads, &self.version),
            (self.wants, ReadMode::Blocking),
            operator,
        );
        resolution.cover(self.tombstones.newest(&self.current.key));
        let mut resolved = Resolved::Older;
        for held in self.current.versions.iter().rev() {
            if resolved == Resolved::Older {
                resolved = resolution.take(held.hit(), &mut self.current.value)?;
            }
        }
        if resolved == Resolved::Older {
            resolved = resolution.end(&mut self.current.value)?;
        }
        self.reads.add(resolution.beside());
        self.current.expires_at_ms = resolution.expires_at_ms();
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
        self.current.versions.clear();
        self.cursor.seek(&self.current.key)?;
        while let Some(entry) = self.cursor.entry().filter(|entry| self.current.is_of(entry.key)) {
            if entry.sequence < self.point.before {
                self.current.versions.push(Held::of(&entry));
                if entry.kind != Kind::Merge {
                    break;
                }
            }
            self.cursor.next()?;
        }
        self.current.versions.reverse();
        self.cursor.seek_before(&self.current.key)
    }
}

fn hit<'e>(entry: &Entry<'e>) -> Hit<'e> {
    Hit { sequence: entry.sequence, kind: entry.kind, expires_at_ms: entry.expires_at_ms, value: entry.value }
}
