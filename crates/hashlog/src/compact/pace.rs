//! Writers that are faster than compaction, or than checkpoints cut the redo log, wait for them.

use std::sync::atomic::Ordering;

use firn_engine::Result;

use super::{Compaction, Due, SEGMENTS_MIN};

/// What is used may exceed what it should be by this part of it, and by two segments, before
/// writers wait.
const AHEAD_PART: u64 = 8;

impl Compaction<'_> {
    /// Whether the index has so many entries that it will soon have no memory for more.
    pub(super) fn index_is_full(&self) -> bool {
        let max = self.index_bytes_max();
        // An entry takes 18 bytes at most while its slot is growing.
        self.database.store.index.bytes() > max / 8 * 7
            && self.database.store.index.entry_count() > max / 18 / 8 * 7
    }

    /// Memory that the index may take: what finds records of the cold log takes its part.
    fn index_bytes_max(&self) -> u64 {
        self.database
            .env
            .settings
            .engine
            .index_bytes_max
            .saturating_sub(self.database.store.cold.memory_bytes())
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
        self.database.store.redo.as_ref().is_some_and(|redo| redo.bytes() > max + max / 2)
    }

    /// Whether writers are ahead of a compaction that can be done now, or of a checkpoint.
    fn is_behind(&self) -> bool {
        if self.redo_is_long() {
            return true;
        }
        let max = self.index_bytes_max();
        let index = &self.database.store.index;
        if index.bytes() >= max && index.entry_count() > max / 16 {
            return self.due() != Due::Nothing || self.wants_truncation();
        }
        let (compacted, cold_compacted) = self.compacted();
        let (log, cold) = (&self.database.store.log, &self.database.store.cold);
        let used = log.tail.next() - compacted + cold.end() - cold_compacted;
        let segment = self.database.device.end_of(compacted) - compacted;
        let Some(live) = self.database.estimated_live_words() else { return false };
        let max =
            ((live + cold.live_words()) as f64 * self.database.env.settings.space_amplification_max) as u64;
        used > max + max / AHEAD_PART + 2 * SEGMENTS_MIN * segment && self.due() != Due::Nothing
    }

    /// Waits until neither compaction nor checkpoints are behind.
    ///
    /// # Errors
    /// What keeps background work from going on.
    #[cold]
    pub(crate) fn wait(&self) -> Result<()> {
        if !self.database.maintenance.schedule.is_manual() {
            self.database.maintenance.schedule.wake();
            self.database
                .store
                .log
                .markers
                .wait_until(|| !self.is_behind() || self.database.check_writes().is_err())?;
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
}
