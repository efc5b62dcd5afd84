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

/// What a store occupied at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskPoint {
    /// Seconds since measuring began.
    pub at_s: f64,
    /// Bytes of disk.
    pub bytes: u64,
}

/// As many of `looks` as a plot needs, each the greatest of the looks that it stands for.
pub(super) fn disk_points(looks: &[(Duration, u64)]) -> Vec<DiskPoint> {
    let group = looks.len().div_ceil(POINTS_MAX).max(1);
    let most = |looks: &[(Duration, u64)]| looks.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let point = |looks: &[(Duration, u64)]| {
        Some(DiskPoint { at_s: looks.last()?.0.as_secs_f64(), bytes: most(looks) })
    };
    looks.chunks(group).filter_map(point).collect()
}

/// Points of equal stretches: 0.1 s, or as many times that as keeps their number below
/// [`POINTS_MAX`].
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
    fn what_a_store_occupied_is_thinned_and_keeps_its_maxima() {
        let looks: Vec<(Duration, u64)> = (1..=900).map(|at| (Duration::from_secs(at), at % 7)).collect();
        let found = disk_points(&looks);
        assert_eq!(found.len(), 300);
        assert_eq!(found[1], DiskPoint { at_s: 6.0, bytes: 6 });
        assert_eq!(disk_points(&looks[..2]).len(), 2);
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
