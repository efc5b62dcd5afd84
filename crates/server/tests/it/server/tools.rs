//! The programs that come with Redis.

use std::io::Write;
use std::process::{Command, Stdio};

use super::super::client::Served;

#[test]
fn redis_cli_is_served() {
    let served = Served::start(2);
    let port = served.server.address().port().to_string();
    let cli = |arguments: &[&str], input: &str| {
        let mut process = Command::new("redis-cli")
            .args(["-p", &port])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli starts: install Debian's package redis-tools");
        process.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
        let output = process.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).expect("a text")
    };
    // It asks for COMMAND DOCS when it begins to read.
    let said = cli(&[], "SET a b\nGET a\nINCR n\nGET\nDBSIZE\nCONFIG GET save\nINFO server\n");
    for expected in
        ["OK\nb\n1\nERR wrong number of arguments for 'get' command\n", "\n2\n", "redis_version:7.0.15"]
    {
        assert!(said.contains(expected), "{expected:?} in {said}");
    }
    assert!(cli(&["--no-raw", "ROLE"], "").contains("1) \"master\""));
    assert!(cli(&["--latency", "-i", "0.1"], "").split_whitespace().count() >= 3);
    assert!(cli(&["LATENCY", "HISTOGRAM", "get"], "").starts_with("get\n"));
}

#[test]
fn redis_benchmark_is_served() {
    let served = Served::start(2);
    let port = served.server.address().port().to_string();
    let output = Command::new("redis-benchmark")
        .args(["-p", &port, "-t", "ping_inline,ping_mbulk,set,get,incr,mset", "-n", "1000", "-c", "10", "-q"])
        .output()
        .expect("redis-benchmark starts: install Debian's package redis-tools");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"] {
        let is_reported = said
            .split(['\r', '\n'])
            .any(|line| line.starts_with(&format!("{test}: ")) && line.contains("requests per second"));
        assert!(is_reported, "{test} in {said}");
    }
    assert!(!said.contains("WARNING") && !said.to_lowercase().contains("error"), "{said}");
}
