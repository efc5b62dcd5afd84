//! Claims, what was found, and what that says of them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::{Cells, PhaseResult, Spread, figure};

/// What a figure says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As much as is claimed, or more.
    AsClaimed,
    /// Less than that, and as much as is the least that we want.
    FloorReached,
    /// Less than the least that we want.
    FloorMissed,
    /// Less than what is claimed, but better than what it is compared with.
    SameDirection,
    /// No better than what it is compared with.
    NotSeen,
    /// It could not be measured.
    Failed,
}

impl Verdict {
    /// As reports write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::AsClaimed => "as claimed",
            Self::FloorReached => "floor reached",
            Self::FloorMissed => "floor missed",
            Self::SameDirection => "same direction",
            Self::NotSeen => "not seen",
            Self::Failed => "failed",
        }
    }
}

/// One claim, with who makes it, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The part of the experiment.
    pub part: String,
    /// What is claimed, and by whom.
    pub claim: String,
    /// What was found: how many times it is, by the median of all repetitions, and both with medians and extremes; why nothing was, if so.
    pub figure: String,
    /// What that says.
    pub verdict: Verdict,
}

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
    /// The least that we want, of a claim that is our own goal.
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

    /// How many times it is in each repetition: those of one ran one after the other, and a machine changes from one to the next.
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
            // None of what is bad on either side shows nothing; of operations there are always some.
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
mod tests {
    use super::*;
    use crate::report::Context;

    fn result(engine: &str, ops_per_s_drained: f64, stall_s: f64) -> PhaseResult {
        let context = Context { engine: engine.into(), workload: "p: w".into(), ..Context::default() };
        // Whoever leaves more to do is faster until then.
        let ops_per_s = 1e6 / ops_per_s_drained;
        PhaseResult { context, ops_per_s, ops_per_s_drained, stall_s, ..PhaseResult::default() }
    }

    fn verdict(of: f64, than: f64, measure: Measure, claimed: f64) -> Verdict {
        verdict_over(None, of, than, measure, claimed)
    }

    fn verdict_over(floor: Option<f64>, of: f64, than: f64, measure: Measure, claimed: f64) -> Verdict {
        let results = [result("a", of * 1e3, of), result("b", than * 1e3, than)];
        let ratio = Ratio { claim: "c", workload: "w", of: "a", than: "b", measure, claimed, floor };
        ratio.finding("p", &results).verdict
    }

    #[test]
    fn a_goal_of_ours_reaches_its_floor_or_does_not() {
        use Measure::{Stalled, Throughput};
        use Verdict::{AsClaimed, FloorMissed, FloorReached};
        let seen = [(1.3, AsClaimed), (1.2, FloorReached), (1.0, FloorReached), (0.99, FloorMissed)];
        for (of, expected) in seen {
            assert_eq!(verdict_over(Some(1.0), of, 1.0, Throughput, 1.3), expected, "{of}");
        }
        let seen = [(0.5, AsClaimed), (0.8, FloorReached), (0.9, FloorMissed), (2.0, FloorMissed)];
        for (of, expected) in seen {
            assert_eq!(verdict_over(Some(0.8), of, 1.0, Stalled, 0.5), expected, "{of}");
        }
    }

    #[test]
    fn a_verdict_is_the_claim_the_direction_or_neither() {
        use Measure::{Stalled, Throughput};
        use Verdict::{AsClaimed, NotSeen, SameDirection};
        let seen = [(1.7, AsClaimed), (1.6, AsClaimed), (1.1, SameDirection), (1.0, NotSeen), (0.9, NotSeen)];
        for (of, expected) in seen {
            assert_eq!(verdict(of, 1.0, Throughput, 1.6), expected, "{of}");
        }
        assert_eq!(
            verdict(0.5, 1.0, Measure::Meanwhile, 1.6),
            AsClaimed,
            "what is left to do is not counted"
        );
        let seen = [(0.4, AsClaimed), (0.9, SameDirection), (1.0, NotSeen), (2.0, NotSeen)];
        for (of, expected) in seen {
            assert_eq!(verdict(of, 1.0, Stalled, 0.5), expected, "{of}");
        }
        assert_eq!([verdict(0.0, 0.0, Stalled, 0.5), verdict(1.0, 0.0, Stalled, 0.5)], [NotSeen, NotSeen]);
    }

    /// A machine that is twice as fast for the second repetition changes neither.
    #[test]
    fn repetitions_are_compared_each_with_its_own() {
        let measured = |engine, repetition, value: f64| {
            let mut result = result(engine, value * 1e3, 1.0);
            result.context.repetition = repetition;
            result
        };
        let (one, other) = ([1.2, 2.4, 0.9], [1.0, 2.0, 3.0]);
        let results: Vec<PhaseResult> = (1..)
            .zip(one.into_iter().zip(other))
            .flat_map(|(repetition, (of, than))| {
                [measured("a", repetition, of), measured("b", repetition, than)]
            })
            .collect();
        let (measure, floor) = (Measure::Throughput, Some(1.0));
        let ratio = Ratio { claim: "c", workload: "w", of: "a", than: "b", measure, claimed: 1.3, floor };
        let found = ratio.finding("p", &results);
        assert_eq!(found.verdict, Verdict::FloorReached, "{found:?}");
        assert!(
            found.figure.starts_with("1.20 times (0.30 to 1.20). w: a 1.20 (0.90 to 2.40), b"),
            "{found:?}"
        );
    }

    #[test]
    fn what_was_not_measured_has_failed() {
        let ratio = Ratio {
            claim: "c",
            workload: "w",
            of: "a",
            than: "missing",
            measure: Measure::P99,
            claimed: 1.0,
            floor: None,
        };
        let finding = ratio.finding("p", &[result("a", 1.0, 1.0)]);
        assert_eq!((finding.verdict, finding.figure.as_str()), (Verdict::Failed, "it was not measured"));
    }
}
