//! A hot set and a cold rest.

use fastrand::Rng;

/// Draws from the first part of a range with a fixed probability, from the rest otherwise; uniform
/// in each.
#[derive(Clone, Debug)]
pub struct Hotspot {
    first: u64,
    hot: u64,
    cold: u64,
    hot_draws: f64,
}

impl Hotspot {
    /// Numbers `first..=last`, of which the first `hot_set` (0 to 1) get the share `hot_draws` (0
    /// to 1) of the draws.
    pub fn new(first: u64, last: u64, hot_set: f64, hot_draws: f64) -> Self {
        let items = last.saturating_sub(first) + 1;
        let hot = (items as f64 * hot_set.clamp(0.0, 1.0)) as u64;
        Self { first, hot, cold: items - hot, hot_draws: hot_draws.clamp(0.0, 1.0) }
    }

    /// A number of the range.
    #[inline]
    pub fn draw(&self, random: &mut Rng) -> u64 {
        let is_hot = random.f64() < self.hot_draws;
        if (is_hot && self.hot > 0) || self.cold == 0 {
            self.first + random.u64(0..self.hot.max(1))
        } else {
            self.first + self.hot + random.u64(0..self.cold)
        }
    }
}
