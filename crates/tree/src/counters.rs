//! What a tree counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of background work; one line each, touched once a job.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flush_write_bytes: AtomicU64,
    pub(crate) ingest_write_bytes: AtomicU64,
    pub(crate) ingest_count: AtomicU64,
    pub(crate) compaction_write_bytes: AtomicU64,
    pub(crate) compaction_read_bytes: AtomicU64,
    pub(crate) merge_index_bytes: AtomicU64,
    pub(crate) flush_count: AtomicU64,
    pub(crate) compaction_count: AtomicU64,
    pub(crate) merge_count: AtomicU64,
    pub(crate) orphan_remove_count: AtomicU64,
    pub(crate) upload_abort_count: AtomicU64,
}

/// Counters of reads, touched once for many of them.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    /// Reads that were handed to the pool.
    pub(crate) miss_count: AtomicU64,
    /// Values that were read from blobs.
    pub(crate) beside_count: AtomicU64,
    pub(crate) beside_bytes: AtomicU64,
    /// Dead records that scans passed.
    pub(crate) dead_passed: AtomicU64,
}

/// Counters of values that are separated as they come, and of their segments; of GCs too, once
/// each.
#[derive(Debug, Default)]
pub(crate) struct BlobCounters {
    /// Bytes of records.
    pub(crate) written_bytes: AtomicU64,
    pub(crate) written_count: AtomicU64,
    pub(crate) sync_count: AtomicU64,
    /// Segments that were removed without a GC.
    pub(crate) wholly_dead_count: AtomicU64,
    pub(crate) wholly_dead_bytes: AtomicU64,
    pub(crate) gc_read_bytes: AtomicU64,
    pub(crate) gc_write_bytes: AtomicU64,
    pub(crate) gc_count: AtomicU64,
    pub(crate) gc_segment_count: AtomicU64,
    pub(crate) gc_failure_count: AtomicU64,
    pub(crate) survivor_count: AtomicU64,
    pub(crate) survivor_bytes: AtomicU64,
    pub(crate) dropped_count: AtomicU64,
    pub(crate) dropped_bytes: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
