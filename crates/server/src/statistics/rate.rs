//! How fast counters rise, over the last seconds.

use std::collections::VecDeque;
use std::time::Duration;

/// Between two notes.
const INTERVAL: Duration = Duration::from_millis(100);

/// Notes that are kept: the rate is that of the last second and a half.
const NOTES: usize = 16;

/// Past values of three counters, each with its time.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    notes: VecDeque<(Duration, [u64; 3])>,
}

impl Rates {
    /// Whether the last note is old enough for another.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.notes.back().is_none_or(|(last, _)| now.saturating_sub(*last) >= INTERVAL)
    }

    pub(super) fn note(&mut self, now: Duration, counters: [u64; 3]) {
        if self.notes.len() == NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back((now, counters));
    }

    pub(super) fn per_second(&self) -> [u64; 3] {
        let (Some((from, before)), Some((to, after))) = (self.notes.front(), self.notes.back()) else {
            return [0; 3];
        };
        let seconds = to.saturating_sub(*from).as_secs_f64();
        let rate = |index: usize| match seconds > 0.0 {
            true => (after[index].wrapping_sub(before[index]) as f64 / seconds).round() as u64,
            false => 0,
        };
        [rate(0), rate(1), rate(2)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_notes() {
        let mut rates = Rates::default();
        assert_eq!(rates.per_second(), [0; 3]);
        for index in 0..40_u64 {
            let now = Duration::from_millis(100 * index);
            assert!(rates.is_due(now));
            rates.note(now, [50 * index, 1000 * index.min(30), 7]);
            assert!(!rates.is_due(now + Duration::from_millis(50)));
        }
        // Of the last 16 notes, 1.5 seconds; the second counter stood still during most of them.
        assert_eq!(rates.per_second(), [500, 4000, 0]);
    }
}
