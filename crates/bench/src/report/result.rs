//! What one phase on one engine gave: one JSON object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::series::{self, DiskPoint, SeriesPoint};
use crate::driver::Measured;
use crate::measure::Percentiles;
use crate::target::{MemoryReport, Settings};

/// What was asked of a phase, for its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Name of the engine, with its set of settings: `firn`, `rocksdb-blob`.
    pub engine: String,
    /// `ycsb` or `db`.
    pub suite: String,
    /// Name of the workload or benchmark.
    pub workload: String,
    /// Counts repetitions of the whole suite, from 1.
    pub repetition: u32,
    /// Threads whose operations count.
    pub threads: usize,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Request distribution.
    pub distribution: String,
    /// Operations per second asked for; absent in a closed loop.
    pub rate: Option<f64>,
    /// Seed of the phase's random choices.
    pub seed: u64,
    /// How the engine was set up.
    pub settings: Settings,
}

/// The result of one phase on one engine. Rates are per second of foreground time unless they say
/// otherwise; bytes, processor time and stalls include the drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// What was asked.
    #[serde(flatten)]
    pub context: Context,
    /// Operations counted.
    pub operations: u64,
    /// Operations of threads beside the counted ones.
    pub background_operations: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Foreground time.
    pub run_s: f64,
    /// Time from the last operation until no background work was left.
    pub drain_s: f64,
    /// Operations by foreground time.
    pub ops_per_s: f64,
    /// Operations by foreground time and drain together.
    pub ops_per_s_drained: f64,
    /// Mean latency of all counted operations.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Longest latency.
    pub max_us: f64,
    /// The same by kind of operation, under YCSB's names.
    pub by_kind: BTreeMap<String, Percentiles>,
    /// Time writers stood still, as the engine counts it.
    pub stall_s: f64,
    /// Time by which writers were slowed, as the engine counts it.
    pub slowdown_s: f64,
    /// Bytes the engine wrote, as it counts them.
    pub bytes_written: u64,
    /// Bytes the engine read, as it counts them.
    pub bytes_read: u64,
    /// Bytes the kernel says the process dirtied for block devices.
    pub kernel_bytes_written: u64,
    /// Bytes the kernel says the process fetched from block devices.
    pub kernel_bytes_read: u64,
    /// Bytes of keys and values handed to the engine.
    pub user_bytes_written: u64,
    /// Bytes of keys and values the engine handed back.
    pub user_bytes_read: u64,
    /// `bytes_written / user_bytes_written`; absent if nothing was written.
    pub write_amplification: Option<f64>,
    /// `kernel_bytes_written / user_bytes_written`; absent if nothing was written.
    pub kernel_write_amplification: Option<f64>,
    /// `disk_bytes / live_bytes`; absent if nothing is live.
    pub space_amplification: Option<f64>,
    /// Bytes of disk the engine occupies after the phase.
    pub disk_bytes: u64,
    /// Bytes of keys and values of the records that should be there.
    pub live_bytes: u64,
    /// Processor time of the process by operation, background threads and drain included.
    pub cpu_us_per_op: f64,
    /// Processor time of the process.
    pub cpu_s: f64,
    /// Processor time of all other processes on the machine, by the time all processors had; 0 to
    /// 1.
    pub other_cpu_share: f64,
    /// Highest resident memory, mapped files included.
    pub rss_peak_bytes: u64,
    /// Whether the peak is the phase's own (the kernel let it be reset).
    pub rss_peak_is_of_phase: bool,
    /// The engine's own account of its memory after the phase.
    pub memory: MemoryReport,
    /// Throughput over time.
    pub series: Vec<SeriesPoint>,
    /// Bytes of disk over time; empty of a server.
    #[serde(default)]
    pub disk_series: Vec<DiskPoint>,
    /// The most bytes of disk that it occupied while operations ran; 0 where that was not sampled.
    #[serde(default)]
    pub disk_peak_bytes: u64,
    /// Latency distribution as (quantile, microseconds).
    pub curve: Vec<(f64, f64)>,
}

/// What the store held after a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    pub(crate) disk_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) memory: MemoryReport,
}

impl PhaseResult {
    /// The result of what was measured.
    pub(crate) fn new(context: Context, measured: &Measured, holdings: Holdings) -> Self {
        let all = measured.all_latencies();
        let figures = all.percentiles();
        let (run_s, drain_s) = (measured.run.as_secs_f64(), measured.drain.as_secs_f64());
        let operations = measured.operations as f64;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let others = measured.cpu.machine_busy.saturating_sub(measured.cpu.process).as_secs_f64();
        Self {
            context,
            operations: measured.operations,
            background_operations: measured.background_operations,
            not_found: measured.not_found,
            run_s,
            drain_s,
            ops_per_s: ratio(operations, run_s).unwrap_or(0.0),
            ops_per_s_drained: ratio(operations, run_s + drain_s).unwrap_or(0.0),
            mean_us: figures.mean_us,
            p50_us: figures.p50_us,
            p90_us: figures.p90_us,
            p95_us: figures.p95_us,
            p99_us: figures.p99_us,
            p999_us: figures.p999_us,
            max_us: figures.max_us,
            by_kind: measured
                .latencies
                .iter()
                .map(|(kind, latencies)| (kind.name().to_owned(), latencies.percentiles()))
                .collect(),
            stall_s: measured.counters.stall_us as f64 / 1e6,
            slowdown_s: measured.counters.slowdown_us as f64 / 1e6,
            bytes_written: measured.counters.bytes_written,
            bytes_read: measured.counters.bytes_read,
            kernel_bytes_written: measured.io.written,
            kernel_bytes_read: measured.io.read,
            user_bytes_written: measured.user_written_bytes,
            user_bytes_read: measured.user_read_bytes,
            write_amplification: ratio(
                measured.counters.bytes_written as f64,
                measured.user_written_bytes as f64,
            ),
            kernel_write_amplification: ratio(measured.io.written as f64, measured.user_written_bytes as f64),
            space_amplification: ratio(holdings.disk_bytes as f64, holdings.live_bytes as f64),
            disk_bytes: holdings.disk_bytes,
            live_bytes: holdings.live_bytes,
            cpu_us_per_op: ratio(measured.cpu.process.as_secs_f64() * 1e6, operations).unwrap_or(0.0),
            cpu_s: measured.cpu.process.as_secs_f64(),
            other_cpu_share: ratio(others, (run_s + drain_s) * processors).unwrap_or(0.0).min(1.0),
            rss_peak_bytes: measured.peak_memory_bytes,
            rss_peak_is_of_phase: measured.peak_is_of_phase,
            memory: holdings.memory,
            series: series::points(&measured.series),
            disk_series: series::disk_points(&measured.disk),
            disk_peak_bytes: measured.disk.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0),
            curve: all.curve(),
        }
    }

    /// Takes out what is said of a store that is a process of its own, where it cannot be known
    /// here.
    pub(crate) fn forget_store(&mut self) {
        self.write_amplification = None;
        self.kernel_write_amplification = None;
        self.space_amplification = None;
    }
}

fn ratio(of: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| of / by)
}
