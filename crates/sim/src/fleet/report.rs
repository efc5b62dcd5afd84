//! Several deciders, side by side.

use std::fmt;

use super::run::{Decider, Outcome, Plan, run};

/// One decider's outcome.
#[derive(Clone, Debug)]
pub struct Row {
    /// What decided.
    pub decider: Decider,
    /// What came of it.
    pub outcome: Outcome,
}

/// All deciders with one plan.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was simulated.
    pub plan: Plan,
    /// The ideal first.
    pub rows: Vec<Row>,
}

/// Runs `plan` with every decider; with the oracle, which takes a hundred times as long as all
/// others, if `with_oracle`.
pub fn compare(plan: &Plan, with_oracle: bool) -> Report {
    let oracle = with_oracle.then_some(Decider::Oracle);
    let others = [Decider::Schedule, Decider::LeastLoaded, Decider::Fifo, Decider::Random];
    let deciders = [Decider::Ideal].into_iter().chain(oracle).chain(others);
    let rows = deciders.map(|decider| Row { decider, outcome: run(plan, decider) });
    Report { plan: *plan, rows: rows.collect() }
}

impl Report {
    /// What came of `decider`'s decisions.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn of(&self, decider: Decider) -> &Outcome {
        let row = self.rows.iter().find(|row| row.decider == decider);
        row.map_or_else(|| panic!("no row of {decider:?}"), |row| &row.outcome)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { databases, workers, slots, zones, seconds, load, flood, heavy, crashes, own, seed } =
            self.plan;
        writeln!(
            f,
            "{databases} databases, {workers} workers of {slots} slots, {zones} zones, {seconds} s, load {load}, flood {flood}, heavy {heavy}, crashes {crashes}/h, own {own} MiB/s, seed {seed}"
        )?;
        writeln!(
            f,
            "{:<12} {:>10} {:>8} {:>10} {:>8} {:>10} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>6}",
            "decider",
            "stalled s",
            "x ideal",
            "worst s",
            "jobs",
            "waited s",
            "busy",
            "wasted GiB",
            "taken min",
            "flood GiB",
            "heavy GiB",
            "own jobs",
            "own GiB",
            "killed"
        )?;
        let ideal = self.of(Decider::Ideal).stalled_seconds.max(1.0);
        for Row { decider, outcome } in &self.rows {
            writeln!(
                f,
                "{:<12} {:>10.0} {:>8.2} {:>10.1} {:>8} {:>10.1} {:>6.2} {:>10.1} {:>10.3} {:>10.1} {:>10.1} {:>8} {:>8.1} {:>6}",
                format!("{decider:?}"),
                outcome.stalled_seconds,
                outcome.stalled_seconds / ideal,
                outcome.stalled_seconds_max,
                outcome.jobs,
                outcome.waited_seconds_max,
                outcome.busy,
                outcome.wasted_bytes / f64::from(1 << 30),
                outcome.taken_min,
                outcome.flood_bytes[0] / f64::from(1 << 30),
                outcome.flood_bytes[1] / f64::from(1 << 30),
                outcome.own_jobs,
                outcome.own_bytes / f64::from(1 << 30),
                outcome.crashes,
            )?;
        }
        Ok(())
    }
}
