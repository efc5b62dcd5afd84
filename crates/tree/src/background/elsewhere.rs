//! How much may be under way elsewhere: threads that wait for it, and what is chosen for the
//! executors there.

use firn_jobs::caught;

use super::choose::Choosing;
use crate::database::Database;

impl Database {
    /// Number of background threads. A thread that waits for a job elsewhere does nothing here. So
    /// beside an executor there are as many again as were asked for, and two more: one never waits,
    /// one waits for relief alone.
    pub(super) fn thread_count(&self) -> usize {
        let waiting =
            if self.maintenance.jobs.fallbacks.is_some() { self.settings.background_threads + 2 } else { 0 };
        self.settings.background_threads + waiting
    }

    /// Collections at a time.
    pub(super) fn collections_max(&self) -> usize {
        self.settings.background_threads * if self.maintenance.jobs.fallbacks.is_some() { 2 } else { 1 }
    }

    /// Jobs of this database that run at the same time, if the executor says.
    fn width(&self) -> Option<usize> {
        // An executor that panics when asked panics again where a job is divided, and that is told.
        caught("asking how many jobs run", || Ok(self.maintenance.jobs.width())).ok().flatten()
    }
}

impl Choosing<'_> {
    /// Whether another thread may wait for a job elsewhere that takes runs out of level 0
    /// (`is_relief`), or for anything else that may take long. That is a bulk job, or a list of a
    /// place that may be far away. One thread is left for what is done here, or an executor that
    /// hangs would hold that up too. One is left for relief, which writers wait for, while bulk
    /// jobs may be held for a minute.
    pub(super) fn is_thread_left(&self, is_relief: bool) -> bool {
        let waiting = self.busy.claims.collections
            + self.busy.claims.compacting
            + usize::from(self.busy.claims.is_sweeping);
        self.database.maintenance.jobs.fallbacks.is_none()
            || waiting + 2 - usize::from(is_relief) < self.database.thread_count()
    }

    /// Whether a worker elsewhere is free, as far as is known. It is given a compaction while the
    /// buffer fills too, since no drain runs there.
    pub(super) fn is_somebody_free(&self) -> bool {
        let is_there =
            self.database.maintenance.jobs.fallbacks.as_ref().is_some_and(|fallbacks| !fallbacks.is_away());
        is_there && self.database.width().is_some_and(|width| self.busy.claims.compacting < width)
    }

    /// Whether a compaction that is chosen now begins soon, where executors elsewhere do
    /// compactions. A compaction that waits there keeps its tables from being chosen with what
    /// comes into level 0 meanwhile. So it rewrites as much of the base level for less of level 0.
    /// One compaction is chosen ahead, which may be divided: otherwise a free worker there would
    /// wait for a choice. Tables that only change their level wait for their turn as well.
    pub(super) fn is_begun_soon(&self, is_relief: bool) -> bool {
        let Some(fallbacks) = &self.database.maintenance.jobs.fallbacks else { return true };
        let Some(width) = self.database.width() else { return true };
        let here = if fallbacks.is_away() { 0 } else { fallbacks.here() as usize };
        let ((relief, all), (chosen_relief, chosen)) =
            (self.database.maintenance.jobs.unfinished(), self.busy.claims.unbegun());
        let before = if is_relief { relief + chosen_relief } else { all + chosen };
        before <= width.saturating_add(here)
    }
}
