//! What control planes and workers say of themselves by HTTP, compared with what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::job_service::{Process, Scene, value};
use crate::program::firn;

/// Samples by name and labels, as they are written.
type Samples = BTreeMap<String, f64>;

/// The answer to GET of `path`: status and body.
fn get(process: &Process, path: &str) -> (u16, String) {
    let http = process.1.split_once("HTTP at http://").map(|(_, rest)| rest);
    let address = http.and_then(|rest| rest.split(';').next()).expect("it says where");
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), body.to_owned())
}

fn samples(process: &Process) -> Samples {
    let (status, text) = get(process, "/metrics");
    assert_eq!(status, 200);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    lines.map(sample).collect()
}

/// The sum of all samples of the family `name` whose labels hold all of `labels`.
fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
    let found = samples.iter().filter(|(sample, _)| {
        sample.split('{').next() == Some(name) && labels.iter().all(|label| sample.contains(label))
    });
    found.map(|(_, value)| value).sum()
}

/// A sample, which must be there.
fn one(samples: &Samples, sample: &str) -> f64 {
    *samples.get(sample).unwrap_or_else(|| panic!("no {sample} in {samples:?}"))
}

fn scene() -> Scene {
    let mut scene = Scene::new(false);
    let http = ["--http", "127.0.0.1:0"].map(str::to_owned);
    (scene.of_planes, scene.of_workers) = (http.to_vec(), http.to_vec());
    scene
}

/// Numbers of INFO.
fn info(client: &mut redis::Connection) -> impl Fn(&str) -> f64 {
    let said: String = redis::cmd("INFO").arg("firn").query(client).expect("a reply");
    let lines = said.lines().filter_map(|line| line.split_once(':'));
    let all: BTreeMap<String, f64> =
        lines.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect();
    move |name| all[name]
}

#[test]
fn metrics_are_what_a_run_really_did() {
    let mut scene = scene();
    let plane = scene.plane();
    let workers = [scene.worker("one"), scene.worker("two")];
    let serving = scene.serve();
    let client = redis::Client::open(format!("redis://{}", serving.address)).expect("an address");
    let mut client = client.get_connection().expect("it answers");
    let jobs_of = |state: &str, control: &Samples| {
        sum(control, "firn_control_plane_jobs", &[&format!("state=\"{state}\"")])
    };
    for round in 0.. {
        assert!(round < 100, "there is never enough to do");
        for batch in 0..20 {
            let mut pipe = redis::pipe();
            for key in batch * 100..(batch + 1) * 100 {
                pipe.cmd("SET").arg(key).arg(value(key, round)).ignore();
            }
            pipe.query::<()>(&mut client).expect("replies");
        }
        if sum(&samples(&plane), "firn_control_plane_ended_jobs_total", &["done"]) > 20.0 {
            break;
        }
    }
    // At rest nothing changes while it is compared.
    let mut before = samples(&plane);
    let (control, engine) = loop {
        std::thread::sleep(Duration::from_millis(500));
        let (control, engine) = (samples(&plane), info(&mut client));
        if control["firn_control_plane_leases_total"] == before["firn_control_plane_leases_total"]
            && jobs_of("waiting", &control) + jobs_of("running", &control) == 0.0
        {
            break (control, engine);
        }
        before = control;
    };
    let both: Vec<Samples> = workers.iter().map(samples).collect();
    let of_workers =
        |name: &str, labels: &[&str]| -> f64 { both.iter().map(|one| sum(one, name, labels)).sum() };

    let done = sum(&control, "firn_control_plane_ended_jobs_total", &["outcome=\"done\""]);
    assert!(done > 20.0, "{control:?}");
    assert_eq!(sum(&control, "firn_control_plane_submitted_jobs_total", &[]), done, "nothing failed");
    assert_eq!(one(&control, "firn_control_plane_leases_total"), done, "at the first attempt");
    for none in [
        "failed_attempts_total",
        "expired_leases_total",
        "preempted_leases_total",
        "refused_jobs_total",
        "waiting_bytes",
    ] {
        assert_eq!(sum(&control, &format!("firn_control_plane_{none}"), &[]), 0.0, "{none}");
    }
    assert_eq!(one(&control, "firn_control_plane_workers{state=\"ready\"}"), 2.0);
    assert_eq!(
        (one(&control, "firn_control_plane_slots"), one(&control, "firn_control_plane_clients")),
        (4.0, 1.0)
    );

    assert_eq!(of_workers("firn_worker_attempts_total", &["outcome=\"done\""]), done);
    assert_eq!(of_workers("firn_worker_attempts_total", &[]), done);
    let (compactions, collections) = (engine("compaction_count"), engine("collection_count"));
    assert_eq!(engine("compaction_fallback_count"), 0.0);
    assert_eq!(of_workers("firn_worker_attempts_total", &["kind=\"compact\""]), compactions);
    assert_eq!(of_workers("firn_worker_attempts_total", &["kind=\"collect\""]), collections);
    for stage in ["open", "run", "tell"] {
        let labels = [format!("stage=\"{stage}\"")];
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        assert_eq!(of_workers("firn_worker_stage_seconds_count", &labels), done, "{stage}");
        let infinite = [labels[0], "le=\"+Inf\""];
        assert_eq!(of_workers("firn_worker_stage_seconds_bucket", &infinite), done, "{stage}");
        assert!(of_workers("firn_worker_stage_seconds_sum", &labels) > 0.0, "{stage}");
    }
    // Tables are written once by a compaction and once by a drain, which is the database's; values likewise.
    let written = of_workers("firn_worker_write_bytes_total", &[]);
    assert!(written >= engine("compaction_write_bytes_total"), "{written}");
    assert!(of_workers("firn_worker_read_bytes_total", &[]) > engine("compaction_write_bytes_total") / 2.0);

    let listed = scene.jobs(&["list"]).ended(0);
    let rows: Vec<&str> = listed.lines().filter(|line| line.starts_with("done ")).collect();
    assert_eq!(rows.len() as f64, done);
    let megabytes = |row: &&str| row.split_whitespace().nth(2)?.parse::<f64>().ok();
    let input_mb: f64 = rows.iter().filter_map(megabytes).sum();
    let tenant = format!("{{tenant=\"{}\"}}", scene.path("shared"));
    let leased_mb = one(&control, &format!("firn_control_plane_tenant_leased_bytes_total{tenant}")) / 1e6;
    assert!(
        (leased_mb - input_mb).abs() < 0.01 * done,
        "{leased_mb} MB leased, {input_mb} MB of {done} jobs"
    );
    serving.end();
}

#[test]
fn every_metric_is_documented_and_every_documented_one_is_there() {
    let mut scene = scene();
    let plane = scene.plane();
    let worker = scene.worker("one");
    let mut found = BTreeSet::new();
    for process in [&plane, &worker] {
        let text = get(process, "/metrics").1;
        found.extend(
            text.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned())),
        );
    }
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md"));
    let guide = guide.expect("it is read");
    let words = guide.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: BTreeSet<String> = words
        .filter(|word| word.starts_with("firn_control_plane_") || word.starts_with("firn_worker_"))
        .map(str::to_owned)
        .collect();
    found.remove("firn_build_info");
    assert_eq!(found, named);
}

#[test]
fn health_says_whether_a_worker_drains() {
    let mut scene = scene();
    let plane = scene.plane();
    let mut worker = scene.worker("one");
    for process in [&plane, &worker] {
        for path in ["/health", "/readyz"] {
            assert_eq!(get(process, path), (200, "ready\n".to_owned()));
        }
        assert_eq!(get(process, "/healthz"), (200, "alive\n".to_owned()));
        assert_eq!(get(process, "/nothing").0, 404);
    }
    while sum(&samples(&plane), "firn_control_plane_workers", &["ready"]) < 1.0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(sum(&samples(&worker), "firn_worker_control_planes", &["heard"]), 1.0);
    let tell = |process: &Process, signal| {
        let id = Pid::from_raw(process.0.id().cast_signed()).expect("a process");
        kill_process(id, signal).expect("told");
    };
    // A control plane that stands still hears nothing, and the worker waits for it.
    tell(&plane, Signal::STOP);
    tell(&worker, Signal::TERM);
    while get(&worker, "/health") != (503, "draining\n".to_owned()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(get(&worker, "/healthz").0, 200);
    assert_eq!(one(&samples(&worker), "firn_worker_draining"), 1.0);
    tell(&plane, Signal::CONT);
    assert!(worker.0.wait().expect("it ends").success());
}

#[test]
fn an_address_that_somebody_has_is_refused() {
    let mut scene = scene();
    let plane = scene.plane();
    let (_, taken) = scene.url.split_once("://").expect("an address");
    firn(&["control-plane", "--listen", "127.0.0.1:0", "--http", taken])
        .complained(1, &["cannot answer by HTTP on", "in use"]);
    drop(plane);
}
