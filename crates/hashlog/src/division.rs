//! How `memory_bytes` is divided, anew whenever something has taken more of it.
//!
//! ```text
//!   buffers │ what finds records │ copies of records │ the newest part of the log
//!   fixed   │ what it needs      │ their share       │ the rest, and never less than its least
//! ```
//! What finds records is the index, with what is in memory of the cold log's. While all data fits,
//! the log has what that leaves. Copies of records that are read from the device take it from the
//! log, page by page, as long as the log's oldest page is older than theirs; where it is younger
//! the log takes it back. So what leaves memory next is what came into it first, wherever it is.

use std::collections::VecDeque;

use crate::epoch::Epochs;
use crate::log::Log;
use crate::read_cache::ReadCache;
use crate::settings::Settings;
use crate::sync::{Mutex, lock};

/// A batch may ask for this part of what the index leaves when it is full: two numbers, of which
/// the second is the whole.
const BATCH_PART: (u64, u64) = (3, 5);

/// The log always has this part of memory.
const LOG_PART: u64 = 8;

/// What finds records of the cold log takes this part of memory before the index leaves it any.
const COLD_PART: u64 = 16;

/// With fewer pages of the log left memory is full.
const PAGES_LEFT: u64 = 8;

/// For what moves records: a read and a write of a megabyte for each of a few threads, lists of
/// records, and what an allocator keeps of them. A sixteenth of memory at most.
const BUFFER_BYTES: u64 = 16 << 20;
const BUFFER_PART: u64 = 16;

/// Of more moments every other one is forgotten.
const MOMENTS_MAX: usize = 1024;

/// What copies have changes by this part of it at once, and by a page.
const STEP_PART: u64 = 16;

/// How the memory of one engine is divided.
#[derive(Debug)]
pub(crate) struct Division {
    /// Without the buffers.
    memory_bytes: u64,
    /// Of the log, when a batch asks for so much.
    batch_bytes: u64,
    copy_bytes_max: u64,
    balance: Mutex<Balance>,
}

/// When the pages of log and copies began.
#[derive(Debug, Default)]
struct Balance {
    /// How far both reached at moments between which one of them began a page.
    moments: VecDeque<(u64, u64)>,
}

impl Balance {
    /// Whether log or copies have begun a page since the last moment.
    fn has_moved(&self, log: &Log, cache: &ReadCache) -> bool {
        self.moments.back().is_none_or(|(log_at, copies_at)| {
            log.tail.page_of(log.tail.next()) > log.tail.page_of(*log_at)
                || cache.page_of(cache.next()) > cache.page_of(*copies_at)
        })
    }

    /// A page has begun at `moment`; what lies before `heads` has left memory.
    fn push(&mut self, moment: (u64, u64), heads: (u64, u64)) {
        self.moments.push_back(moment);
        let is_over = |moment: &(u64, u64)| moment.0 <= heads.0 && moment.1 <= heads.1;
        while self.moments.get(1).is_some_and(is_over) {
            self.moments.pop_front();
        }
        // Of a part that stands still no page ever goes.
        if self.moments.len() > MOMENTS_MAX {
            let mut is_kept = false;
            self.moments.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
    }

    /// Notes that a page has begun, if one has.
    fn note(&mut self, log: &Log, cache: &ReadCache) -> bool {
        let has_moved = self.has_moved(log, cache);
        if has_moved {
            self.push((log.tail.next(), cache.next()), (log.head(), cache.head()));
        }
        has_moved
    }

    /// Bytes that copies may have where memory is full and a page has begun: some pages more than
    /// before where the oldest page of the log is older than theirs, or else some pages less.
    fn share(&self, log: &Log, cache: &ReadCache) -> u64 {
        let (log_head, copies_head) = (log.head(), cache.head());
        let log_since = self.moments.partition_point(|(log_at, _)| *log_at <= log_head);
        let copies_since = self.moments.partition_point(|(_, copies_at)| *copies_at <= copies_head);
        let before = cache.bytes_max();
        let step = cache.page_bytes() + before / STEP_PART;
        if log_since < copies_since { before + step } else { before.saturating_sub(step) }
    }
}

impl Division {
    pub(crate) fn of(settings: &Settings) -> Self {
        let memory_bytes = settings.memory_bytes - BUFFER_BYTES.min(settings.memory_bytes / BUFFER_PART);
        let left = memory_bytes.saturating_sub(settings.engine.index_bytes_max);
        let batch_bytes = left / BATCH_PART.1 * BATCH_PART.0;
        let copy_bytes_max = settings.engine.read_cache_bytes.min(memory_bytes);
        Self { memory_bytes, batch_bytes, copy_bytes_max, balance: Mutex::default() }
    }

    /// What the index is to leave of its memory where so much is in memory of what finds records of
    /// the cold log.
    pub(crate) fn reserved_bytes(&self, cold_bytes: u64) -> u64 {
        cold_bytes.saturating_sub(self.memory_bytes / COLD_PART)
    }

    /// Words of the log that may be in memory if nothing else is there.
    pub(crate) fn log_words_max(&self) -> u64 {
        self.memory_bytes / 8
    }

    /// Words of the log that are in memory, whatever else is there, when a batch asks for them.
    pub(crate) fn batch_words(&self, log: &Log) -> u64 {
        log.clamped(self.batch_bytes / 8)
    }

    /// Bytes of copies if nothing else is there.
    pub(crate) fn copy_bytes_max(&self) -> u64 {
        self.copy_bytes_max
    }

    /// Words of the log that may be in memory beside `finding` bytes of what finds records, and the
    /// copies that there are.
    fn log_words(&self, log: &Log, cache: Option<&ReadCache>, finding: u64) -> u64 {
        let others = finding + cache.map_or(0, ReadCache::bytes);
        let left = self.memory_bytes.saturating_sub(others);
        log.clamped(left.max(self.log_bytes_min(log)) / 8)
    }

    /// What the log has, whatever else is there.
    fn log_bytes_min(&self, log: &Log) -> u64 {
        if log.is_asked_for_more() { self.batch_bytes } else { self.memory_bytes / LOG_PART }
    }

    /// Whether there is anything to divide anew.
    pub(crate) fn is_due(&self, log: &Log, cache: Option<&ReadCache>, finding: u64) -> bool {
        self.log_words(log, cache, finding) != log.capacity()
            || cache.is_some_and(|cache| lock(&self.balance).has_moved(log, cache))
    }

    /// Divides memory. What is too much of something goes with its next eviction.
    pub(crate) fn make(&self, epochs: &Epochs, log: &Log, cache: Option<&ReadCache>, finding: u64) {
        if let Some(cache) = cache {
            let left = self.memory_bytes.saturating_sub(finding + self.log_bytes_min(log));
            let used = finding + log.used_bytes() + cache.bytes();
            let is_full = used + PAGES_LEFT * 8 * log.tail.page_words() > self.memory_bytes;
            let mut balance = lock(&self.balance);
            let has_moved = balance.note(log, cache);
            let share = match (is_full, has_moved) {
                (true, true) => balance.share(log, cache),
                (true, false) => cache.bytes_max(),
                (false, _) => cache.bytes_filled_by(PAGES_LEFT),
            };
            drop(balance);
            cache.set_bytes_max(epochs, share.min(left).min(self.copy_bytes_max));
        }
        log.set_capacity(epochs, self.log_words(log, cache, finding));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Copies turn page after page while the log stands still.
    #[test]
    fn moments_are_bounded_where_one_part_stands_still() {
        let mut balance = Balance::default();
        for page in 0..10 * MOMENTS_MAX as u64 {
            balance.push((70, page), (10, page.saturating_sub(20)));
            assert!(balance.moments.len() <= MOMENTS_MAX);
            assert_eq!(balance.moments.back(), Some(&(70, page)));
        }
        assert!(balance.moments.iter().is_sorted(), "by age");
        balance.push((80, 90_000), (80, 90_000));
        assert_eq!(balance.moments.len(), 1);
    }
}
