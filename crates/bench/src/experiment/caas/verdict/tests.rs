//! What figures say of claims.

use super::*;
use crate::report::Context;

fn result(engine: &str, ops_per_s_drained: f64, stall_s: f64) -> PhaseResult {
    let context = Context { engine: engine.into(), workload: "p: w".into(), ..Context::default() };
    // A way that leaves more to do is faster until then.
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
    assert_eq!(verdict(0.5, 1.0, Measure::Meanwhile, 1.6), AsClaimed, "what is left to do is not counted");
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
        .flat_map(|(repetition, (of, than))| [measured("a", repetition, of), measured("b", repetition, than)])
        .collect();
    let (measure, floor) = (Measure::Throughput, Some(1.0));
    let ratio = Ratio { claim: "c", workload: "w", of: "a", than: "b", measure, claimed: 1.3, floor };
    let found = ratio.finding("p", &results);
    assert_eq!(found.verdict, Verdict::FloorReached, "{found:?}");
    assert!(found.figure.starts_with("1.20 times (0.30 to 1.20). w: a 1.20 (0.90 to 2.40), b"), "{found:?}");
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
