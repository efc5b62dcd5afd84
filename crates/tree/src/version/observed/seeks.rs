//! What reads of a keyspace have lost to the depth of level 0.

use std::sync::atomic::{AtomicU64, Ordering};

/// What reads of a keyspace have lost to sorted runs of level 0 and no compaction has paid back
/// yet.
#[derive(Debug, Default)]
pub(crate) struct Seeks {
    /// In bytes that a compaction handles in the same time.
    lost_bytes: AtomicU64,
}

/// A seek in one sorted run in memory, about 2.5 us, is worth this much compaction at 400 MB/s;
/// half of it, because compaction writes too.
const SEEK_BYTES: u64 = 512;

/// The same where it may wait for a device.
const SEEK_BYTES_BEYOND_MEMORY: u64 = 16 << 10;

/// A sorted run that a point read asks in vain, about 150 ns, is worth this much, reckoned in the
/// same way. Filters are in memory wherever the blocks are.
const ASK_BYTES: u64 = 32;

/// Of so many point reads of a session one is looked at, and taken for all. A prime, so that no
/// habit of a client's hides a keyspace for ever.
pub(crate) const READS_FOR_EACH_LOOK: u32 = 61;

impl Seeks {
    /// A scan has sought in `runs` sorted runs of level 0.
    pub(crate) fn add(&self, runs: usize, is_beyond_memory: bool) {
        if runs > 0 {
            let each = if is_beyond_memory { SEEK_BYTES_BEYOND_MEMORY } else { SEEK_BYTES };
            // An estimate that nothing is ordered by.
            self.lost_bytes.fetch_add(runs as u64 * each, Ordering::Relaxed);
        }
    }

    /// A point read that was looked at asked `runs` sorted runs of level 0 in vain.
    pub(crate) fn add_point_read(&self, runs: usize) {
        if runs > 0 {
            let bytes = runs as u64 * u64::from(READS_FOR_EACH_LOOK) * ASK_BYTES;
            self.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// What has been lost, in bytes of compaction; more than `most` is forgotten. All that reads
    /// can want is a level 0 that is gone, and what that costs is all they may have asked for when
    /// they cease.
    pub(crate) fn lost_bytes(&self, most: u64) -> u64 {
        self.lost_bytes.fetch_min(most, Ordering::Relaxed).min(most)
    }

    /// A compaction of `bytes` at `price` each begins, for whatever reason: it takes away what was
    /// in the way of reads too.
    pub(crate) fn pay(&self, bytes: u64, price: f64) {
        let left = |lost: u64| Some(lost.saturating_sub(priced(bytes, price)));
        // The closure never declines.
        let _ = self.lost_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }
}

/// What reads must have lost for `bytes` to be rewritten.
pub(crate) fn priced(bytes: u64, price: f64) -> u64 {
    (bytes as f64 * price) as u64
}
