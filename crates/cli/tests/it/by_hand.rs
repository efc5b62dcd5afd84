//! Jobs that people look at, and end.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_s3_server::Faults;
use firn_storage::{Clock, SystemClock};

use crate::job_service::{Process, Scene};
use crate::program::firn;
use crate::rounds::{self, Model, SETTINGS};
use crate::second;
use crate::service_http::{samples, sum};

/// A row of a job, as `firn jobs` shows it: its state and its name.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    let (state, job) = words.next().zip(words.next())?;
    job.split_once('.').filter(|(client, _)| client.len() == 8).map(|_| (state, job))
}

/// What `firn jobs watch` shows.
struct Watch {
    lines: std::io::Lines<BufReader<ChildStdout>>,
    _process: Process,
}

impl Watch {
    fn start(scene: &Scene) -> Self {
        let mut command = scene.command("jobs");
        command.args(["--control-plane", &scene.url, "--control-plane-token-file", &scene.path("token")]);
        let mut process = Process::start(command.args(["watch", "--every", "1"]));
        assert!(process.1.starts_with("workers: none"), "{:?}", process.1);
        let lines = BufReader::new(process.0.stdout.take().expect("piped")).lines();
        Self { lines, _process: process }
    }

    /// Waits until it shows that `job` is in `state`, for a minute at most; the line after that.
    fn until(&mut self, job: &str, state: &str) -> String {
        let mut looks = 0;
        while looks < 60 {
            let line = self.lines.next().expect("it goes on").expect("it is read");
            looks += u32::from(line.starts_with("workers: "));
            if row(&line) == Some((state, job)) {
                return self.lines.next().expect("it goes on").expect("it is read");
            }
        }
        panic!("{job} is never {state}");
    }
}

/// For so long a store holds its answers back amid a job.
const HANGS: Duration = Duration::from_secs(6);

/// Expects that `is_so` within a second, where the machine does not stand still.
#[track_caller]
fn soon(is_so: impl Fn() -> bool) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (watch, begun) = (second::Watch::begin(&clock), Instant::now());
    while !is_so() && begun.elapsed() < HANGS {
        clock.sleep(Duration::from_millis(10));
    }
    watch.end().expect_kept();
}

#[test]
fn a_job_is_watched_and_ended_and_its_database_goes_on() {
    let mut scene = Scene::new(true);
    // Each job takes a while, and most of that in requests that wait.
    scene.of_workers = ["--store-rates", "reads=1", "--http-port", "0"].map(str::to_owned).to_vec();
    let _plane = scene.plane();
    let mut watch = Watch::start(&scene);
    let worker = scene.worker("slow");
    let serving = scene.serve();
    let (mut client, mut model) = (rounds::connect(&serving.address), Model::new());
    let running = || {
        let out = scene.jobs(&[]).ended(0);
        out.lines().filter_map(row).find(|(state, _)| *state == "running").map(|(_, job)| job.to_owned())
    };
    let job = (0..).find_map(|batch| {
        assert!(batch < 3000, "no job is ever begun");
        rounds::write(&mut client, &mut model, (0, batch), 2000);
        if batch % 50 == 49 { running() } else { None }
    });
    let job = job.expect("it is found");
    watch.until(&job, "running");
    // It comes to a request that hangs for longer than it may keep its slot.
    scene.store().set_faults(Faults { delay: HANGS, ..Faults::default() });
    std::thread::sleep(HANGS / 3);
    let of_worker = |name: &str, labels: &[&str]| sum(&samples(&worker), name, labels);
    // Attempts that were stopped: they have ended, or hang and others have their slots.
    let stopped =
        || of_worker("firn_worker_attempts_total", &["cancelled"]) + of_worker("firn_worker_hanging", &[]);
    assert_eq!(stopped(), 0.0);
    let said = scene.jobs(&["cancel", &job]).ended(0);
    soon(|| stopped() >= 1.0);
    scene.store().set_faults(Faults::default());
    assert_eq!(said.trim_end(), format!("{job} is cancelled"));
    let detail = scene.jobs(&["show", &job]).ended(0);
    let long = detail.lines().find_map(|line| line.strip_prefix("job ")).map(str::trim).expect("its name");
    assert!(
        long.len() > 33 && long.starts_with(&job[..8]) && detail.contains("the job was cancelled"),
        "{detail}"
    );
    scene.jobs(&["cancel", long]).complained(4, &[long, "is not there, or has ended"]);
    let out = scene.jobs(&["list"]).ended(0);
    assert_eq!(
        out.lines().filter_map(row).find(|(_, name)| *name == job),
        Some(("failed", job.as_str())),
        "{out}"
    );
    assert_eq!(watch.until(&job, "failed").trim(), "the job was cancelled");
    scene.jobs(&["cancel", &job]).complained(4, &[&job, "is not there, or has ended"]);
    // It has lost nothing, and hands in others.
    rounds::check(&mut client, &model, "after the end of a job");
    let mut others = 0;
    while running().is_none_or(|other| other == job) {
        rounds::write(&mut client, &mut model, (1, others), 2000);
        others += 1;
        assert!(others < 3000, "no other job is begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    rounds::check(&mut client, &model, "with other jobs");
    serving.end();
}

/// A worker that is killed is lost long before its lease of 10 s is over.
const LOST_MAX: Duration = Duration::from_secs(5);

#[test]
fn a_killed_worker_is_lost_at_once_and_its_jobs_go_to_another() {
    let mut scene = Scene::new(true);
    // What it has it has for seconds.
    scene.of_workers = ["--store-rates", "reads=1"].map(str::to_owned).to_vec();
    // What waits for a worker waits on, though processors of the database idle.
    std::fs::write(scene.path("settings.toml"), format!("idle_threads = 0\n{SETTINGS}")).expect("written");
    let _plane = scene.plane();
    let slow = scene.worker("slow");
    let serving = scene.serve();
    let (mut client, mut model) = (rounds::connect(&serving.address), Model::new());
    let running = |scene: &Scene| {
        let jobs = scene.jobs_of("slow").into_iter();
        jobs.filter(|(_, state)| state == "running").map(|(job, _)| job).collect::<Vec<_>>()
    };
    let mut batch = 0;
    while running(&scene).is_empty() {
        rounds::write(&mut client, &mut model, (0, batch), 2000);
        batch += 1;
        assert!(batch < 3000, "no job is ever begun");
    }
    scene.of_workers.clear();
    let _other = scene.worker("other");
    let had = running(&scene);
    let killed = Instant::now();
    drop(slow);
    let row = |scene: &Scene| {
        scene.listed("workers").into_iter().find(|row| row["name"] == "slow").expect("it is remembered")
    };
    while row(&scene)["state"] != "lost" {
        assert!(killed.elapsed() < LOST_MAX, "{}", row(&scene));
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("lost after {:?}", killed.elapsed());
    let went =
        |row: &serde_json::Value| row["trouble"].as_str().is_some_and(|why| why.contains("went to other"));
    while !went(&row(&scene)) {
        assert!(killed.elapsed() < 4 * LOST_MAX, "{} of {had:?}", row(&scene));
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = scene.jobs(&[]).ended(0);
    assert!(shown.contains("1 lost") && shown.contains("lost slow, "), "{shown}");
    rounds::check(&mut client, &model, "without the worker");
    serving.end();
}

#[test]
fn a_watch_goes_on_while_its_control_plane_is_away() {
    let nobody = firn(&["jobs", "--control-plane", "http://127.0.0.1:9", "watch"]);
    nobody.complained(1, &["no control plane answers at http://127.0.0.1:9", "firn control-plane"]);
    let mut scene = Scene::new(false);
    let plane = scene.plane();
    let mut command = scene.command("jobs");
    command.args(["--control-plane", &scene.url, "--control-plane-token-file", &scene.path("token")]);
    command.args(["watch", "--every", "1"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = Process(command.spawn().expect("it starts"), String::new());
    let mut shown = BufReader::new(watch.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut reported = BufReader::new(watch.0.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(shown.any(|line| line.starts_with("workers: none")), "it ends");
    drop(plane);
    assert!(
        reported.any(|line| line.starts_with("firn: ") && line.contains(&format!("{}: ", scene.url))),
        "it ends"
    );
    let _plane = scene.plane();
    let _worker = scene.worker("late");
    assert!(shown.any(|line| line.starts_with("late ")), "it ends");
}
