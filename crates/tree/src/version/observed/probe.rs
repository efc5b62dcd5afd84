//! What is known of what a memtable hides in tables.

use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_format::Position;

/// What is known of what the memtable of a keyspace hides.
#[derive(Debug, Default)]
pub(crate) struct Probe(Mutex<Probed>);

#[derive(Debug, Default)]
pub(crate) struct Probed {
    /// Where the memtable begins that was looked at.
    pub(crate) of: Position,
    /// Its records then.
    pub(crate) len: usize,
    /// Bytes that each of them hides.
    pub(crate) each: f64,
    /// Earlier memtables hid so many times less than was thought: the same key was written again
    /// and again.
    pub(crate) excess: f64,
}

impl Probe {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Probed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A memtable became a run, of which `hidden_bytes` is known better.
    pub(crate) fn learn(&self, hidden_bytes: u64) {
        let mut probed = self.lock();
        let thought = probed.each * probed.len as f64;
        let is_less = thought > 4.0 * hidden_bytes.max(1) as f64;
        probed.excess = if is_less { (probed.excess.max(1.0) * 2.0).min(EXCESS_MAX) } else { 1.0 };
    }
}

/// See [`Probed::excess`].
const EXCESS_MAX: f64 = 1024.0;
