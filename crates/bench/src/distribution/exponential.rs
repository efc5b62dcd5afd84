//! Exponentially falling popularity with age.

use fastrand::Rng;

/// Draws distances: `percentile` percent of them are below `range`.
#[derive(Clone, Debug)]
pub struct Exponential {
    gamma: f64,
}

impl Exponential {
    /// `percentile` in percent (YCSB: 95), `range` in records (YCSB: 0.8571428571 of all).
    pub fn new(percentile: f64, range: f64) -> Self {
        Self { gamma: -(1.0 - percentile / 100.0).ln() / range }
    }

    /// A distance from the newest record; has no upper bound.
    #[inline]
    pub fn draw(&self, random: &mut Rng) -> u64 {
        // 1 - f64() is in (0, 1], so the logarithm is finite.
        (-(1.0 - random.f64()).ln() / self.gamma) as u64
    }
}
