//! Writers that are faster than compaction, or than checkpoints cut the redo log, wait for them.

use std::sync::atomic::Ordering;

use firn_engine::{Error, ErrorKind, Result};

use super::{Compaction, Due, SEGMENTS_MIN};
use crate::index::{BUCKET_BYTES, SLOTS};
use crate::tasks::Kind;

/// What is used may exceed what it should be by this part of it, and by two segments, before
/// writers wait.
const AHEAD_PART: u64 = 8;

/// Writers wait when less than this part of the index's memory is left.
const INDEX_LEFT_PART: u64 = 32;

/// Slots that are looked at while no operation is under way.
const SLOTS_TOGETHER: usize = 64;

/// Bytes of the index for each entry when it is as full as it should be. With fewer the longer
/// chains of slots that had no room to grow would need more buckets than there are.
const ENTRY_BYTES: u64 = 18;

impl Compaction<'_> {
    /// Whether the index has so many entries that it will soon have no memory for more.
    pub(super) fn index_is_full(&self) -> bool {
        let max = self.index_bytes_max();
        self.database.store.index.bytes() > max / 8 * 7
            && self.database.store.index.entry_count() > max / ENTRY_BYTES
    }

    /// Whether writers are to wait before the index has no memory at all.
    pub(super) fn index_has_little_left(&self) -> bool {
        let max = self.index_bytes_max();
        self.database.store.index.bytes() > max - max / INDEX_LEFT_PART
    }

    /// Whether a segment is to be compacted for the entries of its keys.
    pub(super) fn wants_entries(&self) -> bool {
        self.database.reclaim.wants_entries.load(Ordering::Relaxed) || self.index_is_full()
    }

    /// Has slots give memory back whose entries have gone, where there is little left.
    pub(super) fn shrink_index(&self, thorough: bool) {
        let store = &self.database.store;
        if store.index.bytes() <= self.index_bytes_max() / 4 * 3 {
            return;
        }
        for first in (0..SLOTS).step_by(SLOTS_TOGETHER) {
            let stopped = store.epochs.stop();
            store.index.shrink(&stopped, first..SLOTS.min(first + SLOTS_TOGETHER), thorough);
        }
    }

    /// Memory that the index may take.
    fn index_bytes_max(&self) -> u64 {
        self.database.env.settings.engine.index_bytes_max - self.database.store.index.reserved_bytes()
    }

    /// Notes whether writers are to wait.
    pub(crate) fn note_pace(&self) {
        let must_wait = self.is_behind();
        if self.database.reclaim.is_behind.swap(must_wait, Ordering::Relaxed) && !must_wait {
            self.database.store.log.markers.notify();
        }
    }

    /// Whether the redo log is half as long again as it should be.
    fn redo_is_long(&self) -> bool {
        let max = self.database.env.settings.engine.redo_bytes_max;
        self.redo_bytes() > max + max / 2
    }

    fn redo_bytes(&self) -> u64 {
        self.database.store.redo.as_ref().map_or(0, |redo| redo.bytes())
    }

    /// Whether there is something to compact, or a checkpoint to take so that there is.
    fn may_go_on(&self) -> bool {
        self.due() != Due::Nothing || self.wants_truncation()
    }

    /// Whether writers are ahead of a compaction that can be done now, or of a checkpoint.
    fn is_behind(&self) -> bool {
        if self.redo_is_long() {
            return true;
        }
        if self.index_is_full() && self.index_has_little_left() {
            return self.may_go_on();
        }
        let (compacted, cold_compacted) = self.compacted();
        let (log, cold) = (&self.database.store.log, &self.database.store.cold);
        let used = log.tail.next() - compacted + cold.end() - cold_compacted;
        let segment = self.database.device.end_of(compacted) - compacted;
        let Some(live) = self.database.last_estimated_words() else { return false };
        let max = (live as f64 * self.database.env.settings.space_amplification_max) as u64;
        used > max + max / AHEAD_PART + 2 * SEGMENTS_MIN * segment && self.due() != Due::Nothing
    }

    /// Waits until neither compaction nor checkpoints are behind, or one of them has got on: other
    /// threads may take what it frees before this one looks.
    ///
    /// # Errors
    /// What keeps background work from going on.
    #[cold]
    pub(crate) fn wait(&self) -> Result<()> {
        if !self.database.maintenance.schedule.is_manual() {
            let (compacted, redo_bytes) = (self.compacted(), self.redo_bytes());
            let has_got_on = || self.compacted() != compacted || self.redo_bytes() < redo_bytes;
            let is_over = || !self.is_behind() || has_got_on() || self.database.check_writes().is_err();
            self.database.wait_until(&Kind::ALL, || (), is_over)?;
            self.note_pace();
            return Ok(());
        }
        self.note_pace();
        while self.database.reclaim.is_behind.load(Ordering::Relaxed) {
            match self.redo_is_long() || self.due() == Due::Nothing {
                true => self.database.checkpoint()?,
                false => self.do_due()?,
            }
            self.note_pace();
        }
        Ok(())
    }

    /// Has the oldest segment compacted, since the index has no room for an entry. Refuses to wait
    /// for it where no segment can be.
    fn free_entries(&self) -> Result<()> {
        self.database.reclaim.wants_entries.store(true, Ordering::Relaxed);
        match self.may_go_on() {
            true => Ok(()),
            false => {
                let message = "the index has no memory left: raise memory_bytes, or index_bytes_max";
                Err(Error::new(ErrorKind::Retry, message))
            }
        }
    }

    /// Waits until the index may have room for so many buckets, after it had none: chains give back
    /// what they do not need, or else compaction takes the oldest entries out.
    ///
    /// # Errors
    /// `Retry`, and what to do, where neither makes room; what keeps background work from going on.
    #[cold]
    pub(crate) fn wait_for_entries(&self, buckets: u64) -> Result<()> {
        let index = &self.database.store.index;
        let has_room = || index.bytes() + buckets * BUCKET_BYTES <= self.index_bytes_max();
        // Another thread may have made room.
        if has_room() {
            return Ok(());
        }
        let full = index.bytes();
        self.shrink_index(true);
        self.database.store.epochs.run_due();
        if has_room() && index.bytes() < full - full / INDEX_LEFT_PART {
            return Ok(());
        }
        let before = self.compacted();
        if self.database.maintenance.schedule.is_manual() {
            while self.compacted().0 == before.0 {
                match self.free_entries() {
                    Err(_) if has_room() => return Ok(()),
                    freed => freed?,
                }
                match self.due() {
                    Due::Nothing => self.database.checkpoint()?,
                    _ => self.do_due()?,
                }
            }
            return Ok(());
        }
        let is_over = || self.compacted().0 != before.0 || self.database.check_writes().is_err();
        self.database.wait_until(&Kind::ALL, || (), || is_over() || self.free_entries().is_err())?;
        match self.compacted().0 == before.0 {
            true if has_room() => self.database.check_writes(),
            true => self.database.check_writes().and_then(|()| self.free_entries()),
            false => Ok(()),
        }
    }
}
