//! How `memory_bytes` is divided, anew whenever something has taken more of it.
//!
//! ```text
//!   buffers │ what finds records │ copies of records │ the newest part of the log
//!   fixed   │ what it needs      │ what they fill    │ the rest, and never less than its least
//! ```
//! What finds records is the index, with what is in memory of the cold log's. While all data fits,
//! the log has what that leaves. Records that are read from the device are copied, and the log
//! makes room for the copies page by page.

use crate::epoch::Epochs;
use crate::log::Log;
use crate::read_cache::ReadCache;
use crate::settings::Settings;

/// The log always has this part of what the index leaves when it is full: two numbers, of which the
/// second is the whole.
const LOG_PART: (u64, u64) = (3, 5);

/// What finds records of the cold log takes this part of memory before the index leaves it any.
const COLD_PART: u64 = 16;

/// For what moves records: a read and a write of a megabyte for each of a few threads, and lists of
/// records. A sixteenth of memory at most.
const BUFFER_BYTES: u64 = 8 << 20;
const BUFFER_PART: u64 = 16;

/// How the memory of one engine is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    /// Without the buffers.
    memory_bytes: u64,
    log_bytes_min: u64,
    copy_bytes_max: u64,
}

impl Division {
    pub(crate) fn of(settings: &Settings) -> Self {
        let memory_bytes = settings.memory_bytes - BUFFER_BYTES.min(settings.memory_bytes / BUFFER_PART);
        let left = memory_bytes.saturating_sub(settings.engine.index_bytes_max);
        let log_bytes_min = left / LOG_PART.1 * LOG_PART.0;
        let copy_bytes_max = settings.engine.read_cache_bytes.min(memory_bytes - log_bytes_min);
        Self { memory_bytes, log_bytes_min, copy_bytes_max }
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

    /// Words of the log that may be in memory whatever else is there.
    pub(crate) fn log_words_min(&self, log: &Log) -> u64 {
        log.clamped(self.log_bytes_min / 8)
    }

    /// Bytes of copies if there is nothing else but the least of the log.
    pub(crate) fn copy_bytes_max(&self) -> u64 {
        self.copy_bytes_max
    }

    /// Words of the log that may be in memory beside `finding` bytes of what finds records, and the
    /// copies that there are.
    fn log_words(&self, log: &Log, cache: Option<&ReadCache>, finding: u64) -> u64 {
        let others = finding + cache.map_or(0, ReadCache::bytes);
        let left = self.memory_bytes.saturating_sub(others);
        log.clamped(left.max(self.log_bytes_min) / 8)
    }

    /// Whether the log may have another number of pages in memory than it knows.
    pub(crate) fn is_due(&self, log: &Log, cache: Option<&ReadCache>, finding: u64) -> bool {
        self.log_words(log, cache, finding) != log.capacity()
    }

    /// Divides memory. What is too much of something goes with its next eviction.
    pub(crate) fn make(&self, epochs: &Epochs, log: &Log, cache: Option<&ReadCache>, finding: u64) {
        if let Some(cache) = cache {
            let left = self.memory_bytes.saturating_sub(finding + self.log_bytes_min);
            cache.set_bytes_max(epochs, left.min(self.copy_bytes_max));
        }
        log.set_capacity(epochs, self.log_words(log, cache, finding));
    }
}
