//! Values nobody can compress.

use std::sync::Arc;

use fastrand::Rng;

/// Bytes of the pool; far more than a compression window, little enough to stay in the last cache.
const POOL_BYTES: usize = 1 << 20;

/// Pseudo-random bytes of which every value is a slice at a random place. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ValuePool {
    bytes: Arc<[u8]>,
}

impl ValuePool {
    /// A pool for values of up to `value_bytes`, a function of `seed`.
    pub fn new(value_bytes: usize, seed: u64) -> Self {
        let mut bytes = vec![0; POOL_BYTES + value_bytes];
        Rng::with_seed(seed ^ 0x76_61_6c_75_65).fill(&mut bytes);
        Self { bytes: bytes.into() }
    }

    /// A value of `value_bytes`.
    #[inline]
    pub fn draw(&self, value_bytes: usize, random: &mut Rng) -> &[u8] {
        let start = random.usize(0..POOL_BYTES);
        &self.bytes[start..start + value_bytes]
    }
}
