//! One gap: a range of keys without a live record, and what is left of it where a key is cut out.

use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::key::Sequence;

use super::Passed;
use super::list::List;
use super::treap::NODE_BYTES;
use crate::buffer::prefix_word;

/// What an allocation takes besides what it holds, about: the allocator's own, and its rounding.
const ALLOCATION_BYTES: usize = 16;

/// Counts of an `Arc`.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// What a gap takes besides its keys, about: itself, its node, and the allocations of both and of
/// its keys.
const GAP_BYTES: usize = size_of::<Gap>() + NODE_BYTES + 2 * COUNTS_BYTES + 4 * ALLOCATION_BYTES;

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
        Self::used_at(passed, 0)
    }

    /// A gap that was used last at that time of its list.
    pub(super) fn used_at(passed: Passed, time: u64) -> Self {
        Self { passed, used: AtomicU64::new(time) }
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

    /// Records with smaller sequences are known to be dead.
    pub(super) fn through(&self) -> Sequence {
        self.passed.through
    }

    pub(super) fn passed(&self) -> &Passed {
        &self.passed
    }

    /// Whether readers of what lies below `before` may use it at `now_ms`.
    pub(crate) fn is_for(&self, before: Sequence, now_ms: u64) -> bool {
        self.passed.through <= before && self.passed.as_of_ms <= now_ms
    }

    /// A scan used it.
    pub(crate) fn note_use(&self, list: &List) {
        if self.last_use() != list.time() {
            self.used.store(list.time(), Ordering::Relaxed);
        }
    }

    /// Time of the list at which a scan used it last.
    pub(super) fn last_use(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether `key` lies behind all of it.
    pub(super) fn ends_by(&self, key: &[u8]) -> bool {
        self.end().is_some_and(|end| end <= key)
    }

    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.start() <= key && !self.ends_by(key)
    }

    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.passed.start.len() + self.end().map_or(0, <[u8]>::len) + GAP_BYTES
    }

    /// What is left of it on both sides of `key`, which is inside; nothing where that is little.
    pub(super) fn without(&self, key: &[u8]) -> [Option<Self>; 2] {
        let below = self.keys_below(key);
        [
            self.part(self.passed.start.clone(), Some(key.to_vec()), below),
            self.part([key, &[0]].concat(), self.passed.end.clone(), self.passed.keys - below),
        ]
    }

    /// About how many of its keys lie before `key`, which is inside. Counted as if keys were spread
    /// evenly, but at least an eighth on each side, since they may not be.
    fn keys_below(&self, key: &[u8]) -> u32 {
        let Some(end) = self.end() else { return self.passed.keys / 2 };
        let common = self.start().iter().zip(end).take_while(|(a, b)| a == b).count();
        let word = |key: &[u8]| u128::from(prefix_word(key, &end[..common]));
        let (start, end, key) = (word(self.start()), word(end), word(key));
        let eighths = (8 * (key - start) / (end - start).max(1)).clamp(1, 7);
        (u64::from(self.passed.keys) * eighths as u64 / 8) as u32
    }

    /// What is left of it from `start` to before `end`, over about `keys` keys.
    fn part(&self, start: Vec<u8>, end: Option<Vec<u8>>, keys: u32) -> Option<Self> {
        let is_empty = end.as_deref().is_some_and(|end| end <= start.as_slice());
        if keys < KEYS_MIN || is_empty {
            return None;
        }
        Some(Self::used_at(Passed { start, end, keys, ..self.passed }, self.last_use()))
    }
}

impl Passed {
    /// A gap over the keys of both, which overlap or touch.
    pub(super) fn joined(&self, other: &Self) -> Self {
        Self {
            start: self.start.as_slice().min(&other.start).to_vec(),
            end: match (&self.end, &other.end) {
                (Some(a), Some(b)) => Some(a.max(b).clone()),
                _ => None,
            },
            through: self.through.max(other.through),
            as_of_ms: self.as_of_ms.max(other.as_of_ms),
            keys: self.keys.saturating_add(other.keys),
        }
    }
}
