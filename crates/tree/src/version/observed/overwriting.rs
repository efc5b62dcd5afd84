//! How much of what is written to a keyspace overwrites older records.

use std::sync::atomic::{AtomicU32, Ordering};

/// The share of a keyspace's latest records whose keys older tables hold too.
#[derive(Debug, Default)]
pub(crate) struct Overwriting(AtomicU32);

impl Overwriting {
    /// A run of its records has so much of them.
    pub(crate) fn set(&self, share: f64) {
        // No ordering: an estimate.
        self.0.store((share * f64::from(u16::MAX)) as u32, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> f64 {
        f64::from(self.0.load(Ordering::Relaxed)) / f64::from(u16::MAX)
    }
}
