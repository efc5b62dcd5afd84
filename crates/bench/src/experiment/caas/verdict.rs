//! Claims, what was found, and what that says of them.

use std::collections::BTreeMap;

use crate::report::{Cells, Finding, PhaseResult, Spread, Verdict, figure};

/// What a claim is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    /// Operations a second, drained: what compactions are left is counted.
    Throughput,
    /// Operations a second while clients work: what compactions they leave is not counted.
    Meanwhile,
    P99,
    P999,
    /// Of the database's process, for each operation.
    DatabaseCpu,
    /// Seconds that writers were stopped and slowed.
    Stalled,
}

impl Measure {
    fn of(self, result: &PhaseResult) -> f64 {
        match self {
            Self::Throughput => result.ops_per_s_drained / 1e3,
            Self::Meanwhile => result.ops_per_s / 1e3,
            Self::P99 => result.p99_us,
            Self::P999 => result.p999_us / 1e3,
            Self::DatabaseCpu => result.cpu_us_per_op,
            Self::Stalled => result.stall_s + result.slowdown_s,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "kops/s, drained",
            Self::Meanwhile => "kops/s while clients work",
            Self::P99 => "us p99",
            Self::P999 => "ms p99.9",
            Self::DatabaseCpu => "us of the database's processor by operation",
            Self::Stalled => "s stopped and slowed",
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::Meanwhile)
    }
}

/// A claim that `of` is so many times `than`, where both did `workload`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio<'c> {
    pub(super) claim: &'c str,
    pub(super) workload: &'c str,
    pub(super) of: &'c str,
    pub(super) than: &'c str,
    pub(super) measure: Measure,
    pub(super) claimed: f64,
    /// The least that is wanted, of a claim that is Firn's own goal.
    pub(super) floor: Option<f64>,
}

impl Ratio<'_> {
    /// What `results` say of it. A claim on what was not measured has failed.
    pub(super) fn finding(&self, part: &str, results: &[PhaseResult]) -> Finding {
        let cells = Cells::new(results);
        let workload = format!("{part}: {}", self.workload);
        let spread = |variant| cells.spread(variant, &workload, |result| Some(self.measure.of(result)));
        let measured = (spread(self.of), spread(self.than), self.times(&workload, results));
        let (figure, verdict) = match measured {
            (Some(of), Some(than), Some(times)) => self.judge(of, than, times),
            _ => ("it was not measured".to_owned(), Verdict::Failed),
        };
        Finding { part: part.to_owned(), claim: self.claim.to_owned(), figure, verdict }
    }

    /// How many times it is in each repetition: those of one ran one after the other, and a machine
    /// changes from one to the next.
    fn times(&self, workload: &str, results: &[PhaseResult]) -> Option<Spread> {
        let by_repetition = |variant: &str| {
            let mut sums = BTreeMap::<u32, (f64, f64)>::new();
            let its = |result: &&PhaseResult| {
                result.context.engine == variant && result.context.workload == workload
            };
            for result in results.iter().filter(its) {
                let (sum, count) = sums.entry(result.context.repetition).or_default();
                (*sum, *count) = (*sum + self.measure.of(result), *count + 1.0);
            }
            sums
        };
        let than = by_repetition(self.than);
        let times = by_repetition(self.of).into_iter().filter_map(|(repetition, (sum, count))| {
            let (than_sum, than_count) = than.get(&repetition)?;
            let (of, than) = (sum / count, than_sum / than_count);
            // None of what is bad on either side is as good as the other.
            Some(if of == than { 1.0 } else { of / than })
        });
        Spread::of(times.collect())
    }

    fn judge(&self, of: Spread, than: Spread, times: Spread) -> (String, Verdict) {
        let shown = |name: &str, it: Spread| {
            format!("{name} {} ({} to {})", figure(it.median), figure(it.low), figure(it.high))
        };
        let both = format!(
            "{}: {}, {}; {}",
            self.workload,
            shown(self.of, of),
            shown(self.than, than),
            self.measure.name()
        );
        if than.median == 0.0 {
            // None of what is bad on either side shows nothing; of operations there are always
            // some.
            return (both, Verdict::NotSeen);
        }
        let ratio = times.median;
        let is_better =
            |limit: f64| if self.measure.more_is_better() { ratio >= limit } else { ratio <= limit };
        let verdict = match self.floor {
            _ if is_better(self.claimed) => Verdict::AsClaimed,
            Some(floor) if is_better(floor) => Verdict::FloorReached,
            Some(_) => Verdict::FloorMissed,
            None if is_better(1.0) && ratio != 1.0 => Verdict::SameDirection,
            None => Verdict::NotSeen,
        };
        let range = match times.low == times.high {
            true => String::new(),
            false => format!(" ({} to {})", figure(times.low), figure(times.high)),
        };
        (format!("{} times{range}. {both}", figure(ratio)), verdict)
    }
}

#[cfg(test)]
mod tests;
