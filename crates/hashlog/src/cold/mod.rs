//! The cold log: records that compaction has taken out of the log, and what finds them.
//!
//! ```text
//!   oldest segment of the log ─► records that live ─► segments of the cold log
//!                                                     found by: delta, in memory, by hash
//!                                                     later by: runs, on the device, by hash
//!   lookup: the log's chain ─► delta ─► runs, newest first ─► the record, whose key is compared
//! ```
//! A key costs no entry of the index then, but about a byte of a run's filter. Reading it costs a
//! page of a run, which the kernel may have in memory, and the record.
//!
//! 1. One thread at a time writes here: the one that compacts.
//! 2. A record is here before the log lets go of the one it was copied from, and in a run before
//!    the delta lets go of it. So a reader that looks at the log, the delta and the runs, in this
//!    order, finds it.
//! 3. What the log has of a key is newer than what is here; what the delta has is newer than what
//!    runs have; a run with a higher number is newer than one with a lower one.
//! 4. No record here is an operand.

mod append;
mod delta;
mod living; // an estimate
mod merge;
mod open;
mod run;
mod search;

pub(crate) use append::Appender;
pub(crate) use merge::Merge;
pub(crate) use open::open_cold;
pub(crate) use run::{Pages, Run};
pub(crate) use search::{ColdFetched, ColdSearch, ColdStep, ColdWanted};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use firn_engine::Result;
use firn_format::hybrid::cold_run::{ColdEntry, ColdPlace, RunPage};

use crate::device::{Device, DeviceRecord, Reading};
use delta::Delta;

/// Runs, newest first.
pub(crate) type Runs = Arc<[Arc<Run>]>;

/// Where a page says that records of `order` lie, newest first.
pub(crate) fn places(page: &RunPage, order: u64) -> Vec<ColdPlace> {
    page.between(order, order).map(|entry| entry.place).collect()
}

/// The cold log of one engine.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) device: Device,
    delta: Delta,
    runs: RwLock<Runs>,
    begin: AtomicU64,
    /// One past the last word that is written, and found.
    end: AtomicU64,
    /// What lies before is in a checkpoint.
    cut: AtomicU64,
    /// Records before are in runs.
    spilled: AtomicU64,
    /// How often records began to leave the log for this one.
    moves: AtomicU64,
    pub(crate) reads: AtomicU64,
}

/// A record of the cold log, and where it lies.
#[derive(Debug)]
pub(crate) struct ColdRecord {
    pub(crate) address: u64,
    pub(crate) record: DeviceRecord,
}

/// A key as the cold log looks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColdKey<'k> {
    pub(crate) order: u64,
    pub(crate) keyspace: u32,
    pub(crate) bytes: &'k [u8],
}

impl Cold {
    /// A cold log from `begin` to `end`, of which what lies before `spilled` is in `runs`.
    pub(crate) fn new(device: Device, (begin, spilled, end): (u64, u64, u64), runs: Runs) -> Self {
        Self {
            device,
            delta: Delta::new(),
            runs: RwLock::new(runs),
            begin: AtomicU64::new(begin),
            end: AtomicU64::new(end),
            cut: AtomicU64::new(end),
            spilled: AtomicU64::new(spilled),
            moves: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// Notes a record that an earlier run of the database has written; later ones come later.
    pub(crate) fn recover(&self, order: u64, place: ColdPlace) {
        self.delta.insert(order, place);
    }

    /// Whether there may be a record with this order.
    #[inline]
    pub(crate) fn may_have(&self, order: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        // Looked at after the delta.
        self.delta.get(order).is_some()
            || self.runs.read().unwrap_or_else(PoisonError::into_inner).iter().any(|run| run.may_have(order))
    }

    /// Whether nothing was ever moved here that is still needed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.end.load(Ordering::Acquire) == self.begin.load(Ordering::Acquire)
    }

    /// A lookup of the newest record of `key`.
    pub(crate) fn search(&self, key: ColdKey<'_>) -> ColdSearch {
        ColdSearch::new(self, key, 0)
    }

    /// The newest record of `key` above the address `above`; `None` if there is none, or it was
    /// removed meanwhile. Pages of runs are taken from `pages`, where they were read. Waits for the
    /// device.
    pub(crate) fn newest_above(
        &self,
        key: ColdKey<'_>,
        above: u64,
        pages: &mut Pages,
    ) -> Result<Option<ColdRecord>> {
        let mut search = ColdSearch::new(self, key, above);
        let mut fetched = None;
        loop {
            fetched = Some(match search.step(self, key, fetched.take())? {
                ColdStep::Found(record) => return Ok(Some(record)),
                ColdStep::Nothing => return Ok(None),
                ColdStep::Wants(ColdWanted::Record(address, words)) => {
                    self.read(address, words).map(ColdFetched::Record)
                }
                ColdStep::Wants(ColdWanted::Places { run, page, order }) => {
                    pages.get(&run, page).map(|page| ColdFetched::Places(places(page, order)))
                }
            });
        }
    }

    /// What was wanted. Waits for the device.
    pub(crate) fn fetch(&self, wanted: &ColdWanted) -> Result<ColdFetched> {
        Ok(match wanted {
            ColdWanted::Record(address, words) => ColdFetched::Record(self.read(*address, *words)?),
            ColdWanted::Places { run, page, order } => ColdFetched::Places(places(&run.page(*page)?, *order)),
        })
    }

    /// What `search` finds in the runs. A run that another one has taken the place of meanwhile may
    /// have no file any more: then the runs that are there are searched.
    fn search_runs<T>(&self, mut search: impl FnMut(&[Arc<Run>]) -> Result<T>) -> Result<T> {
        loop {
            let runs = self.runs();
            match search(&runs) {
                Err(_) if !Arc::ptr_eq(&runs, &self.runs()) => {}
                found => return found,
            }
        }
    }

    /// Addresses of all records whose orders are in `from..=to`: of each order the newest first,
    /// with those that its chain leads to missing.
    pub(crate) fn entries(&self, from: u64, to: u64) -> Result<Vec<ColdEntry>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let mut all = self.delta.entries(from, to);
        all.extend(self.search_runs(|runs| {
            let mut found = Vec::new();
            runs.iter().try_for_each(|run| run.entries(from, to, &mut found))?;
            Ok(found)
        })?);
        let begin = self.begin();
        all.retain(|entry| entry.place.address() >= begin);
        all.sort_unstable_by_key(ColdEntry::rank);
        all.dedup_by_key(|entry| entry.rank());
        Ok(all)
    }

    /// The record at `address`, which has so many words, if it is known how many; `None` if it was
    /// removed.
    pub(crate) fn read(&self, address: u64, words: u64) -> Result<Option<DeviceRecord>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.device.read_known(address, words, self.end())
    }

    /// As [`read`](Self::read), begun: the caller reads the range, and has it opened by the device.
    pub(crate) fn reading(&self, address: u64, words: u64) -> Option<Reading> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.device.reading(address, words, self.end())
    }

    /// Has the system load what a [search](Self::search) of `order` reads first.
    pub(crate) fn will_read(&self, order: u64) {
        if self.is_empty() {
            return;
        }
        if let Some(place) = self.delta.get(order) {
            return self.device.will_read(place.address());
        }
        if let Some(run) = self.runs().iter().find(|run| run.may_have(order)) {
            run.will_find(order);
        }
    }

    pub(crate) fn runs(&self) -> Runs {
        Arc::clone(&self.runs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has `runs` find what lies before `spilled`; the delta lets go of `entries`, which they have.
    pub(crate) fn publish(&self, runs: Runs, spilled: u64, entries: &[ColdEntry]) {
        *self.runs.write().unwrap_or_else(PoisonError::into_inner) = runs;
        self.spilled.store(spilled, Ordering::Release);
        entries.iter().for_each(|entry| self.delta.remove(entry.order, spilled));
    }

    /// The oldest address there is.
    pub(crate) fn begin(&self) -> u64 {
        self.begin.load(Ordering::Acquire)
    }

    /// Has the cold log begin at `address`. The delta lets go of what lies before: a lookup that
    /// does not find it there any more sees the new beginning.
    pub(crate) fn begin_at(&self, address: u64) {
        self.begin.fetch_max(address, Ordering::SeqCst);
        self.delta.remove_before(address);
    }

    /// One past the last word.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// What lies before this address is in a checkpoint.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Ordering::Acquire)
    }

    /// A checkpoint has what lies before `address`.
    pub(crate) fn set_cut(&self, address: u64) {
        self.cut.store(address, Ordering::Release);
    }

    /// Records before this address are in runs.
    pub(crate) fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Acquire)
    }

    /// How often records began to leave the log: two equal answers mean that what the log did not
    /// have at the first it has not had since, unless it has it now.
    #[inline]
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Records are about to leave the log.
    pub(crate) fn begin_move(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
    }

    /// Keys that the delta has.
    pub(crate) fn delta_keys(&self) -> u64 {
        self.delta.count()
    }

    /// How many entries one of so many equal parts of all orders has.
    pub(crate) fn entries_of_slots(&self, slots: u64) -> u64 {
        let runs = self.runs();
        (self.delta.count() + runs.iter().map(|run| run.entry_count()).sum::<u64>()) / slots
    }

    /// Words of a segment, as a power of two: no page is shorter.
    pub(crate) fn page_bits(&self) -> u32 {
        self.device.segment_bits()
    }

    /// Bytes of memory of the delta and the runs.
    pub(crate) fn memory_bytes(&self) -> u64 {
        delta::BYTES_PER_KEY * self.delta.count()
            + self.runs().iter().map(|run| run.memory_bytes()).sum::<u64>()
    }
}
