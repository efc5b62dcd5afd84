//! What the cache before shared storage tells of itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::object_store::{LOCATION, Scene};
use crate::program::text;
use crate::rounds::{self, SETTINGS};
use crate::serve::Serving;

const PREFIX: &str = "firn_engine_shared_cache_";

/// What the server's metrics say of the cache, by the rest of the name.
fn metrics(serving: &Serving) -> BTreeMap<String, u64> {
    let http = serving.http.as_deref().expect("it answers").trim_end();
    let address = http.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let lines = answer.lines().filter_map(|line| line.strip_prefix(PREFIX)?.split_once(' '));
    lines.map(|(name, number)| (name.to_owned(), number.parse().expect("a number"))).collect()
}

/// The same of INFO.
fn info(client: &mut redis::Connection) -> BTreeMap<String, u64> {
    let text: String = redis::cmd("INFO").arg("firn").query(client).expect("a reply");
    let lines = text.lines().filter_map(|line| line.strip_prefix("shared_cache_")?.split_once(':'));
    lines.map(|(name, number)| (name.to_owned(), number.parse().expect("a number"))).collect()
}

#[test]
fn metrics_and_info_tell_what_the_cache_does() {
    let scene = Scene::new();
    let (dir, settings, cache) = (scene.path("data"), scene.path("settings.toml"), scene.path("cache"));
    fs::write(&settings, SETTINGS).expect("written");
    let start = |more: &[&str]| {
        let mut command = scene.command();
        command.args(["serve", "--shared", LOCATION, "--config", text(&settings), "--http-port", "0"]);
        Serving::start_as(command.args(more), &dir).expect("it serves")
    };
    let keys = 4000;
    let serving = start(&[]);
    let mut client = rounds::connect(&serving.address);
    rounds::put(&mut client, 0..keys, 0);
    assert!(metrics(&serving).is_empty() && info(&mut client).is_empty(), "there is no cache");
    serving.end();

    // Three parts, which are too few for what is read.
    let serving = start(&["--shared-cache", text(&cache), "--shared-cache-bytes", "768K"]);
    let mut client = rounds::connect(&serving.address);
    let before = metrics(&serving);
    rounds::check(&mut client, &(0..keys).map(|key| (key, 0)).collect(), "read by the cache");
    let after = metrics(&serving);
    let rose = |name: &str| after[name] - before[name];
    assert!(rose("hits_total") > 0 && rose("misses_total") > 3, "{before:?}, {after:?}");
    let asked = rose("misses_total") * (256 << 10);
    assert!((1..=asked).contains(&rose("fetch_bytes_total")), "{before:?}, {after:?}");
    assert_eq!(after["held_bytes"], 768 << 10);
    assert!(after["evictions_total"] > 0 && after["failures_total"] == 0, "{after:?}");
    let said = info(&mut client);
    let same = [
        ("hits_total", "hit_count"),
        ("misses_total", "miss_count"),
        ("fetch_bytes_total", "fetch_bytes_total"),
        ("pass_bytes_total", "pass_bytes_total"),
        ("held_bytes", "held_bytes"),
        ("evictions_total", "eviction_count"),
        ("failures_total", "failure_count"),
    ];
    assert_eq!((after.len(), said.len()), (same.len(), same.len()));
    for (metric, line) in same {
        assert!(said[line] >= after[metric], "{line}: {said:?}, {after:?}");
    }
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/monitoring.md"));
    let guide = guide.expect("it is there");
    for name in after.keys() {
        assert!(guide.contains(&format!("`{PREFIX}{name}`")), "{name} is not in docs/operate/monitoring.md");
    }
    serving.end();
}
