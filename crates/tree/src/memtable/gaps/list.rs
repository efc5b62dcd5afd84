//! The gaps of a keyspace at one moment, and the ranges that are to become gaps.

use std::sync::{Arc, LazyLock};

use firn_format::key::Sequence;

use super::gap::Gap;
use super::treap::Treap;

/// A gap is given up that was used longest ago of this many gaps.
const SAMPLE: u32 = 16;

/// Immutable as soon as it is shared: a change is made to a clone, which is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    gaps: Treap,
    /// Ranges that are to become gaps.
    candidates: Vec<Arc<Gap>>,
    bytes: usize,
    /// Changes so far.
    time: u64,
    /// Numbers drawn so far.
    drawn: u64,
}

impl List {
    /// No gaps. All keyspaces without any share it.
    pub(super) fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<List>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Gaps and candidates.
    pub(super) fn count(&self) -> usize {
        self.gaps.count() as usize + self.candidates.len()
    }

    /// Memory that its gaps take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn time(&self) -> u64 {
        self.time
    }

    /// Whether a gap or a candidate holds `key`.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.first_after(key, Sequence::MAX, u64::MAX).is_some_and(|gap| gap.holds(key))
            || self.candidates.iter().any(|candidate| candidate.holds(key))
    }

    /// The first gap that ends after `key` and is for readers of what lies below `before` at
    /// `now_ms`.
    pub(crate) fn first_after(&self, key: &[u8], before: Sequence, now_ms: u64) -> Option<&Arc<Gap>> {
        self.gaps.first_after(key, (before, now_ms))
    }

    /// The last gap that starts before `key` (`None` = anywhere) and is for such readers.
    pub(crate) fn last_before(&self, key: Option<&[u8]>, before: Sequence, now_ms: u64) -> Option<&Arc<Gap>> {
        self.gaps.last_before(key, (before, now_ms))
    }

    /// Takes `key` out of the gap that holds it, and gives up the candidates that do.
    pub(super) fn cut(&mut self, key: &[u8]) {
        self.time += 1;
        self.candidates.retain(|candidate| !candidate.holds(key));
        let (mut lower, rest) = self.gaps.clone().split(&|gap| gap.ends_by(key));
        let (cut, upper) = rest.split(&|gap| gap.start() <= key);
        let mut parts = Vec::new();
        cut.each(&mut |gap| {
            self.bytes -= gap.bytes();
            parts.extend(gap.without(key).into_iter().flatten());
        });
        for part in parts {
            self.bytes += part.bytes();
            lower = lower.join(Treap::one(part, self.draw()));
        }
        self.gaps = lower.join(upper);
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

    /// Adds a gap, joined with those that it overlaps or touches, unless it then took more than
    /// `bytes_max`.
    pub(super) fn add(&mut self, gap: &Gap, bytes_max: usize) {
        let (start, end) = (gap.start(), gap.end());
        let ends_before = |other: &Gap| other.end().is_some_and(|end| end < start);
        let (lower, rest) = self.gaps.clone().split(&ends_before);
        let (touching, upper) = rest.split(&|other| end.is_none_or(|end| other.start() <= end));
        let (mut passed, mut bytes) = (gap.passed().clone(), self.bytes);
        touching.each(&mut |other| {
            passed = passed.joined(other.passed());
            bytes -= other.bytes();
        });
        let gap = Gap::used_at(passed, self.time);
        if gap.bytes() > bytes_max {
            return;
        }
        self.bytes = bytes + gap.bytes();
        self.gaps = lower.join(Treap::one(gap, self.draw())).join(upper);
    }

    /// Gives up the gap of a sample that was used longest ago.
    pub(super) fn evict(&mut self) {
        self.time += 1;
        let ranks: Vec<u32> = (0..SAMPLE).map(|_| self.draw() % self.gaps.count().max(1)).collect();
        let some = ranks.into_iter().filter_map(|rank| self.gaps.nth(rank));
        let Some(least) = some.min_by_key(|gap| gap.last_use()).map(Arc::clone) else { return };
        let (lower, rest) = self.gaps.clone().split(&|gap| gap.start() < least.start());
        let (_, upper) = rest.split(&|gap| gap.start() <= least.start());
        self.gaps = lower.join(upper);
        self.bytes -= least.bytes();
    }

    /// A number that looks random. Equal lists draw equal numbers.
    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        let mixed = self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> 32) as u32
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
