//! HTTP beside the Redis protocol.

#![expect(clippy::disallowed_methods, reason = "the servers run in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn::storage::ErrorKind;
use firn::storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use firn_protocol::resp::Value;
use firn_server::{ServeSettings, Server};

use super::client::{Client, Served, ok};

pub(super) const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn served() -> Served {
    Served::with(ServeSettings { threads: 2, http: Some(ANYWHERE), ..ServeSettings::default() })
}

/// What comes for the bytes of a request: status and everything after the head, and the head.
fn exchange(address: SocketAddr, request: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    stream.write_all(request).expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    (status.expect("a status"), body.to_owned(), head.to_owned())
}

pub(super) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let (status, body, _) =
        exchange(address, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    (status, body)
}

/// Prometheus' text, read strictly: samples by their text before the value.
pub(super) fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut families, mut samples, mut family) = (BTreeSet::new(), BTreeMap::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().expect("a name").to_owned();
            assert!(help.len() > family.len() + 5, "no help in {line:?}");
            assert!(families.insert(family.clone()), "{family} comes twice");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {family} ")));
            let kind = kind.unwrap_or_else(|| panic!("no type of {family}"));
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{family} is a {kind}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line:?}"));
        let name = sample.split('{').next().expect("a name");
        assert!(name.starts_with("firn_") && name.starts_with(&family), "{name} is not of {family}");
        let value = value.parse().unwrap_or_else(|_| panic!("no number in {line:?}"));
        assert!(samples.insert(sample.to_owned(), value).is_none(), "{sample} comes twice");
    }
    assert!(text.ends_with('\n'));
    samples
}

#[test]
fn metrics_tell_what_was_done() {
    let served = served();
    let address = served.server.http_address().unwrap();
    let client = &mut served.connect();
    assert_eq!(client.say("CONFIG SET slowlog-log-slower-than 0"), ok());
    for index in 0..30 {
        client.say(&format!("SET key:{index} value"));
    }
    client.say("GET key:1");
    client.say("GET nothing");
    client.say("GET nothing");
    client.say("LPUSH key:1 x");
    client.say("CONFIG RESETSTAT");
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200);
    let found = samples(&text);
    let of = |name: &str| *found.get(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    assert_eq!((of("firn_commands_total{command=\"set\"}"), of("firn_hits_total")), (30.0, 1.0));
    assert_eq!((of("firn_misses_total"), of("firn_clients")), (2.0, 1.0));
    assert_eq!(of("firn_failed_commands_total{command=\"lpush\"}"), 1.0);
    assert_eq!(of("firn_errors_total{code=\"WRONGTYPE\"}"), 1.0);
    assert!(of("firn_receive_bytes_total") > 500.0 && of("firn_resident_bytes") > 1e6);
    assert!(of("firn_engine_write_bytes_total{by=\"log\"}") >= 30.0 * 10.0);
    assert!(of("firn_slow_commands_total") >= 33.0);
    assert_eq!((of("firn_engine_takes_writes"), of("firn_stopping")), (1.0, 0.0));
    // Buckets hold what those below them hold; the last one holds all.
    let name = "firn_command_duration_seconds";
    let bounds = (0..25).map(|power| ((1024_u64 << power) as f64 / 1e9).to_string()).chain(["+Inf".into()]);
    let counts: Vec<f64> =
        bounds.map(|le| of(&format!("{name}_bucket{{command=\"set\",le=\"{le}\"}}"))).collect();
    assert!(counts.is_sorted(), "{counts:?}");
    assert_eq!((counts[25], of(&format!("{name}_count{{command=\"set\"}}"))), (30.0, 30.0));
    assert!(of(&format!("{name}_sum{{command=\"set\"}}")) > 0.0);
    // Keys are counted soon after a request has asked.
    let since = Instant::now();
    while samples(&get(address, "/metrics").1).get("firn_keys{database=\"0\"}") != Some(&30.0) {
        assert!(since.elapsed() < Duration::from_secs(20), "nobody counts");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (status, slow) = get(address, "/slow");
    assert!(status == 200 && slow.starts_with("[{\"command\":") && slow.ends_with("}]\n"), "{slow}");
    assert!(slow.contains("\"command\":\"lpush\"") && !slow.contains("key:1"), "{slow}");
}

#[test]
fn requests_are_answered_by_path_and_wrong_ones_refused() {
    let served = served();
    let address = served.server.http_address().unwrap();
    assert_eq!(get(address, "/healthz"), (200, "alive\n".to_owned()));
    assert_eq!(get(address, "/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(get(address, "/nothing").0, 404);
    let serving = "{\"engine\":\"tree\",\"is_good\":true,\"notices\":[],\"state\":\"serving\"}\n".to_owned();
    assert_eq!(get(address, "/status"), (200, serving));
    let (status, page) = get(address, "/");
    assert!(status == 200 && page.starts_with("<!doctype html>"));
    let (status, body, head) = exchange(address, b"HEAD / HTTP/1.0\r\n\r\n");
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(head.contains(&format!("Content-Length: {}\r\n", page.len())), "{head}");
    let (status, _, head) = exchange(address, b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(status == 405 && head.contains("\r\nAllow: GET, HEAD\r\n"), "{head}");
    assert_eq!(exchange(address, b"PING\r\n\r\n").0, 400);
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(exchange(address, long.as_bytes()).0, 431);
}

#[test]
fn who_says_nothing_does_not_keep_others_out() {
    let served = served();
    let address = served.server.http_address().unwrap();
    let mut silent: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    // A connection that sends half a request.
    silent[0].write_all(b"GET / HT").unwrap();
    let since = Instant::now();
    assert_eq!(get(address, "/healthz").0, 200);
    let took = since.elapsed();
    assert!(took < Duration::from_secs(4), "the oldest goes: {took:?}");
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it was cut off");
    }
}

#[test]
fn it_says_why_it_is_not_ready() {
    let served = served();
    let address = served.server.http_address().unwrap();
    served.server.end();
    served.server.wait().unwrap();
    assert_eq!(get(address, "/readyz"), (503, "stopping\n".to_owned()));
    assert_eq!(get(address, "/healthz").0, 200);
    served.server.stop().unwrap();
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");

    let faulty = Faulty::new(Arc::new(Memory::new()));
    let storage: Arc<dyn firn::storage::Storage> = Arc::new(faulty.clone());
    let db = Arc::new(firn::Db::builder("served").storage(storage).open().unwrap());
    let settings = ServeSettings { port: 0, http: Some(ANYWHERE), ..ServeSettings::default() };
    let server = Server::start(&db, settings).unwrap();
    let address = server.http_address().unwrap();
    let client = &mut Client::connect(server.address());
    assert_eq!(client.say("SET a 1"), ok());
    assert_eq!(get(address, "/readyz").0, 200);
    faulty.inject(Fault {
        on: Operation::Sync,
        file: "*.log".into(),
        when: When::Always { after: 0 },
        effect: Effect::Fail(ErrorKind::Io),
    });
    client.say("SAVE");
    let (status, why) = get(address, "/readyz");
    assert!(
        status == 503 && why.starts_with("no writes are taken: ") && why.contains("a scripted fault"),
        "{why}"
    );
    assert_eq!(samples(&get(address, "/metrics").1)["firn_engine_takes_writes"], 0.0);
    let (_, status) = get(address, "/status");
    assert!(
        status.contains("\"state\":\"takes no writes\"") && status.contains("a scripted fault"),
        "{status}"
    );
    server.stop().unwrap();
}

#[test]
fn background_jobs_are_told_with_where_they_ran() {
    let settings = firn::Settings::for_memory(64 << 20).with_engine(|tree| tree.level0_runs_max = 4);
    let db = firn::Db::builder("served").storage(Arc::new(Memory::new())).settings(settings);
    let db = Arc::new(db.open().unwrap());
    let serve = ServeSettings { port: 0, http: Some(ANYWHERE), ..ServeSettings::default() };
    let server = Server::start(&db, serve).unwrap();
    let (address, client) = (server.http_address().unwrap(), &mut Client::connect(server.address()));
    assert_eq!(get(address, "/jobs"), (200, "[]\n".to_owned()));
    for round in 0..6 {
        for key in 0..200 {
            client.say(&format!("SET key:{key} {}", "x".repeat(500 + round)));
        }
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let (_, text) = get(address, "/metrics");
    let found = samples(&text);
    let sum = |start: &str| {
        let of = found.iter().filter(|(name, _)| name.starts_with(start));
        of.map(|(_, value)| value).sum::<f64>()
    };
    let stats = db.stats().jobs;
    let counts: u64 = stats.kinds.iter().map(|kind| kind.here_count).sum();
    let bytes: u64 = stats.kinds.iter().map(|kind| kind.here_bytes).sum();
    assert!(counts > 0 && bytes > 10_000, "{stats:?}");
    assert_eq!(sum("firn_engine_jobs_total{"), counts as f64, "{text}");
    assert_eq!(sum("firn_engine_job_read_bytes_total{"), bytes as f64, "{text}");
    assert_eq!(found["firn_engine_jobs_total{kind=\"l0_compaction\",place=\"here\"}"], counts as f64);
    let commits = found["firn_engine_job_stage_seconds_count{kind=\"l0_compaction\",stage=\"commit\"}"];
    assert_eq!(commits, counts as f64, "one commit each: {text}");
    assert_eq!(sum("firn_engine_job_stage_seconds_count{kind=\"blob_gc\""), 0.0, "{text}");
    let bucket = "firn_engine_job_stage_seconds_bucket{kind=\"l0_compaction\",stage=\"commit\",le=\"+Inf\"}";
    assert_eq!(found[bucket], commits);
    assert!(found["firn_engine_job_stage_seconds_sum{kind=\"l0_compaction\",stage=\"commit\"}"] > 0.0);
    assert_eq!((found["firn_engine_jobs_held"], found["firn_engine_executor_away"]), (0.0, 0.0));
    let (status, jobs) = get(address, "/jobs");
    let is_here =
        ["\"kind\":\"l0_compaction\"", "\"place\":\"here\""].map(|one| jobs.matches(one).count() as u64);
    assert_eq!((status, is_here), (200, [counts; 2]));
    let listed: serde_json::Value = serde_json::from_str(&jobs).unwrap();
    assert!(listed[0]["ended_unix_ms"].as_u64().is_some_and(|at| at > 0), "{jobs}");
    let Value::Bulk(info) = client.say("INFO firn") else { panic!("a text") };
    let info = String::from_utf8(info).unwrap();
    let line = format!(
        "jobs_l0_compaction:elsewhere_count=0,elsewhere_bytes=0,here_count={counts},here_bytes={bytes}"
    );
    assert!(info.contains(&line) && info.contains("jobs_held_count:0"), "{info}");
    server.stop().unwrap();
}
