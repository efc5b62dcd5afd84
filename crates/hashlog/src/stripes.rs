//! Batches amid which no reader of several keys comes, and no change of a value of theirs.
//!
//! A batch makes its records visible one by one, and then has the redo log know all of them.
//! Meanwhile the stripes of its keys are odd: a read of several keys as of one moment looks at
//! their stripes before and after. What changes a value by what it is looks after it has read it:
//! the change would survive the process, and the batch might not.
//!
//! No other thread puts a record in front of a chain whose stripe is held. All keys of a chain have
//! one stripe.

use crate::index::KeyHash;
use crate::sync::{AtomicU64, Ordering, Patience};

const STRIPES: usize = 1 << 12;

/// Counts of batches, for keys that share a stripe by their hash.
#[derive(Debug)]
pub(crate) struct Stripes(Box<[AtomicU64]>);

/// Stripes that a batch holds; let go when dropped.
pub(crate) struct Held<'s> {
    stripes: &'s Stripes,
    held: Vec<usize>,
}

impl Stripes {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Waits for the stripes of these keys, and holds them.
    pub(crate) fn hold(&self, hashes: impl Iterator<Item = KeyHash>) -> Held<'_> {
        let mut wanted: Vec<usize> = hashes.map(stripe_of).collect();
        // In one order, so that no two batches wait for each other.
        wanted.sort_unstable();
        wanted.dedup();
        let mut held = Held { stripes: self, held: Vec::with_capacity(wanted.len()) };
        for index in wanted {
            let mut patience = Patience::default();
            loop {
                let count = self.0[index].load(Ordering::Relaxed);
                let is_free = count.is_multiple_of(2);
                if is_free
                    && self.0[index]
                        .compare_exchange(count, count + 1, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                {
                    break;
                }
                patience.wait();
            }
            held.held.push(index);
        }
        held
    }

    /// Whether a batch holds the stripe.
    #[inline]
    pub(crate) fn is_held(&self, hash: KeyHash) -> bool {
        !self.0[stripe_of(hash)].load(Ordering::Acquire).is_multiple_of(2)
    }

    /// The count of a key's stripe, as soon as no batch holds it.
    pub(crate) fn seen(&self, hash: KeyHash) -> u64 {
        let mut patience = Patience::default();
        loop {
            let count = self.0[stripe_of(hash)].load(Ordering::Acquire);
            if count.is_multiple_of(2) {
                return count;
            }
            patience.wait();
        }
    }

    /// The count of a key's stripe now.
    pub(crate) fn now(&self, hash: KeyHash) -> u64 {
        self.0[stripe_of(hash)].load(Ordering::Acquire)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for index in &self.held {
            self.stripes.0[*index].fetch_add(1, Ordering::Release);
        }
    }
}

fn stripe_of(hash: KeyHash) -> usize {
    (usize::from(hash.tag()) ^ hash.slot().wrapping_mul(31)) % STRIPES
}
