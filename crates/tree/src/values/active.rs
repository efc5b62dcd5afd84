//! The value segment that writers share: who gets which place, and when all of them are done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use firn_format::Position;
use firn_format::value::SegmentNumber;
use firn_format::value::segment::VALUE_HEADER_BYTES;
use firn_storage::file::value::OpenValues;

/// A value segment that takes values, or has just stopped to.
///
/// 1. A place is given to one writer. Ordinals are given without gaps, in the order of offsets.
/// 2. Each place is *settled* once: a published frame refers to its value, or it was given up.
/// 3. Once it is sealed no place is given any more.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) open: OpenValues,
    /// Bytes at which it takes nothing more.
    capacity: u64,
    /// Ordinals and bytes that were given, and whether it is sealed; see [`State`].
    state: AtomicU64,
    /// Ordinals that are settled.
    settled: AtomicU64,
    /// Frames that refer to its values end at or before this log position.
    frames_end: AtomicU64,
    given_up: Mutex<Vec<Given>>,
}

/// The state word: bit 63 = sealed, bits 40 to 62 = ordinals, bits 0 to 39 = where the next record goes, in units of 8
/// bytes.
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
    pub(crate) fn new(open: OpenValues, capacity: u64) -> Self {
        Self {
            open,
            capacity,
            state: AtomicU64::new(VALUE_HEADER_BYTES as u64 >> 3),
            settled: AtomicU64::new(0),
            frames_end: AtomicU64::new(0),
            given_up: Mutex::default(),
        }
    }

    pub(crate) fn number(&self) -> SegmentNumber {
        self.open.number()
    }

    /// A place for `count` values whose records have `bytes`, a multiple of 8; `None` if it takes nothing more. The last one
    /// may reach over the capacity.
    pub(crate) fn give(&self, count: u32, bytes: u64) -> Option<Given> {
        let mut known = self.state.load(Ordering::Relaxed);
        loop {
            let state = State(known);
            let is_room = state.offset() < self.capacity && ORDINALS_MAX - state.ordinals() >= count;
            if state.is_sealed() || !is_room {
                return None;
            }
            let next = known + (u64::from(count) << ORDINAL_SHIFT) + (bytes >> 3);
            // No ordering: what is written to the place is told to others by the frame that refers to it.
            match self.state.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    return Some(Given { ordinal: state.ordinals(), offset: state.offset(), count, bytes });
                }
                Err(changed) => known = changed,
            }
        }
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

    /// What a sealed segment holds, once every place is settled; `None` before.
    pub(crate) fn settled(&self) -> Option<Settled> {
        let state = State(self.state.load(Ordering::Relaxed));
        let is_settled = self.settled.load(Ordering::Acquire) == u64::from(state.ordinals());
        (state.is_sealed() && is_settled).then(|| {
            let mut given_up = self.lock_given_up().clone();
            given_up.sort_unstable_by_key(|given| given.ordinal);
            Settled {
                ordinals: state.ordinals(),
                end: state.offset(),
                frames_end: Position(self.frames_end.load(Ordering::Relaxed)),
                given_up,
            }
        })
    }

    fn lock_given_up(&self) -> std::sync::MutexGuard<'_, Vec<Given>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Places that hold no value, by their ordinals.
    pub(crate) given_up: Vec<Given>,
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
mod tests {
    use firn_format::value::ValueSegmentHeader;
    use firn_format::value::segment::Origin;
    use firn_storage::place::{Memory, SpareFiles};

    use super::*;

    fn active(capacity: u64) -> Arc<Active> {
        let header = ValueSegmentHeader {
            database: 1,
            number: SegmentNumber(3),
            origin: Origin::Written,
            generation: 1,
        };
        let open =
            OpenValues::create(&Memory::new(), &SpareFiles::default(), "00000003.values", &header, capacity)
                .unwrap();
        Arc::new(Active::new(open, capacity))
    }

    #[test]
    fn places_follow_one_another_until_there_is_no_room() {
        let active = active(1000);
        let first = active.give(1, 400).unwrap();
        let second = active.give(3, 800).unwrap();
        assert_eq!(first, Given { ordinal: 0, offset: 64, count: 1, bytes: 400 });
        assert_eq!(second, Given { ordinal: 1, offset: 464, count: 3, bytes: 800 });
        assert_eq!(active.give(1, 8), None, "the last one reached over the capacity");
    }

    #[test]
    fn a_sealed_segment_is_settled_when_all_places_are() {
        let active = active(1 << 20);
        let mut published = Places::default();
        published.push(Arc::clone(&active), active.give(2, 80).unwrap());
        let mut lost = Places::default();
        let given = active.give(1, 40).unwrap();
        lost.push(Arc::clone(&active), given);
        assert_eq!(active.settled(), None);
        active.seal();
        assert_eq!(active.give(1, 8), None);
        published.published(Position(800));
        assert_eq!(active.settled(), None, "a writer is not done");
        drop(lost);
        let settled =
            Settled { ordinals: 3, end: 64 + 120, frames_end: Position(800), given_up: vec![given] };
        assert_eq!(active.settled(), Some(settled));
    }

    #[test]
    fn nobody_gets_the_place_of_another() {
        let active = active(1 << 20);
        let places = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|writer| {
                    let active = &active;
                    scope.spawn(move || {
                        (0..2000).map_while(|_| active.give(1 + writer, 48)).collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut places: Vec<Given> =
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            places.sort_unstable_by_key(|given| given.offset);
            places
        });
        assert_eq!(places.len(), 8000);
        let follow = |pair: &[Given]| {
            pair[0].offset + pair[0].bytes == pair[1].offset
                && pair[0].ordinal + pair[0].count == pair[1].ordinal
        };
        assert!(places.windows(2).all(follow));
    }
}
