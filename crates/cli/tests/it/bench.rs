//! `firn bench`: the surface that scripts call.

use crate::program::{firn, text};
use crate::serve::Serving;

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
#[ignore = "minutes; the full tier runs it"]
fn writing_against_space_has_a_point_for_each_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("r.json");
    let out = firn(&["bench", "experiment", "space", "--scale", "tiny", "--json", text(&json)]).ended(0);
    for part in [
        "at limit  above it  at space  above it",
        "uniform: bytes written for each",
        "zipfian: bytes written for each",
    ] {
        assert!(out.contains(part), "no {part} in {out}");
    }
    let points = std::fs::read_to_string(&json).expect("results");
    let points: serde_json::Value = serde_json::from_str(&points).expect("JSON");
    let points = points.as_array().expect("a list");
    assert_eq!(points.len(), 2 * 7);
    for point in points {
        let figure = |name: &str| point[name].as_f64().unwrap_or_else(|| panic!("no {name} in {point}"));
        assert!((1.15..=2.0).contains(&figure("limit")), "{point}");
        assert!(figure("model") > 1.0 && figure("write_amplification") > 1.0, "{point}");
        assert!(figure("model_held") >= 1.0, "{point}");
        assert!(figure("space") >= 1.0 && figure("space_peak") >= figure("space"), "{point}");
        assert!(figure("ops_per_s") > 0.0, "{point}");
    }
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

#[test]
fn a_server_is_measured_from_outside() {
    let directory = tempfile::tempdir().expect("a directory");
    let (json, html) = (directory.path().join("r.json"), directory.path().join("r.html"));
    let mut serving = Serving::start(&directory.path().join("data"));
    let (target, pid) = (format!("resp://{}", serving.address), serving.process.id().to_string());
    let size = ["--records", "300", "--ops", "200", "--value-bytes", "50", "--pipeline", "8"];
    let places = ["--target", &target, "--json", text(&json), "--html", text(&html)];
    let answer = firn(&[&["bench", "ycsb", "--workload", "load,a,e"][..], &size[..], &places[..]].concat());
    assert!(answer.complaint.contains("Left out: e"), "{answer:?}");
    answer.ended(0);
    let results = std::fs::read_to_string(&json).expect("results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let shown: Vec<_> =
        results.as_array().expect("an array").iter().map(|result| &result["workload"]).collect();
    assert_eq!(shown, ["load", "a"]);
    assert_eq!((&results[1]["engine"], &results[1]["not_found"]), (&target.as_str().into(), &0.into()));
    assert!(std::fs::read_to_string(&html).expect("a report").contains("Left out: e"));

    let compare = [format!("one={target},{pid}"), format!("two={target}/1")];
    let words =
        ["bench", "resp", "--compare", &compare[0], &compare[1], "--repetitions", "2", "--requests", "500"];
    let out = firn(&[&words[..], &["--load", "--keys", "100", "--json", text(&json)]].concat()).ended(0);
    assert!(out.contains("Medians of 2 repetitions") && out.contains("1.00x"), "{out}");
    let report = std::fs::read_to_string(&json).expect("results");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["results"].as_array().map(Vec::len), Some(8));
    assert_eq!(report["comparisons"].as_array().map(Vec::len), Some(4));
    assert_eq!(report["results"][0]["server"]["pid"].to_string(), pid);
    serving.signal("TERM");
    assert!(serving.process.wait().expect("it ends").success());
    let answer = firn(&["bench", "resp", "--target", &target]);
    assert!(answer.code == 1 && answer.complaint.contains("cannot connect to resp://"), "{answer:?}");
}

#[test]
fn what_a_server_does_not_have_is_a_usage_error() {
    for (words, named) in [
        (&["ycsb", "--target", "resp://127.0.0.1:1", "--workload", "e"][..], "no scans over strings"),
        (&["ycsb", "--target", "resp://127.0.0.1:1", "--durability", "disk"], "--durability"),
        (&["ycsb", "--connections", "4"], "--target"),
        (&["ycsb", "--target", "127.0.0.1:1"], "expected resp://host:port"),
        (&["resp", "--threads", "4", "--connections", "2"], "--connections 2"),
        (&["resp", "--commands", "scan"], "scan"),
    ] {
        let answer = firn(&[&["bench"], words].concat());
        assert!(answer.code == 2 && answer.complaint.contains(named), "{answer:?}");
    }
}

#[test]
fn the_hashed_engine_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let (json, html) = (directory.path().join("r.json"), directory.path().join("r.html"));
    let places =
        ["--json", text(&json), "--html", text(&html), "--engine", "hashlog", "--memory-bytes", "64M"];
    let size = ["--records", "300", "--ops", "200", "--value-bytes", "50"];
    let answer = firn(&[&["bench", "ycsb"][..], &size[..], &places[..]].concat());
    assert!(answer.complaint.contains("Left out: e"), "{answer:?}");
    answer.ended(0);
    let answer = firn(&[&["bench", "ycsb", "--workload", "e"][..], &size[..], &places[..]].concat());
    assert!(answer.code == 2 && answer.complaint.contains("no order"), "{answer:?}");
    let answer = firn(&[&["bench", "db", "--benchmarks", "seekrandom"][..], &places[..]].concat());
    assert!(answer.code == 2 && answer.complaint.contains("no order"), "{answer:?}");
    let out =
        firn(&["bench", "reopen", "--engine", "hashlog", "--num", "3k", "--value-bytes", "200"]).ended(0);
    assert!(out.contains("3000 records") && out.contains("3000 read back"), "{out}");
    let few = ["--num", "2k", "--memory", "64M", "--repetitions", "1", "--count", "3"];
    firn(&[&["bench", "keyspaces", "--engine", "hashlog"][..], &few[..]].concat()).ended(0);
    let points = ["--records", "1000", "--seconds", "0.1", "--memory-bytes", "64M", "--json", text(&json)];
    let out = firn(&[&["bench", "points", "--engine", "hashlog"][..], &points[..]].concat()).ended(0);
    assert!(out.contains("of the chase") && out.contains("zipfian"), "{out}");
    let results = std::fs::read_to_string(&json).expect("results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    assert_eq!(results["results"].as_array().map(Vec::len), Some(6));
    let (from, to) = (directory.path().join("ycsb.txt"), directory.path().join("keys"));
    std::fs::write(&from, "INSERT usertable user5 [ field0=x ]\n").expect("written");
    let out = firn(&["bench", "ycsb", "process-ycsb", text(&from), text(&to)]).ended(0);
    assert!(out.ends_with("holds 1 key\n"), "{out}");
    assert_eq!(std::fs::read(&to).expect("read"), 5_u64.to_le_bytes());
}
