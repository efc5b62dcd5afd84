//! One open database: its owners, and what they do together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use firn_engine::queue::Admission;
use firn_engine::{Error, ErrorKind, LockTable, Position, Result, Semantics, Snapshot};
use firn_format::manifest::Change;
use firn_maintenance::{Schedule, Work};
use firn_storage::backend::ReadPool;
use firn_storage::{Clock, Storage};

use crate::device::Device;
use crate::error::from_storage;
use crate::keyspaces::Keyspaces;
use crate::log::END_MAX;
use crate::ops::Store;
use crate::read_cache::ReadCache;
use crate::reclaim::Reclaim;
use crate::settings::Settings;
use crate::snapshots::Snapshots;
use crate::state::Manifest;
use crate::tasks::{Claims, Kind};
use crate::tier::Tier;
use crate::values::Values;

/// What sessions and background work share. Composes owners and owns nothing else.
///
/// Lock order: `reclaim.access`, then `checkpointing`, then `flushing`, then `manifest`; `batches`,
/// then the store's stripes.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) env: Environment,
    pub(crate) store: Arc<Store>,
    pub(crate) device: Device,
    pub(crate) values: Values,
    /// What other machines reach, if any do.
    pub(crate) tier: Option<Arc<Tier>>,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) reclaim: Reclaim,
    pub(crate) moments: Moments,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) maintenance: Maintenance,
    pub(crate) is_closed: AtomicBool,
    /// The latest moment that an earlier run of the database has seen.
    pub(crate) tick_ms: u64,
    pub(crate) counters: Counters,
}

/// What the database was opened with.
#[derive(Debug)]
pub(crate) struct Environment {
    /// This machine's directory.
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) settings: Settings,
    pub(crate) semantics: Semantics,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What keeps batches whole at moments that all sessions see.
#[derive(Debug)]
pub(crate) struct Moments {
    /// Read by batches until they are whole, written where a moment between two operations is
    /// chosen: no batch is half before it.
    pub(crate) batches: RwLock<()>,
    /// Held while a checkpoint is taken, or copied.
    pub(crate) checkpointing: Mutex<()>,
}

/// Background work, and what is done for sessions that may not wait.
#[derive(Debug)]
pub(crate) struct Maintenance {
    pub(crate) schedule: Schedule<Claims, Kind>,
    /// Does what sessions may not wait for; `None` where the owner does all work.
    pub(crate) pool: Option<ReadPool>,
    /// Held by the thread that writes pages to the device.
    pub(crate) flushing: Mutex<()>,
    /// Why nothing is written any more.
    pub(crate) failure: OnceLock<Error>,
}

/// What is counted, and when.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) user_write_bytes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) device_reads: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    /// All writes before this position are in a checkpoint.
    pub(crate) checkpointed: AtomicU64,
    /// When the last checkpoint was taken, in milliseconds of the clock.
    pub(crate) checkpointed_at_ms: AtomicU64,
    /// Something was written that the redo log does not know.
    pub(crate) has_unlogged: AtomicBool,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    /// Bytes written of runs of the cold log.
    pub(crate) run_bytes: AtomicU64,
    /// Writers that wait for background work.
    pub(crate) stopped: Admission,
}

impl Counters {
    /// Of an opening of a database whose last checkpoint has the writes before `position`.
    pub(crate) fn checkpointed_to(position: Position) -> Self {
        Self { checkpointed: AtomicU64::new(position.0), ..Self::default() }
    }
}

impl Database {
    /// Now, for expiry: never before a moment that an earlier run of the database has seen.
    pub(crate) fn now_ms(&self) -> u64 {
        self.env.clock.unix_ms().max(self.tick_ms)
    }

    /// Refuses what comes after a close.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database was closed"));
        }
        Ok(())
    }

    /// Refuses writes after a close, or a failure that ends writing.
    #[inline]
    pub(crate) fn check_writes(&self) -> Result<()> {
        self.check_open()?;
        match self.maintenance.failure.get() {
            Some(cause) => {
                let message = "nothing is written any more, since background work failed for good";
                Err(Error::new(ErrorKind::Closed, message).because(cause.clone()))
            }
            None => Ok(()),
        }
    }

    /// Waits until the tail may go beyond this address.
    pub(crate) fn wait_for_room(&self, beyond: u64) -> Result<()> {
        if beyond > END_MAX {
            let message =
                "the log has no addresses left, after 256 TiB of writes: write the keys to a new database";
            return Err(Error::invalid(message));
        }
        // How much may be in memory changes meanwhile.
        let want = || self.store.log.want_room(&self.store.epochs, beyond);
        if self.maintenance.schedule.is_manual() {
            while self.store.log.tail.limit() < beyond {
                want();
                if !self.flush_and_evict()? {
                    return Err(Error::bug("the log is full, and nothing of it can be written out"));
                }
            }
            return Ok(());
        }
        let has_room = || self.store.log.tail.limit() >= beyond;
        // A flush that was under way when another work failed for good clears its trouble.
        self.wait_until(&[Kind::Flush], want, || has_room() || self.check_writes().is_err())?;
        if has_room() { Ok(()) } else { self.check_writes() }
    }

    /// Waits until background work of `kinds`, which is woken, has made it so; `want` is called
    /// before.
    ///
    /// # Errors
    /// What keeps work of one of these kinds from being done.
    pub(crate) fn wait_until(&self, kinds: &[Kind], want: impl Fn(), is_so: impl Fn() -> bool) -> Result<()> {
        // Actions of epochs run when an operation begins, and all threads may wait here. What one
        // of them does may be what background work has waited for.
        let help = || {
            want();
            self.store.epochs.run_due();
            self.maintenance.schedule.wake();
        };
        let begun = self.env.clock.now();
        let waited = self.store.log.markers.wait_until(kinds, help, is_so);
        self.counters.stopped.stopped(begun, self.env.clock.now());
        waited
    }

    /// Writes out what never changes any more, and takes what the tail will need out of memory.
    /// Answers whether there was anything to do.
    pub(crate) fn flush_and_evict(&self) -> Result<bool> {
        let _turn = self.maintenance.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.store.epochs.run_due();
        self.store.divide_memory();
        let flushed = self.flush_to(self.store.log.markers.safe_read_only.load(Ordering::Acquire))?;
        Ok(flushed | self.store.log.evict(&self.store.epochs) | self.store.evict_copies())
    }

    /// Writes out the log up to `to`; the caller holds `flushing`.
    pub(crate) fn flush_to(&self, to: u64) -> Result<bool> {
        let markers = &self.store.log.markers;
        let from = markers.flushed.load(Ordering::Acquire);
        if from >= to {
            return Ok(false);
        }
        self.device.flush(&self.store.log, from, to)?;
        self.counters.flush_bytes.fetch_add(8 * (to - from), Ordering::Relaxed);
        markers.flushed.store(to, Ordering::Release);
        markers.set_trouble(Kind::Flush, None);
        Ok(true)
    }

    /// A snapshot of everything that was written.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        self.check_open()?;
        let _whole = self.moments.batches.write().unwrap_or_else(PoisonError::into_inner);
        let _stopped = self.store.epochs.stop();
        let end = self.store.log.tail.next();
        self.store.log.markers.cut(end);
        Ok(self.snapshots.take(end))
    }

    /// Makes everything that was written survive loss of power.
    pub(crate) fn sync(&self) -> Result<()> {
        let redo = || self.store.redo.as_ref().map_or(Ok(()), crate::redo::Redo::sync);
        self.values.sync().and_then(|()| redo()).inspect_err(|error| self.note_final(error))
    }

    /// There are writes that the redo log does not know: from now on checkpoints are due in time.
    #[inline]
    pub(crate) fn note_unlogged(&self) {
        // Each by itself: checkpoints reset the first one.
        if !self.counters.has_unlogged.load(Ordering::Relaxed) {
            self.counters.has_unlogged.store(true, Ordering::Relaxed);
        }
        if !self.store.has_unlogged.load(Ordering::Relaxed) {
            self.store.has_unlogged.store(true, Ordering::Relaxed);
        }
    }

    /// Has the manifest say `changes`.
    ///
    /// # Errors
    /// Those of the storage. Where it cannot be told whether it says them, writing ends.
    pub(crate) fn commit(&self, manifest: &mut Manifest, changes: &[Change]) -> Result<()> {
        manifest.commit(changes).map_err(from_storage).inspect_err(|error| self.note_final(error))
    }

    /// Ends writing where `error` is one after which a device cannot be believed.
    pub(crate) fn note_final(&self, error: &Error) {
        if error.kind() == ErrorKind::Closed {
            self.poison(error);
        }
    }

    /// Runs `body` on a thread of the pool, or on this one where the owner does all work.
    pub(crate) fn on_pool(&self, body: impl FnOnce() + Send + 'static) {
        let rejected = match &self.maintenance.pool {
            Some(pool) => pool.submit(Box::new(body)),
            None => {
                body();
                return;
            }
        };
        if let Err(rejected) = rejected {
            rejected.into_body()();
        }
    }

    /// Whether background work has something to write out or to evict.
    pub(crate) fn wants_flush(&self) -> bool {
        let markers = &self.store.log.markers;
        self.store.epochs.run_due();
        markers.safe_read_only.load(Ordering::Acquire) > markers.flushed.load(Ordering::Acquire)
            || self.store.log.wants_evict()
            || self.store.wants_division()
            || self.store.cache.as_ref().is_some_and(ReadCache::wants_evict)
    }

    /// Whether a checkpoint is due: the redo log is long, or what it does not know has waited.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let settings = &self.env.settings.engine;
        let is_long = |redo: &crate::redo::Redo| redo.bytes() >= settings.redo_bytes_max;
        if self.store.redo.as_ref().is_some_and(is_long) {
            return true;
        }
        let Counters { has_unlogged, checkpointed, checkpointed_at_ms, .. } = &self.counters;
        let since = || self.clock_ms().saturating_sub(checkpointed_at_ms.load(Ordering::Relaxed));
        has_unlogged.load(Ordering::Relaxed)
            && self.snapshots.given().0 >= checkpointed.load(Ordering::Acquire)
            && since() >= settings.checkpoint_interval_ms
    }

    /// Milliseconds of the clock that is not set.
    pub(crate) fn clock_ms(&self) -> u64 {
        u64::try_from(self.env.clock.now().as_millis()).unwrap_or(u64::MAX)
    }
}
