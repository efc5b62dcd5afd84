use std::io::Write;
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, Served, bulk, error, ok};
use super::super::reference::RedisServer;

/// Names and values of a reply of CONFIG GET, sorted.
fn pairs(reply: Value) -> Vec<(String, String)> {
    let Value::Array(words) = reply else { panic!("{reply:?}") };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).expect("a text"),
        other => panic!("{other:?}"),
    };
    let mut pairs: Vec<_> = words.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
    pairs.sort();
    pairs
}

#[test]
fn defaults_are_those_of_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let theirs = pairs(redis.connect().say("CONFIG GET *"));
    let ours = pairs(served.connect().say("CONFIG GET *"));
    // What differs on purpose: where and how this server runs, that every write is logged, and
    // files that it does not have.
    let differs = [
        "appenddirname",
        "appendfilename",
        "appendfsync",
        "appendonly",
        "dbfilename",
        "dir",
        "io-threads",
        "logfile",
        "pidfile",
        "port",
    ];
    for (name, value) in &ours {
        let expected = theirs.iter().find(|(known, _)| known == name);
        if !differs.contains(&name.as_str()) {
            assert_eq!(expected.map(|(_, value)| value), Some(value), "{name}");
        }
    }
    let unknown: Vec<_> =
        theirs.iter().filter(|(name, _)| !ours.iter().any(|(known, _)| known == name)).collect();
    assert!(unknown.is_empty(), "names of Redis that are not known: {unknown:?}");
}

/// A parameter that no client can change, or that has no effect here, is refused and kept as by
/// Redis.
#[test]
fn names_without_effect_are_set_and_refused_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for name in [
        "always-show-logo",
        "aof_rewrite_cpulist",
        "bind-source-addr",
        "cluster-config-file",
        "cluster-port",
        "disable-thp",
        "enable-module-command",
        "enable-protected-configs",
        "ignore-warnings",
        "jemalloc-bg-thread",
        "key-load-delay",
        "loading-process-events-interval-bytes",
        "rdb-key-save-delay",
        "set-proc-title",
        "socket-mark-id",
        "supervised",
        "syslog-enabled",
        "tls-auth-clients",
        "tls-cert-file",
        "tls-protocols",
        "tls-session-cache-size",
        "tls-session-cache-timeout",
        "tls-session-caching",
        "unixsocketperm",
        "use-exit-on-panic",
    ] {
        for value in ["yes", "No", "optional", "-1", "70000", "99999999999", "{foo}", "{port} {title}", ""] {
            for request in [&["CONFIG", "SET", name, value][..], &["CONFIG", "GET", name]] {
                assert_eq!(ours.call(request), theirs.call(request), "{request:?}");
            }
        }
    }
    for request in [
        "CONFIG GET rdb-key-save-*",
        "CONFIG GET RDB-KEY-SAVE-DELAY",
        "CONFIG SET hz 1000",
        "CONFIG GET hz",
        "CONFIG SET hz 0",
        "CONFIG GET hz",
        "CONFIG SET hz -1",
        "CONFIG SET hz 99999999999",
        "CONFIG SET tls-port 70000",
        "CONFIG SET tls-port 0",
        "CONFIG SET tls-replication no",
        "CONFIG SET tls-cluster x",
    ] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
    for request in
        ["CONFIG SET tls-port 7000", "CONFIG SET tls-replication yes", "CONFIG SET tls-cluster yes"]
    {
        let Value::Error(refusal) = ours.say(request) else { panic!("{request} is done") };
        assert!(refusal.contains("Unable to update TLS configuration"), "{refusal}");
        assert!(matches!(theirs.say(request), Value::Error(_)), "{request}");
    }
}

#[test]
fn parameters_are_set_and_refused_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for request in [
        "CONFIG GET foo*",
        "CONFIG GET timeout",
        "CONFIG GET TIMEOUT",
        "CONFIG SET foo bar",
        "CONFIG SET foo",
        "CONFIG SET timeout 10 timeout 11",
        "CONFIG SET timeout 10 foo 1",
        "CONFIG SET timeout 10 hz x",
        "CONFIG SET timeout 10 hz",
        "CONFIG SET Timeout x",
        "CONFIG SET timeout -5",
        "CONFIG SET timeout 99999999999",
        "CONFIG GET timeout",
        "CONFIG SET databases 5",
        "CONFIG SET maxmemory 1x",
        "CONFIG SET maxmemory -1",
        "CONFIG GET maxmemory",
        "CONFIG GET maxmemory-policy",
        "CONFIG SET maxmemory 0 maxmemory-policy noeviction",
        "CONFIG SET maxmemory-policy foo",
        "CONFIG SET maxmemory-clients x%",
        "CONFIG SET appendonly maybe",
        "CONFIG SET lazyfree-lazy-expire YES",
        "CONFIG GET lazyfree-lazy-expire",
        "CONFIG SET save foo",
        "CONFIG GET save",
        "CONFIG SET notify-keyspace-events Q",
        "CONFIG GET notify-keyspace-events",
        "CONFIG GET notify-keyspace-events",
        "CONFIG SET client-output-buffer-limit foo",
        "CONFIG SET hash-max-ziplist-entries 7",
        "CONFIG GET hash-max-listpack-entries",
        "CONFIG SET slave-priority 9",
        "CONFIG GET replica-priority",
        "CONFIG SET lua-time-limit 100",
        "CONFIG GET busy-reply-threshold",
        "CONFIG SET hz 10.5",
        "CONFIG SET slowlog-log-slower-than -2",
        "CONFIG SET list-max-ziplist-size -3",
        "CONFIG SET dir /tmp",
        "CONFIG SET latency-tracking-info-percentiles x",
        "CONFIG SET proto-max-bulk-len 0",
        "CONFIG SET proto-max-bulk-len 1048575",
        "CONFIG SET proto-max-bulk-len 9223372036854775808",
        "CONFIG SET proto-max-bulk-len 99999999999999999999",
        "CONFIG SET proto-max-bulk-len 1mb",
        "CONFIG GET proto-max-bulk-len",
        "CONFIG SET proto-max-bulk-len 9223372036854775807",
        "CONFIG SET client-query-buffer-limit 0",
        "CONFIG SET client-query-buffer-limit 1mb hz 1x",
        "CONFIG SET client-query-buffer-limit 1048575b",
        "CONFIG SET client-query-buffer-limit 9223372036854775807",
        "CONFIG GET client-query-buffer-limit",
        "CONFIG SET repl-backlog-size 0",
        "CONFIG SET active-defrag-ignore-bytes 0",
        "CONFIG SET stream-node-max-bytes 9223372036854775808",
        "CONFIG SET cluster-link-sendbuf-limit 18446744073709551615",
        "CONFIG GET protected-mode",
        "CONFIG SET protected-mode maybe",
        "CONFIG SET protected-mode no",
        "CONFIG GET protected-mode",
        "CONFIG REWRITE",
        "CONFIG RESETSTAT",
        "CONFIG FOO",
        "CONFIG GET",
    ] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
    for pairs in ["3600 1  60 10", "0 1"] {
        let save = ["CONFIG", "SET", "save", pairs];
        assert_eq!(ours.call(&save), theirs.call(&save), "{pairs}");
    }
    for request in ["CONFIG GET client-output-buffer-limit", "CONFIG GET save"] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
    let several = "CONFIG GET timeout hz maxm* nonsense";
    assert_eq!(pairs(ours.say(several)), pairs(theirs.say(several)));
}

#[test]
fn what_the_server_was_started_with_is_told() {
    let settings =
        ServeSettings { dir: "/some/where".into(), is_protected: false, ..ServeSettings::default() };
    let served = Served::with(settings);
    let client = &mut served.connect();
    let port = served.server.address().port().to_string();
    for (name, value) in [
        ("dir", "/some/where"),
        ("bind", "127.0.0.1"),
        ("port", port.as_str()),
        ("databases", "16"),
        ("appendonly", "yes"),
        ("save", ""),
        ("maxclients", "10000"),
        ("protected-mode", "no"),
    ] {
        let expected = Value::Array(vec![bulk(name), bulk(value)]);
        assert_eq!(client.say(&format!("CONFIG GET {name}")), expected, "{name}");
    }
    let other = &mut served.connect();
    assert_eq!(client.say("CONFIG SET requirepass secret"), ok());
    assert_eq!(served.connect().say("GET k"), error("NOAUTH Authentication required."));
    assert_eq!(
        other.say("AUTH wrong"),
        error("WRONGPASS invalid username-password pair or user is disabled.")
    );
    assert_eq!(other.say("AUTH secret"), ok());
    assert_eq!(other.call(&["CONFIG", "SET", "requirepass", ""]), ok());
    assert_eq!(served.connect().say("GET k"), Value::Null);
}

#[test]
fn limits_are_changed_while_the_server_runs() {
    let served = Served::start(2);
    let client = &mut served.connect();
    assert_eq!(client.say("CONFIG SET maxclients 1"), ok());
    let mut second = served.connect();
    assert_eq!(second.reply(), Some(error("ERR max number of clients reached")));
    assert_eq!(client.say("CONFIG SET maxclients 100 proto-max-bulk-len 1mb"), ok());
    let mut second = served.connect();
    assert_eq!(second.call(&["ECHO", &"x".repeat(1 << 20)]), bulk(&"x".repeat(1 << 20)));
    // The length alone: what follows it would meet a connection that is closed.
    second.stream.write_all(b"*2\r\n$4\r\nECHO\r\n$1048577\r\n").expect("it is sent");
    assert_eq!(second.reply(), Some(error("ERR Protocol error: invalid bulk length")));
    assert_eq!(second.reply(), None);
    assert_eq!(client.say("CONFIG SET client-query-buffer-limit 1mb"), ok());
}

/// How long it takes until the connection is closed.
fn closed_after(client: &mut Client) -> Duration {
    let start = Instant::now();
    assert_eq!(client.reply(), None);
    start.elapsed()
}

#[test]
fn connections_that_say_nothing_are_closed() {
    let served = Served::start(2);
    let mut clients: Vec<Client> = (0..4).map(|_| served.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.say("PING"), Value::Simple("PONG".into())));
    let mut asking = served.connect();
    assert_eq!(asking.say("CONFIG SET timeout 4"), ok());
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(250));
        assert_eq!(asking.say("CONFIG GET hz"), Value::Array(vec![bulk("hz"), bulk("10")]), "it speaks");
    }
    for client in &mut clients {
        assert!(closed_after(client) < Duration::from_secs(5));
    }
    assert_eq!(asking.say("CONFIG SET timeout 0"), ok());
}
