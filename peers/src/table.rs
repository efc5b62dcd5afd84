//! Medians and ratios as tables for a terminal.

use std::collections::BTreeMap;

use firn_bench::report::{Cells, PhaseResult, Spread, figure, table_text};

/// What a table shows: heading, measure, and whether more is better.
struct Measure {
    heading: &'static str,
    value: fn(&PhaseResult) -> Option<f64>,
    more_is_better: bool,
}

const MEASURES: [Measure; 11] = [
    Measure { heading: "kops/s", value: |r| Some(r.ops_per_s / 1e3), more_is_better: true },
    Measure {
        heading: "kops/s, drain included",
        value: |r| Some(r.ops_per_s_drained / 1e3),
        more_is_better: true,
    },
    Measure { heading: "p50 us", value: |r| Some(r.p50_us), more_is_better: false },
    Measure { heading: "p99 us", value: |r| Some(r.p99_us), more_is_better: false },
    Measure { heading: "p99.9 us", value: |r| Some(r.p999_us), more_is_better: false },
    Measure { heading: "CPU us/op", value: |r| Some(r.cpu_us_per_op), more_is_better: false },
    Measure { heading: "write amplification", value: |r| r.write_amplification, more_is_better: false },
    Measure {
        heading: "write amplification by the kernel",
        value: |r| r.kernel_write_amplification,
        more_is_better: false,
    },
    Measure { heading: "space amplification", value: |r| r.space_amplification, more_is_better: false },
    Measure {
        heading: "seconds stopped or slowed",
        value: |r| Some(r.stall_s + r.slowdown_s),
        more_is_better: false,
    },
    Measure {
        heading: "peak resident MiB",
        value: |r| Some(r.rss_peak_bytes as f64 / f64::from(1 << 20)),
        more_is_better: false,
    },
];

/// For each measure a table of workloads by engines: median, spread, and the ratio to `baseline`,
/// which is the median of the ratios of each repetition.
pub fn tables(results: &[PhaseResult], baseline: &str) -> String {
    let cells = Cells::new(results);
    let mut text = String::new();
    for measure in &MEASURES {
        let mut rows = vec![heading(&cells, baseline)];
        for workload in cells.workloads() {
            let row: Vec<String> = cells
                .engines()
                .iter()
                .map(|engine| cell(&cells, measure, engine, workload, baseline))
                .collect();
            if row.iter().any(|cell| cell != "-") {
                rows.push(std::iter::once((*workload).to_owned()).chain(row).collect());
            }
        }
        if rows.len() > 1 {
            let better = if measure.more_is_better { "more" } else { "less" };
            text.push_str(&format!("\n{} ({better} is better)\n{}", measure.heading, table_text(&rows, 1)));
        }
    }
    text
}

fn heading(cells: &Cells<'_>, baseline: &str) -> Vec<String> {
    let engines = cells
        .engines()
        .iter()
        .map(|engine| if *engine == baseline { format!("{engine} (= 1)") } else { (*engine).to_owned() });
    std::iter::once(String::new()).chain(engines).collect()
}

fn cell(cells: &Cells<'_>, measure: &Measure, engine: &str, workload: &str, baseline: &str) -> String {
    let Some(spread) = cells.spread(engine, workload, measure.value) else { return "-".to_owned() };
    let mut text = figure(spread.median);
    if spread.high > spread.low {
        text.push_str(&format!(" [{}..{}]", figure(spread.low), figure(spread.high)));
    }
    if engine != baseline
        && let Some(ratio) = ratio(cells, measure, engine, workload, baseline)
    {
        text.push_str(&format!(" {:.2}x", ratio.median));
    }
    text
}

/// Spread of the ratios to the baseline, pairing the repetitions.
fn ratio(
    cells: &Cells<'_>,
    measure: &Measure,
    engine: &str,
    workload: &str,
    baseline: &str,
) -> Option<Spread> {
    let by_repetition = |engine: &str| -> BTreeMap<u32, f64> {
        cells
            .cell(engine, workload)
            .filter_map(|result| Some((result.context.repetition, (measure.value)(result)?)))
            .collect()
    };
    let base = by_repetition(baseline);
    let ratios = by_repetition(engine).into_iter().filter_map(|(repetition, value)| {
        let base = *base.get(&repetition)?;
        (base > 0.0).then(|| value / base)
    });
    Spread::of(ratios.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_bench::report::Context;

    fn result(engine: &str, repetition: u32, ops_per_s: f64) -> PhaseResult {
        let context =
            Context { engine: engine.to_owned(), workload: "a".to_owned(), repetition, ..Context::default() };
        PhaseResult { context, ops_per_s, ..PhaseResult::default() }
    }

    #[test]
    fn ratios_pair_the_repetitions() {
        // The machine is twice as fast in the second repetition: the ratio stays 3.
        let results = [("one", 1, 3e3), ("base", 1, 1e3), ("one", 2, 6e3), ("base", 2, 2e3)];
        let results: Vec<PhaseResult> = results.map(|(engine, run, ops)| result(engine, run, ops)).into();
        let text = tables(&results, "base");
        assert!(text.contains("4.50 [3.00..6.00] 3.00x"), "{text}");
        assert!(text.contains("base (= 1)"), "{text}");
        assert!(!text.contains("write amplification"), "a measure nobody has is left out: {text}");
    }
}
