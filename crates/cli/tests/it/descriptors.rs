//! Workers and control planes that may have few files and connections open.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::job_service::Process;
use crate::program::text;

/// `firn` with `arguments`, in a shell that has said `limits` before.
fn firn_after(limits: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{limits} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_firn")])
        .args(arguments);
    command
}

/// So many files `process` may have open, and so many it may let itself have.
fn limits_of(process: &Process) -> [u64; 2] {
    let path = format!("/proc/{}/limits", process.0.id());
    let limits = std::fs::read_to_string(path).expect("it runs");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a limit");
    let mut numbers = line.split_whitespace().map_while(|number| number.parse().ok());
    [numbers.next().expect("a number"), numbers.next().expect("a number")]
}

#[test]
fn workers_and_control_planes_let_themselves_have_enough_files() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("worker.socket");
    for (arguments, wanted) in [
        (["worker", "--socket", text(&socket)].as_slice(), 65_536),
        (&["worker", "--control-plane", "http://127.0.0.1:9", "--within", text(place.path())], 65_536),
        (&["control-plane", "--port", "0", "--connections-max", "3000"], 4000),
    ] {
        let process = Process::start(&mut firn_after("ulimit -Sn 100", arguments));
        let [now, most] = limits_of(&process);
        assert_eq!(now, wanted.min(most), "{arguments:?}");
    }
}

/// Whether a worker at `socket` answers a client that speaks in another version.
fn answers(socket: &Path) -> bool {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("it is set");
    stream.write_all(&[9, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]).expect("it is sent");
    stream.read_exact(&mut [0; 14]).is_ok()
}

#[test]
fn a_worker_on_a_socket_goes_on_once_there_are_descriptors_again() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("worker.socket");
    let mut command = firn_after("ulimit -n 24", &["worker", "--socket", text(&socket)]);
    let mut worker = Process(
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"),
        String::new(),
    );
    let mut line = String::new();
    BufReader::new(worker.0.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
    assert!(answers(&socket));
    let mut reported = BufReader::new(worker.0.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let crowd: Vec<_> = (0..40).map(|_| UnixStream::connect(&socket).expect("there is a queue")).collect();
    assert!(reported.any(|line| line.starts_with("firn: no database is let in for now: ")), "it ends");
    assert!(!answers(&socket));
    drop(crowd);
    let begun = Instant::now();
    while !answers(&socket) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody is let in any more");
    }
}
