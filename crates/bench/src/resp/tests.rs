//! Live runs: against Firn's own server, and against servers that do as they are told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Parser;
use firn_engine::ErrorKind;
use firn_protocol::resp::{Arguments, Limits, Parsed, Parser as RequestParser};
use firn_server::{ServeSettings, Server};

use super::*;
use crate::measure::{CpuUse, now, sleep};

#[derive(Parser)]
struct Resp {
    #[command(flatten)]
    args: RespArgs,
}

fn run(words: &[&str]) -> firn_engine::Result<RespReport> {
    run_resp(&Resp::try_parse_from([&["resp"], words].concat()).expect("arguments").args)
}

/// Answers the requests of one connection with what `answer` says to each command's name, until it
/// ends.
fn converse(mut stream: TcpStream, answer: &(dyn Fn(&str) -> String + Sync)) {
    let (mut input, mut piece, mut parser) = (Vec::new(), [0; 4096], RequestParser::new());
    let mut spans = Vec::new();
    while let Ok(bytes @ 1..) = stream.read(&mut piece) {
        input.extend_from_slice(&piece[..bytes]);
        let (mut at, mut output) = (0, String::new());
        while let Ok(Parsed::Request(bytes)) = parser.parse(&mut input[at..], &mut spans, &Limits::DEFAULT) {
            let name = Arguments::new(&input[at..at + bytes], &spans).get(0).unwrap_or_default().to_vec();
            let name = String::from_utf8_lossy(&name).into_owned();
            output += &if name == "PING" { "+PONG\r\n".to_owned() } else { answer(&name) };
            at += bytes;
            spans.clear();
        }
        input.drain(..at);
        if stream.write_all(output.as_bytes()).is_err() {
            return;
        }
    }
}

/// Runs with `words` against a server that has `connections` connections in all and answers each
/// command with `answer`.
fn run_against(
    connections: usize,
    answer: &(dyn Fn(&str) -> String + Sync),
    words: &[&str],
) -> firn_engine::Result<RespReport> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = format!("resp://{}", listener.local_addr().expect("an address"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..connections {
                let (stream, _) = listener.accept().expect("a connection");
                scope.spawn(|| converse(stream, answer));
            }
        });
        run(&[&["--target", &address, "--connections", &connections.to_string()], words].concat())
    })
}

#[test]
fn a_server_of_firn_is_loaded_and_measured() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("r.json");
    let db = firn::Db::builder(dir.path().join("db")).settings(firn::Settings::for_memory(64 << 20)).open();
    let serve = ServeSettings { port: 0, threads: 2, ..ServeSettings::default() };
    let server = Server::start(&db.unwrap(), serve).unwrap();
    let port = server.address().port().to_string();
    let pid = std::process::id().to_string();
    let words = ["--port", &port, "--pid", &pid, "--json", json.to_str().unwrap(), "--load"];
    let shape =
        ["--keys", "300", "--connections", "5", "--threads", "2", "--pipeline", "4", "--seconds", "1"];
    let report = run(&[&words[..], &shape, &["--commands", "get,set,incr,mset,ping"]].concat()).unwrap();
    let names: Vec<&str> = report.results.iter().map(|result| result.command.as_str()).collect();
    assert_eq!(names, ["get", "set", "incr", "mset", "ping"]);
    for result in &report.results {
        assert!(result.latency.count > 0 && result.requests_per_s > 0.0, "{result:?}");
        assert!((0.15..10.0).contains(&result.run_s), "{result:?}");
        assert_eq!((result.nulls, result.errors), (0, 0), "every key was loaded: {result:?}");
        assert!(result.latency.p50_us > 0.0 && result.latency.p999_us <= result.latency.max_us, "{result:?}");
        assert!(result.client_cpu_share > 0.0 && result.server.is_some(), "{result:?}");
    }
    let written: RespReport = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(written.results.len(), 5);
    // Keys that were not loaded are null.
    let words =
        ["--port", &port, "--keys", "600", "--requests", "1k", "--commands", "get", "--pipeline", "10"];
    let found = &run(&[&words[..], &["--distribution", "sequential"]].concat()).unwrap().results[0];
    assert_eq!(found.latency.count, 1_000);
    assert_eq!(found.nulls, 400, "of 600 keys, then of 400, those above 299");
}

#[test]
fn servers_are_compared_in_turns() {
    let ok = |_: &str| "+OK\r\n".to_owned();
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a listener"));
    let named = |name: &str, index: usize| {
        format!("{name}=resp://{}", listeners[index].local_addr().expect("an address"))
    };
    let (a, b) = (named("a", 0), named("b", 1));
    let report = std::thread::scope(|scope| {
        for listener in &listeners {
            // Three repetitions of one connection each.
            scope.spawn(move || {
                (0..3).for_each(|_| converse(listener.accept().expect("a connection").0, &ok))
            });
        }
        let words = ["--compare", &a, &b, "--repetitions", "3", "--connections", "1", "--requests", "50"];
        run(&[&words[..], &["--commands", "set"]].concat()).unwrap()
    });
    let turns: Vec<_> =
        report.results.iter().map(|result| (result.target.as_str(), result.repetition)).collect();
    assert_eq!(turns, [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3)]);
    assert_eq!(report.comparisons.len(), 2);
    assert_eq!(report.comparisons[0].requests_per_s.ratio, Some(1.0));
    assert!(report.comparisons[1].requests_per_s.ratio.is_some_and(|ratio| ratio > 0.0));
}

#[test]
fn errors_fail_the_run_unless_they_are_allowed() {
    let answer = |_: &str| "-ERR not today\r\n".to_owned();
    let words = ["--commands", "set", "--requests", "100"];
    let error = run_against(2, &answer, &words).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    for expected in ["answers to set were errors", "ERR not today", "--allow-errors"] {
        assert!(error.to_string().contains(expected), "{error}");
    }
    let report = run_against(2, &answer, &[&words[..], &["--allow-errors"]].concat()).unwrap();
    let result = &report.results[0];
    assert_eq!((result.latency.count, result.errors), (100, 100));
    assert_eq!(result.first_error.as_deref(), Some("ERR not today"));
}

/// Stands still for 300 ms, once, when 100 ms have gone.
fn stalled(words: &[&str]) -> RespResult {
    let (begun, stall) = (now(), std::sync::Once::new());
    let answer = |_: &str| {
        if begun.elapsed() > Duration::from_millis(100) {
            stall.call_once(|| sleep(Duration::from_millis(300)));
        }
        "+OK\r\n".to_owned()
    };
    run_against(1, &answer, &[&["--commands", "set", "--seconds", "0.8"], words].concat())
        .unwrap()
        .results
        .remove(0)
}

#[test]
fn an_open_loop_shows_a_stall_in_its_latencies_and_asks_no_less() {
    let open = stalled(&["--rate", "1000"]);
    assert_eq!(open.latency.count, 800);
    assert!(open.latency.p90_us > 100_000.0, "{:?}", open.latency);
    assert!(open.latency.max_us > 250_000.0, "{:?}", open.latency);
    let closed = stalled(&[]);
    assert!(closed.latency.p99_us < 100_000.0, "one request of many: {:?}", closed.latency);
    assert!(closed.latency.max_us > 250_000.0, "{:?}", closed.latency);
}

#[test]
fn what_is_no_server_or_leaves_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("resp://{}", listener.local_addr().unwrap());
    let words = ["--target", &address, "--connections", "1", "--requests", "10"];
    let meet = |say: &'static [u8]| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a connection");
                let _ = stream.read(&mut [0; 100]);
                stream.write_all(say).expect("it is sent");
                let _ = stream.read(&mut [0; 10]);
            });
            run(&words).unwrap_err()
        })
    };
    let error = meet(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(error.to_string().contains("does not speak RESP"), "{error}");
    let error = meet(b"-NOAUTH Authentication required.\r\n");
    assert!(error.to_string().contains("refuses: NOAUTH"), "{error}");
    let error = meet(b"+PONG\r\n");
    assert!(error.to_string().contains("a connection broke"), "{error}");
    drop(listener);
    let error = run(&words).unwrap_err();
    assert!(error.kind() == ErrorKind::Retry && error.to_string().contains("cannot connect"), "{error}");
}

#[test]
fn arguments_that_make_no_run_are_refused_before_anything_is_asked() {
    for (words, named) in [
        (&["--connections", "2", "--threads", "3"][..], "--connections 2"),
        (&["--seconds", "0"], "--seconds 0"),
        (&["--keys", "2000G"], "--keys"),
        (&["--compare", "a=resp://127.0.0.1:1", "a=resp://127.0.0.1:2"], "same name"),
    ] {
        let error = run(words).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.message().contains(named), "{error}");
    }
}

/// Makes a process of this program a server that works on for a while.
const WORKS_ON: &str = "FIRN_TEST_WORKS_ON";

/// The body of the child process of the next test; does nothing in a plain run.
#[test]
fn child_that_works_on() {
    if std::env::var_os(WORKS_ON).is_none() {
        return;
    }
    println!("\nbegun");
    // So much work, however long it takes; several threads get more of a processor that others want
    // too.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| while CpuUse::now().process < Duration::from_secs(3) {});
        }
    });
    sleep(Duration::from_secs(60));
}

/// Microseconds of processor time of a server that works on after the requests, as they are
/// measured.
fn used_us() -> f64 {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resp::tests::child_that_works_on", "--nocapture"])
        .env(WORKS_ON, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let has_begun = lines.map_while(std::io::Result::ok).any(|line| line == "begun");
    let pid = server.id().to_string();
    let words = ["--pid", &pid, "--requests", "10", "--commands", "get"];
    let report = run_against(1, &|_| "$-1\r\n".to_owned(), &words);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(has_begun, "the server works");
    report.unwrap().results[0].server.unwrap().cpu_us_per_request * 10.0
}

/// What requests leave behind is theirs: a process that works on for a while after them is waited
/// for.
#[test]
fn a_server_is_measured_until_it_is_at_rest() {
    // More than four threads do in one look. A process that gets no processor for a while seems to
    // be at rest, and not five times.
    let mut used = Vec::new();
    while !used.last().is_some_and(|used| *used > 2_000_000.0) {
        assert!(used.len() < 5, "microseconds that were measured of 3 seconds: {used:?}");
        used.push(used_us());
    }
}
