//! Which numbered records a store should hold.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of numbers as a bitmap that threads share.
#[derive(Debug)]
pub struct NumberSet {
    words: Vec<AtomicU64>,
}

impl NumberSet {
    /// An empty set of numbers `0..count`.
    pub fn new(count: u64) -> Self {
        Self { words: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds `number`.
    #[inline]
    pub fn insert(&self, number: u64) {
        self.words[(number / 64) as usize].fetch_or(1 << (number % 64), Ordering::Relaxed);
    }

    /// Removes `number`.
    #[inline]
    pub fn remove(&self, number: u64) {
        self.words[(number / 64) as usize].fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
    }

    /// Forgets all numbers.
    pub fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// How many numbers are in the set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::NumberSet;

    #[test]
    fn a_set_counts_each_number_once() {
        let set = NumberSet::new(130);
        [0, 63, 64, 129, 63].iter().for_each(|number| set.insert(*number));
        assert_eq!(set.count(), 4);
        set.remove(64);
        set.remove(65);
        assert_eq!(set.count(), 3);
        set.clear();
        assert_eq!(set.count(), 0);
    }
}
