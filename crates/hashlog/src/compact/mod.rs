//! Compaction: the log's oldest segment goes, and what lives in it is copied to the cold log; to
//! the log's own end where memory has all of the log.
//!
//! ```text
//!   oldest segment ─► each record: is it its key's newest? ─► copied to the cold log, or the end
//!   ─► a checkpoint has the copies on the device, and says where the log begins from then on
//!   ─► readers begin there ─► the segment's file goes
//! ```
//! | newest record of the key | what becomes of an older one at the log's beginning |
//! |---|---|
//! | it, a value | copied to the cold log; its entry goes, if it was the chain's only record |
//! | the same, and memory has all of the log | copied to the log's end |
//! | it, a tombstone, expired, or dropped | a tombstone in the cold log, where that may have the key |
//! | it, a value that a filter drops | left; a tombstone is its key's newest |
//! | a newer one | left |
//! | a newer operand, it a value | copied to the cold log, below the operand |
//! | it, an operand, or a newer one | merged with what it applies to; with a value that expires the whole history is copied |
//!
//! The cold log is compacted likewise ([`cold`]), and what finds its records goes to the device
//! ([`spill`]).
//!
//! Copies are not in the redo log: until the checkpoint the older records are there too. A reader
//! that has come to a record before the log began elsewhere begins anew.

mod cold;
mod mover;
mod pace;
mod spill;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use firn_engine::{Error, ErrorKind, Result};

use crate::database::Database;
use crate::reclaim::{Left, Progress};
use mover::Mover;

/// The log is not compacted while it is shorter than so many segments.
const SEGMENTS_MIN: u64 = 2;

/// What was left behind is this part of what lives, at most, before a checkpoint is taken for it.
const LEFT_PART: u64 = 8;

/// Records that are looked at together, and their bytes.
const RECORDS: usize = 1024;
const RECORD_BYTES: u64 = 1 << 20;

/// What is to be compacted next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// How much lives is to be estimated first.
    Estimate,
    Log,
    Cold,
    Spill,
}

/// Compaction of one database: of its log, and of its cold log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compaction<'d> {
    database: &'d Database,
}

impl<'d> Compaction<'d> {
    pub(crate) fn of(database: &'d Database) -> Self {
        Self { database }
    }
}

impl Compaction<'_> {
    /// Whether there is anything to compact, as far as is known.
    pub(crate) fn may_want(&self) -> bool {
        self.due() != Due::Nothing
    }

    /// Compacts what is due. Blocks for reading a segment, and for room in memory.
    pub(crate) fn do_due(&self) -> Result<()> {
        let due = match self.due() {
            // Writers may have made them old meanwhile: they count all the same, this once.
            Due::Estimate => self.due_by(
                Some(self.database.estimate_live_words()),
                Some(self.database.estimate_cold_live_words()?),
            ),
            due => due,
        };
        let done = match due {
            Due::Nothing | Due::Estimate => Ok(()),
            Due::Log => self.compact(),
            Due::Cold => self.compact_cold(),
            Due::Spill => self.spill(),
        };
        self.note_pace();
        done
    }

    fn due(&self) -> Due {
        self.due_by(self.database.estimated_live_words(), self.database.estimated_cold_live_words())
    }

    /// What is due where so many words live of the log and of the cold log, as far as is known.
    fn due_by(&self, live: Option<u64>, cold_live: Option<u64>) -> Due {
        if self.wants_spill() {
            return Due::Spill;
        }
        if self.must_spill() {
            // After the checkpoint that is due.
            return Due::Nothing;
        }
        let cold = &self.database.store.cold;
        let (compacted, cold_compacted) = self.compacted();
        let end = self.database.device.end_of(compacted);
        let flushed = self.database.store.log.markers.flushed.load(Ordering::Acquire);
        let may_go = end <= flushed && end <= self.database.snapshots.oldest_end();
        if may_go && self.wants_entries() {
            return Due::Log;
        }
        let max = |live: u64| (live as f64 * self.database.env.settings.space_amplification_max) as u64;
        let cold_used = cold.end() - cold_compacted;
        let segment = end - compacted;
        let cold_end = cold.device.end_of(cold_compacted);
        if cold_end <= cold.end() && cold_used > SEGMENTS_MIN * segment {
            match cold_live {
                None => return Due::Estimate,
                Some(live) if cold_used > max(live) => return Due::Cold,
                Some(_) => {}
            }
        }
        let used = self.database.store.log.tail.next() - compacted;
        if !may_go || used <= SEGMENTS_MIN * segment {
            return Due::Nothing;
        }
        match live.zip(cold_live) {
            None => Due::Estimate,
            Some((live, cold_live)) if used + cold_used > max(live.saturating_add(cold_live)) => Due::Log,
            Some(_) => Due::Nothing,
        }
    }

    /// What of the log and of the cold log is compacted.
    fn compacted(&self) -> (u64, u64) {
        (self.database.reclaim.progress().compacted, self.database.reclaim.cold_progress().compacted)
    }

    /// Whether a checkpoint is due for what compaction has left behind, or before the cold log's
    /// delta can be spilled, or before the oldest segment can be compacted whose keys fill the
    /// index.
    pub(crate) fn wants_truncation(&self) -> bool {
        if self.wants_cut_for_spill() {
            return true;
        }
        let end = self.database.device.end_of(self.database.reclaim.progress().compacted);
        let flushed = self.database.store.log.markers.flushed.load(Ordering::Acquire);
        if end > flushed && end <= self.database.store.log.tail.next() && self.wants_entries() {
            return true;
        }
        let oldest_end = self.database.snapshots.oldest_end();
        let waits = |progress: &Progress, begin: u64| {
            let left = progress.compacted - begin;
            left > self.database.estimated_live_words().unwrap_or(0) / LEFT_PART
                && progress.waits_for_checkpoint(oldest_end)
        };
        waits(&self.database.reclaim.progress(), self.database.store.log.begin())
            || waits(&self.database.reclaim.cold_progress(), self.database.store.cold.begin())
    }

    fn compact(&self) -> Result<()> {
        let mut access = self.database.reclaim.access.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.database.reclaim.progress().compacted;
        let end = self.database.device.end_of(from);
        self.database.store.cold.begin_move();
        let mut mover = match self.stays(from) {
            true => Mover::keeping(self.database, &mut access),
            false => Mover::new(self.database, &mut access),
        };
        let page_bits = self.database.store.log.tail.page_words().ilog2();
        let (mut records, mut bytes) = (Vec::with_capacity(RECORDS), 0);
        self.database.device.scan((from, end), page_bits, &mut |address, record| {
            records.push((address, record.clone()));
            bytes += 8 * record.words();
            if records.len() < RECORDS && bytes < RECORD_BYTES {
                return Ok(());
            }
            bytes = 0;
            self.go_on()?;
            mover.take_all(&mut records)
        })?;
        mover.take_all(&mut records)?;
        let (values, copied) = mover.end()?;
        let (log_end, cold_end) = (self.database.store.log.tail.next(), self.database.store.cold.end());
        self.database.counters.compacted_bytes.fetch_add(8 * (end - from), Ordering::Relaxed);
        self.database.counters.copied_bytes.fetch_add(8 * copied, Ordering::Relaxed);
        self.database.reclaim.progress().leave(Left { end, log_end, cold_end, values });
        *self.database.reclaim.estimate() = None;
        let wanted = self.database.reclaim.wants_entries.swap(false, Ordering::Relaxed);
        self.shrink_index(wanted || self.index_has_little_left());
        Ok(())
    }

    /// Whether what lives of the segment at `from` stays in the log: where memory has all of it,
    /// and room for the copies until a checkpoint lets go of what they were made of, nothing is
    /// gained by moving the oldest records to the device.
    fn stays(&self, from: u64) -> bool {
        let log = &self.database.store.log;
        let segment = self.database.device.end_of(from) - from;
        let left = self.database.reclaim.estimate().map_or(0, |estimate| estimate.live) / LEFT_PART;
        let used = log.tail.next() - log.begin();
        let is_in_memory = from >= log.head() && used + left + SEGMENTS_MIN * segment <= log.capacity();
        is_in_memory && !self.wants_entries()
    }

    /// A close does not wait for a whole segment.
    fn go_on(&self) -> Result<()> {
        match self.database.is_closed.load(Ordering::Acquire) {
            true => Err(Error::new(ErrorKind::Retry, "the database is being closed")),
            false => Ok(()),
        }
    }

    /// Lets go of what lies before the new beginning of the log, which the manifest has. Blocks for
    /// the removal of files.
    pub(crate) fn truncate(&self, removable: Vec<Left>) -> Result<()> {
        let Some(begin) = removable.last().map(|left| left.end) else { return Ok(()) };
        {
            let _stopped = self.database.store.epochs.stop();
            self.database.store.log.begin_at(begin);
        }
        let removed = self.database.device.remove_before(begin);
        removed.and(self.database.values.remove(removable.into_iter().flat_map(|left| left.values)))
    }

    /// As [`truncate`](Self::truncate), of the cold log.
    pub(crate) fn truncate_cold(&self, removable: Vec<Left>) -> Result<()> {
        let Some(begin) = removable.last().map(|left| left.end) else { return Ok(()) };
        self.database.store.cold.begin_at(begin);
        let removed = self.database.store.cold.device.remove_before(begin);
        removed.and(self.database.values.remove(removable.into_iter().flat_map(|left| left.values)))
    }

    /// Removes values whose records were replaced before `cut`, which a checkpoint has.
    pub(crate) fn remove_replaced_values(&self, cut: u64) -> Result<()> {
        let mut gone = Vec::new();
        crate::sync::lock(&self.database.store.replaced_values).retain(|value| {
            // The record may be a copy: a snapshot that is older sees the one that was copied.
            let seen_from = if self.database.reclaim.was_moved(value.number) { 0 } else { value.at };
            let may_go = value.by < cut && !self.database.snapshots.any_sees(seen_from, value.by);
            if may_go {
                gone.push(value.number);
            }
            !may_go
        });
        self.database.values.remove(gone.into_iter())
    }
}
