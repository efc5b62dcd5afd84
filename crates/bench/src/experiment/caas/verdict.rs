//! Claims, what was found, and what that says of them.

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
    /// Less than what is claimed, but better than what it is compared with, by medians.
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
    /// What was found, with medians and extremes; why nothing was, if so.
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
        let (figure, verdict) = match (spread(self.of), spread(self.than)) {
            (Some(of), Some(than)) => self.judge(of, than),
            _ => ("it was not measured".to_owned(), Verdict::Failed),
        };
        Finding { part: part.to_owned(), claim: self.claim.to_owned(), figure, verdict }
    }

    fn judge(&self, of: Spread, than: Spread) -> (String, Verdict) {
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
        let ratio = of.median / than.median;
        let is_better =
            |limit: f64| if self.measure.more_is_better() { ratio >= limit } else { ratio <= limit };
        let verdict = match self.floor {
            _ if is_better(self.claimed) => Verdict::AsClaimed,
            Some(floor) if is_better(floor) => Verdict::FloorReached,
            Some(_) => Verdict::FloorMissed,
            None if is_better(1.0) && ratio != 1.0 => Verdict::SameDirection,
            None => Verdict::NotSeen,
        };
        (format!("{} times. {both}", figure(ratio)), verdict)
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
