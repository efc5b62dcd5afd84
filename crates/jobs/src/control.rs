//! Stopping a job from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Shared by whoever runs a job and whoever may cancel it.
#[derive(Clone, Debug, Default)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
}

impl Control {
    /// A control nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the job to stop; it does so within some thousand entries.
    pub fn cancel(&self) {
        // Only this one flag is communicated, so no ordering is needed.
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// `Cancelled` if somebody asked.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(Error::new(ErrorKind::Cancelled, "the job was cancelled")),
            false => Ok(()),
        }
    }
}
