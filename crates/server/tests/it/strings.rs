use std::sync::atomic::{AtomicBool, Ordering};

use firn_protocol::resp::Value;

use super::client::{Client, Served, bulk, error, ok};

/// Says each line and compares.
#[track_caller]
fn talk(client: &mut Client, lines: &[(&str, Value)]) {
    for (line, expected) in lines {
        assert_eq!(&client.say(line), expected, "{line}");
    }
}

fn integer(number: i64) -> Value {
    Value::Integer(number)
}

#[test]
fn strings_are_set_and_read() {
    let served = Served::start(1);
    let client = &mut served.connect();
    talk(
        client,
        &[
            ("GET k", Value::Null),
            ("SET k v", ok()),
            ("GET k", bulk("v")),
            ("SET k w NX", Value::Null),
            ("SET k w XX", ok()),
            ("SET k x GET", bulk("w")),
            ("SET new x XX", Value::Null),
            ("SET new x XX GET", Value::Null),
            ("SET k y NX XX", error("ERR syntax error")),
            ("SET k y BAD", error("ERR syntax error")),
            ("GETSET k z", bulk("x")),
            ("SETNX k a", integer(0)),
            ("SETNX m a", integer(1)),
            ("STRLEN k", integer(1)),
            ("STRLEN none", integer(0)),
            ("APPEND k bc", integer(3)),
            ("APPEND fresh bc", integer(2)),
            ("GETRANGE k 1 -1", bulk("bc")),
            ("GETRANGE none 0 -1", bulk("")),
            ("SETRANGE k 5 x", integer(6)),
            ("SETRANGE k -1 x", error("ERR offset is out of range")),
            ("SETRANGE k 536870912 x", error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")),
            ("GETDEL m", bulk("a")),
            ("GETDEL m", Value::Null),
            ("TYPE k", Value::Simple("string".into())),
            ("TYPE none", Value::Simple("none".into())),
            ("EXISTS k k none", integer(2)),
            ("DEL k k none", integer(1)),
            ("EXISTS k", integer(0)),
        ],
    );
    assert_eq!(client.call(&[&b"SET"[..], b"bin\0\r\n", b"\0\xff\r\n"]), ok());
    assert_eq!(client.call(&[&b"GET"[..], b"bin\0\r\n"]), Value::Bulk(b"\0\xff\r\n".to_vec()));
    assert_eq!(client.call(&["SET", "", ""]), ok());
    assert_eq!(client.call(&["GET", ""]), bulk(""));
}

#[test]
fn several_keys_at_once() {
    let served = Served::start(1);
    let client = &mut served.connect();
    talk(
        client,
        &[
            ("MSET a 1 b 2 a 3", ok()),
            ("MGET a none b", Value::Array(vec![bulk("3"), Value::Null, bulk("2")])),
            ("MSET a", error("ERR wrong number of arguments for 'mset' command")),
            ("MSET a 1 b", error("ERR wrong number of arguments for 'mset' command")),
            ("MSETNX c 1 a 9", integer(0)),
            ("EXISTS c", integer(0)),
            ("MSETNX c 1 d 2", integer(1)),
            ("MGET c d", Value::Array(vec![bulk("1"), bulk("2")])),
        ],
    );
}

#[test]
fn numbers_are_counted() {
    let served = Served::start(1);
    let client = &mut served.connect();
    talk(
        client,
        &[
            ("INCR n", integer(1)),
            ("INCRBY n 10", integer(11)),
            ("DECR n", integer(10)),
            ("DECRBY n 20", integer(-10)),
            ("GET n", bulk("-10")),
            ("SET n 9223372036854775807", ok()),
            ("INCR n", error("ERR increment or decrement would overflow")),
            ("DECRBY n -9223372036854775808", error("ERR decrement would overflow")),
            ("SET n x", ok()),
            ("INCR n", error("ERR value is not an integer or out of range")),
            ("INCRBY n x", error("ERR value is not an integer or out of range")),
            ("SET f 10.5", ok()),
            ("INCRBYFLOAT f 0.1", bulk("10.6")),
            ("INCRBYFLOAT f -5", bulk("5.6")),
            ("SET f 5.0e3", ok()),
            ("INCRBYFLOAT f 2.0e2", bulk("5200")),
            ("INCRBYFLOAT f x", error("ERR value is not a valid float")),
            ("INCRBYFLOAT f inf", error("ERR increment would produce NaN or Infinity")),
        ],
    );
}

#[test]
fn counters_of_many_connections_are_exact() {
    let served = Served::start(2);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut client = served.connect();
            scope.spawn(move || (0..200).for_each(|_| drop(client.say("INCR n"))));
        }
        let mut client = served.connect();
        // Plain writes of other keys pass between.
        scope.spawn(move || (0..200).for_each(|_| drop(client.say("SET m 1"))));
    });
    assert_eq!(served.connect().say("GET n"), bulk("1600"));
}

#[test]
fn a_set_is_never_lost_inside_an_append() {
    let served = Served::start(2);
    for round in 0..50 {
        let key = format!("k{round}");
        std::thread::scope(|scope| {
            let (mut setter, mut appender) = (served.connect(), served.connect());
            let (set_key, append_key) = (key.clone(), key.clone());
            scope.spawn(move || assert_eq!(setter.call(&["SET", &set_key, "s"]), ok()));
            scope.spawn(move || drop(appender.call(&["APPEND", &append_key, "a"])));
        });
        let Value::Bulk(found) = served.connect().call(&["GET", &key]) else { panic!("{key} is gone") };
        assert!(found == b"s" || found == b"sa", "{key}: {found:?}");
    }
}

#[test]
fn a_set_is_never_lost_inside_an_increment() {
    const STEP: i64 = 1_000_000;
    let served = Served::start(3);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = served.connect();
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    drop(client.say("INCR n"));
                }
            });
        }
        let mut client = served.connect();
        let seen = (1..=3000).find_map(|round| {
            assert_eq!(client.call(&["SET", "n", &(round * STEP).to_string()]), ok());
            let Value::Bulk(found) = client.say("GET n") else { panic!("it was set") };
            let found: i64 = std::str::from_utf8(&found).ok()?.parse().ok()?;
            (found < round * STEP).then_some((round, found))
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(seen, None, "an increment of what was before came after the set");
    });
}

#[test]
fn strings_outlive_the_server() {
    let served = Served::start(1);
    let mut client = served.connect();
    for index in 0..500 {
        assert_eq!(client.call(&["SET", &format!("k{index}"), &format!("v{index}")]), ok());
    }
    let served = served.restart();
    let mut client = served.connect();
    for index in 0..500 {
        assert_eq!(client.call(&["GET", &format!("k{index}")]), bulk(&format!("v{index}")));
    }
}

#[test]
fn bits_of_the_longest_string_cost_what_is_touched() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let last = u32::MAX;
    talk(
        client,
        &[
            (&format!("SETBIT k {last} 1"), integer(0)),
            ("STRLEN k", integer(512 << 20)),
            (&format!("GETBIT k {last}"), integer(1)),
            (&format!("GETBIT k {}", last - 1), integer(0)),
            ("SETBIT k 1000000000 1", integer(0)),
            ("BITCOUNT k 124999999 125000001", integer(1)),
            ("BITCOUNT k -8 -1 BIT", integer(1)),
            ("BITPOS k 1 536800000", integer(i64::from(last))),
            ("BITFIELD_RO k GET u8 4294967288", Value::Array(vec![integer(1)])),
            ("BITFIELD k INCRBY u8 4294967288 254 GET i8 4294967288", {
                Value::Array(vec![integer(255), integer(-1)])
            }),
            ("BITPOS k 0 -1 -1", integer(-1)),
            ("BITPOS k 0 -1", integer(i64::from(last) + 1)),
        ],
    );
}
