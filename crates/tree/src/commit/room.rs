//! Segments that wait for room on the disk, or were refused for want of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The segment that a writer waits to begin, and the last one that found no room on the disk.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes of the segment that a stopped writer waits for; 0 = none waits.
    wanted_bytes: AtomicU64,
    /// Bytes of the last segment that was asked for, if it was refused for want of room; else 0.
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

    /// A segment of `bytes` was refused for want of room; 0 = one found room.
    pub(crate) fn note_refused(&self, bytes: u64) {
        self.refused_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the last segment that was asked for, if it was refused; else 0.
    pub(crate) fn refused(&self) -> u64 {
        self.refused_bytes.load(Ordering::Relaxed)
    }
}
