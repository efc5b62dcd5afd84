//! One budget for everything held: the cache gets what the buffer and the tables leave, moment by
//! moment.
//!
//! ```text
//!   memory_bytes = arenas, recycled ones too │ indexes of memtables and runs │ gaps
//!                  │ indexes and filters of tables │ what is not counted
//!                  │ reserve: what may be taken before the next look │ cache
//! ```
//! The cache gives way *before* a segment's arena is taken (`commit/memory.rs`): memory that it
//! gives up is the system's at once. Background work then restores the reserve, so that a roll
//! mostly finds the room there already. What becomes free is the cache's as soon as it is counted
//! as gone; it is filled by misses only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memtable::GapBudget;
use crate::settings::Settings;

/// Segments that the cache leaves room for beside those there are. They are the next one's arena,
/// and what indexes, runs being built and tables being opened take until the next look.
const RESERVE_SEGMENTS: u64 = 2;

/// Of the budget, one part in so many is left for what is not counted. That is what jobs build and
/// read at the moment, and what the allocator keeps of what was given back. Measured: 35 MiB where
/// the budget is 180 MiB.
pub(crate) const UNCOUNTED_SHARE: u64 = 8;

/// Of the budget, one part in so many may be gaps: each takes about 220 bytes and its two keys.
const GAPS_SHARE: u64 = 16;

/// Of the budget, one part in so many is the cache's, whatever else is held: the only way to exceed
/// the budget.
pub(crate) const CACHE_SHARE_MIN: u64 = 32;

/// What must be known to share the memory out.
#[derive(Debug)]
pub(crate) struct Balance {
    /// Bytes of an arena that is about to be taken; held while the cache's capacity is chosen and
    /// set.
    arriving: Mutex<u64>,
    /// The reserve is to be looked at.
    due: AtomicBool,
    /// What the cache leaves free beside what is held.
    pub(crate) reserve_bytes: u64,
    /// Of the gaps of all keyspaces.
    pub(crate) gap_budget: Arc<GapBudget>,
}

impl Balance {
    /// Of a database with such settings; one that is read only takes no arena.
    pub(crate) fn new(settings: &Settings, is_read_only: bool) -> Self {
        let gap_bytes_max = usize::try_from(settings.memory_bytes / GAPS_SHARE).unwrap_or(usize::MAX);
        Self {
            arriving: Mutex::new(0),
            due: AtomicBool::new(false),
            reserve_bytes: if is_read_only {
                0
            } else {
                RESERVE_SEGMENTS * settings.engine.log_segment_bytes
            },
            gap_budget: Arc::new(GapBudget::new(gap_bytes_max)),
        }
    }

    /// Whether the reserve is to be looked at.
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// The reserve is to be looked at, or was.
    pub(crate) fn set_due(&self, is_due: bool) {
        self.due.store(is_due, Ordering::Relaxed);
    }

    /// Bytes of an arena that is about to be taken.
    pub(crate) fn lock(&self) -> MutexGuard<'_, u64> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Live bytes that a flush under pressure takes at least, of a buffer that may hold `buffer_bytes`.
pub(crate) fn flush_bytes(buffer_bytes: u64) -> u64 {
    buffer_bytes / 8 * 5
}
