//! Memory of dropped regions, kept for new ones. A page the machine has already given costs a store
//! to zero, a new one costs a fault. For 32 MiB on a virtual machine these are 0.6 to 0.7 ms and
//! 4.4 to 6.5 ms. What a region did not use is left as it was: where regions are sealed early, the
//! next ones mostly are too.

use crate::memory::Memory;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory without a region: what a [`Pool`](crate::Pool) gives out again.
///
/// Held by its pool and by each region that will give its memory back. At most `count_max` pieces
/// are held, clean and dirty together; what comes back beyond that is unmapped.
pub(crate) struct RecycledMemory {
    count_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    clean: Vec<Memory>,
    dirty: Vec<Used>,
}

/// Memory that is zero but for its first bytes.
struct Used {
    memory: Memory,
    bytes: usize,
}

impl Held {
    fn bytes(&self) -> usize {
        let dirty = self.dirty.iter().map(|used| &used.memory);
        self.clean.iter().chain(dirty).map(Memory::capacity).sum()
    }
}

impl RecycledMemory {
    /// Holds nothing yet.
    pub(crate) fn new(count_max: usize) -> Self {
        Self { count_max, held: Mutex::default() }
    }

    /// Zeroed memory, if some is held.
    pub(crate) fn take(&self) -> Option<Memory> {
        self.lock().clean.pop()
    }

    /// Takes the memory of a region that is gone, and of which at most the first `bytes` bytes were
    /// ever in use.
    pub(crate) fn keep(&self, memory: Memory, bytes: usize) {
        let mut held = self.lock();
        if held.clean.len() + held.dirty.len() < self.count_max {
            held.dirty.push(Used { memory, bytes });
        }
    }

    /// Zeroes what came back.
    pub(crate) fn clean(&self) {
        loop {
            let Some(Used { mut memory, bytes }) = self.lock().dirty.pop() else { return };
            memory.clear(bytes);
            self.lock().clean.push(memory);
        }
    }

    /// Unmaps memory, dirty one first, until at most `bytes_max` are held.
    pub(crate) fn trim(&self, bytes_max: usize) {
        let mut unmapped = Vec::new();
        let mut held = self.lock();
        let mut bytes = held.bytes();
        while bytes > bytes_max {
            let Some(memory) = held.dirty.pop().map(|used| used.memory).or_else(|| held.clean.pop()) else {
                break;
            };
            bytes -= memory.capacity();
            unmapped.push(memory);
        }
        // Unmapped after the lock is given back.
        drop(held);
    }

    /// Bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
