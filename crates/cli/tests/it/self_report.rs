//! What a server tells of itself: its build, and slow commands without filling the log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::program::firn;
use crate::rounds;
use crate::serve::Serving;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

#[test]
fn the_build_is_told_alike_everywhere() {
    let version = firn(&["--version"]).ended(0);
    let build = version.lines().next().expect("a line").strip_prefix("firn ").expect("a build").to_owned();
    let (release, commit) = build.strip_suffix(')').and_then(|build| build.split_once(" (")).expect("both");
    let home = tempfile::tempdir().expect("a directory");
    let serving = Serving::start_with(&["--http-port", "0"], &home.path().join("db"));
    let mut client = rounds::connect(&serving.address);
    let info: String = redis::cmd("INFO").arg("server").query(&mut client).expect("told");
    let digits = commit.get(..8).filter(|_| commit != "unknown").unwrap_or("00000000");
    let dirty = u8::from(commit.ends_with("-dirty"));
    for line in [
        format!("firn_version:{release}\r\n"),
        format!("firn_commit:{commit}\r\n"),
        format!("redis_git_sha1:{digits}\r\n"),
        format!("redis_git_dirty:{dirty}\r\n"),
    ] {
        assert!(info.contains(&line), "no {line:?} in {info}");
    }
    let http = serving.http.clone().expect("it answers");
    let metrics = get(http.strip_prefix("http://").expect("an address"), "/metrics");
    let label = format!("firn_build_info{{version=\"{release}\",commit=\"{commit}\"}} 1\n");
    assert!(metrics.contains(&label), "{metrics}");
    serving.end();

    let mut plane = Command::new(PROGRAM);
    plane.args(["control-plane", "--port", "0", "--http-port", "0"]).stdout(Stdio::piped());
    let mut plane = plane.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(plane.stdout.take().expect("piped")).read_line(&mut line).expect("it says where");
    let at = line.split_once("HTTP at http://").expect("an address").1.split(';').next().expect("an end");
    let jobs = get(at, "/jobs");
    plane.kill().and_then(|()| plane.wait()).expect("it ends");
    assert!(jobs.contains(&format!("\"build\":\"firn {build}\"")), "{jobs}");
}

/// The answer for `path` at `address`.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn slow_commands_do_not_fill_the_log() {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--http-port", "none"]).stderr(Stdio::piped());
    let mut serving = Serving::start_as(&mut command, &home.path().join("db")).expect("it serves");
    let mut client = rounds::connect(&serving.address);
    redis::cmd("CONFIG").arg("SET").arg("slowlog-log-slower-than").arg(0).exec(&mut client).expect("set");
    for round in 0..500 {
        redis::cmd("SET").arg("k").arg(round).exec(&mut client).expect("set");
        redis::cmd("GET").arg("k").exec(&mut client).expect("got");
    }
    let kept: i64 = redis::cmd("SLOWLOG").arg("LEN").query(&mut client).expect("told");
    assert_eq!(kept, 128, "SLOWLOG has what it had");
    serving.signal("TERM");
    assert!(serving.process.wait().expect("it ends").success());
    let mut logged = String::new();
    serving.process.stderr.take().expect("piped").read_to_string(&mut logged).expect("read");
    for command in ["get", "set"] {
        let lines: Vec<&str> =
            logged.lines().filter(|line| line.contains(&format!(" command={command} "))).collect();
        // A slow machine may take more than ten seconds.
        let first = lines.iter().filter(|line| line.contains(" slow_command ")).count() as u64;
        let more = lines.iter().filter_map(|line| line.split_once(" slow_commands ")?.1.split_once("more="));
        let more: u64 = more
            .map(|(_, rest)| rest.split(' ').next().expect("a word").parse::<u64>().expect("a number"))
            .sum();
        assert!(lines.len() < 20 && first >= 1, "{logged}");
        assert_eq!(first + more, 500, "each is counted: {logged}");
    }
}
