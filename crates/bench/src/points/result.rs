//! One row of figures.

use serde::Serialize;

use super::args::PointsArgs;
use super::checkpoint::CheckpointResult;
use super::load::Loaded;
use super::phase::{Measured, Workload};
use super::source::Source;
use crate::driver::SAMPLE_EVERY;
use crate::measure::Machine;

/// What one workload did over one distribution.
#[derive(Clone, Debug, Serialize)]
pub struct PointsResult {
    /// `tree` or `hashlog`.
    pub engine: String,
    /// `read`, `mixed` or `rmw`.
    pub workload: String,
    /// `uniform`, `zipfian`, or `file`.
    pub distribution: String,
    /// What an acknowledged write survived.
    pub durability: String,
    /// Keys that were loaded.
    pub keys: u64,
    /// Threads that asked.
    pub threads: usize,
    /// Operations that were done.
    pub operations: u64,
    /// Operations each second.
    pub ops_per_s: f64,
    /// Operations for each second of processor time, background threads included.
    pub ops_per_cpu_s: f64,
    /// The same of two dependent reads of equal memory by the same keys; `None` = the data did not
    /// fit in memory.
    pub chase_per_cpu_s: Option<f64>,
    /// Operations of the slowest sample, each second.
    pub slowest_per_s: f64,
    /// Operations of each 0.1 s.
    pub series: Vec<u64>,
}

/// All rows of a run.
#[derive(Serialize)]
pub(super) struct Report<'r> {
    pub(super) command: &'r str,
    pub(super) machine: &'r Machine,
    pub(super) loaded: Loaded,
    pub(super) results: &'r [PointsResult],
    pub(super) checkpoints: Vec<CheckpointResult>,
}

/// Names of the columns of a row.
pub(super) const HEAD: &str = "workload  keys      Mops/s  slowest  Mops per CPU s  CPU ns an operation  chase Mops per CPU s  of the chase";

impl PointsResult {
    pub(super) fn new(
        args: &PointsArgs,
        workload: Workload,
        distribution: &str,
        source: &Source,
        measured: &Measured,
        chase_per_cpu_s: Option<f64>,
    ) -> Self {
        // The last one is seldom whole.
        let whole = &measured.series[..measured.series.len().saturating_sub(1)];
        let slowest = whole.iter().min().map_or(0.0, |least| *least as f64 / SAMPLE_EVERY.as_secs_f64());
        Self {
            engine: args.engine.engine.name().to_owned(),
            workload: workload.name().to_owned(),
            distribution: distribution.to_owned(),
            durability: args.durability.name().to_owned(),
            keys: source.key_count(),
            threads: args.threads(),
            operations: measured.operations,
            ops_per_s: measured.per_second(),
            ops_per_cpu_s: measured.per_cpu_second(),
            chase_per_cpu_s,
            slowest_per_s: slowest,
            series: measured.series.clone(),
        }
    }

    /// It as a line for people.
    pub(super) fn row(&self) -> String {
        let chase = match self.chase_per_cpu_s {
            Some(chase) => format!("{:>20.2}  {:>12.2}", chase / 1e6, self.ops_per_cpu_s / chase),
            None => format!("{:>20}  {:>12}", "-", "-"),
        };
        format!(
            "{:<8}  {:<8}  {:>6.2}  {:>7.2}  {:>14.2}  {:>19.0}  {chase}",
            self.workload,
            self.distribution,
            self.ops_per_s / 1e6,
            self.slowest_per_s / 1e6,
            self.ops_per_cpu_s / 1e6,
            1e9 / self.ops_per_cpu_s,
        )
    }
}
