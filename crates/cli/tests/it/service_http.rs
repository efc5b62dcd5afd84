//! What control planes and workers say of themselves by HTTP, compared with what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bad_store::status;
use crate::job_service::{Process, Scene};
use crate::program::firn;
use crate::rounds;

/// Samples by name and labels, as they are written.
pub(crate) type Samples = BTreeMap<String, f64>;

/// The answer to GET of `path`: status and body.
pub(crate) fn get(process: &Process, path: &str) -> (u16, String) {
    let http = process.1.split_once("HTTP at http://").map(|(_, rest)| rest);
    get_at(http.and_then(|rest| rest.split(';').next()).expect("it says where"), path)
}

/// The answer of the server at `address`.
pub(crate) fn get_at(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), body.to_owned())
}

pub(crate) fn samples(process: &Process) -> Samples {
    read(get(process, "/metrics"))
}

/// The samples of the server at `address`.
pub(crate) fn samples_at(address: &str) -> Samples {
    read(get_at(address, "/metrics"))
}

fn read((status, text): (u16, String)) -> Samples {
    assert_eq!(status, 200);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    lines.map(sample).collect()
}

/// The sum of all samples of the family `name` whose labels hold all of `labels`.
pub(crate) fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
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
    let http = ["--http-port", "0"].map(str::to_owned);
    (scene.of_planes, scene.of_workers) = (http.to_vec(), http.to_vec());
    scene
}

/// Numbers of INFO.
fn info(client: &mut redis::Connection) -> impl Fn(&str) -> f64 + use<> {
    let said: String = redis::cmd("INFO").arg("firn").query(client).expect("a reply");
    let lines = said.lines().filter_map(|line| line.split_once(':'));
    let all: BTreeMap<String, f64> =
        lines.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect();
    move |name| all[name]
}

/// Writes until `plane` has seen more than twenty jobs done.
fn work(client: &mut redis::Connection, plane: &Process) {
    for round in 0..100 {
        rounds::put(client, 0..2000, round);
        if sum(&samples(plane), "firn_control_plane_ended_jobs_total", &["done"]) > 20.0 {
            return;
        }
    }
    panic!("there is never enough to do");
}

/// For so long a database may hand no job in and go on all the same: it checks outputs and commits
/// them.
const REST: Duration = Duration::from_secs(5);

/// What `plane` says once nothing changes any more.
fn at_rest(plane: &Process) -> Samples {
    let (mut before, mut since) = (samples(plane), Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = samples(plane);
        let busy: f64 = ["waiting", "running"]
            .map(|state| sum(&now, "firn_control_plane_jobs", &[&format!("state=\"{state}\"")]))
            .iter()
            .sum();
        let counts =
            ["submitted_jobs_total", "leases_total"].map(|name| format!("firn_control_plane_{name}"));
        if busy > 0.0 || counts.iter().any(|name| sum(&now, name, &[]) != sum(&before, name, &[])) {
            since = Instant::now();
        } else if since.elapsed() >= REST {
            return now;
        }
        before = now;
    }
}

/// Compares what the page of `plane` is drawn from with what was done: so many jobs with so many
/// bytes of inputs, of `tenant`.
fn compare_page(plane: &Process, done: f64, leased: f64, tenant: &str) {
    let (status, page) = get(plane, "/");
    assert!(status == 200 && page.starts_with("<!doctype html>") && page.contains("Firn control plane"));
    let shown: serde_json::Value = serde_json::from_str(&get(plane, "/jobs").1).expect("JSON");
    assert_eq!((&shown["waiting_count"], &shown["running_count"]), (&0.into(), &0.into()));
    let list = |name: &str| shown[name].as_array().expect("a list").clone();
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let names: BTreeSet<String> = list("workers").iter().map(|row| row["name"].to_string()).collect();
    assert_eq!(names, BTreeSet::from(["\"one\"".to_owned(), "\"two\"".to_owned()]));
    assert_eq!(list("workers").iter().map(|row| number(&row["jobs_done"])).sum::<f64>(), done);
    for row in list("workers") {
        assert!(row["failing"] == "" && row["state"] == "ready" && row["slots"] == 2, "{row}");
    }
    let jobs = list("jobs");
    assert_eq!(jobs.len() as f64, done);
    assert_eq!(jobs.iter().map(|row| number(&row["bytes"])).sum::<f64>(), leased);
    assert!(jobs.iter().all(|row| row["state"] == "done" && row["tenant"] == tenant), "{jobs:?}");
    let ran: f64 = jobs.iter().map(|row| number(&row["ran_ms"])).sum();
    assert!(ran > 0.0 && jobs.iter().all(|row| row["stalls_in_ms"].is_null() && row["attempts"] == 1));
}

/// Compares `firn jobs list` with what the control plane says, and returns the bytes of inputs.
fn compare_list(listed: &[serde_json::Value], control: &Samples, tenant: &str) -> f64 {
    let rows: Vec<&serde_json::Value> = listed.iter().filter(|row| row["state"] == "done").collect();
    for lane in ["l0", "deep"] {
        let count = rows.iter().filter(|row| row["lane"] == lane).count() as f64;
        let labels = ["outcome=\"done\"", &format!("lane=\"{lane}\"")];
        assert_eq!(sum(control, "firn_control_plane_ended_jobs_total", &labels), count, "{lane}");
    }
    let listed: f64 = rows.iter().filter_map(|row| row["bytes"].as_f64()).sum();
    let name = format!("firn_control_plane_tenant_leased_bytes_total{{tenant=\"{tenant}\"}}");
    let leased = one(control, &name);
    assert_eq!(leased, listed);
    leased
}

#[test]
fn metrics_are_what_a_run_really_did() {
    let mut scene = scene();
    // A job that the database takes back to do it itself would count nowhere else as done.
    std::fs::write(scene.path("settings.toml"), format!("idle_threads = 0\n{}", rounds::SETTINGS))
        .expect("written");
    let plane = scene.plane();
    let workers = [scene.worker("one"), scene.worker("two")];
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    work(&mut client, &plane);
    let (control, engine) = (at_rest(&plane), info(&mut client));

    let of_plane = |name: &str, labels: &[&str]| sum(&control, &format!("firn_control_plane_{name}"), labels);
    let done = of_plane("ended_jobs_total", &["outcome=\"done\""]);
    assert!(done > 20.0, "{control:?}");
    // L0 work that no worker began in time, with writers about to stop, its database does itself.
    // That is no failure, on a machine that stands still.
    let given_up = engine("jobs_passed_on_count");
    let why = status(&mut client, "jobs_passed_on_reason");
    assert!(given_up == 0.0 || why.starts_with("no worker began it"), "{given_up}: {why}");
    let by_cause = status(&mut client, "jobs_passed_on_causes");
    let none_else = by_cause.split(',').filter(|cause| !cause.ends_with("=0")).collect::<Vec<_>>();
    let unbegun = (given_up > 0.0).then(|| format!("unbegun={given_up}"));
    assert_eq!(none_else, Vec::from_iter(unbegun.as_deref()), "{by_cause}");
    assert_eq!(of_plane("submitted_jobs_total", &[]), done + given_up, "nothing failed");
    assert_eq!(of_plane("ended_jobs_total", &["outcome=\"abandoned\""]), given_up);
    assert_eq!(of_plane("leases_total", &[]), done, "at the first attempt");
    for none in ["failed_attempts_total", "expired_leases_total", "preempted_leases_total", "waiting_bytes"] {
        assert_eq!(of_plane(none, &[]), 0.0, "{none}");
    }
    assert_eq!(of_plane("workers", &["ready"]), 2.0);
    assert_eq!((of_plane("slots", &[]), of_plane("clients", &[])), (4.0, 1.0));
    let leased = compare_list(&scene.listed("jobs"), &control, &scene.path("shared"));
    compare_page(&plane, done, leased, &scene.path("shared"));

    let both: Vec<Samples> = workers.iter().map(samples).collect();
    let of_workers = |name: &str, labels: &[&str]| -> f64 {
        both.iter().map(|one| sum(one, &format!("firn_worker_{name}"), labels)).sum()
    };
    assert_eq!(of_workers("attempts_total", &["outcome=\"done\""]), done);
    assert_eq!(of_workers("attempts_total", &[]), done);
    // A compaction may be several jobs, or move tables without one; a GC may be several
    // too.
    let [compacted, collected] =
        ["compact", "blob_gc"].map(|kind| of_workers("attempts_total", &[&format!("kind=\"{kind}\"")]));
    assert!(compacted > 0.0 && compacted + collected == done, "{compacted} and {collected} of {done}");
    assert!(collected >= engine("blob_gc_count") && engine("blob_gc_count") > 0.0, "{collected}");
    for stage in ["open", "read", "merge", "write", "report"].map(|stage| format!("stage=\"{stage}\"")) {
        assert_eq!(of_workers("stage_seconds_count", &[&stage]), done, "{stage}");
        assert_eq!(of_workers("stage_seconds_bucket", &[&stage, "le=\"+Inf\""]), done, "{stage}");
        assert!(of_workers("stage_seconds_sum", &[&stage]) > 0.0, "{stage}");
    }
    // Outputs that are read again to be checked, and values that are not, keep the two apart.
    let (read, written) = (of_workers("read_bytes_total", &[]), of_workers("write_bytes_total", &[]));
    assert!(read > leased / 4.0 && read < leased * 4.0, "{read} read of {leased}");
    assert!(written >= engine("compaction_write_bytes_total") && written < leased, "{written} of {leased}");
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
    let guide =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/monitoring.md"));
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
        let (status, what) = get(process, "/nothing");
        assert_eq!((status, what.contains("/jobs")), (404, process.0.id() == plane.0.id()), "{what}");
    }
    while sum(&samples(&plane), "firn_control_plane_workers", &["ready"]) < 1.0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(sum(&samples(&worker), "firn_worker_control_planes", &["heard"]), 1.0);
    let send = |process: &Process, signal| {
        let id = Pid::from_raw(process.0.id().cast_signed()).expect("a process");
        kill_process(id, signal).expect("told");
    };
    // A control plane that stands still hears nothing, and the worker waits for it.
    send(&plane, Signal::STOP);
    send(&worker, Signal::TERM);
    while get(&worker, "/health") != (503, "draining\n".to_owned()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(get(&worker, "/healthz").0, 200);
    assert_eq!(one(&samples(&worker), "firn_worker_draining"), 1.0);
    send(&plane, Signal::CONT);
    assert!(worker.0.wait().expect("it ends").success());
}

#[test]
fn an_address_that_somebody_has_is_refused() {
    let mut scene = scene();
    let plane = scene.plane();
    let (_, taken) = scene.url.split_once("://").expect("an address");
    let (host, port) = taken.split_once(':').expect("a port");
    firn(&["control-plane", "--port", "0", "--http-bind", host, "--http-port", port])
        .complained(1, &["cannot answer by HTTP on", taken, "in use", "--http-port"]);
    drop(plane);
}
