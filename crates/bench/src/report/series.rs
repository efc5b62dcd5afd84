//! Throughput over time, as coarse as a plot needs it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::driver::Sample;

/// Most points a series keeps.
const POINTS_MAX: usize = 300;

/// A stretch of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// End of the stretch, seconds since measuring began.
    pub at_s: f64,
    /// Operations per second in it.
    pub ops_per_s: f64,
    /// Longest latency in it.
    pub max_us: f64,
}

/// Points of equal stretches: 0.1 s, or as many times that as keeps their number below [`POINTS_MAX`].
pub(super) fn points(samples: &[Sample]) -> Vec<SeriesPoint> {
    let group = samples.len().div_ceil(POINTS_MAX).max(1);
    let (mut operations, mut elapsed) = (0, Duration::ZERO);
    samples
        .chunks(group)
        .filter_map(|chunk| {
            let last = chunk.last()?;
            let span = last.elapsed.saturating_sub(elapsed).as_secs_f64();
            let done = last.operations() - operations;
            (operations, elapsed) = (last.operations(), last.elapsed);
            let max_ns = chunk.iter().map(|sample| sample.interval_max_ns).max().unwrap_or(0);
            (span > 0.0).then(|| SeriesPoint {
                at_s: last.elapsed.as_secs_f64(),
                ops_per_s: done as f64 / span,
                max_us: max_ns as f64 / 1e3,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tenths: u64, count: u64) -> Sample {
        let mut sample = Sample { elapsed: Duration::from_millis(tenths * 100), ..Sample::default() };
        sample.kinds[0].count = count;
        sample.interval_max_ns = tenths * 1_000;
        sample
    }

    #[test]
    fn points_are_rates_between_samples() {
        let found = points(&[sample(1, 50), sample(2, 150)]);
        let rates: Vec<f64> = found.iter().map(|point| point.ops_per_s.round()).collect();
        assert_eq!(rates, [500.0, 1_000.0]);
    }

    #[test]
    fn long_series_are_thinned_and_keep_their_maxima() {
        let samples: Vec<Sample> = (1..=1_000).map(|tenths| sample(tenths, tenths * 10)).collect();
        let found = points(&samples);
        assert!(found.len() <= POINTS_MAX);
        assert!(found.iter().all(|point| (point.ops_per_s - 100.0).abs() < 1e-6));
        assert_eq!(found.last().map(|point| point.max_us), Some(1_000.0));
    }
}
