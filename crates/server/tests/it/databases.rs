use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::client::{Client, IS_ORDERED, Served, bulk, error, leave_out, ok};

#[test]
fn databases_are_apart_and_change_places() {
    let served = Served::start(2);
    let (client, other) = (&mut served.connect(), &mut served.connect());
    client.say("SET k zero");
    assert_eq!(client.say("SELECT 1"), ok());
    assert_eq!(client.say("GET k"), Value::Null);
    client.say("SET k one");
    assert_eq!(other.say("SWAPDB 0 1"), ok());
    assert_eq!(client.say("GET k"), bulk("zero"));
    assert_eq!(other.say("GET k"), bulk("one"));
    assert_eq!(other.say("SWAPDB 0 16"), error("ERR DB index is out of range"));
    assert_eq!(other.say("SELECT 16"), error("ERR DB index is out of range"));
    assert_eq!(other.say("MOVE k 1"), Value::Integer(0), "there is one");
    assert_eq!(other.say("COPY k k DB 1"), Value::Integer(0));
    assert_eq!(other.say("COPY k k DB 2"), Value::Integer(1));
    assert_eq!(other.say("MOVE k 2"), Value::Integer(0));
    assert_eq!(other.say("MOVE k 5"), Value::Integer(1));
    assert_eq!(other.say("DBSIZE"), Value::Integer(0));
    assert_eq!(other.say("FLUSHDB"), ok());
    assert_eq!(client.say("GET k"), bulk("zero"), "another database");
    let served = served.restart();
    let client = &mut served.connect();
    assert_eq!(client.say("GET k"), Value::Null);
    for (database, value) in [(1, "zero"), (2, "one"), (5, "one")] {
        client.say(&format!("SELECT {database}"));
        assert_eq!(client.say("GET k"), bulk(value), "{database}");
    }
    assert_eq!(client.call(&["SCAN", ""]), client.say("SCAN 0"), "nothing is no number, and the beginning");
    assert_eq!(client.say("FLUSHALL"), ok());
    let served = served.restart();
    let client = &mut served.connect();
    for database in [0, 1, 2, 5] {
        client.say(&format!("SELECT {database}"));
        assert_eq!(client.say("DBSIZE"), Value::Integer(0), "{database}");
    }
}

/// Walks with SCAN and tells every key once.
fn scanned(client: &mut Client, options: &str) -> Vec<Vec<u8>> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let Value::Array(reply) = client.say(&format!("SCAN {cursor} {options}")) else { panic!("an array") };
        let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else { panic!("{reply:?}") };
        found.extend(keys.iter().map(|key| match key {
            Value::Bulk(key) => key.clone(),
            other => panic!("{other:?}"),
        }));
        cursor = String::from_utf8(next.clone()).expect("digits");
        if cursor == "0" {
            found.sort();
            found.dedup();
            return found;
        }
    }
}

#[test]
fn scan_finds_every_key_that_stays() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for number in 0..500 {
        client.say(&format!("SET key:{number} v"));
        // One slot with many.
        client.say(&format!("SET {{tag}}{number} v"));
    }
    client.say("SET gone v PX 1");
    std::thread::sleep(Duration::from_millis(5));
    for options in ["", "COUNT 1", "COUNT 7", "COUNT 1000", "COUNT 100000"] {
        assert_eq!(scanned(client, options).len(), 1000, "{options}");
    }
    assert_eq!(scanned(client, "MATCH key:1*").len(), 111);
    assert_eq!(scanned(client, "MATCH {tag}* COUNT 50").len(), 500);
    assert_eq!(scanned(client, "TYPE string").len(), 1000);
    assert_eq!(scanned(client, "TYPE hash").len(), 0);
    assert_eq!(client.say("SCAN x"), error("ERR invalid cursor"));
    assert_eq!(client.say("SCAN 0 COUNT 0"), error("ERR syntax error"));
    assert_eq!(client.say("SCAN 0 COUNT"), error("ERR syntax error"));
    assert_eq!(client.say("DBSIZE"), Value::Integer(1000));
    let mut drawn = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let Value::Bulk(key) = client.say("RANDOMKEY") else { panic!("a key") };
        drawn.insert(key);
    }
    assert!(drawn.len() > 50, "{}", drawn.len());
    client.say("FLUSHALL");
    assert_eq!(client.say("RANDOMKEY"), Value::Null);
}

#[test]
fn what_expires_is_gone_and_its_room_is_given_back() {
    let served = Served::start(2);
    let client = &mut served.connect();
    let long = "x".repeat(200_000);
    for key in ["short", "long"] {
        let value = if key == "long" { long.as_str() } else { "v" };
        assert_eq!(client.call(&["SET", key, value, "PX", "3000"]), ok());
        assert!(matches!(client.say(&format!("PTTL {key}")), Value::Integer(1..=3000)), "{key}");
    }
    assert_eq!(client.say("STRLEN long"), Value::Integer(200_000));
    assert_eq!(client.say("TTL none"), Value::Integer(-2));
    client.say("SET stays v");
    assert_eq!(client.say("TTL stays"), Value::Integer(-1));
    let start = Instant::now();
    while client.say("EXISTS short long") != Value::Integer(0) {
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    // Duty removes the record, and then the fragments.
    while served.records("keys") > 1 + 1 || served.records("fields") > 0 || served.records("purges") > 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", served.counts());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.records("expiry"), 0);
    assert_eq!(client.say("DBSIZE"), Value::Integer(1));
}

#[test]
fn what_is_replaced_or_deleted_leaves_no_parts() {
    let served = Served::start(2);
    let client = &mut served.connect();
    let long = "x".repeat(100_000);
    let replace: [&[&str]; 6] = [
        &["SET", "k", "v"],
        &["DEL", "k"],
        &["MSET", "k", "v"],
        &["SETEX", "k", "100", "v"],
        &["RENAME", "other", "k"],
        &["GETDEL", "k"],
    ];
    for command in replace {
        client.call(&["SET", "k", &long]);
        client.call(&["SET", "other", "v"]);
        client.call(command);
        let start = Instant::now();
        while served.records("fields") > 0 || served.records("purges") > 0 {
            assert!(start.elapsed() < Duration::from_secs(10), "{command:?}: {:?}", served.counts());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // What a server that ended left to be purged, the next one purges.
    client.call(&["SET", "k", &long]);
    client.call(&["RENAME", "k", "m"]);
    let served = served.restart();
    let client = &mut served.connect();
    assert_eq!(client.say("STRLEN m"), Value::Integer(100_000));
    client.say("FLUSHALL");
    let served = served.restart();
    let start = Instant::now();
    while served.records("fields") > 0 || served.records("keys") > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", served.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// More at once than a server keeps in mind.
#[test]
fn a_flood_of_deletions_is_purged() {
    if !IS_ORDERED {
        return leave_out("a_flood_of_deletions_is_purged");
    }
    let served = Served::start(2);
    let client = &mut served.connect();
    let add = "for i = 1, 110000 do redis.call('sadd', 'k' .. i, 'x') end return redis.call('dbsize')";
    assert_eq!(client.call(&["EVAL", add, "0"]), Value::Integer(110_000));
    let delete = "for i = 1, 110000 do redis.call('del', 'k' .. i) end return redis.call('dbsize')";
    assert_eq!(client.call(&["EVAL", delete, "0"]), Value::Integer(0));
    let start = Instant::now();
    while served.records("fields") > 0 || served.records("purges") > 0 {
        // Long: sanitizers slow it down many times.
        assert!(start.elapsed() < Duration::from_secs(300), "{:?}", served.counts());
        std::thread::sleep(Duration::from_millis(50));
    }
}
