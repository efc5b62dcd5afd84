use super::*;
use crate::args::OutputArgs;
use crate::report::Context;

fn args(dir: &std::path::Path, part: CaasPart) -> CaasArgs {
    let nowhere = dir.join("no-such-program");
    let output = OutputArgs { json: Some(dir.join("r.json")), html: Some(dir.join("r.html")) };
    CaasArgs {
        scale: CaasScale::Tiny,
        part: vec![part],
        dir: Some(dir.join("work")),
        store_server: Some(nowhere.clone()),
        simulator: Some(nowhere),
        idle: None,
        seed: 1,
        output,
    }
}

#[test]
fn a_part_that_is_broken_is_in_the_report_as_failed_with_why() {
    let dir = tempfile::tempdir().unwrap();
    let args = args(dir.path(), CaasPart::Zones);
    let error = run_caas(&args).unwrap_err().to_string();
    assert!(error.contains("failed: zones"), "{error}");
    let text = std::fs::read_to_string(dir.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(
        (findings.len(), &findings[0]["part"], &findings[0]["verdict"]),
        (1, &"zones".into(), &"failed".into())
    );
    let why = findings[0]["figure"].as_str().unwrap();
    assert!(why.contains("cargo build --release -p firn-s3-server"), "{why}");
    let page = std::fs::read_to_string(dir.path().join("r.html")).unwrap();
    assert!(
        page.contains("no-such-program") && page.contains("failed") && page.contains("</html>"),
        "{page}"
    );
}

#[test]
fn a_simulator_that_is_missing_is_a_finding_and_not_the_end_of_its_part() {
    let dir = tempfile::tempdir().unwrap();
    let args = args(dir.path(), CaasPart::Schedulers);
    let bench = Bench { args: &args, plan: args.scale.plan(), dir: dir.path() };
    let finding = simulated::finding(&bench, "schedulers");
    assert_eq!(finding.verdict, Verdict::Failed);
    assert!(finding.figure.contains("cargo build --release -p firn-sim"), "{finding:?}");
}

#[test]
fn a_report_has_claims_costs_and_everything_that_databases_measured() {
    let context = Context { engine: "service".into(), workload: "where: a".into(), ..Context::default() };
    let result = PhaseResult { context, operations: 7, ..PhaseResult::default() };
    let finding = Finding {
        part: "where".into(),
        claim: "more <of> it".into(),
        figure: "1.5 times".into(),
        verdict: Verdict::SameDirection,
    };
    let cost = RunCost {
        part: "where".into(),
        variant: "service".into(),
        repetition: 1,
        databases: 1,
        database_cpu_s: 2.0,
        workers_cpu_s: 1.25,
        worker_jobs: Some(9),
    };
    assert!(findings_text(std::slice::from_ref(&finding)).contains("same direction"));
    assert!(costs_table(std::slice::from_ref(&cost)).contains("1.25"));
    let report = CaasReport {
        machine: Machine::default(),
        command: "firn".into(),
        findings: vec![finding],
        costs: vec![cost],
        results: vec![result],
    };
    let dir = tempfile::tempdir().unwrap();
    write(&args(dir.path(), CaasPart::Where), &report).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join("r.json")).unwrap()).unwrap();
    for (list, name, value) in [
        ("findings", "verdict", serde_json::json!("same-direction")),
        ("costs", "workers_cpu_s", 1.25.into()),
        ("costs", "worker_jobs", 9.into()),
        ("results", "operations", 7.into()),
        ("results", "engine", "service".into()),
    ] {
        assert_eq!(json[list][0][name], value, "{list} {name}");
    }
    let page = std::fs::read_to_string(dir.path().join("r.html")).unwrap();
    for words in ["Claims", "more &#60;of&#62; it", "1.5 times", "same direction", "where: a"] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
}
