//! Gaps in the order of keys: a treap, which is a search tree and a heap by priorities that are
//! drawn. Immutable as soon as it is shared.
//!
//! Dividing and joining copy the nodes on one path, about 1.4 log₂ n of them, that another treap
//! shares; others they change in place. So each change of n gaps takes O(log n), and a holder of
//! the treap from before the change keeps that.
//!
//! 1. Gaps neither overlap nor touch, so that their starts and their ends have the same order.
//! 2. No node has a lesser priority than those below it.
//! 3. `count` and `through_min` of a node are of its gap and of all below it.

use std::sync::Arc;

use firn_format::key::Sequence;

use super::gap::Gap;

/// What a node takes.
pub(super) const NODE_BYTES: usize = size_of::<Node>();

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Treap(Option<Arc<Node>>);

#[derive(Clone, Debug)]
struct Node {
    gap: Arc<Gap>,
    priority: u32,
    count: u32,
    /// Least sequence from which on a gap is for readers.
    through_min: Sequence,
    lower: Treap,
    upper: Treap,
}

impl Node {
    /// Counts again what changed below.
    fn sum_up(&mut self) {
        self.count = 1 + self.lower.count() + self.upper.count();
        let below = [&self.lower, &self.upper].into_iter().filter_map(|side| side.0.as_ref());
        self.through_min = below.map(|node| node.through_min).fold(self.gap.through(), Sequence::min);
    }
}

impl Treap {
    /// Of one gap, with a priority that is drawn.
    pub(super) fn one(gap: Gap, priority: u32) -> Self {
        let through_min = gap.through();
        let (lower, upper) = (Self::default(), Self::default());
        Self(Some(Arc::new(Node { gap: Arc::new(gap), priority, count: 1, through_min, lower, upper })))
    }

    /// Gaps that it has.
    pub(super) fn count(&self) -> u32 {
        self.0.as_ref().map_or(0, |node| node.count)
    }

    /// Divides it into the gaps for which `is_lower`, and those behind them, for which it must not
    /// hold.
    pub(super) fn split(self, is_lower: &impl Fn(&Gap) -> bool) -> (Self, Self) {
        let Some(mut node) = self.0 else { return Default::default() };
        let own = Arc::make_mut(&mut node);
        if is_lower(&own.gap) {
            let (lower, upper) = std::mem::take(&mut own.upper).split(is_lower);
            own.upper = lower;
            own.sum_up();
            (Self(Some(node)), upper)
        } else {
            let (lower, upper) = std::mem::take(&mut own.lower).split(is_lower);
            own.lower = upper;
            own.sum_up();
            (lower, Self(Some(node)))
        }
    }

    /// Its gaps, and behind them those of `upper`.
    pub(super) fn join(self, upper: Self) -> Self {
        let (mut below, mut above) = match (self.0, upper.0) {
            (Some(below), Some(above)) => (below, above),
            (one, other) => return Self(one.or(other)),
        };
        if below.priority >= above.priority {
            let own = Arc::make_mut(&mut below);
            own.upper = std::mem::take(&mut own.upper).join(Self(Some(above)));
            own.sum_up();
            Self(Some(below))
        } else {
            let own = Arc::make_mut(&mut above);
            own.lower = Self(Some(below)).join(std::mem::take(&mut own.lower));
            own.sum_up();
            Self(Some(above))
        }
    }

    /// The first gap that ends after `key` and is for readers of what lies below `before`.
    pub(super) fn first_after(&self, key: &[u8], (before, now_ms): (Sequence, u64)) -> Option<&Arc<Gap>> {
        let node = self.0.as_ref().filter(|node| node.through_min <= before)?;
        if node.gap.ends_by(key) {
            return node.upper.first_after(key, (before, now_ms));
        }
        let lower = node.lower.first_after(key, (before, now_ms));
        let own = || node.gap.is_for(before, now_ms).then_some(&node.gap);
        lower.or_else(own).or_else(|| node.upper.first_after(key, (before, now_ms)))
    }

    /// The last gap that starts before `key` (`None` = anywhere) and is for such readers.
    pub(super) fn last_before(
        &self,
        key: Option<&[u8]>,
        (before, now_ms): (Sequence, u64),
    ) -> Option<&Arc<Gap>> {
        let node = self.0.as_ref().filter(|node| node.through_min <= before)?;
        if key.is_some_and(|key| node.gap.start() >= key) {
            return node.lower.last_before(key, (before, now_ms));
        }
        let upper = node.upper.last_before(key, (before, now_ms));
        let own = || node.gap.is_for(before, now_ms).then_some(&node.gap);
        upper.or_else(own).or_else(|| node.lower.last_before(key, (before, now_ms)))
    }

    /// The gap that `rank` others come before.
    pub(super) fn nth(&self, rank: u32) -> Option<&Arc<Gap>> {
        let node = self.0.as_ref()?;
        let below = node.lower.count();
        match rank.checked_sub(below) {
            None => node.lower.nth(rank),
            Some(0) => Some(&node.gap),
            Some(above) => node.upper.nth(above - 1),
        }
    }

    /// Shows all of them, in order.
    pub(super) fn each(&self, see: &mut impl FnMut(&Arc<Gap>)) {
        if let Some(node) = &self.0 {
            node.lower.each(see);
            see(&node.gap);
            node.upper.each(see);
        }
    }

    /// Panics unless priorities and sums are as they must be.
    #[cfg(test)]
    #[cfg(not(loom))]
    #[track_caller]
    pub(super) fn check(&self) {
        let Some(node) = &self.0 else { return };
        for side in [&node.lower, &node.upper] {
            side.check();
            assert!(side.0.as_ref().is_none_or(|below| below.priority <= node.priority));
        }
        let mut summed = Node::clone(node);
        summed.sum_up();
        assert_eq!((summed.count, summed.through_min), (node.count, node.through_min));
    }
}
