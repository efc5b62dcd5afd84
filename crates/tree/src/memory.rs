//! One budget for everything held: the cache gets what the buffer and the tables leave, moment by
//! moment.
//!
//! ```text
//!   memory_bytes = arenas, spare ones too │ indexes of memtables and runs │ gaps
//!                  │ indexes and filters of tables │ what is not counted
//!                  │ reserve: what may be taken before the next look │ cache
//! ```
//! The cache gives way *before* a segment's arena is taken ([`Database::give_way`]): memory that it
//! gives up is the system's at once. Background work then restores the reserve, so that a roll
//! mostly finds the room there already. What becomes free is the cache's as soon as it is counted
//! as gone; it is filled by misses only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::database::Database;
use crate::memtable::GapBudget;
use crate::settings::TreeSettings;

/// Segments that the cache leaves room for beside those there are. They are the next one's arena,
/// and what indexes, runs being built and tables being opened take until the next look.
const RESERVE_SEGMENTS: u64 = 2;

/// Of the budget, one part in so many is left for what is not counted. That is what jobs build and
/// read at the moment, and what the allocator keeps of what was given back. Measured: 35 MiB where
/// the budget is 180 MiB.
const UNCOUNTED_SHARE: u64 = 8;

/// Of the budget, one part in so many may be gaps: each takes about 220 bytes and its two keys.
const GAPS_SHARE: u64 = 16;

/// Of the budget, one part in so many is the cache's, whatever else is held: the only way to exceed
/// the budget.
const CACHE_SHARE_MIN: u64 = 32;

/// What must be known to share the memory out.
#[derive(Debug)]
pub(crate) struct Balance {
    /// Bytes of an arena that is about to be taken; held while the cache's capacity is chosen and
    /// set.
    arriving: Mutex<u64>,
    /// The reserve is to be looked at.
    due: AtomicBool,
    /// Of the gaps of all keyspaces.
    pub(crate) gap_budget: Arc<GapBudget>,
}

impl Balance {
    /// Of a database with such settings.
    pub(crate) fn new(settings: &TreeSettings) -> Self {
        let gap_bytes_max = usize::try_from(settings.memory_bytes / GAPS_SHARE).unwrap_or(usize::MAX);
        Self {
            arriving: Mutex::new(0),
            due: AtomicBool::new(false),
            gap_budget: Arc::new(GapBudget::new(gap_bytes_max)),
        }
    }

    /// Whether the reserve is to be looked at.
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database {
    /// Bytes held beside the cache: arenas and what tables keep in memory, in any version,
    /// spare arenas, indexes of memtables and runs, and gaps. Indexes that only an old scan still
    /// holds are not among them.
    pub(crate) fn held_bytes(&self) -> u64 {
        // Spares first: what becomes one in between is counted twice otherwise.
        let spares = self.commit.log.spares.arena_bytes();
        spares
            + self.files.graveyard.live_bytes()
            + self.index_bytes()
            + self.reads.balance.gap_budget.bytes() as u64
    }

    /// Gives the cache what the budget leaves, and tells tables and value segments whether they all
    /// fit beside it.
    pub(crate) fn balance_memory(&self) {
        let version = self.catalog.version.load();
        let tables = || version.live().flat_map(|keyspace| keyspace.levels.tables()).map(|(_, table)| table);
        let may_be_evicted =
            version.table_bytes() + version.values.sealed_bytes() > self.settings.page_cache_bytes;
        tables().for_each(|table| table.reader().set_may_be_evicted(may_be_evicted));
        version.values.set_may_be_evicted(may_be_evicted);
        self.reads.balance.due.store(false, Ordering::Relaxed);
        let arriving = self.reads.balance.lock();
        let reserve = if self.read_only { 0 } else { RESERVE_SEGMENTS * self.settings.segment_bytes };
        self.reads.cache.set_capacity_bytes(self.capacity_beside(reserve.max(*arriving)));
    }

    /// Makes the cache leave room for an arena of `bytes`, until
    /// [`arena_is_there`](Self::arena_is_there) is said.
    pub(crate) fn give_way(&self, bytes: u64) {
        let mut arriving = self.reads.balance.lock();
        *arriving = bytes;
        // Half of what the reserve holds for indexes: mostly there is more, and the roll has
        // nothing to do.
        let capacity = self.capacity_beside(bytes + self.settings.segment_bytes / 2);
        if capacity < self.reads.cache.capacity_bytes() {
            self.reads.cache.set_capacity_bytes(capacity);
        }
    }

    /// The arena that [`give_way`](Self::give_way) was called for is counted by now, or will not
    /// come.
    pub(crate) fn arena_is_there(&self) {
        *self.reads.balance.lock() = 0;
        self.reads.balance.due.store(true, Ordering::Relaxed);
    }

    /// What the cache may take beside what is held and `bytes` more.
    fn capacity_beside(&self, bytes: u64) -> u64 {
        let budget = self.settings.memory_bytes;
        let uncounted = budget / UNCOUNTED_SHARE;
        budget.saturating_sub(self.held_bytes() + uncounted + bytes).max(budget / CACHE_SHARE_MIN)
    }
}
