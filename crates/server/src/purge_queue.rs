//! Deleted collections and databases whose parts are still to be deleted.
//!
//! The keyspace `purges` says so durably, but reading it again and again would pass over everything
//! that was purged before. So a command that deletes also puts it here. The keyspace is read when a
//! server starts, and when this was full.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Purges that are held here at most.
const PURGES_MAX: usize = 100_000;

/// A record of `purges`: its key and its value.
pub(crate) type PurgeRecord = (Vec<u8>, Vec<u8>);

/// The queue of a server.
#[derive(Debug)]
pub(crate) struct PurgeQueue {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<PurgeRecord>,
    /// The keyspace may hold some that are not here.
    is_incomplete: bool,
}

impl PurgeQueue {
    /// A queue that knows nothing of what the keyspace holds.
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { queue: VecDeque::new(), is_incomplete: true }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what was written to the keyspace.
    pub(crate) fn push(&self, record: PurgeRecord) {
        let mut state = self.state();
        if state.queue.len() < PURGES_MAX {
            state.queue.push_back(record);
        } else {
            state.is_incomplete = true;
        }
    }

    /// The one that waits longest.
    pub(crate) fn pop(&self) -> Option<PurgeRecord> {
        self.state().queue.pop_front()
    }

    /// Whether none waits here.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().queue.is_empty()
    }

    /// Whether the keyspace must be read, since some may not have been here; asked once, it is no
    /// more.
    pub(crate) fn take_incomplete(&self) -> bool {
        std::mem::take(&mut self.state().is_incomplete)
    }

    /// The keyspace may hold some that were not here.
    pub(crate) fn set_incomplete(&self) {
        self.state().is_incomplete = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_read_again() {
        let queue = PurgeQueue::new();
        assert!(queue.take_incomplete(), "what the keyspace holds at the start");
        assert!(!queue.take_incomplete());
        for number in 0..PURGES_MAX {
            queue.push((number.to_be_bytes().to_vec(), Vec::new()));
        }
        assert!(!queue.take_incomplete());
        queue.push((vec![1], Vec::new()));
        assert!(queue.take_incomplete());
        assert_eq!(queue.pop().unwrap().0, 0_usize.to_be_bytes());
    }
}
