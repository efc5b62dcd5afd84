//! `firn demo`: processes that come up, work, and are gone afterwards, whatever becomes of the
//! process that started them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{firn, text};
use crate::rounds;
use crate::serve::Serving;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

#[test]
fn a_demonstration_tells_where_every_job_ran_and_leaves_a_database_in_order() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("all");
    let out = firn(&["demo", "--dir", text(&dir), "--load-bytes", "48M"]).ended(0);
    let jobs: Vec<Vec<&str>> = out
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(!jobs.is_empty(), "{out}");
    for job in &jobs {
        assert!(["l0", "deep"].contains(&job[1]), "{out}");
        assert!(["worker-1", "worker-2", "the"].contains(&job[2]), "{out}");
    }
    for worker in ["worker-1", "worker-2"] {
        assert!(jobs.iter().any(|job| job[2] == worker), "nothing ran on {worker}: {out}");
    }
    let on_workers = jobs.iter().filter(|job| job[2].starts_with("worker-")).count();
    assert!(out.contains(&format!("{on_workers} of {} jobs ran on workers", jobs.len())), "{out}");
    for words in
        ["keys hold what was written last", "Processor time: database ", "jobs it did itself although"]
    {
        assert!(out.contains(words), "no {words:?} in {out}");
    }
    let counted = out.split("All ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let mut serve = Command::new(PROGRAM);
    serve.args([
        "serve",
        "--shared",
        text(&dir.join("shared")),
        "--config",
        text(&dir.join("settings.toml")),
    ]);
    let serving = Serving::start_as(&mut serve, &dir.join("data")).expect("it serves");
    let keys: u64 = redis::cmd("DBSIZE").query(&mut rounds::connect(&serving.address)).expect("a reply");
    assert_eq!(keys.to_string(), counted);
    serving.end();
    firn(&["demo", "--dir", text(&dir)]).complained(2, &["is not empty"]);
    assert_eq!(firn(&["demo", "--workers", "0"]).code, 2);
}

/// A demonstration under way, with the numbers of its processes.
struct Running {
    demo: Child,
    complaints: BufReader<ChildStderr>,
    processes: BTreeSet<u32>,
}

impl Running {
    /// Waits until all four are there and it writes.
    fn start(dir: &Path) -> Self {
        let mut demo = Command::new(PROGRAM)
            .args(["demo", "--load-bytes", "4G", "--dir"])
            .arg(dir)
            // Of another server, and no business of this one's.
            .env("FIRN_PASSWORD", "secret")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut processes = BTreeSet::new();
        let mut complaints = BufReader::new(demo.stderr.take().expect("piped"));
        loop {
            let mut line = String::new();
            assert!(complaints.read_line(&mut line).expect("it is read") > 0, "it ended early");
            let number = line.split("(process ").nth(1).and_then(|rest| rest.split(')').next());
            processes.extend(number.map(|number| number.parse::<u32>().expect("a number")));
            if line.starts_with("writing ") {
                break;
            }
        }
        assert_eq!(processes.len(), 4, "{processes:?}");
        assert_eq!(alive(&processes), processes);
        // In the middle of something.
        std::thread::sleep(Duration::from_millis(500));
        Self { demo, complaints, processes }
    }

    /// Waits until it ends, badly; the rest of what it said.
    fn failed(&mut self) -> String {
        let mut rest = String::new();
        self.complaints.read_to_string(&mut rest).expect("it is read");
        assert_eq!(self.demo.wait().expect("it ends").code(), Some(1), "{rest}");
        rest
    }

    /// Waits until nothing of it runs.
    fn assert_gone(&self) {
        let begun = Instant::now();
        while !alive(&self.processes).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?} run on", alive(&self.processes));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A test that fails leaves no process behind.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.demo.kill();
        let _ = self.demo.wait();
        for process in alive(&self.processes) {
            let id = rustix::process::Pid::from_raw(process.cast_signed()).expect("a process");
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
        }
    }
}

/// Those of `processes` that run.
pub(crate) fn alive(processes: &BTreeSet<u32>) -> BTreeSet<u32> {
    let runs = |process: &&u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // A number may be another process's by now; a process that its parent has not waited for is
        // Z.
        stat.contains("(firn)") && !stat.contains(") Z ")
    };
    processes.iter().filter(runs).copied().collect()
}

#[test]
fn nothing_is_left_running_where_a_demonstration_is_killed() {
    let place = tempfile::tempdir().expect("a directory");
    let mut running = Running::start(&place.path().join("all"));
    running.demo.kill().expect("it is killed");
    running.demo.wait().expect("it ends");
    running.assert_gone();
}

#[test]
fn nothing_is_left_running_where_a_demonstration_is_interrupted() {
    let place = tempfile::tempdir().expect("a directory");
    let mut running = Running::start(&place.path().join("all"));
    let id = rustix::process::Pid::from_raw(running.demo.id().cast_signed()).expect("a process");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("told");
    assert!(running.failed().contains("interrupted"));
    assert_eq!(alive(&running.processes), BTreeSet::new(), "all had ended before");
}

#[test]
fn a_database_that_is_killed_ends_the_demonstration_with_its_name() {
    let place = tempfile::tempdir().expect("a directory");
    let mut running = Running::start(&place.path().join("all"));
    let words = |process: &u32| std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let database = running.processes.iter().find(|it| words(it).windows(6).any(|part| part == b"serve\0"));
    let id = rustix::process::Pid::from_raw(database.expect("it serves").cast_signed()).expect("a process");
    rustix::process::kill_process(id, rustix::process::Signal::KILL).expect("told");
    let said = running.failed();
    assert!(said.contains("database has ended (signal: 9"), "{said}");
    assert_eq!(alive(&running.processes), BTreeSet::new());
}
