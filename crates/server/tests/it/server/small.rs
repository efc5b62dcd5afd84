use firn_protocol::resp::Value;

use super::super::client::{Served, ok};
use super::super::reference::RedisServer;

#[test]
fn what_needs_replicas_is_answered_as_by_a_server_without() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for request in [
        "ROLE",
        "WAIT 0 0",
        "WAIT 1 20",
        "WAIT a 0",
        "WAIT 0 x",
        "WAIT 0 -1",
        "REPLICAOF NO ONE",
        "SLAVEOF no one",
        "REPLICAOF a b",
        "LOLWUT VERSION x",
    ] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
    let Value::Error(text) = ours.say("REPLICAOF 127.0.0.1 6379") else { panic!("it cannot be one") };
    assert!(text.contains("no replication"), "{text}");
}

#[test]
fn the_time_goes_on() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let mut time = || {
        let Value::Array(parts) = client.say("TIME") else { panic!("an array") };
        let number = |value: &Value| match value {
            Value::Bulk(digits) => std::str::from_utf8(digits).unwrap().parse::<u64>().unwrap(),
            other => panic!("{other:?}"),
        };
        assert!(number(&parts[1]) < 1_000_000);
        number(&parts[0]) * 1_000_000 + number(&parts[1])
    };
    let first = time();
    std::thread::sleep(std::time::Duration::from_millis(3));
    let passed = time() - first;
    assert!((2000..20_000_000).contains(&passed), "{passed}");
}

#[test]
fn lolwut_draws_and_says_the_version() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for request in ["LOLWUT", "LOLWUT 3", "LOLWUT VERSION 5 4", "LOLWUT 1000000"] {
        let Value::Bulk(text) = client.say(request) else { panic!("a text") };
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("Redis ver. 7.0.15") && text.contains("Firn"), "{text}");
        assert!(text.lines().count() > 6 && text.len() < 10_000, "{text}");
    }
    assert_eq!(client.say("REPLICAOF NO ONE"), ok());
}
