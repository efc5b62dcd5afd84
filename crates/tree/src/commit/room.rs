//! What writers want of the disk.

use std::sync::atomic::{AtomicU64, Ordering};

/// What writers want of the disk, and what they were refused.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes of the segment that a stopped writer waits for; 0 = none waits.
    wanted_bytes: AtomicU64,
    /// Bytes of the segment that found no room and was refused; 0 = the last one found some.
    refused_bytes: AtomicU64,
}

impl Room {
    /// A writer waits for room for a segment of `bytes` on the disk; 0 = none does.
    pub(crate) fn want(&self, bytes: u64) {
        self.wanted_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the segment that a writer waits for; 0 = none waits.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted_bytes.load(Ordering::Relaxed)
    }

    /// A segment of `bytes` found no room and was refused; 0 = one found some.
    pub(crate) fn note_refused(&self, bytes: u64) {
        self.refused_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the segment that was refused; 0 = the last one found room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused_bytes.load(Ordering::Relaxed)
    }
}
