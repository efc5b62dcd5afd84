//! How many keys the databases had when they were counted last. `count_keys` counts them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firn_format::datatype::DatabaseId;

use crate::store::{DATABASE_COUNT, Store};

/// Between two counts that metrics ask for, however often they are read.
const WISH_PAUSE: Duration = Duration::from_secs(60);

/// Keys of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyCount {
    pub(crate) keys: u64,
    pub(crate) expiring: u64,
    /// Milliseconds that the expiring keys have left, together.
    pub(crate) left_ms: u64,
}

impl KeyCount {
    /// Milliseconds that the expiring keys have left on average.
    pub(crate) fn left_ms_mean(&self) -> u64 {
        self.left_ms.checked_div(self.expiring).unwrap_or(0)
    }
}

/// What was counted last, by index; a database that was flushed or swapped meanwhile is another
/// one.
#[derive(Debug)]
pub(crate) struct KeyCounts {
    is_wanted: AtomicBool,
    last: Mutex<Last>,
    /// When [`last`](Self::last) wished for a count.
    wished: Mutex<Option<Duration>>,
}

/// A count of all databases.
#[derive(Debug, Default)]
struct Last {
    counts: Vec<(DatabaseId, KeyCount)>,
    /// When it began, by the clock that never goes back; `None` = nothing was counted yet.
    began: Option<Duration>,
}

impl Default for KeyCounts {
    fn default() -> Self {
        // The first request should find something.
        Self { is_wanted: AtomicBool::new(true), last: Mutex::default(), wished: Mutex::default() }
    }
}

impl KeyCounts {
    /// A count is wished for.
    pub(crate) fn wish(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Whether a count was wished for since this was last asked.
    pub(crate) fn take_wish(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }

    /// All databases were counted; that began at `began`, by the clock that never goes back.
    pub(crate) fn note(&self, counts: Vec<(DatabaseId, KeyCount)>, began: Duration) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Last { counts, began: Some(began) };
    }

    /// What was counted last of one database.
    pub(crate) fn of(&self, id: DatabaseId) -> Option<KeyCount> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.counts.iter().find(|(known, _)| *known == id).map(|(_, count)| *count)
    }

    /// How old the last count is; `None` = nothing was counted yet.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.began.map(|began| now.saturating_sub(began))
    }

    /// What was counted last, by index, without waiting; wishes for another count now and then.
    pub(crate) fn last(&self, store: &Store, now: Duration) -> Vec<(u32, KeyCount)> {
        let mut wished = self.wished.lock().unwrap_or_else(PoisonError::into_inner);
        if wished.is_none_or(|wished| now.saturating_sub(wished) >= WISH_PAUSE) {
            *wished = Some(now);
            self.wish();
        }
        let databases = store.databases.load();
        let of_index = |index| Some((index, self.of(databases.get(index).id)?));
        (0..DATABASE_COUNT).filter_map(of_index).collect()
    }
}
