//! Reads of separated values, counted by each session and each scan.

use super::Found;
use crate::counters::{ReadCounters, count};

/// Values read from blobs that the database has not counted yet. Each session and each scan
/// counts its own and adds them now and then, so that no read touches a line that others write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BesideReads {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl BesideReads {
    /// Adds a read of `beside` bytes, if there was one.
    #[inline]
    pub(crate) fn add(&mut self, beside: Option<u64>) {
        if let Some(bytes) = beside {
            self.count += 1;
            self.bytes += bytes;
        }
    }

    /// Adds what a lookup has read.
    #[inline]
    pub(crate) fn note(&mut self, found: Found) {
        if let Found::Value { beside, .. } = found {
            self.add(beside);
        }
    }
}

impl ReadCounters {
    /// Counts what a lookup has read from blobs.
    pub(crate) fn count_read(&self, found: Found) {
        let mut reads = BesideReads::default();
        reads.note(found);
        self.take_reads(&mut reads);
    }

    /// Takes what a session or a scan has read from blobs, and sets its counts back to zero.
    pub(crate) fn take_reads(&self, reads: &mut BesideReads) {
        let BesideReads { count: values, bytes } = std::mem::take(reads);
        if values > 0 {
            count(&self.beside_count, values);
            count(&self.beside_bytes, bytes);
        }
    }
}
