//! Gaps in the order of keys: immutable, in chunks, so that a change copies little.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use firn_format::key::Sequence;

use super::Passed;
use crate::buffer::prefix_word;

/// Gaps of a keyspace at most.
const GAPS_MAX: usize = 1024;

/// Bytes of their keys, and of what goes with them, at most.
const BYTES_MAX: usize = 256 << 10;

/// What a gap takes besides its keys, about.
const GAP_BYTES: usize = 128;

/// Gaps in a chunk at most.
const CHUNK_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// Gaps of which the least used one goes where there are too many.
const SAMPLE: usize = 32;

/// A gap over fewer keys is not worth the seek past it.
const KEYS_MIN: u32 = 4;

/// A range without a live record. Immutable but for when it was used.
#[derive(Debug)]
pub(crate) struct Gap {
    passed: Passed,
    /// Time of the list at which a scan used it last.
    used: AtomicU64,
}

impl Gap {
    pub(super) fn new(passed: Passed) -> Self {
        Self { passed, used: AtomicU64::new(0) }
    }

    /// Its first key.
    #[inline]
    pub(crate) fn start(&self) -> &[u8] {
        &self.passed.start
    }

    /// The key before which it ends; `None` = after the last key there can be.
    #[inline]
    pub(crate) fn end(&self) -> Option<&[u8]> {
        self.passed.end.as_deref()
    }

    /// Whether readers of what lies below `before` may use it at `now_ms`.
    pub(crate) fn is_for(&self, before: Sequence, now_ms: u64) -> bool {
        self.passed.through <= before && self.passed.as_of_ms <= now_ms
    }

    /// A scan used it.
    pub(crate) fn note_use(&self, list: &List) {
        if self.used.load(Ordering::Relaxed) != list.time {
            self.used.store(list.time, Ordering::Relaxed);
        }
    }

    fn ends_by(&self, key: &[u8]) -> bool {
        self.end().is_some_and(|end| end <= key)
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.start() <= key && !self.ends_by(key)
    }

    fn bytes(&self) -> usize {
        self.passed.start.len() + self.end().map_or(0, <[u8]>::len) + GAP_BYTES
    }

    /// About how many of its keys lie before `key`, which is inside: as if keys were spread evenly,
    /// but at least an eighth on each side, since they may not be.
    fn keys_below(&self, key: &[u8]) -> u32 {
        let Some(end) = self.end() else { return self.passed.keys / 2 };
        let common = self.start().iter().zip(end).take_while(|(a, b)| a == b).count();
        let word = |key: &[u8]| u128::from(prefix_word(key, &end[..common]));
        let (start, end, key) = (word(self.start()), word(end), word(key));
        let eighths = (8 * (key - start) / (end - start).max(1)).clamp(1, 7);
        (u64::from(self.passed.keys) * eighths as u64 / 8) as u32
    }

    /// What is left of it from `start` to before `end`, over about `keys` keys; nothing if that is little.
    fn part(&self, start: Vec<u8>, end: Option<Vec<u8>>, keys: u32) -> Option<Arc<Self>> {
        let is_empty = end.as_deref().is_some_and(|end| end <= start.as_slice());
        if keys < KEYS_MIN || is_empty {
            return None;
        }
        let passed = Passed { start, end, keys, ..self.passed };
        Some(Arc::new(Self { passed, used: AtomicU64::new(self.used.load(Ordering::Relaxed)) }))
    }

    /// One over the keys of both, which overlap or touch.
    fn joined(&self, other: &Self) -> Passed {
        let (a, b) = (&self.passed, &other.passed);
        Passed {
            start: a.start.as_slice().min(&b.start).to_vec(),
            end: match (&a.end, &b.end) {
                (Some(a), Some(b)) => Some(a.max(b).clone()),
                _ => None,
            },
            through: a.through.max(b.through),
            as_of_ms: a.as_of_ms.max(b.as_of_ms),
            keys: a.keys.saturating_add(b.keys),
        }
    }
}

type Chunk = Vec<Arc<Gap>>;

/// The gaps of a keyspace at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    /// By key, none of them empty; gaps neither overlap nor touch.
    chunks: Vec<Arc<Chunk>>,
    /// Ranges that are to become gaps.
    candidates: Vec<Arc<Gap>>,
    gap_count: usize,
    bytes: usize,
    /// Changes so far.
    time: u64,
}

/// Chunk, and gap in it.
type Place = (usize, usize);

impl List {
    /// No gaps. All keyspaces without any share it.
    pub(super) fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<List>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    pub(super) fn count(&self) -> usize {
        self.gap_count + self.candidates.len()
    }

    /// Whether a gap or a candidate holds `key`.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.gap_at(self.place(key)).is_some_and(|gap| gap.holds(key))
            || self.candidates.iter().any(|candidate| candidate.holds(key))
    }

    /// The first gap that ends after `key` and is for such readers.
    pub(crate) fn first_after(&self, key: &[u8], before: Sequence, now_ms: u64) -> Option<&Arc<Gap>> {
        let mut place = self.place(key);
        while let Some(gap) = self.gap_at(place) {
            if gap.is_for(before, now_ms) {
                return Some(gap);
            }
            place = self.next(place);
        }
        None
    }

    /// The last gap that starts before `key` (`None` = anywhere) and is for such readers.
    pub(crate) fn last_before(&self, key: Option<&[u8]>, before: Sequence, now_ms: u64) -> Option<&Arc<Gap>> {
        let starts_before = |gap: &Arc<Gap>| key.is_none_or(|key| gap.start() < key);
        let chunks = self.chunks.partition_point(|chunk| chunk.first().is_some_and(starts_before));
        let gaps = self.chunks.get(..chunks)?.iter().rev().flat_map(|chunk| chunk.iter().rev());
        gaps.skip_while(|gap| !starts_before(gap)).find(|gap| gap.is_for(before, now_ms))
    }

    /// Takes `key` out of the gap that holds it, and gives up the candidates that do.
    pub(super) fn cut(&mut self, key: &[u8]) {
        self.time += 1;
        self.candidates.retain(|candidate| !candidate.holds(key));
        let place = self.place(key);
        let Some(gap) = self.gap_at(place).filter(|gap| gap.holds(key)).map(Arc::clone) else { return };
        self.remove(place);
        let below = gap.keys_below(key);
        let lower = gap.part(gap.passed.start.clone(), Some(key.to_vec()), below);
        let upper = gap.part([key, &[0]].concat(), gap.passed.end.clone(), gap.passed.keys - below);
        for part in lower.into_iter().chain(upper).rev() {
            // A gap that scans use more than those that are there is not given up for one of them.
            let used = part.used.load(Ordering::Relaxed);
            if self.has_room(&part) || self.evict(Some(used)) && self.has_room(&part) {
                self.insert(part);
            }
        }
    }

    fn has_room(&self, gap: &Gap) -> bool {
        self.gap_count < GAPS_MAX && self.bytes + gap.bytes() <= BYTES_MAX
    }

    pub(super) fn add_candidate(&mut self, candidate: Arc<Gap>) {
        self.time += 1;
        self.candidates.push(candidate);
    }

    /// Whether it was still there.
    pub(super) fn remove_candidate(&mut self, candidate: &Arc<Gap>) -> bool {
        self.time += 1;
        let count = self.candidates.len();
        self.candidates.retain(|other| !Arc::ptr_eq(other, candidate));
        self.candidates.len() < count
    }

    /// Adds a gap, joined with those that it overlaps or touches. What was not used for long makes room for it.
    pub(super) fn add(&mut self, gap: &Gap) {
        let mut passed = gap.passed.clone();
        // A gap that ends where this one starts touches it: the place is looked for one key earlier.
        let mut place = self.place(&passed.start);
        place = self.previous(place).filter(|at| self.touches(*at, &passed)).unwrap_or(place);
        while self.touches(place, &passed) {
            let Some(other) = self.remove(place) else { break };
            passed = Gap::new(passed).joined(&other);
            place = self.place(&passed.start);
        }
        let gap = Gap::new(passed);
        gap.used.store(self.time, Ordering::Relaxed);
        if gap.bytes() > BYTES_MAX / 4 {
            return;
        }
        while !self.has_room(&gap) {
            self.evict(None);
        }
        self.insert(Arc::new(gap));
    }

    fn touches(&self, place: Place, passed: &Passed) -> bool {
        self.gap_at(place).is_some_and(|gap| {
            let starts_by_its_end = passed.end.as_deref().is_none_or(|end| gap.start() <= end);
            starts_by_its_end && gap.end().is_none_or(|end| passed.start.as_slice() <= end)
        })
    }

    /// Gives up that one of some gaps that was not used for the longest time, if that is longer
    /// than since `used`; whether it did. All take turns to be among the some.
    fn evict(&mut self, used: Option<u64>) -> bool {
        let chunks = self.chunks.len();
        let first = (self.time % chunks.max(1) as u64) as usize;
        let places = (first..first + chunks).flat_map(|chunk| {
            let chunk = chunk % chunks;
            (0..self.chunks.get(chunk).map_or(0, |gaps| gaps.len())).map(move |gap| (chunk, gap))
        });
        let used_at = |place: &Place| self.gap_at(*place).map(|gap| gap.used.load(Ordering::Relaxed));
        let least = places.take(SAMPLE).min_by_key(used_at);
        let least = least.filter(|place| used.is_none_or(|used| used_at(place) < Some(used)));
        self.time += 1;
        least.is_some_and(|place| self.remove(place).is_some())
    }

    /// The first gap that ends after `key`.
    fn place(&self, key: &[u8]) -> Place {
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|gap| gap.ends_by(key)));
        let gap = self.chunks.get(chunk).map_or(0, |gaps| gaps.partition_point(|gap| gap.ends_by(key)));
        (chunk, gap)
    }

    fn gap_at(&self, (chunk, gap): Place) -> Option<&Arc<Gap>> {
        self.chunks.get(chunk)?.get(gap)
    }

    fn next(&self, (chunk, gap): Place) -> Place {
        match self.gap_at((chunk, gap + 1)) {
            Some(_) => (chunk, gap + 1),
            None => (chunk + 1, 0),
        }
    }

    fn previous(&self, (chunk, gap): Place) -> Option<Place> {
        match gap.checked_sub(1) {
            Some(gap) => Some((chunk, gap)),
            None => {
                let chunk = chunk.checked_sub(1)?;
                Some((chunk, self.chunks.get(chunk)?.len().checked_sub(1)?))
            }
        }
    }

    fn remove(&mut self, (chunk, gap): Place) -> Option<Arc<Gap>> {
        let gaps = Arc::make_mut(self.chunks.get_mut(chunk)?);
        if gap >= gaps.len() {
            return None;
        }
        let removed = gaps.remove(gap);
        let next = self.chunks.get(chunk + 1).map_or(CHUNK_MAX, |next| next.len());
        let left = self.chunks.get(chunk).map_or(0, |gaps| gaps.len());
        if left == 0 {
            self.chunks.remove(chunk);
        } else if left + next <= CHUNK_MAX / 2 {
            // Chunks that shrink become one, or there would be as many as gaps.
            let next = self.chunks.remove(chunk + 1);
            if let Some(gaps) = self.chunks.get_mut(chunk) {
                Arc::make_mut(gaps).extend(next.iter().map(Arc::clone));
            }
        }
        self.gap_count -= 1;
        self.bytes -= removed.bytes();
        Some(removed)
    }

    /// Inserts a gap that overlaps none.
    fn insert(&mut self, gap: Arc<Gap>) {
        let (chunk, index) = self.place(gap.start());
        self.gap_count += 1;
        self.bytes += gap.bytes();
        // Behind all of them, it belongs to the last chunk.
        let chunk = chunk.min(self.chunks.len().saturating_sub(1));
        match self.chunks.get_mut(chunk) {
            None => self.chunks.push(Arc::new(vec![gap])),
            Some(gaps) => {
                let gaps = Arc::make_mut(gaps);
                let index = if gaps.last().is_some_and(|last| last.ends_by(gap.start())) {
                    gaps.len()
                } else {
                    index
                };
                gaps.insert(index, gap);
                if gaps.len() > CHUNK_MAX {
                    let upper = gaps.split_off(gaps.len() / 2);
                    self.chunks.insert(chunk + 1, Arc::new(upper));
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
