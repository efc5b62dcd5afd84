//! Suites of the client libraries that people use, each in its own language: `tests/clients`.
//!
//! Each test installs a library into a folder of its own, which takes the network. They are
//! ignored, and `cargo x test --full` runs them; that of gRPC `cargo x test` too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job_service::Scene;
use crate::serve::Serving;
use crate::tls;

/// A copy of the suite in `language`, so that nothing is installed among the sources.
fn copy_of(language: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(language);
    succeed(Command::new("cp").arg("-r").arg(source).arg(folder));
    folder.join(language)
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{complaint}", output.status);
    said
}

/// Starts a server on each engine, lets `suite` make the command that is to succeed against it of
/// the suite's folder, host, port and engine, and expects so many lines of success on each.
fn pass(language: &str, lines: [(&str, usize); 2], suite: impl Fn(&Path, [&str; 3]) -> Command) {
    for (engine, lines) in lines {
        let folder = tempfile::tempdir().expect("a folder");
        let mut serving = Serving::start_with(&["--engine", engine], &folder.path().join("data"));
        let copy = copy_of(language, folder.path());
        let (host, port) = serving.address.rsplit_once(':').expect("an address");
        let said = succeed(suite(&copy, [host, port, engine]).current_dir(&copy));
        eprint!("{engine}:\n{said}");
        let passed = said.lines().filter(|line| line.ends_with("as expected")).count();
        assert_eq!(passed, lines, "parts were left out:\n{said}");
        serving.signal("TERM");
        assert!(serving.process.wait().expect("it ends").success());
    }
}

/// Python with what the suite in `folder` asks for.
fn python(folder: &Path) -> Command {
    succeed(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(folder));
    let install = ["install", "-q", "-r", "requirements.txt"];
    succeed(Command::new(folder.join("venv/bin/pip")).args(install).current_dir(folder));
    Command::new(folder.join("venv/bin/python"))
}

#[test]
#[ignore = "installs redis-py"]
fn the_suite_of_redis_py_passes() {
    pass("python", [("tree", 12), ("hashlog", 12)], |folder, server| {
        let mut command = python(folder);
        command.arg("suite.py").args(server);
        command
    });
}

#[test]
#[ignore = "installs ioredis"]
fn the_suite_of_ioredis_passes() {
    pass("node", [("tree", 12), ("hashlog", 11)], |folder, server| {
        succeed(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(folder));
        let mut command = Command::new("node");
        command.arg("suite.js").args(server);
        command
    });
}

#[test]
#[ignore = "installs go-redis"]
fn the_suite_of_go_redis_passes() {
    pass("go", [("tree", 10), ("hashlog", 10)], |_, [host, port, engine]| {
        let mut command = Command::new("go");
        command.env("GOFLAGS", "-mod=mod").args(["run", ".", &format!("{host}:{port}"), engine]);
        command
    });
}

#[test]
#[ignore = "installs Jedis"]
fn the_suite_of_jedis_passes() {
    pass("java", [("tree", 2), ("hashlog", 2)], |_, server| {
        let mut command = Command::new("mvn");
        command.args(["-q", "compile", "exec:java"]).arg(format!("-Dexec.args={}", server.join(" ")));
        command
    });
}

/// A control plane is asked by a client that has none of its messages and learns them from it. In
/// the gate, unlike the others here.
#[test]
#[ignore = "installs grpcio"]
fn the_suite_of_grpcio_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = copy_of("grpc-python", folder.path());
    let python = python(&copy).get_program().to_owned();
    for is_encrypted in [false, true] {
        let (mut scene, of_client) = match is_encrypted {
            true => tls::encrypted(),
            false => (Scene::new(false), Vec::new()),
        };
        let _plane = scene.plane();
        let _worker = scene.worker("one");
        while !scene.jobs(&[]).ended(0).contains("one ") {
            std::thread::sleep(Duration::from_millis(50));
        }
        let (_, target) = scene.url.split_once("://").expect("an address");
        let mut command = Command::new(&python);
        command.args(["suite.py", target, "a-secret", "one"]).args(of_client);
        let said = succeed(command.current_dir(&copy));
        eprint!("{said}");
        let passed = said.lines().filter(|line| line.ends_with("as expected")).count();
        assert_eq!(passed, 4, "parts were left out:\n{said}");
    }
}

/// Tests that redis-benchmark does unasked, of strings and of nothing.
const WITHOUT_ORDER: [&str; 6] = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET"];

/// The other tests that it does unasked.
const WITH_ORDER: [&str; 14] = [
    "LPUSH",
    "RPUSH",
    "LPOP",
    "RPOP",
    "SADD",
    "HSET",
    "SPOP",
    "ZADD",
    "ZPOPMIN",
    "LPUSH (needed to benchmark LRANGE)",
    "LRANGE_100",
    "LRANGE_300",
    "LRANGE_500",
    "LRANGE_600",
];

#[test]
#[ignore = "needs redis-benchmark"]
fn redis_benchmark_runs_without_an_error() {
    benchmark("tree", &[], &[&WITHOUT_ORDER[..], &WITH_ORDER].concat());
    benchmark("hashlog", &["-t", "ping,set,get,incr,mset"], &WITHOUT_ORDER);
}

/// Does `tests` to a server on `engine`, which `chosen` asks for.
fn benchmark(engine: &str, chosen: &[&str], tests: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut serving = Serving::start_with(&["--engine", engine], &folder.path().join("data"));
    let (host, port) = serving.address.rsplit_once(':').expect("an address");
    for pipeline in ["1", "16"] {
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", host, "-p", port, "-q", "-n", "20000", "-P", pipeline]).args(chosen);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).replace('\r', "\n");
        let complaint = String::from_utf8_lossy(&output.stderr);
        let results: Vec<&str> = said.lines().filter(|line| line.contains("requests per second")).collect();
        eprintln!("{engine}, pipeline {pipeline}:\n{}", results.join("\n"));
        assert!(output.status.success(), "{said}{complaint}");
        assert!(!said.contains("rror") && !complaint.contains("rror"), "{said}{complaint}");
        for test in tests {
            assert!(results.iter().any(|line| line.starts_with(test)), "{test} was not done:\n{said}");
        }
    }
    serving.signal("TERM");
    assert!(serving.process.wait().expect("it ends").success());
}
