//! C5: WATCH of a missing key and FLUSHALL aborts, LTRIM that changes nothing does not, APPEND ""
//! does not, GETEX PERSIST without expiry aborts. Neighbours: FLUSHDB, a write to the flushed
//! database, EXPIRE, SETRANGE "", and each command of a list, compared with redis-server
//! (`reference::watched`).
//!
//! C6: CLIENT REPLY OFF and SUBSCRIBE: no confirmation. Neighbours: SKIP, UNSUBSCRIBE, within EXEC.
//!
//! C7: names of members that have several scores: ranges of names end with the first score.
//! Neighbours: ZREVRANGEBYLEX, LIMIT, ZREMRANGEBYLEX, ZRANGESTORE BYLEX.
//!
//! C9: EXEC with an argument stays in MULTI. Neighbours: outside of MULTI, DISCARD with an
//! argument, EXEC of a subscriber, what Redis refuses within a transaction only.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, error};

fn array(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

/// Whether EXEC runs after `lines` were said by another client while `key` was watched.
fn goes_on(client: &mut Client, other: &mut Client, key: &str, lines: &[&[&str]]) -> bool {
    client.say(&format!("WATCH {key}"));
    for line in lines {
        other.call(line);
    }
    client.say("MULTI");
    client.say("PING");
    client.say("EXEC") != Value::Null
}

#[test]
fn c5_watching_ends_where_it_does_in_redis() {
    let served = Served::start(2);
    let (client, other) = (&mut served.connect(), &mut served.connect());
    let mut check = |key: &str, lines: &[&[&str]], expected: bool| {
        other.say("FLUSHALL");
        other.say("RPUSH list a b c");
        other.say("SET string v");
        other.call(&["SET", "empty", ""]);
        assert_eq!(goes_on(client, other, key, lines), expected, "{key}: {lines:?}");
    };
    check("missing", &[&["FLUSHALL"]], true);
    check("missing", &[&["FLUSHDB"], &["FLUSHALL"]], true);
    check("missing", &[&["FLUSHALL"], &["SET", "missing", "x"]], false);
    check("missing", &[&["FLUSHALL"], &["FLUSHDB"], &["RPUSH", "missing", "x"], &["DEL", "missing"]], false);
    check("string", &[&["FLUSHALL"]], false);
    check("list", &[&["LTRIM", "list", "0", "-1"]], false);
    check("missing", &[&["LTRIM", "missing", "0", "-1"]], true);
    check("string", &[&["APPEND", "string", ""]], false);
    check("empty", &[&["APPEND", "empty", ""]], false);
    check("string", &[&["SETRANGE", "string", "0", ""]], true);
    check("string", &[&["GETEX", "string", "PERSIST"]], true);
    check("string", &[&["PERSIST", "string"]], true);
    check("string", &[&["EXPIRE", "string", "100"], &["GETEX", "string", "PERSIST"]], false);
}

#[test]
fn c6_who_wishes_for_no_replies_is_told_of_subscriptions() {
    let served = Served::start(2);
    for protocol in ["2", "3"] {
        let client = &mut served.connect();
        let confirmation = |word: &str, name: &str, count| {
            let values = vec![bulk(word), bulk(name), Value::Integer(count)];
            if protocol == "2" { Value::Array(values) } else { Value::Push(values) }
        };
        let send = |client: &mut Client, lines: &[&str]| {
            use std::io::Write;
            for line in lines {
                let words: Vec<&str> = line.split_whitespace().collect();
                client.stream.write_all(&super::super::client::request(&words)).expect("it is sent");
            }
        };
        client.say(&format!("HELLO {protocol}"));
        send(client, &["CLIENT REPLY OFF", "PING", "SUBSCRIBE a", "PSUBSCRIBE b*", "UNSUBSCRIBE a"]);
        assert_eq!(client.reply(), Some(confirmation("subscribe", "a", 1)));
        assert_eq!(client.reply(), Some(confirmation("psubscribe", "b*", 2)));
        assert_eq!(client.reply(), Some(confirmation("unsubscribe", "a", 1)));
        send(client, &["PUNSUBSCRIBE", "CLIENT REPLY ON"]);
        assert_eq!(client.reply(), Some(confirmation("punsubscribe", "b*", 0)));
        assert_eq!(client.reply(), Some(Value::Simple("OK".into())));
        send(client, &["CLIENT REPLY SKIP", "SUBSCRIBE c", "UNSUBSCRIBE", "PING"]);
        assert_eq!(client.reply(), Some(confirmation("subscribe", "c", 1)));
        assert_eq!(client.reply(), Some(confirmation("unsubscribe", "c", 0)));
        assert_eq!(client.reply(), Some(Value::Simple("PONG".into())));
    }
}

#[test]
fn c7_names_are_found_whatever_their_scores() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let fill = |client: &mut Client| {
        client.say("DEL z");
        client.say("ZADD z 1 one 2 two 3 three");
    };
    fill(client);
    assert_eq!(client.say("ZLEXCOUNT z - +"), Value::Integer(3));
    assert_eq!(client.say("ZRANGEBYLEX z - +"), array(&["one", "two", "three"]));
    assert_eq!(client.say("ZREVRANGEBYLEX z + -"), array(&["three", "two", "one"]));
    assert_eq!(client.say("ZRANGEBYLEX z - + LIMIT 1 1"), array(&["two"]));
    assert_eq!(client.say("ZRANGEBYLEX z [t +"), array(&["two", "three"]));
    // As Redis decides by the member of the highest score: what begins behind it is nothing.
    assert_eq!(client.say("ZRANGEBYLEX z [two +"), array(&[]));
    assert_eq!(client.say("ZRANGEBYLEX z - (two"), array(&["one"]));
    assert_eq!(client.say("ZLEXCOUNT z [x +"), Value::Integer(0));
    assert_eq!(client.say("ZRANGESTORE to z - [two BYLEX"), Value::Integer(3));
    assert_eq!(client.say("ZREMRANGEBYLEX z - (two"), Value::Integer(1));
    assert_eq!(client.say("ZREMRANGEBYLEX z - +"), Value::Integer(2));
    // Of one score the order of names is the order of members.
    client.say("ZADD z 0 a 0 b 0 c 0 d");
    assert_eq!(client.say("ZRANGEBYLEX z (a [c"), array(&["b", "c"]));
    assert_eq!(client.say("ZRANGE z [c (a BYLEX REV LIMIT 0 1"), array(&["c"]));
}

#[test]
fn c9_exec_that_is_refused_ends_the_transaction() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let refused =
        error("EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command");
    client.say("WATCH k");
    client.say("MULTI");
    client.say("SET k v");
    assert_eq!(client.say("EXEC x"), refused);
    assert_eq!(client.say("EXEC"), error("ERR EXEC without MULTI"));
    assert_eq!(client.say("EXISTS k"), Value::Integer(0));
    assert_eq!(client.say("EXEC x y"), refused);
    // A refused DISCARD only spoils it.
    client.say("MULTI");
    client.say("SET k v");
    client.say("DISCARD x");
    assert_eq!(client.say("EXEC"), error("EXECABORT Transaction discarded because of previous errors."));
    client.say("SUBSCRIBE a");
    let Value::Error(line) = client.say("EXEC") else { panic!("a subscriber may not") };
    assert!(line.starts_with("EXECABORT Transaction discarded because of: Can't execute 'exec'"), "{line}");
}

#[test]
fn c9_sharded_channels_are_not_subscribed_to_within_a_transaction() {
    let served = Served::start(1);
    let client = &mut served.connect();
    client.say("MULTI");
    client.say("SSUBSCRIBE a");
    client.say("SUNSUBSCRIBE a");
    let Value::Array(replies) = client.say("EXEC") else { panic!("an array") };
    assert_eq!(replies[0], error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    assert_eq!(replies[1], Value::Array(vec![bulk("sunsubscribe"), bulk("a"), Value::Integer(0)]));
    assert_eq!(client.say("GET k"), Value::Null, "it is not subscribed");
}
