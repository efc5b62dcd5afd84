//! `firn bench experiment caas` at its smallest: every part with processes of its own, and what is
//! found in JSON and HTML.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use firn_s3_server::{S3Server, ServerOptions};

use crate::program::{firn, text};

/// A program that prints `output`, and ends when its standard input does.
fn script(path: &Path, output: &str) {
    std::fs::write(path, format!("#!/bin/sh\ncat <<'END'\n{output}END\ncat > /dev/null\n")).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
#[ignore = "minutes; the full tier runs it"]
fn every_part_has_figures_and_verdicts_at_a_tiny_scale() {
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name);
    let buckets = path("buckets");
    S3Server::make_bucket(&buckets, "firn").expect("a bucket");
    let store = S3Server::start(&buckets, ServerOptions::default()).expect("it listens");
    let said: String = store.settings().iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    script(&path("store"), &said);
    std::fs::write(
        path("simulator"),
        "#!/bin/sh\nfor name in Ideal Schedule LeastLoaded Fifo Random; do echo $name 7; done\n",
    )
    .expect("written");
    std::fs::set_permissions(path("simulator"), std::fs::Permissions::from_mode(0o755)).expect("set");
    let (json, html, work, store, simulator) =
        (path("r.json"), path("r.html"), path("work"), path("store"), path("simulator"));
    let programs = ["--store-server", text(&store), "--simulator", text(&simulator)];
    let places = ["--json", text(&json), "--html", text(&html), "--dir", text(&work)];
    let words = ["bench", "experiment", "caas", "--scale", "tiny", "--idle", "2"];
    // The one for each side that it needs may be missing.
    let has_two = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    let parts = if has_two { "where,schedulers,zones,cores,stages" } else { "where,schedulers,zones,stages" };
    let words = [&words[..], &["--part", parts]].concat();
    let answer = firn(&[&words[..], &programs, &places].concat());
    assert_eq!(answer.code, 0, "{}", answer.complaint);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("results")).expect("JSON");
    let list = |name: &str| report[name].as_array().expect("a list").clone();
    for finding in list("findings") {
        assert!(finding["verdict"] != "failed", "{finding}");
    }
    let is_watched =
        |finding: &serde_json::Value| finding["figure"].as_str().is_some_and(|it| it.contains("in 2 s)"));
    assert_eq!(list("findings").iter().filter(|finding| is_watched(finding)).count(), 4);
    let of = |part: &str| {
        list("results")
            .iter()
            .filter(|it| it["workload"].as_str().is_some_and(|name| name.starts_with(part)))
            .count()
    };
    // Ways and phases; two databases at once with each scheduler.
    assert_eq!((of("where: "), of("schedulers: "), of("zones: ")), (3 * 5, 4 * 2 * 2, 3 * 2));
    // Ways and phases; at each of two loads two ways of two works.
    assert_eq!(of("cores: "), if has_two { 3 * 6 + 2 * 4 } else { 0 });
    // Two works by one thread, each in three ways.
    let same = list("findings")
        .into_iter()
        .find(|it| it["claim"].as_str().is_some_and(|claim| claim.contains("holds the same")));
    let figure = same.as_ref().and_then(|it| it["figure"].as_str()).unwrap_or_default();
    assert_eq!(figure.matches("in each of 3").count(), if has_two { 2 } else { 0 }, "{figure}");
    for cost in list("costs") {
        let is_alone = cost["variant"].as_str().is_some_and(|name| name.starts_with("local"));
        assert_eq!(cost["worker_jobs"].is_null(), is_alone, "{cost}");
    }
    assert!(["as claimed", "same direction", "not seen"].iter().any(|verdict| answer.out.contains(verdict)));
    let page = std::fs::read_to_string(&html).expect("a report");
    for part in ["where: fillrandom", "schedulers: load", "zones: a", "Claims"] {
        assert!(page.contains(part), "no {part}");
    }
    let again = firn(&[&words[..], &programs, &places].concat());
    again.complained(2, &["is not empty"]);
}
