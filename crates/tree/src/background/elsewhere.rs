//! How much may be under way elsewhere: threads that wait for it, and what is chosen for those who do it.

use firn_jobs::caught;

use super::busy::Busy;
use crate::database::Database;

impl Database {
    /// Background threads. Who waits for jobs elsewhere does nothing here: beside an executor there are as many again as were asked for,
    /// the one that never waits, and the one that waits for relief alone.
    pub(super) fn thread_count(&self) -> usize {
        let waiting = if self.jobs.fallbacks.is_some() { self.settings.background_threads + 2 } else { 0 };
        self.settings.background_threads + waiting
    }

    /// Collections at a time.
    pub(super) fn collections_max(&self) -> usize {
        self.settings.background_threads * if self.jobs.fallbacks.is_some() { 2 } else { 1 }
    }

    /// Whether another thread may wait for a job elsewhere that takes runs out of level 0 (`is_relief`), or for anything else that may take long: a bulk
    /// job, or a list of a place that may be far away. One is left for what is done here, or an executor that hangs would hold that up too;
    /// and one for relief, which writers wait for, while bulk jobs may be held for a minute.
    pub(super) fn is_thread_left(&self, busy: &Busy, is_relief: bool) -> bool {
        let waiting = busy.collections + busy.compacting + usize::from(busy.is_sweeping);
        self.jobs.fallbacks.is_none() || waiting + 2 - usize::from(is_relief) < self.thread_count()
    }

    /// Whether somebody elsewhere is free, as far as is known: it is given something while the buffer fills too, since nobody drains there.
    pub(super) fn is_somebody_free(&self, busy: &Busy) -> bool {
        let is_there = self.jobs.fallbacks.as_ref().is_some_and(|fallbacks| !fallbacks.is_away());
        is_there && self.width().is_some_and(|width| busy.compacting < width)
    }

    /// Whether a compaction that is chosen now is begun soon, where others do them. One that waits there keeps its tables from being chosen with what
    /// comes into level 0 meanwhile, and so rewrites as much of the base level for less of that. One is chosen ahead, which may be divided, or whoever
    /// is free there would wait for a choice. Tables that only change their level wait for their turn as well.
    pub(super) fn is_begun_soon(&self, busy: &Busy, is_relief: bool) -> bool {
        let Some(fallbacks) = &self.jobs.fallbacks else { return true };
        let Some(width) = self.width() else { return true };
        let here = if fallbacks.is_away() { 0 } else { fallbacks.here() as usize };
        let ((relief, all), (chosen_relief, chosen)) = (self.jobs.unfinished(), busy.unbegun());
        let before = if is_relief { relief + chosen_relief } else { all + chosen };
        before <= width.saturating_add(here)
    }

    /// Jobs of this database that run at the same time, if whoever does them says.
    fn width(&self) -> Option<usize> {
        // Whoever panics when asked does so again where a job is divided, which is told.
        caught("asking how many jobs run", || Ok(self.jobs.width())).ok().flatten()
    }
}
