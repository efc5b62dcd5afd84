//! What a thread shows of itself while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::workload::Kind;

/// One thread's running figures. Written by that thread alone, read by the watching thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Gauge {
    /// Whether samples take the thread in.
    counted: bool,
    kinds: [KindCells; Kind::COUNT],
    interval_max_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct KindCells {
    count: AtomicU64,
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
    /// Complement of the minimum, so that zero means "none yet".
    min_ns_not: AtomicU64,
}

impl Gauge {
    pub(crate) fn new(counted: bool) -> Self {
        Self { counted, ..Self::default() }
    }

    /// Adds an operation that counts as `count`, each of `latency_ns`. Only the owning thread calls
    /// this.
    #[inline]
    pub(crate) fn add(&self, kind: Kind, latency_ns: u64, count: u64) {
        let cells = &self.kinds[kind as usize];
        bump(&cells.count, count);
        bump(&cells.sum_ns, latency_ns * count);
        raise(&cells.max_ns, latency_ns);
        raise(&cells.min_ns_not, !latency_ns);
        raise(&self.interval_max_ns, latency_ns);
    }
}

#[inline]
fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

#[inline]
fn raise(cell: &AtomicU64, to: u64) {
    if to > cell.load(Ordering::Relaxed) {
        cell.store(to, Ordering::Relaxed);
    }
}

/// Figures of one kind of operation since measuring began, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindGauge {
    /// Operations.
    pub count: u64,
    /// Sum of their latencies.
    pub sum_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Shortest; 0 if there was none.
    pub min_ns: u64,
}

/// The state of a phase at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Since measuring began.
    pub elapsed: Duration,
    /// Counted operations by kind, in the order of [`Kind::ALL`].
    pub kinds: [KindGauge; Kind::COUNT],
    /// Longest latency since the sample before.
    pub interval_max_ns: u64,
}

impl Sample {
    pub(crate) fn take(elapsed: Duration, gauges: &[Gauge]) -> Self {
        let mut sample = Self { elapsed, ..Self::default() };
        for gauge in gauges.iter().filter(|gauge| gauge.counted) {
            sample.interval_max_ns =
                sample.interval_max_ns.max(gauge.interval_max_ns.swap(0, Ordering::Relaxed));
            for (total, cells) in sample.kinds.iter_mut().zip(&gauge.kinds) {
                let count = cells.count.load(Ordering::Relaxed);
                if count == 0 {
                    continue;
                }
                let min_ns = !cells.min_ns_not.load(Ordering::Relaxed);
                total.min_ns = if total.count == 0 { min_ns } else { total.min_ns.min(min_ns) };
                total.count += count;
                total.sum_ns += cells.sum_ns.load(Ordering::Relaxed);
                total.max_ns = total.max_ns.max(cells.max_ns.load(Ordering::Relaxed));
            }
        }
        sample
    }

    /// Operations of all kinds so far.
    pub fn operations(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.count).sum()
    }
}
