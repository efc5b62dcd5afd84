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
use super::resolve::{Hit, Resolution, Resolved, Wants};
use super::source::{Source, sources};
use super::tombstones::Covers;
use crate::database::Database;
use crate::error::from_storage;
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
}

impl TreeScan {
    /// A scan of `keyspace` as of `before`; with `later`, batches that may need a device come through it.
    pub(crate) fn open(
        shared: &Arc<Database>,
        version: Arc<Version>,
        before: Position,
        keyspace: KeyspaceId,
        range: ScanRange,
        later: Option<(CompletionSender, Arc<Tickets>)>,
    ) -> Result<Self> {
        let walk = Walk::open(Arc::clone(shared), version, before, keyspace, &range)?;
        let resident = walk.keyspace.levels.tables().all(|(_, table)| table.reader().reads_in_place())
            && !walk.version.values.may_wait()
            && walk.keyspace.definition.settings.compression == firn_engine::Compression::None;
        let later = if resident { None } else { later };
        let pool = later.map(|(sender, tickets)| (Arc::clone(shared), sender, tickets));
        Ok(Self { walk: Arc::new(Mutex::new(walk)), pool })
    }
}

impl Scan for TreeScan {
    fn next_batch(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<Outcome<()>> {
        out.clear();
        let Some((shared, sender, tickets)) = &self.pool else {
            return match self.walk.lock() {
                Ok(mut walk) => walk.fill(limit, out).map(Outcome::Done),
                Err(_) => Err(Error::bug("a scan panicked earlier")),
            };
        };
        if let Err(TryLockError::WouldBlock) = self.walk.try_lock() {
            return Err(Error::invalid("the scan's previous batch is still pending"));
        }
        let ticket = tickets.next();
        let (walk, sender) = (Arc::clone(&self.walk), sender.clone());
        shared.on_pool(move || {
            let mut batch = ScanBatch::new();
            let filled = match walk.lock() {
                Ok(mut walk) => walk.fill(limit, &mut batch),
                Err(_) => Err(Error::bug("a scan panicked earlier")),
            };
            let completion = match filled {
                Ok(()) => Completion::Scanned(batch),
                Err(error) => Completion::Failed(error),
            };
            sender.send(ticket, completion);
        });
        Ok(Outcome::Pending(ticket))
    }
}

/// The walk itself; owns the version it reads.
struct Walk {
    shared: Arc<Database>,
    cursor: MergeCursor<Source>,
    tombstones: Covers,
    keyspace: Arc<Keyspace>,
    version: Arc<Version>,
    before: Sequence,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    direction: Direction,
    positioned: bool,
    finished: bool,
    /// The key being resolved, or the last one that was.
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
        range: &ScanRange,
    ) -> Result<Self> {
        let keyspace = Arc::clone(version.keyspace(keyspace.0)?);
        let before = before.sequence();
        let (start, end) = range.bounds();
        let (sources, tombstones) = sources(&version, &keyspace, before, range);
        let wants = if version.values.is_empty() { Wants::ALL } else { Wants::Ahead };
        Ok(Self {
            shared,
            cursor: MergeCursor::new(sources),
            tombstones: Covers::new(tombstones, before),
            keyspace,
            version,
            before,
            start,
            end,
            direction: range.direction,
            positioned: false,
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
        let filled = self.walk(limit, out);
        self.shared.counters.take_reads(&mut self.reads);
        filled
    }

    fn walk(&mut self, limit: BatchLimit, out: &mut ScanBatch) -> Result<()> {
        if !self.positioned {
            self.position().map_err(from_storage)?;
            self.positioned = true;
        }
        while !self.finished {
            let (records, bytes) = (out.len() + self.ahead.len(), out.data_bytes() + self.ahead.bytes());
            if records >= limit.records.max(1) || (records > 0 && bytes >= limit.bytes) {
                return self.catch_up(out);
            }
            match self.direction {
                Direction::Forward => self.step_forward(out)?,
                Direction::Backward => self.step_backward(out)?,
            }
        }
        self.catch_up(out)?;
        out.finish();
        Ok(())
    }

    /// Gives the row of the key, whose value was found to be so.
    fn give(&mut self, resolved: Resolved, out: &mut ScanBatch) -> Result<()> {
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
            // Of a key that has none there is no row.
            if let Given::Value(value) = given {
                out.push(key, value);
            }
        };
        shared.catch_up((version, ReadMode::Blocking), ahead, reads, give)?;
        Ok(())
    }

    fn position(&mut self) -> firn_storage::Result<()> {
        match (self.direction, &self.end) {
            (Direction::Forward, _) if self.start.is_empty() => self.cursor.seek_first(),
            (Direction::Forward, _) => self.cursor.seek(&self.start),
            (Direction::Backward, None) => self.cursor.seek_last(),
            (Direction::Backward, Some(end)) => self.cursor.seek_before(end),
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
        if plain && self.tombstones.is_empty() && self.ahead.is_empty() {
            // Nothing can hide this version: it goes to the batch from where it lies.
            out.push(entry.key, entry.value);
            let word = self.cursor.word();
            self.cursor.next().map_err(from_storage)?;
            while self.cursor.word() == word
                && self.cursor.entry().is_some_and(|entry| out.last_key() == Some(entry.key))
            {
                self.cursor.next().map_err(from_storage)?;
            }
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
        let mut resolved = Resolved::Older;
        while let Some(entry) = self.cursor.entry().filter(|entry| entry.key == self.key.as_slice()) {
            if resolved == Resolved::Older && entry.sequence < self.before {
                resolved = resolution.take(hit(&entry), &mut self.value)?;
            }
            self.cursor.next().map_err(from_storage)?;
        }
        if resolved == Resolved::Older {
            resolved = resolution.end(&mut self.value)?;
        }
        self.reads.add(resolution.beside());
        self.give(resolved, out)
    }

    /// Resolves the key the cursor stands on, whose versions come oldest first, and moves before it.
    fn step_backward(&mut self, out: &mut ScanBatch) -> Result<()> {
        let Some(entry) = self.cursor.entry().filter(|entry| entry.key >= self.start.as_slice()) else {
            self.finished = true;
            return Ok(());
        };
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.versions.clear();
        while let Some(entry) = self.cursor.entry().filter(|entry| entry.key == self.key.as_slice()) {
            if entry.sequence < self.before {
                if entry.kind != Kind::Merge {
                    self.versions.clear();
                }
                let (sequence, kind, expires_at_ms) = (entry.sequence, entry.kind, entry.expires_at_ms);
                self.versions.push(Held { sequence, kind, expires_at_ms, value: entry.value.to_vec() });
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
        self.give(resolved, out)
    }
}

fn hit<'e>(entry: &Entry<'e>) -> Hit<'e> {
    Hit { sequence: entry.sequence, kind: entry.kind, expires_at_ms: entry.expires_at_ms, value: entry.value }
}
