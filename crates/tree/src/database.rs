//! What a tree's sessions and background work share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use firn_engine::{Durability, Error, ErrorKind, LockTable, Position, Result, Semantics};
use firn_jobs::submit::{Jobs, Stems};
use firn_storage::file::cache::BlockCache;
use firn_storage::place::{ReadPool, Rejected, Reusing};
use firn_storage::{Clock, Storage};

use crate::background::{Rest, Schedule, Sweeps};
use crate::groups::Groups;
use crate::log::Log;
use crate::log::segment::Graveyard;
use crate::memory::Balance;
use crate::settings::TreeSettings;
use crate::stats::Counters;
use crate::values::Values;
use crate::version::manifest::Manifest;
use crate::version::{Snapshots, Version};
use crate::write::admission::Admission;
use crate::write::foresight::Foresight;
use crate::write::room::Room;

/// One open database. Sessions and background threads hold it by `Arc`.
///
/// Lock order: `compacting_range`, then `Log::roll`, then `manifest`, then `changing`, then
/// everything else; `version` is read without a lock and stored only under `changing`.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) storage: Arc<dyn Storage>,
    /// The same place, where tables that are written here take the files of dead ones.
    pub(crate) outputs: Arc<Reusing>,
    /// The same for compactions and other jobs, which leave room for what the buffer holds.
    pub(crate) job_outputs: Arc<Reusing>,
    pub(crate) settings: TreeSettings,
    pub(crate) semantics: Semantics,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Log,
    /// Values beside the tree.
    pub(crate) values: Arc<Values>,
    pub(crate) version: ArcSwap<Version>,
    /// Held while a new version is made from the current one and stored.
    pub(crate) changing: Mutex<()>,
    /// Held while an edit is made durable; the version that follows from it is stored before it is
    /// let go.
    pub(crate) manifest: Mutex<Manifest>,
    /// Held while a range is compacted: nothing else keeps another call from choosing the same
    /// tables.
    pub(crate) compacting_range: Mutex<()>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) admission: Admission,
    /// Whether the disk has room.
    pub(crate) room: Room,
    /// When writers will stop.
    pub(crate) foresight: Foresight,
    /// Locks on keys, for sessions that ask for them.
    pub(crate) locks: Arc<LockTable>,
    /// Locks that updates of one key take in turn. Not the same as `locks`: a session may update
    /// what it has locked.
    pub(crate) update_locks: Arc<LockTable>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) balance: Balance,
    pub(crate) graveyard: Arc<Graveyard>,
    /// What the log says, where other machines find it.
    pub(crate) groups: Groups,
    pub(crate) schedule: Schedule,
    /// How long nothing has been written.
    pub(crate) rest: Rest,
    /// Where compactions run.
    pub(crate) jobs: Jobs,
    /// Cancels drains in progress at close.
    pub(crate) control: firn_jobs::Control,
    pub(crate) counters: Counters,
    pub(crate) pool: Option<ReadPool>,
    /// For writes that wait for shared storage: one at a time, and each finds the ones before it
    /// done.
    pub(crate) share_pool: Option<ReadPool>,
    pub(crate) tick_ms: AtomicU64,
    /// Names of the outputs of drains, compactions and collections.
    pub(crate) stems: Stems,
    /// When outputs that nothing waits for are looked for.
    pub(crate) sweeps: Sweeps,
    /// When the last segment or table died whose file could be kept, in ms of the clock.
    pub(crate) spares_offered_ms: AtomicU64,
    /// Number of the next sorted run of level 0.
    pub(crate) next_run: AtomicU64,
    pub(crate) read_only: bool,
    pub(crate) closed: AtomicBool,
    /// The first failure of background work that will not go away by itself.
    pub(crate) failure: OnceLock<Error>,
}

impl Database {
    /// Now, for expiry: never before a moment an earlier run of the database has seen.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.unix_ms().max(self.tick_ms.load(Ordering::Relaxed))
    }

    /// Stores the version that `change` makes of the current one.
    pub(crate) fn change_version<T>(&self, change: impl FnOnce(&mut Version) -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut version = (**self.version.load()).clone();
        let answer = change(&mut version);
        self.version.store(Arc::new(version));
        answer
    }

    /// `Closed` if writes are refused: closed, read-only, or failed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is closed"));
        }
        if self.read_only {
            return Err(Error::new(ErrorKind::Closed, "the database is open for reading only"));
        }
        self.log.check()
    }

    /// Refuses writes from now on, because background work failed for good.
    pub(crate) fn fail(&self, error: &Error) {
        self.failure.get_or_init(|| error.clone());
        self.log.fail(error);
        self.admission.release();
    }

    /// The failure of background work, if one keeps it from going on.
    pub(crate) fn background_error(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.schedule.is_manual()
    }

    /// Blocks until everything below `end`, which is published, has `durability`.
    ///
    /// # Errors
    /// `NotDurable` where it may have it later; what the log's failure says.
    pub(crate) fn make_durable(&self, end: Position, durability: Durability) -> Result<()> {
        let made = match durability {
            Durability::Process => self.log.write_through(end),
            Durability::Disk => self.log.sync_through(end),
            Durability::Shared => self.share_through(end),
        };
        made.map_err(|error| match error.kind() {
            ErrorKind::Retry => {
                let told = format!(
                    "the write is done, but it is not `{}` yet, as it will be once a later write with that durability succeeds; do not repeat it",
                    durability.name()
                );
                Error::new(ErrorKind::NotDurable, told).because(error)
            }
            _ => error,
        })
    }

    /// Runs `work` on the read pool, or here and now where there is none (deterministic tests).
    pub(crate) fn on_pool(&self, work: impl FnOnce() + Send + 'static) {
        on(self.pool.as_ref(), work);
    }

    /// As [`on_pool`](Self::on_pool), on a thread where a wait for that `durability` keeps no read
    /// waiting.
    pub(crate) fn on_pool_for(&self, durability: Durability, work: impl FnOnce() + Send + 'static) {
        match durability {
            Durability::Process | Durability::Disk => on(self.pool.as_ref(), work),
            Durability::Shared => on(self.share_pool.as_ref().or(self.pool.as_ref()), work),
        }
    }
}

fn on(pool: Option<&ReadPool>, work: impl FnOnce() + Send + 'static) {
    let Some(pool) = pool else { return work() };
    match pool.submit(Box::new(work)) {
        Ok(()) => {}
        // A full queue slows the thread that fills it; a closed one is drained by its last users.
        Err(Rejected::Full(work) | Rejected::Closed(work)) => work(),
    }
}
