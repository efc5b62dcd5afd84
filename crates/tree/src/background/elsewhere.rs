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

    /// Compactions of this database that run elsewhere at the same time, if somebody says.
    pub(super) fn width_elsewhere(&self) -> Option<usize> {
        self.jobs.fallbacks.as_ref()?;
        // Whoever panics when asked does so again where a job is divided, which is told.
        caught("asking how many jobs run", || Ok(self.jobs.width())).ok().flatten()
    }

    /// Whether a compaction that is chosen now is begun elsewhere soon. One that waits there keeps its tables from being chosen with what comes into
    /// level 0 meanwhile, and so rewrites as much of the base level for less of that. No more is chosen ahead than keeps whoever is free there from
    /// waiting for a choice.
    pub(super) fn is_begun_soon(&self, busy: &Busy, is_relief: bool) -> bool {
        let Some(width) = self.width_elsewhere() else { return true };
        // What was chosen a moment ago is no job yet.
        let (relief, all) = self.jobs.unfinished();
        let before = if is_relief { relief.max(busy.relieving) } else { all.max(busy.compacting) };
        before <= width
    }
}
