//! Scripts that the server keeps, and those that run.

mod cache;
mod running;
mod source;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bounds::SCRIPTS_BYTES_MAX;
use crate::failure::Result;
use cache::Cache;

pub(crate) use running::{Found, Running};
pub(crate) use source::{Source, Sum, hexadecimal, parse_sum, sum_of};

/// What all server threads know of scripts.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    sources: Mutex<Cache>,
    /// Rises when all are forgotten.
    flushes: AtomicU64,
    /// Scripts that have run for a while, the oldest first.
    long: Mutex<Vec<Arc<LongRun>>>,
    /// Memory that all scripts hold which run.
    held_bytes: AtomicUsize,
}

/// A script that has run for a while.
#[derive(Debug, Default)]
pub(crate) struct LongRun {
    is_killed: AtomicBool,
    begun_ms: u64,
}

impl LongRun {
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }
}

impl Scripts {
    pub(crate) fn get(&self, sum: &Sum) -> Option<Arc<Source>> {
        self.sources().get(sum)
    }

    /// A script is run: it is kept as long as others are not run more. How many had to go for it.
    pub(crate) fn run(&self, source: &Arc<Source>) -> u64 {
        self.sources().run(source)
    }

    /// Keeps a script until all are forgotten.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn load(&self, source: &Arc<Source>) -> Result<()> {
        self.sources().load(source)
    }

    /// How many are kept, and memory that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.sources().size()
    }

    /// Forgets all of them.
    pub(crate) fn flush(&self) {
        *self.sources() = Cache::default();
        self.flushes.fetch_add(1, Ordering::AcqRel);
    }

    /// How often all were forgotten.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// A script that holds `before` bytes is to hold `after`; `false`, and it does not, if all of
    /// them would hold too much.
    pub(crate) fn change_part(&self, before: usize, after: usize) -> bool {
        if after <= before {
            self.held_bytes.fetch_sub(before - after, Ordering::AcqRel);
            return true;
        }
        let grown = |all: usize| all.checked_add(after - before).filter(|all| *all <= SCRIPTS_BYTES_MAX);
        self.held_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, grown).is_ok()
    }

    /// A script has run for a while, since `begun_ms`: from now on it can be killed, until it says
    /// that it is over.
    pub(crate) fn begin_long(&self, begun_ms: u64) -> Arc<LongRun> {
        let run = Arc::new(LongRun { begun_ms, ..LongRun::default() });
        self.long().push(Arc::clone(&run));
        run
    }

    /// It is over: whether it was killed. It can no longer be killed.
    pub(crate) fn end_long(&self, run: &Arc<LongRun>) -> bool {
        let mut long = self.long();
        long.retain(|other| !Arc::ptr_eq(other, run));
        run.is_killed()
    }

    /// Kills every script that has run for a while; `false` if none has. Scripts that have not had
    /// to leave their thread are not here: see [`Running`].
    pub(crate) fn kill(&self) -> bool {
        let long = self.long();
        long.iter().for_each(|run| run.is_killed.store(true, Ordering::Release));
        !long.is_empty()
    }

    /// Whether a script runs since `begun_ms` or longer.
    pub(crate) fn is_any_since(&self, begun_ms: u64) -> bool {
        self.long().iter().any(|run| run.begun_ms <= begun_ms)
    }

    fn sources(&self) -> MutexGuard<'_, Cache> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn long(&self) -> MutexGuard<'_, Vec<Arc<LongRun>>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
