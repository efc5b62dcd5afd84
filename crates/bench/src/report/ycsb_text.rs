//! Text in the form YCSB-cpp prints, for scripts that read it.

use super::PhaseResult;
use crate::driver::Sample;
use crate::workload::Kind;

/// `10 sec: 12345 operations; [READ: Count=… Max=… Min=… Avg=…]`, latencies in microseconds.
pub fn status_line(sample: &Sample) -> String {
    let mut line = format!("{} sec: {} operations;", sample.elapsed.as_secs(), sample.operations());
    for (kind, gauge) in Kind::ALL.iter().zip(&sample.kinds) {
        if gauge.count > 0 {
            let average = gauge.sum_ns as f64 / gauge.count as f64 / 1e3;
            line.push_str(&format!(
                " [{}: Count={} Max={:.2} Min={:.2} Avg={average:.2}]",
                kind.name(),
                gauge.count,
                gauge.max_ns as f64 / 1e3,
                gauge.min_ns as f64 / 1e3,
            ));
        }
    }
    line
}

/// The block YCSB-cpp ends a phase with, and a line of latencies for each kind of operation.
pub fn final_block(result: &PhaseResult) -> String {
    let phase = if result.context.workload == "load" { "Load" } else { "Run" };
    let mut text = format!(
        "{phase} runtime(sec): {:.6}\n{phase} operations(ops): {}\n{phase} throughput(ops/sec): {:.2}\n",
        result.run_s, result.operations, result.ops_per_s
    );
    for (name, figures) in &result.by_kind {
        text.push_str(&format!(
            "[{name}: Count={} Max={:.2} Min={:.2} Avg={:.2} 90={:.2} 99={:.2} 99.9={:.2} 99.99={:.2}]\n",
            figures.count,
            figures.max_us,
            figures.min_us,
            figures.mean_us,
            figures.p90_us,
            figures.p99_us,
            figures.p999_us,
            figures.p9999_us,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::driver::KindGauge;
    use crate::measure::Percentiles;

    #[test]
    fn status_lines_show_kinds_that_occurred() {
        let mut sample = Sample { elapsed: Duration::from_secs(10), ..Sample::default() };
        sample.kinds[0] = KindGauge { count: 2, sum_ns: 6_000, max_ns: 4_000, min_ns: 2_000 };
        let expected = "10 sec: 2 operations; [READ: Count=2 Max=4.00 Min=2.00 Avg=3.00]";
        assert_eq!(status_line(&sample), expected);
    }

    #[test]
    fn the_final_block_names_its_phase() {
        let mut result = PhaseResult { run_s: 2.0, operations: 10, ops_per_s: 5.0, ..PhaseResult::default() };
        result.context.workload = "load".to_owned();
        result.by_kind.insert("INSERT".to_owned(), Percentiles { count: 10, ..Percentiles::default() });
        let text = final_block(&result);
        assert!(text.starts_with(
            "Load runtime(sec): 2.000000\nLoad operations(ops): 10\nLoad throughput(ops/sec): 5.00\n"
        ));
        assert!(text.contains("[INSERT: Count=10 "));
        result.context.workload = "a".to_owned();
        assert!(final_block(&result).starts_with("Run runtime(sec)"));
    }
}
