//! The newest records most often.

use std::sync::Arc;

use fastrand::Rng;

use super::{AcknowledgedCounter, ZIPFIAN_THETA, Zipfian};

/// Draws records by a Zipfian over their age: the newest acknowledged record is the most popular.
#[derive(Clone, Debug)]
pub struct Latest {
    inserts: Arc<AcknowledgedCounter>,
    ages: Zipfian,
}

impl Latest {
    /// Over the records that `inserts` has acknowledged, now and later. Costs one `powf` per
    /// record.
    pub fn new(inserts: Arc<AcknowledgedCounter>) -> Self {
        let ages = Zipfian::new(inserts.acknowledged().max(2), ZIPFIAN_THETA);
        Self { inserts, ages }
    }

    /// The number of a record that is in the store.
    #[inline]
    pub fn draw(&mut self, random: &mut Rng) -> u64 {
        let newest = self.inserts.acknowledged().saturating_sub(1);
        self.ages.grow(newest);
        newest.saturating_sub(self.ages.draw(random))
    }
}
