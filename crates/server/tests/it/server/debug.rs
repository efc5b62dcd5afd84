//! DEBUG, as far as tests of clients and of servers ask for it.

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, Served, error, ok};
use super::super::reference::RedisServer;

#[test]
fn a_reply_of_each_type_is_that_of_redis() {
    let redis = RedisServer::start();
    let served = Served::start(1);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for protocol in ["2", "3"] {
        theirs.say(&format!("HELLO {protocol}"));
        ours.say(&format!("HELLO {protocol}"));
        for kind in [
            "string", "integer", "double", "null", "array", "set", "map", "attrib", "push", "verbatim",
            "true", "False", "bignum", "foo",
        ] {
            let request = format!("DEBUG PROTOCOL {kind}");
            let is_pushed = kind == "push" && protocol == "3";
            let raw = |client: &mut Client| {
                let mut raw = Vec::new();
                client.say(&request);
                raw.extend_from_slice(&client.raw);
                if is_pushed {
                    client.reply();
                    raw.extend_from_slice(&client.raw);
                }
                String::from_utf8(raw).expect("a text")
            };
            assert_eq!(raw(ours), raw(theirs), "{request} in version {protocol}");
        }
    }
}

#[test]
fn errors_and_refusals_are_those_of_redis() {
    let redis = RedisServer::start();
    let served = Served::start(1);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    let text = ["DEBUG", "ERROR", "CODE a text\r\nof two lines"];
    assert_eq!(ours.call(&text), theirs.call(&text));
    for request in [
        "DEBUG",
        "DEBUG PROTOCOL",
        "DEBUG PROTOCOL string x",
        "DEBUG ERROR",
        "DEBUG ERROR FOO",
        "DEBUG ERROR FOO bar",
        "DEBUG POPULATE",
        "DEBUG POPULATE x",
        "DEBUG POPULATE -1",
        "DEBUG POPULATE 1 p x",
        "DEBUG POPULATE 1 p -1",
        "DEBUG POPULATE 1 p 1 1",
        "DBSIZE",
    ] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
}

#[test]
fn keys_are_added_where_nothing_stands_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for request in [
        "RPUSH key:1 a",
        "SET key:2 kept PX 1000000",
        "DEBUG POPULATE 0",
        "DBSIZE",
        "DEBUG POPULATE 300",
        "DBSIZE",
        "TYPE key:1",
        "GET key:2",
        "GET key:0",
        "GET key:299",
        "EXISTS key:300",
        "SELECT 3",
        "DEBUG POPULATE 2 long 1000000",
        "DEBUG POPULATE 3 long 9",
        "STRLEN long:1",
        "GETRANGE long:1 0 8",
        "GET long:2",
        "DEBUG POPULATE 1 short 2",
        "GET short:0",
        "DBSIZE",
    ] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
    // A client that watches one of the keys is told.
    let other = &mut served.connect();
    other.say("WATCH new:5");
    assert_eq!(ours.say("SELECT 0"), ok());
    assert_eq!(ours.say("DEBUG POPULATE 9 new"), ok());
    other.say("MULTI");
    assert_eq!(other.say("EXEC"), Value::Null);
}

#[test]
fn what_cannot_be_added_is_refused() {
    let served = Served::with(ServeSettings { argument_bytes_max: 1 << 20, ..ServeSettings::default() });
    let client = &mut served.connect();
    let too_long = error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    assert_eq!(client.say("DEBUG POPULATE 1 k 1048577"), too_long);
    assert_eq!(client.say("DEBUG POPULATE 1 k 1048576"), ok());
    client.say("MULTI");
    client.say("DEBUG POPULATE 9");
    let Value::Array(replies) = client.say("EXEC") else { panic!("it is executed") };
    assert!(matches!(&replies[..], [Value::Error(text)] if text.contains("transaction")), "{replies:?}");
    assert_eq!(client.say("DBSIZE"), Value::Integer(1));
}

#[test]
fn there_are_no_modules() {
    let redis = RedisServer::start();
    let served = Served::start(1);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for request in ["MODULE LIST", "MODULE LIST x", "MODULE", "MODULE FOO"] {
        assert_eq!(ours.say(request), theirs.say(request), "{request}");
    }
    assert!(matches!(ours.say("MODULE HELP"), Value::Array(lines) if lines.len() > 2));
    let Value::Error(refusal) = ours.say("MODULE LOAD x") else { panic!("it is loaded") };
    assert_eq!(refusal, "ERR module|load is not offered yet: there are no modules");
}
