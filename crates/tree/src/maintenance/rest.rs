//! Whether a database is at rest.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firn_format::Position;

/// How long nothing has been written, and what was done about that.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    pub(crate) seen: Mutex<Seen>,
    /// The log's end when it was made short at rest: until the next write there is no more to do.
    pub(crate) short_at: AtomicU64,
    /// Bytes of separated values that had been written then, or were found by the opening,
    /// whose records may be in the log.
    pub(crate) values_at: AtomicU64,
    pub(crate) found_blobs: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) end: Position,
    since: Duration,
}

/// After so long without a write none is expected soon.
const REST: Duration = Duration::from_secs(5);

impl Rest {
    /// Of a database in whose log there may be records of `found_blobs` bytes of separated values.
    pub(crate) fn new(found_blobs: u64) -> Self {
        Self { found_blobs, ..Self::default() }
    }

    /// Whether the log has ended at `end` for a while.
    pub(crate) fn is_long(&self, end: Position, now: Duration) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.end != end {
            *seen = Seen { end, since: now };
        }
        now.saturating_sub(seen.since) >= REST
    }
}
