use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use firn::EngineKind;
use firn_engine::ErrorKind;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    points: PointsArgs,
}

fn args(words: &[&str]) -> PointsArgs {
    let small = ["bench", "--seconds", "0.2", "--memory-bytes", "64M"];
    Line::parse_from(small.iter().chain(words)).points
}

fn file(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn every_workload_runs_on_both_engines_and_sums_are_exact() {
    for engine in EngineKind::ALL {
        let results = run_points(&args(&["--engine", engine.name(), "--records", "2000"])).expect("it runs");
        let rows: Vec<(&str, &str)> =
            results.iter().map(|row| (row.workload.as_str(), row.distribution.as_str())).collect();
        let of = |distribution| ["read", "mixed", "rmw"].map(|workload| (workload, distribution));
        assert_eq!(rows, [of("uniform"), of("zipfian")].concat(), "{engine}");
        for row in &results {
            assert!(
                row.operations > 1_000 && row.chase_per_cpu_s.is_some_and(|chase| chase > row.ops_per_cpu_s)
            );
            assert!(row.series.iter().sum::<u64>() <= row.operations && !row.series.is_empty());
        }
    }
}

#[test]
fn loads_say_what_the_index_did_and_what_a_key_takes() {
    let dir = tempfile::tempdir().expect("a directory");
    let loaded = |more: &[&str]| {
        let json = dir.path().join("r.json").display().to_string();
        let all = ["--engine", "hashlog", "--records", "200k", "--workload", "read", "--json", &json];
        run_points(&args(&[&all[..], more].concat())).expect("it runs");
        let text = std::fs::read_to_string(&json).expect("written");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["loaded"].clone()
    };
    let figure = |loaded: &serde_json::Value, name: &str| loaded[name].as_f64().expect("a number");
    let grown = loaded(&[]);
    // A slot of twelve keys has grown once, most of them: six entries a bucket.
    assert!(figure(&grown, "growths") > 10_000.0, "{grown}");
    assert!(figure(&grown, "growth_waits") >= figure(&grown, "growths"), "{grown}");
    assert!((40.0..60.0).contains(&figure(&grown, "memory_bytes_per_key")), "{grown}");
    let presized = loaded(&["--presized"]);
    assert!(figure(&presized, "growths") < 1_000.0, "{presized}");
}

#[test]
fn a_run_with_a_checkpoint_is_compared_until_some_time_after_it() {
    let all = ["--engine", "hashlog", "--records", "2000", "--workload", "rmw", "--checkpoint"];
    let error =
        run_points(&args(&[&all[..], &["--distribution", "uniform"]].concat())).expect_err("too short");
    assert!(error.to_string().contains("--seconds 11 or more"), "{error}");
    let second = |operations| vec![operations; 10];
    let series = [second(1), second(2), second(3)].concat();
    let measured =
        phase::Measured { operations: 60, time: Duration::from_secs(3), cpu: Duration::from_secs(1), series };
    let within = |ms| checkpoint::rate_within(&measured, Duration::from_millis(ms)).expect("long enough");
    assert_eq!([within(1000), within(2000), within(2950)], [10.0, 15.0, 20.0]);
    checkpoint::rate_within(&measured, Duration::from_millis(3001)).expect_err("it was over before");
}

#[test]
fn what_the_ordered_engine_has_not_is_refused() {
    for option in ["--presized", "--checkpoint"] {
        let error = run_points(&args(&[option])).expect_err("of the other engine");
        assert!(error.to_string().contains(option) && error.to_string().contains("--engine hashlog"));
    }
}

#[test]
fn a_sum_that_is_not_exact_is_told() {
    check_sum(10, 12, 2).expect("exact");
    let error = check_sum(10, 12, 3).expect_err("one is lost");
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert!(error.to_string().contains("3 was added") && error.to_string().contains("2 more"), "{error}");
}

#[test]
fn keys_of_ycsb_become_files_that_are_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let loads =
        "***** properties *****\nINSERT usertable user7 [ field0=a b ]\nINSERT usertable user256 [ f=x ]\n";
    let (text, load) = (file(&dir, "load.txt", loads.as_bytes()), dir.path().join("load"));
    assert_eq!(process_ycsb(&text, &load).expect("made"), 2);
    let bytes = std::fs::read(&load).expect("read");
    assert_eq!(bytes, [7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let asks = "READ usertable user256 [ <all fields>]\nUPDATE usertable user18446744073709551615 [ f=x ]\n";
    let (text, txns) = (file(&dir, "txns.txt", asks.as_bytes()), dir.path().join("txns"));
    assert_eq!(process_ycsb(&text, &txns).expect("made"), 2);
    let (load, txns) = (load.display().to_string(), txns.display().to_string());
    let asked =
        args(&["--engine", "hashlog", "--load-file", &load, "--txns-file", &txns, "--workload", "rmw"]);
    let results = run_points(&asked).expect("it runs");
    assert_eq!((results.len(), results[0].keys, results[0].distribution.as_str()), (1, 2, "file"));
}

#[test]
fn files_without_keys_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("to");
    let none = process_ycsb(&file(&dir, "none", b"nothing here\n"), &to).expect_err("no operations");
    assert!(none.to_string().contains("basic"), "{none}");
    let wrong = process_ycsb(&file(&dir, "wrong", b"\nREAD usertable 7 x\n"), &to).expect_err("no key");
    assert!(wrong.to_string().contains("line 2"), "{wrong}");
    let (torn, whole) = (file(&dir, "torn", &[0; 9]), file(&dir, "whole", &[0; 8]));
    let (torn, whole) = (torn.display().to_string(), whole.display().to_string());
    let error = run_points(&args(&["--load-file", &torn, "--txns-file", &whole])).expect_err("a torn key");
    assert!(error.to_string().contains("9 bytes"), "{error}");
    let error = run_points(&args(&["--workload", "write"])).expect_err("no such workload");
    assert!(error.to_string().contains("read, mixed and rmw"), "{error}");
}
