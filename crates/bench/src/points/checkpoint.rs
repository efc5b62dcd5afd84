//! What operations lose to a checkpoint that is taken amid.
//!
//! ```text
//!   without: ├──────────────── --seconds ────────────────┤   twice, before and after
//!   with:    ├─ checkpoint ─┼──────── 10 s ────────┤ compared
//! ```

use std::time::Duration;

use firn::PointDb;
use firn_engine::{Error, Result};
use serde::Serialize;

use super::args::PointsArgs;
use super::phase::{self, Measured, Workload, timed};
use crate::driver::SAMPLE_EVERY;

/// How long operations are watched once the checkpoint has ended.
const AFTERWARDS: Duration = Duration::from_secs(10);

/// One workload with a checkpoint and without.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointResult {
    /// `read`, `mixed` or `rmw`.
    pub workload: String,
    /// `uniform`, `zipfian`, or `file`.
    pub distribution: String,
    /// How long the checkpoint took.
    pub checkpoint_s: f64,
    /// Operations each second over the checkpoint and 10 s.
    pub ops_per_s: f64,
    /// Operations each second without one: of the runs before and after, the mean.
    pub ops_per_s_without: f64,
    /// Operations that waited for the moment of the checkpoint.
    pub stop_waits: u64,
    /// Microseconds of the longest such wait since the database was opened.
    pub stop_wait_us_max: u64,
}

/// Names of the columns of a row.
pub(super) const HEAD: &str =
    "workload  keys      Mops/s  without  ratio  checkpoint s  waits for its moment  longest ms";

impl CheckpointResult {
    /// Runs `workload` with a checkpoint as it begins, and again without; `before` is a run
    /// without one.
    ///
    /// # Errors
    /// What the store failed with; `Invalid` if the run was over before 10 s after the checkpoint.
    pub(super) fn of(
        db: &PointDb,
        (workload, distribution): (Workload, &str),
        keys: &[u64],
        args: &PointsArgs,
        before: &Measured,
    ) -> Result<Self> {
        let waits = || db.stats().hash.map_or((0, 0), |hash| (hash.stop_wait_count, hash.stop_wait_us_max));
        let (waited, _) = waits();
        let (measured, took) = std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| timed(|| db.flush()));
            let measured = phase::run(db, workload, keys, args);
            let took = checkpoint.join().map_err(|_| Error::bug("a checkpoint panicked"));
            Ok((measured?, took??))
        })?;
        let (stop_waits, stop_wait_us_max) = waits();
        let after = phase::run(db, workload, keys, args)?;
        Ok(Self {
            workload: workload.name().to_owned(),
            distribution: distribution.to_owned(),
            checkpoint_s: took.as_secs_f64(),
            ops_per_s: rate_within(&measured, took + AFTERWARDS)?,
            ops_per_s_without: (before.per_second() + after.per_second()) / 2.0,
            stop_waits: stop_waits - waited,
            stop_wait_us_max,
        })
    }

    /// It as a line for people.
    pub(super) fn row(&self) -> String {
        format!(
            "{:<8}  {:<8}  {:>6.2}  {:>7.2}  {:>5.2}  {:>12.2}  {:>20}  {:>10.2}",
            self.workload,
            self.distribution,
            self.ops_per_s / 1e6,
            self.ops_per_s_without / 1e6,
            self.ops_per_s / self.ops_per_s_without,
            self.checkpoint_s,
            self.stop_waits,
            self.stop_wait_us_max as f64 / 1e3,
        )
    }
}

/// Operations each second of the first `time` of a run.
///
/// # Errors
/// `Invalid` if it was over before.
pub(super) fn rate_within(measured: &Measured, time: Duration) -> Result<f64> {
    let samples = time.as_secs_f64() / SAMPLE_EVERY.as_secs_f64();
    let within = measured.series.get(..samples.ceil() as usize).ok_or_else(|| {
        let (needed, found) = (time.as_secs_f64().ceil(), measured.time.as_secs_f64());
        Error::invalid(format!(
            "the checkpoint and 10 s after it took longer than the {found:.0} s of the run: \
             ask for --seconds {needed:.0} or more"
        ))
    })?;
    let seconds = within.len() as f64 * SAMPLE_EVERY.as_secs_f64();
    Ok(within.iter().sum::<u64>() as f64 / seconds)
}
