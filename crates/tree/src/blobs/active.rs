//! The blob segment that writers share: which writer gets which place, and when all of them are
//! done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_format::Position;
use firn_format::blob::SegmentNumber;
use firn_format::blob::segment::BLOB_HEADER_BYTES;
use firn_storage::file::blob::OpenBlobs;

/// A blob segment that takes values, or has just stopped to.
///
/// 1. A place is given to one writer. Ordinals are given without gaps, in the order of offsets.
/// 2. Each place is *settled* once: a published frame refers to its value, or it was given up.
/// 3. Once it is sealed no place is given any more.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) open: OpenBlobs,
    /// Bytes at which it takes nothing more.
    capacity: u64,
    /// Ordinals and bytes that were given, and whether it is sealed; see [`State`].
    state: AtomicU64,
    /// Ordinals that are settled.
    settled: AtomicU64,
    /// Frames that refer to its values end at or before this log position.
    frames_end: AtomicU64,
    given_up: Mutex<Vec<Given>>,
    /// What was written, as writers were done with it; some of it may be given up.
    written: Mutex<Vec<Written>>,
}

/// A value that was written, as the seal of its segment tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) ordinal: u32,
    pub(crate) keyspace: u32,
    /// Where its record lies.
    pub(crate) offset: u64,
    pub(crate) value_bytes: u32,
}

/// The state word: bit 63 = sealed, bits 40 to 62 = ordinals, bits 0 to 39 = where the next record
/// goes, in units of 8 bytes.
#[derive(Clone, Copy)]
struct State(u64);

const SEALED: u64 = 1 << 63;
const ORDINAL_SHIFT: u32 = 40;
/// More values no segment has.
pub(crate) const ORDINALS_MAX: u32 = (1 << (63 - ORDINAL_SHIFT)) - 1;

impl State {
    fn is_sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    fn ordinals(self) -> u32 {
        ((self.0 & !SEALED) >> ORDINAL_SHIFT) as u32
    }

    fn offset(self) -> u64 {
        (self.0 & ((1 << ORDINAL_SHIFT) - 1)) << 3
    }
}

/// A place for values that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Of the first of them.
    pub(crate) ordinal: u32,
    /// Where the first one's record goes.
    pub(crate) offset: u64,
    /// How many values.
    pub(crate) count: u32,
    /// Bytes of all their records.
    pub(crate) bytes: u64,
}

impl Active {
    /// A segment for writers, empty.
    pub(crate) fn new(open: OpenBlobs, capacity: u64) -> Self {
        Self {
            open,
            capacity,
            state: AtomicU64::new(BLOB_HEADER_BYTES as u64 >> 3),
            settled: AtomicU64::new(0),
            frames_end: AtomicU64::new(0),
            given_up: Mutex::default(),
            written: Mutex::default(),
        }
    }

    pub(crate) fn number(&self) -> SegmentNumber {
        self.open.number()
    }

    /// A place for `count` values whose records have `bytes`, a multiple of 8; `None` if it takes
    /// nothing more. The last place may reach over the capacity.
    pub(crate) fn give(&self, count: u32, bytes: u64) -> Option<Given> {
        let mut known = self.state.load(Ordering::Relaxed);
        loop {
            let state = State(known);
            let is_room = state.offset() < self.capacity && ORDINALS_MAX - state.ordinals() >= count;
            if state.is_sealed() || !is_room {
                return None;
            }
            let next = known + (u64::from(count) << ORDINAL_SHIFT) + (bytes >> 3);
            // No ordering: what is written to the place is told to others by the frame that refers
            // to it.
            match self.state.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    return Some(Given { ordinal: state.ordinals(), offset: state.offset(), count, bytes });
                }
                Err(changed) => known = changed,
            }
        }
    }

    /// `values`, all those of a place, are written.
    pub(crate) fn wrote(&self, values: &[Written]) {
        self.lock_written().extend_from_slice(values);
    }

    /// A published frame that ends at `end` refers to all values of the place.
    pub(crate) fn published(&self, given: &Given, end: Position) {
        self.frames_end.fetch_max(end.0, Ordering::Relaxed);
        self.settled.fetch_add(u64::from(given.count), Ordering::Release);
    }

    /// Nothing will ever refer to the place.
    pub(crate) fn give_up(&self, given: &Given) {
        self.lock_given_up().push(*given);
        self.settled.fetch_add(u64::from(given.count), Ordering::Release);
    }

    /// Gives no place from now on.
    pub(crate) fn seal(&self) {
        self.state.fetch_or(SEALED, Ordering::Relaxed);
    }

    /// Whether it is sealed and every place is settled: it changes no more.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled_state().is_some()
    }

    fn settled_state(&self) -> Option<State> {
        let state = State(self.state.load(Ordering::Relaxed));
        let is_settled = self.settled.load(Ordering::Acquire) == u64::from(state.ordinals());
        (state.is_sealed() && is_settled).then_some(state)
    }

    /// An edit says what it holds.
    pub(crate) fn forget(&self) {
        *self.lock_written() = Vec::new();
    }

    /// What a sealed segment holds, once every place is settled; `None` before.
    pub(crate) fn settled(&self) -> Option<Settled> {
        self.settled_state().map(|state| {
            let mut given_up = self.lock_given_up().clone();
            given_up.sort_unstable_by_key(|given| given.ordinal);
            let is_given_up = |written: &Written| {
                let before = given_up.partition_point(|given| given.ordinal <= written.ordinal);
                let last = before.checked_sub(1).and_then(|last| given_up.get(last));
                last.is_some_and(|given| written.ordinal - given.ordinal < given.count)
            };
            let mut values = self.lock_written().clone();
            values.retain(|written| !is_given_up(written));
            values.sort_unstable_by_key(|written| written.ordinal);
            Settled {
                ordinals: state.ordinals(),
                end: state.offset(),
                frames_end: Position(self.frames_end.load(Ordering::Relaxed)),
                values,
                given_up: given_up.iter().map(|given| given.count).sum(),
            }
        })
    }

    fn lock_given_up(&self) -> MutexGuard<'_, Vec<Given>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_written(&self) -> MutexGuard<'_, Vec<Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment to which nothing comes any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// How many values it began with.
    pub(crate) ordinals: u32,
    /// Where its records end.
    pub(crate) end: u64,
    /// Frames that refer to its values end at or before this log position.
    pub(crate) frames_end: Position,
    /// Its values, by their ordinals; there are none for ordinals that were given up.
    pub(crate) values: Vec<Written>,
    /// How many ordinals were given up.
    pub(crate) given_up: u32,
}

/// Places that a writer has got, given up unless it says that their frame is published.
#[derive(Debug, Default)]
pub(crate) struct Places {
    given: Vec<(Arc<Active>, Given)>,
}

impl Places {
    pub(crate) fn push(&mut self, active: Arc<Active>, given: Given) {
        self.given.push((active, given));
    }

    /// The frame that refers to all of them is published, and ends at `end`.
    pub(crate) fn published(mut self, end: Position) {
        for (active, given) in self.given.drain(..) {
            active.published(&given, end);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for (active, given) in &self.given {
            active.give_up(given);
        }
    }
}

#[cfg(test)]
mod tests;
