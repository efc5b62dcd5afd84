//! Latencies as an HDR histogram.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency told apart, one hour; longer ones count as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Latencies of one kind of operation, in nanoseconds, to three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u128,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("1 ns to 1 h at three digits is a histogram");
        Self { histogram, sum_ns: 0 }
    }

    /// Adds one latency `count` times.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, count: u64) {
        self.histogram.saturating_record_n(latency_ns.max(1), count);
        self.sum_ns += u128::from(latency_ns) * u128::from(count);
    }

    /// Adds all latencies of `other`.
    pub fn add(&mut self, other: &Latencies) {
        if self.histogram.add(&other.histogram).is_ok() {
            self.sum_ns += other.sum_ns;
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The figures reports show, in microseconds.
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1e3;
        if self.count() == 0 {
            return Percentiles::default();
        }
        Percentiles {
            count: self.count(),
            mean_us: self.sum_ns as f64 / self.count() as f64 / 1e3,
            min_us: self.histogram.min() as f64 / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: self.histogram.max() as f64 / 1e3,
        }
    }

    /// The distribution as (quantile, microseconds), denser towards the tail; for plots.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        if self.count() == 0 {
            return Vec::new();
        }
        let quantiles = (0..=10).flat_map(|nines| {
            let base = 1.0 - 0.1f64.powf(f64::from(nines) / 2.0);
            let next = 1.0 - 0.1f64.powf(f64::from(nines + 1) / 2.0);
            [base, base + (next - base) / 2.0]
        });
        quantiles
            .map(|quantile| (quantile, self.histogram.value_at_quantile(quantile) as f64 / 1e3))
            .collect()
    }
}

/// Latency figures of one kind of operation, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Operations.
    pub count: u64,
    /// Average.
    pub mean_us: f64,
    /// Shortest.
    pub min_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90 % were faster.
    pub p90_us: f64,
    /// 95 % were faster.
    pub p95_us: f64,
    /// 99 % were faster.
    pub p99_us: f64,
    /// 99.9 % were faster.
    pub p999_us: f64,
    /// 99.99 % were faster.
    pub p9999_us: f64,
    /// Longest.
    pub max_us: f64,
}

#[cfg(test)]
mod tests {
    use super::Latencies;

    #[test]
    fn percentiles_are_microseconds_of_what_was_recorded() {
        let mut latencies = Latencies::new();
        (1..=1_000u64).for_each(|us| latencies.record(us * 1_000, 1));
        let found = latencies.percentiles();
        assert_eq!(found.count, 1_000);
        assert!((found.p50_us - 500.0).abs() < 1.0, "{found:?}");
        assert!((found.p99_us - 990.0).abs() < 1.5, "{found:?}");
        assert!((found.max_us - 1_000.0).abs() < 1.0, "{found:?}");
        assert!((found.mean_us - 500.5).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn hours_saturate_instead_of_failing() {
        let mut latencies = Latencies::new();
        latencies.record(u64::MAX, 2);
        assert_eq!(latencies.count(), 2);
        assert!(latencies.percentiles().max_us >= 3.59e9);
    }
}
