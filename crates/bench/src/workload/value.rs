//! Values that compress as far as they are told to, or not at all.

use std::sync::Arc;

use fastrand::Rng;

/// Bytes of the pool; far more than a compression window, little enough to stay in the last cache.
const POOL_BYTES: usize = 1 << 20;

/// Bytes in which something repeats, if values can be compressed; db_bench's.
const PATTERN_BYTES: usize = 100;

/// Pseudo-random bytes of which every value is a slice at a random place. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ValuePool {
    bytes: Arc<[u8]>,
}

impl ValuePool {
    /// A pool for incompressible values of up to `value_bytes`, a function of `seed`.
    pub fn new(value_bytes: usize, seed: u64) -> Self {
        Self::compressible(value_bytes, 1.0, seed)
    }

    /// The same, of values that compress to about `ratio` of their bytes, 0 to 1. Of each 100 bytes
    /// the first so many are random, and the others repeat them, as db_bench has it.
    pub fn compressible(value_bytes: usize, ratio: f64, seed: u64) -> Self {
        let mut bytes = vec![0; POOL_BYTES + value_bytes];
        Rng::with_seed(seed ^ 0x76_61_6c_75_65).fill(&mut bytes);
        let random = ((PATTERN_BYTES as f64 * ratio).round() as usize).clamp(1, PATTERN_BYTES);
        for pattern in bytes.chunks_mut(PATTERN_BYTES) {
            for at in random..pattern.len() {
                pattern[at] = pattern[at - random];
            }
        }
        Self { bytes: bytes.into() }
    }

    /// A value of `value_bytes`.
    #[inline]
    pub fn draw(&self, value_bytes: usize, random: &mut Rng) -> &[u8] {
        let start = random.usize(0..POOL_BYTES);
        &self.bytes[start..start + value_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that Zstandard leaves of 100 values of 1 KiB, in a hundred.
    fn left(ratio: f64) -> usize {
        let (pool, mut random) = (ValuePool::compressible(1024, ratio, 1), Rng::with_seed(2));
        let values: Vec<u8> = (0..100).flat_map(|_| pool.draw(1024, &mut random).to_vec()).collect();
        zstd::bulk::compress(&values, 1).unwrap().len() * 100 / values.len()
    }

    #[test]
    fn values_compress_as_far_as_they_are_told_to() {
        assert!(left(1.0) >= 95, "{}", left(1.0));
        assert!((45..65).contains(&left(0.5)), "{}", left(0.5));
        assert!((5..25).contains(&left(0.1)), "{}", left(0.1));
    }
}
