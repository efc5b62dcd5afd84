//! Sequences that readers have named and merges must respect.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use firn_engine::{Position, Snapshot, SnapshotPin};
use firn_format::Sequence;

use crate::sync::Mutex;

/// The snapshots alive, by sequence.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    counts: Mutex<BTreeMap<Sequence, usize>>,
}

/// Keeps one snapshot alive.
#[derive(Debug)]
struct Pin {
    owner: Arc<Snapshots>,
    sequence: Sequence,
}

impl SnapshotPin for Pin {}

impl Snapshots {
    /// A snapshot of everything below the position that `watermark` answers while no merge can
    /// start.
    ///
    /// A merge that began earlier drops only versions superseded below the watermark of its own
    /// beginning, which this snapshot sees superseded too.
    pub(crate) fn take(self: &Arc<Self>, watermark: impl FnOnce() -> Position) -> Snapshot {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let position = watermark();
        *counts.entry(position.sequence()).or_default() += 1;
        let pin = Arc::new(Pin { owner: Arc::clone(self), sequence: position.sequence() });
        Snapshot::new(position, pin)
    }

    /// Sequences of the snapshots alive, ascending: a record is visible to one that is greater than
    /// its own.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).values().sum::<usize>() as u64
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut counts = self.owner.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.sequence);
            }
        }
    }
}
