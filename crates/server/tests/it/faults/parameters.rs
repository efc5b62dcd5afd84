//! P4: `CONFIG SET maxmemory-policy allkeys-lfu` answers OK and has no effect. A parameter that
//! promises something acts, or is refused with the reason. Neighbours: every name of the table that
//! is refused, `appendfsync` that acts, `tcp-keepalive`, a share of more than all memory (C11).

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, ok};
use super::super::server::info::number;

fn value_of(client: &mut Client, name: &str) -> Value {
    let Value::Array(mut pair) = client.say(&format!("CONFIG GET {name}")) else { panic!("a pair") };
    pair.pop().expect("a value")
}

#[test]
fn p4_parameters_that_promise_act_or_are_refused() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for (name, value, why) in [
        ("maxmemory", "100mb", "nothing is evicted"),
        ("maxmemory-policy", "allkeys-lfu", "nothing is evicted"),
        ("maxmemory-clients", "10%", "one by one"),
        ("maxmemory-clients", "200%", "memory or percent"),
        ("notify-keyspace-events", "KEA", "no event"),
        ("save", "3600 1", "every write is logged"),
        ("appendonly", "no", "every write is logged"),
        ("aof-load-truncated", "no", "up to where it was cut"),
        ("client-output-buffer-limit", "pubsub 1mb 1mb 1", "output_bytes_max"),
        ("min-replicas-to-write", "1", "no replicas"),
        ("activedefrag", "yes", "not defragmented"),
        ("latency-tracking", "no", "always tracked"),
        ("loglevel", "debug", "--log-level"),
        ("acl-pubsub-default", "allchannels", "ACL SETUSER"),
        ("acllog-max-len", "5", "128"),
        ("oom-score-adj", "yes", "was started with"),
        ("proc-title-template", "x", "title"),
        ("propagation-error-behavior", "panic", "no replicas"),
        ("sanitize-dump-payload", "yes", "DUMP"),
        ("shutdown-on-sigterm", "nosave", "acknowledged"),
        ("shutdown-on-sigint", "now", "acknowledged"),
        ("stop-writes-on-bgsave-error", "no", "always refused"),
        ("tls-port", "7000", "no TLS"),
    ] {
        let before = value_of(client, name);
        let Value::Error(line) = client.call(&["CONFIG", "SET", name, value]) else {
            panic!("{name} is set")
        };
        assert!(line.starts_with("ERR CONFIG SET failed") && line.contains(why), "{line}");
        assert_eq!(value_of(client, name), before);
        // What it is may be said again.
        let Value::Bulk(before) = before else { panic!("{before:?}") };
        assert_eq!(client.call(&[&b"CONFIG"[..], b"SET", name.as_bytes(), &before]), ok(), "{name}");
    }
}

#[test]
fn p4_appendfsync_says_what_a_write_survives() {
    let served = Served::start(1);
    let client = &mut served.connect();
    assert_eq!(value_of(client, "appendfsync"), bulk("no"));
    let mut syncs_of_write = |value: &str| {
        assert_eq!(client.say(&format!("CONFIG SET appendfsync {value}")), ok());
        assert_eq!(value_of(client, "appendfsync"), bulk(value));
        let before = number(client, "firn", "sync_count");
        client.say("INCR k");
        client.say("SET plain v");
        (number(client, "firn", "sync_count") - before, before)
    };
    assert_eq!(syncs_of_write("no").0, 0);
    assert!(syncs_of_write("always").0 >= 2, "each is synced before it is answered");
    let (_, before) = syncs_of_write("everysec");
    let start = Instant::now();
    while number(client, "firn", "sync_count") == before {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing is synced");
        client.say("PING");
    }
    // Nothing more is written: nothing more is synced.
    assert_eq!(client.say("CONFIG SET appendfsync no"), ok());
}

#[test]
fn p4_a_durable_database_says_so() {
    let settings =
        firn::Settings { durability: firn::Durability::Disk, ..firn::Settings::for_memory(64 << 20) };
    let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    let db = firn::Db::builder("p4").settings(settings).storage(storage).open().expect("a database");
    let served = super::super::client::serve(&db, firn_server::ServeSettings::default());
    let client = &mut Client::connect(served.address());
    assert_eq!(value_of(client, "appendfsync"), bulk("always"));
    let before = number(client, "firn", "sync_count");
    client.say("INCR k");
    assert!(number(client, "firn", "sync_count") > before);
    assert_eq!(client.say("CONFIG SET appendfsync no"), ok());
    let before = number(client, "firn", "sync_count");
    client.say("INCR k");
    assert_eq!(number(client, "firn", "sync_count"), before);
}
