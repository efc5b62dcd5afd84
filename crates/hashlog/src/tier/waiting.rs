//! Writes that are done, and whose callers wait until other machines find them.

use std::fmt;
use std::sync::PoisonError;

use firn_engine::{Position, Result};

use super::Tier;

/// What is done once it is known whether a write is there.
pub(crate) type Acknowledge = Box<dyn FnOnce(Result<()>) + Send>;

/// Writes that wait, by their positions.
#[derive(Default)]
pub(super) struct Waiting {
    writes: Vec<(Position, Acknowledge)>,
    /// A thread goes on until none waits.
    is_running: bool,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("count", &self.writes.len()).finish_non_exhaustive()
    }
}

impl Tier {
    /// Adds a write that waits; answers whether the caller is to have a thread
    /// [take](Self::take_waiting) all until there are none.
    pub(crate) fn wait_for(&self, position: Position, acknowledge: Acknowledge) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.writes.push((position, acknowledge));
        !std::mem::replace(&mut waiting.is_running, true)
    }

    /// Those that wait now; after none the next one is told to have a thread.
    pub(crate) fn take_waiting(&self) -> Vec<(Position, Acknowledge)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = std::mem::take(&mut waiting.writes);
        waiting.is_running = !writes.is_empty();
        writes
    }
}
