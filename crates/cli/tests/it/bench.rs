//! `firn bench`: the surface that scripts call.

use crate::program::{firn, text};

#[test]
fn a_small_ycsb_run_writes_its_results() {
    let directory = tempfile::tempdir().expect("a directory");
    let (json, html) = (directory.path().join("r.json"), directory.path().join("r.html"));
    let out = firn(&[
        "bench",
        "ycsb",
        "--workload",
        "load,a,e",
        "--records",
        "500",
        "--ops",
        "500",
        "--threads",
        "2",
        "--value-bytes",
        "100",
        "--memory-bytes",
        "64M",
        "--json",
        text(&json),
        "--html",
        text(&html),
    ])
    .ended(0);
    assert!(out.contains("load"), "{out}");
    let results = std::fs::read_to_string(&json).expect("results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let results = results.as_array().expect("one object a phase");
    assert_eq!(results.len(), 3);
    for result in results {
        assert_eq!(result["engine"], "firn");
        assert!(result["ops_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
        for name in
            ["p50_us", "p99_us", "p999_us", "max_us", "stall_s", "slowdown_s", "drain_s", "cpu_us_per_op"]
        {
            assert!(result[name].is_number(), "{name}: {result}");
        }
    }
    assert!(std::fs::read_to_string(&html).expect("a report").contains("</html>"));
}

#[test]
fn a_small_db_run_ends_well_and_wrong_names_are_usage_errors() {
    let directory = tempfile::tempdir().expect("a directory");
    let html = directory.path().join("r.html");
    let run = |benchmarks: &str| {
        firn(&[
            "bench",
            "db",
            "--benchmarks",
            benchmarks,
            "--num",
            "500",
            "--value-bytes",
            "100",
            "--threads",
            "1",
            "--html",
            text(&html),
        ])
    };
    let out = run("fillrandom,readrandom,seekrandom").ended(0);
    assert!(out.contains("seekrandom"), "{out}");
    let answer = run("fillrandomly");
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.complaint.contains("fillrandomly"), "{answer:?}");
}

#[test]
fn a_killed_load_is_reopened_and_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let (json, data) = (directory.path().join("r.json"), directory.path().join("data"));
    let size = ["--num", "3k", "--value-bytes", "200", "--threads", "2"];
    let places = ["--json", text(&json), "--dir", text(&data)];
    let run = || firn(&[&["bench", "reopen"][..], &size[..], &places[..]].concat());
    let out = run().ended(0);
    assert!(out.contains("3000 records") && out.contains("GiB/s"), "{out}");
    let result = std::fs::read_to_string(&json).expect("results");
    let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!((&result["records"], &result["sampled"]), (&3000.into(), &3000.into()));
    assert!(result["log_bytes"].as_u64().is_some_and(|bytes| bytes > 3000 * 216), "{result}");
    for name in ["seconds", "gib_per_s", "records_per_s"] {
        assert!(result[name].as_f64().is_some_and(|figure| figure > 0.0), "{name}: {result}");
    }
    let counted = firn(&["scan", "--dir", text(&data), "--keys"]);
    assert_eq!(counted.out.lines().count(), 3000, "{}", counted.complaint);
    run().complained(2, &["not empty"]);
}
