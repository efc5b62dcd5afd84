use std::time::Duration;

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, error, ok};
use super::super::reference::RedisServer;
use super::info::info;

/// Arguments of the entries of a slow log.
fn logged(client: &mut Client) -> Vec<Vec<String>> {
    let Value::Array(entries) = client.say("SLOWLOG GET -1") else { panic!("an array") };
    let arguments = |entry: &Value| {
        let Value::Array(parts) = entry else { panic!("{entry:?}") };
        assert!(
            matches!(parts[..3], [Value::Integer(_), Value::Integer(1..), Value::Integer(_)]),
            "{parts:?}"
        );
        assert!(matches!(&parts[4], Value::Bulk(address) if address.starts_with(b"127.0.0.1:")), "{parts:?}");
        let Value::Array(words) = &parts[3] else { panic!("{parts:?}") };
        let text = |word: &Value| match word {
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{other:?}"),
        };
        words.iter().map(text).collect()
    };
    entries.iter().map(arguments).collect()
}

#[test]
fn slow_commands_are_logged_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    let mut both = |request: &str| assert_eq!(ours.say(request), theirs.say(request), "{request}");
    both("CONFIG SET slowlog-log-slower-than 0");
    both("SLOWLOG RESET");
    for request in
        ["SET a b", "GET a", "GET", "NONSENSE", "INCR a", "MULTI", "SET c d", "GET c", "EXEC", "PING"]
    {
        both(request);
    }
    both(&format!("SET long {}", "x".repeat(1000)));
    both(&format!("DEL{}", " k".repeat(50)));
    both("SLOWLOG LEN");
    assert_eq!(logged(ours), logged(theirs));
    for request in ["SLOWLOG GET x", "SLOWLOG GET -2", "SLOWLOG GET 1 2", "SLOWLOG FOO"] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
    for client in [theirs, ours] {
        assert_eq!(client.say("CONFIG SET slowlog-max-len 2"), ok());
        client.say("PING");
        assert_eq!(client.say("SLOWLOG LEN"), Value::Integer(2));
        assert_eq!(logged(client)[0], ["SLOWLOG", "LEN"]);
        assert_eq!(client.say("CONFIG SET slowlog-log-slower-than -1"), ok());
        assert_eq!(client.say("SLOWLOG RESET"), ok());
        client.say("PING");
        assert_eq!(client.say("SLOWLOG GET"), Value::Array(vec![]));
    }
}

#[test]
fn latency_events_are_told() {
    let served = Served::start(2);
    let client = &mut served.connect();
    assert_eq!(client.say("LATENCY LATEST"), Value::Array(vec![]));
    assert_eq!(client.say("DEBUG SLEEP 0.05"), ok());
    assert_eq!(client.say("LATENCY LATEST"), Value::Array(vec![]), "nothing is watched");
    assert_eq!(client.say("CONFIG SET latency-monitor-threshold 20"), ok());
    assert_eq!(client.say("DEBUG SLEEP 0.05"), ok());
    let Value::Array(latest) = client.say("LATENCY LATEST") else { panic!("an array") };
    let [Value::Array(event)] = &latest[..] else { panic!("{latest:?}") };
    assert_eq!(event[0], bulk("command"));
    let (Value::Integer(last), Value::Integer(worst)) = (&event[2], &event[3]) else { panic!("{event:?}") };
    assert!((40..5000).contains(last) && last == worst, "{event:?}");
    let expected = Value::Array(vec![Value::Array(event[1..3].to_vec())]);
    assert_eq!(client.say("LATENCY HISTORY command"), expected);
    let Value::Bulk(graph) = client.say("LATENCY GRAPH command") else { panic!("a text") };
    assert!(String::from_utf8_lossy(&graph).contains("command: 1 samples"));
    let Value::Bulk(words) = client.say("LATENCY DOCTOR") else { panic!("a text") };
    assert!(String::from_utf8_lossy(&words).contains("command: 1 seconds with events"));
    assert_eq!(client.say("LATENCY RESET nonsense"), Value::Integer(0));
    assert_eq!(client.say("LATENCY RESET"), Value::Integer(1));
    assert_eq!(client.say("LATENCY GRAPH command"), error("ERR No samples available for event 'command'"));
}

#[test]
fn histograms_add_up() {
    let served = Served::start(2);
    let client = &mut served.connect();
    (0..40).for_each(|_| drop(client.say("EXISTS k")));
    client.say("DEBUG SLEEP 0.01");
    let Value::Array(reported) = client.say("LATENCY HISTOGRAM exists nonsense debug mget config") else {
        panic!("an array")
    };
    assert_eq!(reported.len(), 4, "{reported:?}");
    let histogram = |name: &str| {
        let at = reported.iter().position(|value| *value == bulk(name)).expect("it was called");
        let Value::Array(parts) = &reported[at + 1] else { panic!("{reported:?}") };
        let Value::Array(buckets) = &parts[3] else { panic!("{reported:?}") };
        (parts[1].clone(), buckets.clone())
    };
    let (calls, buckets) = histogram("exists");
    assert_eq!((&calls, buckets.last()), (&Value::Integer(40), Some(&Value::Integer(40))));
    let (_, buckets) = histogram("debug");
    assert!(matches!(buckets[..], [Value::Integer(8000..10_000_000), Value::Integer(1)]), "{buckets:?}");
    client.say("CONFIG GET hz");
    let Value::Array(of_config) = client.say("LATENCY HISTOGRAM config") else { panic!("an array") };
    assert_eq!(of_config[0], bulk("config|get"));
}

#[test]
fn waiting_for_others_is_not_slow() {
    let served = Served::start(2);
    let client = &mut served.connect();
    client.say("CONFIG SET slowlog-log-slower-than 20000");
    // Held back by its reader, not by the server.
    client.say("SET k v");
    std::thread::sleep(Duration::from_millis(50));
    client.say("GET k");
    assert_eq!(client.say("SLOWLOG LEN"), Value::Integer(0));
    let get = info(client, "commandstats", "cmdstat_get").expect("it was called");
    let us: u64 = get.split([',', '=']).nth(3).and_then(|us| us.parse().ok()).expect("a number");
    assert!(us < 20_000, "{get}");
}
