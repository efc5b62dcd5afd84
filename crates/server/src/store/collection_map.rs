//! Where in a database collections may stand.
//!
//! A bit for each bucket of keys. Where it is clear, a string can be written without reading what
//! stood there: no parts of a collection are left behind. Bits are set and never cleared; a flushed
//! database gets a new map.
//!
//! A set bit may not be in the catalog yet, because the batch that says so is not written. A
//! transaction that makes a collection in that bucket meanwhile says it again; only what was
//! written once need not be said.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::datatype::Bucket;

/// Buckets of one database.
#[derive(Debug, Default)]
pub(crate) struct CollectionMap {
    /// Made with the first collection: many databases have none.
    bits: OnceLock<Bits>,
}

#[derive(Debug)]
struct Bits {
    /// A collection may stand there.
    possible: Box<[AtomicU64]>,
    /// The catalog says so.
    recorded: Box<[AtomicU64]>,
}

fn zeros() -> Box<[AtomicU64]> {
    (0..Bucket::COUNT / u64::BITS).map(|_| AtomicU64::new(0)).collect()
}

fn place(bucket: Bucket) -> (usize, u64) {
    let number = bucket.number();
    ((number / u64::BITS) as usize, 1 << (number % u64::BITS))
}

impl CollectionMap {
    fn bits(&self) -> &Bits {
        self.bits.get_or_init(|| Bits { possible: zeros(), recorded: zeros() })
    }

    /// Whether a collection may stand at a key of `bucket`. Exact for the holder of the key's lock.
    #[inline]
    pub(crate) fn is_possible(&self, bucket: Bucket) -> bool {
        let Some(bits) = self.bits.get() else { return false };
        let (word, bit) = place(bucket);
        bits.possible[word].load(Ordering::Acquire) & bit != 0
    }

    /// A collection will stand at a key of `bucket`, whose lock is held; whether the catalog must
    /// be told.
    pub(crate) fn expect(&self, bucket: Bucket) -> bool {
        let (word, bit) = place(bucket);
        let bits = self.bits();
        bits.possible[word].fetch_or(bit, Ordering::AcqRel);
        bits.recorded[word].load(Ordering::Acquire) & bit == 0
    }

    /// The catalog says so: written.
    pub(crate) fn record(&self, bucket: Bucket) {
        let (word, bit) = place(bucket);
        let bits = self.bits();
        bits.possible[word].fetch_or(bit, Ordering::AcqRel);
        bits.recorded[word].fetch_or(bit, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_is_told_until_it_was_written() {
        let map = CollectionMap::default();
        let bucket = Bucket::new(77).unwrap();
        assert!(!map.is_possible(bucket));
        assert!(map.expect(bucket));
        assert!(map.is_possible(bucket));
        assert!(map.expect(bucket), "the first batch may have failed");
        map.record(bucket);
        assert!(!map.expect(bucket));
        assert!(!map.is_possible(Bucket::new(78).unwrap()));
        assert!(!map.is_possible(Bucket::new(76).unwrap()));
    }
}
