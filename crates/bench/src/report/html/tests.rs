use super::*;
use crate::report::{Context, DiskPoint, SeriesPoint};

fn result(engine: &str, workload: &str, repetition: u32, ops_per_s: f64) -> PhaseResult {
    let context = Context {
        engine: engine.to_owned(),
        workload: workload.to_owned(),
        repetition,
        ..Context::default()
    };
    let series = (1..5).map(|at| SeriesPoint { at_s: f64::from(at), ops_per_s, max_us: 50.0 }).collect();
    PhaseResult {
        context,
        ops_per_s,
        p50_us: 2.0,
        p99_us: 20.0,
        p999_us: 90.0,
        max_us: 5_000.0,
        write_amplification: (workload == "load").then_some(2.5),
        series,
        disk_series: (1..5).map(|at| DiskPoint { at_s: f64::from(at), bytes: 1 << 30 }).collect(),
        ..PhaseResult::default()
    }
}

fn page(results: &[PhaseResult]) -> String {
    let report =
        Report { title: "a <b> title".to_owned(), notes: vec!["no cgroup".to_owned()], ..Report::default() };
    html(&report, results).unwrap()
}

#[test]
fn a_page_is_whole_escaped_and_refers_to_nothing_outside() {
    let text = page(&[result("one", "load", 1, 1e5), result("two & more", "load", 1, 2e5)]);
    assert!(text.contains("a &#60;b&#62; title") || text.contains("a &lt;b&gt; title"), "title not escaped");
    assert!(text.contains("no cgroup"));
    assert!(text.trim_end().ends_with("</html>"));
    assert!(
        !text.contains("http://") && !text.contains("https://") && !text.contains("src="),
        "refers outside"
    );
    assert!(!text.contains("two & more"), "an engine's name is not escaped");
    assert!(!text.contains("NaN") && !text.contains("inf"), "a number is not finite");
}

#[test]
fn engines_are_compared_by_workload_and_alone_by_themselves() {
    let many =
        page(&[result("one", "load", 1, 1e5), result("two", "load", 1, 2e5), result("one", "a", 1, 3e5)]);
    assert!(many.contains("class=\"legend\""));
    let panels = "throughput, latency, both over time, processor, writes, space over time";
    assert_eq!(many.matches("<h3>load</h3>").count(), 6, "{panels}");
    // Of the two engines, throughput and longest latency and space.
    assert_eq!(many.matches(r#"class="line s"#).count(), 6);
    assert_eq!(many.matches(r#"class="line thin s"#).count(), 3);
    let single = page(&[result("one", "load", 1, 1e5), result("one", "a", 1, 2e5)]);
    assert!(!single.contains("class=\"legend\""));
}

#[test]
fn repetitions_give_medians_and_whiskers() {
    let results = [1e5, 3e5, 2e5].iter().zip(1..).map(|(ops, run)| result("one", "a", run, *ops));
    let text = page(&results.collect::<Vec<_>>());
    assert!(text.contains("one: 200 (100 to 300)") || text.contains("a: 200 (100 to 300)"), "no median");
    assert!(text.contains("class=\"whisker\""));
}

#[test]
fn no_results_make_a_page_without_plots() {
    let text = page(&[]);
    assert!(text.contains("</html>") && !text.contains("<svg"));
}
