//! How long commands took, in buckets an eighth of a power of two wide.

use super::Count;

/// Buckets for every number of 64 bits.
const BUCKET_COUNT: usize = 62 * 8;

/// The bucket of `ns`: exact below 8, then eight for each power of two.
#[inline]
fn bucket_of(ns: u64) -> usize {
    if ns < 8 {
        return ns as usize;
    }
    let power = ns.ilog2();
    ((power - 2) * 8) as usize + ((ns >> (power - 3)) & 7) as usize
}

/// The largest number in a bucket.
fn last_of(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let power = (bucket / 8 + 2) as u32;
    let width = 1_u64 << (power - 3);
    (1_u64 << power) + (bucket as u64 % 8) * width + (width - 1)
}

/// One thread's share of a distribution.
#[derive(Debug)]
pub(crate) struct Histogram([Count; BUCKET_COUNT]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

impl Histogram {
    /// `count` calls took `ns` nanoseconds each.
    #[inline]
    pub(crate) fn add(&self, ns: u64, count: u64) {
        self.0[bucket_of(ns)].add(count);
    }
}

/// How many calls took how long; empty until something is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution(Vec<u64>);

impl Distribution {
    pub(super) fn add(&mut self, histogram: &Histogram) {
        self.0.resize(BUCKET_COUNT, 0);
        for (sum, count) in self.0.iter_mut().zip(&histogram.0) {
            *sum += count.get();
        }
    }

    pub(super) fn take_off(&mut self, base: &Self) {
        for (sum, base) in self.0.iter_mut().zip(&base.0) {
            *sum -= base;
        }
    }

    /// All calls.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Nanoseconds that `percent` of the calls did not exceed, to an eighth.
    pub(crate) fn percentile_ns(&self, percent: f64) -> u64 {
        let rank = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut sum = 0;
        let reached = self.0.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        reached.map_or(0, last_of)
    }

    /// Calls of less than `ns` nanoseconds; exact where that begins a bucket, as powers of two do.
    pub(crate) fn below(&self, ns: u64) -> u64 {
        self.0.iter().take(bucket_of(ns)).sum()
    }

    /// Calls of less than 1.024 microseconds, of less than twice that, and so on. Only the steps
    /// with more calls than the one before: the bound in microseconds as Redis rounds it, and the
    /// count.
    pub(crate) fn doublings(&self) -> Vec<(u64, u64)> {
        let (total, mut reported, mut found) = (self.count(), 0, Vec::new());
        for power in 0.. {
            if reported == total {
                break;
            }
            let below = self.below(1024 << power);
            if below > reported {
                found.push((((1032_u64 << power) - 1) / 1000, below));
                reported = below;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_gaps() {
        for bucket in 0..BUCKET_COUNT {
            assert_eq!(bucket_of(last_of(bucket)), bucket);
            if bucket + 1 < BUCKET_COUNT {
                assert_eq!(bucket_of(last_of(bucket) + 1), bucket + 1);
            }
        }
        assert_eq!(last_of(BUCKET_COUNT - 1), u64::MAX);
    }

    #[test]
    fn percentiles_and_doublings_tell_what_was_added() {
        let histogram = Histogram::default();
        histogram.add(900, 50);
        histogram.add(3_000, 49);
        histogram.add(1_000_000, 1);
        let mut distribution = Distribution::default();
        assert_eq!((distribution.percentile_ns(50.0), distribution.doublings()), (0, vec![]));
        distribution.add(&histogram);
        assert_eq!(distribution.count(), 100);
        assert_eq!(distribution.doublings(), [(1, 50), (4, 99), (1056, 100)]);
        assert!((900..1_024).contains(&distribution.percentile_ns(50.0)));
        assert!((3_000..3_400).contains(&distribution.percentile_ns(99.0)));
        assert!((1_000_000..1_130_000).contains(&distribution.percentile_ns(99.9)));
    }
}
