//! Stopping a job from outside, and seeing how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Shared by the executor that runs a job and the submitter that may cancel it.
#[derive(Clone, Debug, Default)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
    passed_count: Arc<AtomicU64>,
}

impl Control {
    /// A control that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the job to stop; it does so within a thousand entries or a MiB, and what it waits for
    /// then.
    pub fn cancel(&self) {
        // Only this one flag is communicated, so no ordering is needed.
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Entries of its inputs that a compaction has gone over so far, as far as its executor tells.
    pub fn passed_count(&self) -> u64 {
        self.passed_count.load(Ordering::Relaxed)
    }

    /// Says that the job has gone over so many entries more.
    pub fn pass(&self, entries: u64) {
        // No ordering: a number to decide by.
        self.passed_count.fetch_add(entries, Ordering::Relaxed);
    }

    /// `Cancelled` if [`cancel`](Self::cancel) was called.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(Error::new(ErrorKind::Cancelled, "the job was cancelled")),
            false => Ok(()),
        }
    }
}

/// Work between two looks at a control: entries, and bytes of them.
const ENTRIES_MAX: u32 = 1024;
const BYTES_MAX: u64 = 1 << 20;

/// Looks at a control every so much work: where files are slow a few MiB take seconds, however few
/// entries they are.
#[derive(Debug)]
pub(crate) struct Watch<'c> {
    control: &'c Control,
    entries: u32,
    bytes: u64,
}

impl<'c> Watch<'c> {
    pub(crate) fn new(control: &'c Control) -> Self {
        Self { control, entries: 0, bytes: 0 }
    }

    /// One more entry is done, for which `bytes` were read or written.
    ///
    /// # Errors
    /// `Cancelled`, if it was time to look and the job is cancelled.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u64) -> Result<()> {
        self.entries += 1;
        self.bytes += bytes;
        if self.entries < ENTRIES_MAX && self.bytes < BYTES_MAX {
            return Ok(());
        }
        self.control.pass(self.entries.into());
        (self.entries, self.bytes) = (0, 0);
        self.control.check()
    }
}
