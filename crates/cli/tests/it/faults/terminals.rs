//! S16, S17 and S22: a terminal that is closed, and output that nothing reads. Neighbours: a
//! demonstration with its processes and its directory; a worker, a control plane and a server, each
//! with a line to tell. Also a control plane that tells of too few descriptors.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::start::{PROGRAM, Started, hang_ups_reach_children, serve, signal_process};
use crate::demo::alive;
use crate::program::text;

/// What is to be reported is reported by then: programs look ten times a second.
const REPORT_MAX: Duration = Duration::from_millis(1500);

/// The program in a directory of its own, `home`; the shell runs `before` first, so that this
/// says what it does about signals.
fn program(before: &str, arguments: &[&str], home: &Path) -> Command {
    hang_ups_reach_children();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before} exec \"$0\" \"$@\""), PROGRAM]).args(arguments);
    command.env("TMPDIR", home).current_dir(home).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A demonstration that writes, with its processes and what it says. By itself it ends soon after
/// its test would have.
fn demonstration(before: &str, home: &Path) -> (Started, BTreeSet<u32>, impl Iterator<Item = String>) {
    let mut command = program(before, &["demo", "--load-bytes", "256M"], home);
    let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut demo = Started(child, String::new());
    let said = BufReader::new(demo.0.stderr.take().expect("piped")).lines();
    let mut said = said.map(|line| line.expect("it is read"));
    let mut processes = BTreeSet::new();
    loop {
        let line = said.next().expect("it ended early");
        let number = line.split("(process ").nth(1).and_then(|rest| rest.split(')').next());
        processes.extend(number.map(|number| number.parse::<u32>().expect("a number")));
        if line.starts_with("writing ") {
            break;
        }
    }
    assert_eq!(alive(&processes).len(), 4, "{processes:?}");
    assert!(has_files(home), "its directory is here");
    (demo, processes, said)
}

fn has_files(dir: &Path) -> bool {
    dir.read_dir().expect("listed").next().is_some()
}

/// Nothing of a demonstration is left, soon.
fn assert_gone(processes: &BTreeSet<u32>, home: &Path) {
    let begun = Instant::now();
    while !alive(processes).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?} run on", alive(processes));
        std::thread::sleep(Duration::from_millis(20));
    }
    let left: Vec<_> = home.read_dir().expect("listed").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn s16_a_demonstration_whose_terminal_is_closed_leaves_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let (mut demo, processes, said) = demonstration("", home.path());
    drop(said);
    // The shell says it, and the system.
    demo.signal("HUP");
    demo.signal("HUP");
    assert_eq!(demo.ended().code(), Some(1));
    assert_gone(&processes, home.path());
}

#[test]
fn s16_a_demonstration_under_nohup_runs_on() {
    let home = tempfile::tempdir().expect("a directory");
    let (mut demo, processes, _said) = demonstration(NOHUP, home.path());
    demo.signal("HUP");
    for process in &processes {
        signal_process(*process, "HUP");
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(demo.0.try_wait().expect("asked").is_none(), "it has ended");
    assert_eq!(alive(&processes), processes);
    demo.signal("TERM");
    assert_eq!(demo.ended().code(), Some(1));
    assert_gone(&processes, home.path());
}

/// As `nohup` has it.
const NOHUP: &str = "trap '' HUP;";

/// A measurement that writes below `home`. By itself it ends soon after its test would have, and
/// it needs little disk meanwhile.
fn measurement(before: &str, home: &Path) -> Started {
    let words = "bench ycsb --workload load,a --records 2000 --rate 20000 --seconds 20 --memory-bytes 64M";
    let words: Vec<&str> = words.split(' ').collect();
    let child = program(before, &words, home).spawn().expect("it starts");
    let process = Started(child, String::new());
    let begun = Instant::now();
    while !has_files(home) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it makes no directory");
        std::thread::sleep(Duration::from_millis(10));
    }
    // In the middle of something.
    std::thread::sleep(Duration::from_millis(700));
    process
}

#[test]
fn s16_a_measurement_that_a_signal_ends_leaves_nothing() {
    let homes = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    for (home, (name, number)) in homes.iter().zip([("HUP", 1), ("INT", 2), ("TERM", 15)]) {
        let mut process = measurement("", home.path());
        process.signal(name);
        assert_eq!(process.ended().signal(), Some(number), "{name}");
        let left: Vec<_> = home.path().read_dir().expect("listed").collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
    let mut process = measurement(NOHUP, homes[0].path());
    process.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.0.try_wait().expect("asked").is_none(), "it has ended");
    process.signal("TERM");
    assert_eq!(process.ended().signal(), Some(15));
}

/// The address in a program's first line.
fn address_in(line: &str) -> SocketAddr {
    let address = line.split("://").nth(1).and_then(|rest| rest.split(';').next());
    address.expect("an address").parse().expect("an address")
}

#[test]
fn s22_programs_run_on_when_nobody_reads_what_they_say() {
    let home = tempfile::tempdir().expect("a directory");
    let unread = |mut process: Started| {
        drop((process.0.stdout.take(), process.0.stderr.take()));
        process
    };
    // It tells that it reaches no control plane.
    let words =
        ["worker", "--control-plane", "http://127.0.0.1:1", "--within", text(home.path()), "--name", "w"];
    let worker = unread(Started::new("", &words));
    let plane = Started::new("", &["control-plane", "--port", "0", "--connections-max", "1"]);
    let address = address_in(&plane.1);
    let plane = unread(plane);
    // It tells that it refuses one.
    let _connections = [(); 2].map(|()| TcpStream::connect(address).expect("a connection"));
    // It tells that it has closed its database.
    let server = unread(serve("", &home.path().join("db"), &[]));
    std::thread::sleep(REPORT_MAX);
    for (name, mut process) in [("worker", worker), ("control plane", plane), ("server", server)] {
        assert!(process.0.try_wait().expect("asked").is_none(), "the {name} has ended");
        process.signal("TERM");
        assert_eq!(process.0.wait().expect("it ends").code(), Some(0), "{name}");
    }
}

#[test]
fn s17_a_control_plane_lowers_its_connections_and_tells() {
    // 24 are its own.
    let plane = Started::new("ulimit -n 64 &&", &["control-plane", "--port", "0", "--http-port", "none"]);
    let address = address_in(&plane.1);
    let connections: Vec<TcpStream> =
        (0..41).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    std::thread::sleep(Duration::from_millis(500));
    let mut open = 0;
    for mut connection in &connections {
        connection.set_nonblocking(true).expect("an option");
        let is_open =
            matches!(connection.read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        open += usize::from(is_open);
    }
    assert_eq!(open, 40);
    let (code, said) = plane.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("--connections-max is 40 and not 1000"), "{said}");
    assert!(said.contains("1 connections were refused"), "{said}");
    // The most that systems give is asked for.
    let plane = Started::new("ulimit -S -n 64 &&", &["control-plane", "--port", "0", "--http-port", "none"]);
    let (code, said) = plane.end();
    assert_eq!((code, said.contains("--connections-max")), (Some(0), false), "{said}");
}
