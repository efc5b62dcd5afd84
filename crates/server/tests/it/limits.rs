//! What the server does not let a connection do to it.

#![expect(clippy::disallowed_methods, reason = "the servers run in real time")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;
use firn_server::{Password, ServeSettings};

use super::client::{Client, Served, error, ok, request};

#[test]
fn a_subscriber_that_does_not_read_is_cut_off() {
    let settings = ServeSettings { threads: 2, output_bytes_max: 1 << 20, ..ServeSettings::default() };
    let served = Served::with(settings);
    let (slow, publisher) = (&mut served.connect(), &mut served.connect());
    slow.say("SUBSCRIBE news");
    let message = "x".repeat(64 << 10);
    let mut count = 0;
    // What the system's buffers take is some megabytes.
    while publisher.call(&["PUBLISH", "news", &message]) == Value::Integer(1) {
        count += 1;
        assert!(count < 2000, "nobody was cut off");
    }
    let mut rest = Vec::new();
    // The end, orderly or not.
    let _ = slow.stream.read_to_end(&mut rest);
    assert!(rest.len() < count * message.len());
    assert_eq!(publisher.say("PING"), Value::Simple("PONG".into()));
}

#[test]
fn a_reader_that_vanishes_while_it_is_answered_leaves_nothing() {
    let served = Served::start(1);
    let admin = &mut served.connect();
    admin.call(&["SET", "k", &"x".repeat(1 << 20)]);
    let mut greedy = served.connect();
    greedy.stream.write_all(&b"GET k\r\n".repeat(64)).unwrap();
    greedy.stream.read_exact(&mut [0; 100]).unwrap();
    drop(greedy);
    let since = Instant::now();
    loop {
        let Value::Bulk(list) = admin.say("CLIENT LIST") else { panic!("a list") };
        if list.iter().filter(|byte| **byte == b'\n').count() == 1 {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{}", String::from_utf8_lossy(&list));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn arguments_have_a_limit() {
    let served = Served::with(ServeSettings { argument_bytes_max: 1000, ..ServeSettings::default() });
    let client = &mut served.connect();
    assert_eq!(client.call(&["SET", "k", &"x".repeat(1000)]), ok());
    assert_eq!(
        client.call(&["SET", "k", &"x".repeat(1001)]),
        error("ERR Protocol error: invalid bulk length")
    );
    assert_eq!(client.reply(), None);
}

/// What INFO says of connections that were closed for requests over the limit.
fn over_limit_count(client: &mut Client) -> String {
    let Value::Bulk(text) = client.say("INFO stats") else { panic!("a text") };
    let text = String::from_utf8(text).expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix("client_query_buffer_limit_disconnections:"));
    line.expect("it is counted").to_owned()
}

#[test]
fn what_multi_queues_has_the_limit_of_a_request() {
    let served = Served::with(ServeSettings { request_bytes_max: 1 << 20, ..ServeSettings::default() });
    let other = &mut served.connect();
    let value = "x".repeat(100 << 10);
    // Much in few requests, little in many requests, and nothing in many arguments.
    let nothing: Vec<&str> = ["RPUSH", "k"].into_iter().chain([""; 1000]).collect();
    let cases: [(&[&str], usize); 3] = [(&["SET", "k", &value], 12), (&["PING"], 20_000), (&nothing, 140)];
    for (closed, (words, count_max)) in cases.into_iter().enumerate() {
        let client = &mut served.connect();
        // What was thrown away does not count.
        for _ in 0..3 {
            assert_eq!(client.say("MULTI"), ok());
            for _ in 0..count_max / 4 {
                assert_eq!(client.call(words), Value::Simple("QUEUED".into()));
            }
            assert_eq!(client.say("DISCARD"), ok());
        }
        assert_eq!(client.say("MULTI"), ok());
        let queued = (0..count_max).take_while(|_| client.call(words) == Value::Simple("QUEUED".into()));
        assert!(queued.count() < count_max, "{} in {count_max} requests are held", words[0]);
        assert_eq!(client.raw, b"-ERR requests beyond client-query-buffer-limit\r\n");
        assert_eq!(client.reply(), None, "it is closed");
        assert_eq!(over_limit_count(other), (closed + 1).to_string());
    }
    assert_eq!(other.say("EXISTS k"), Value::Integer(0), "nothing of it runs");
}

#[test]
fn names_that_a_client_leaves_have_the_limit_of_a_request() {
    let served = Served::with(ServeSettings { request_bytes_max: 1 << 20, ..ServeSettings::default() });
    let other = &mut served.connect();
    // Names that are long, or many.
    let cases =
        [("WATCH", 10_000), ("WATCH", 10), ("SUBSCRIBE", 10), ("PSUBSCRIBE", 4_000), ("SSUBSCRIBE", 10)];
    for (closed, (word, name_bytes)) in cases.into_iter().enumerate() {
        let client = &mut served.connect();
        client.say("HELLO 3");
        let count_max = (1 << 20) / name_bytes;
        let mut leave = |number: usize| client.call(&[word, &format!("{number:0name_bytes$}")]);
        let left = (0..count_max).take_while(|number| !matches!(leave(*number), Value::Error(_))).count();
        assert!(left > 40 && left < count_max, "{word}: {left} of {count_max} names are left");
        assert_eq!(client.reply(), None, "it is closed");
        assert_eq!(over_limit_count(other), (closed + 1).to_string());
    }
    // Names that many keys of one command are, too.
    let client = &mut served.connect();
    let names: Vec<String> = (0..100).map(|number| format!("{number:09000}")).collect();
    let wait: Vec<&str> =
        ["BLPOP"].into_iter().chain(names.iter().map(String::as_str)).chain(["0"]).collect();
    assert_eq!(client.call(&wait), error("ERR requests beyond client-query-buffer-limit"));
    assert_eq!(client.reply(), None, "it is closed");
    // What was taken back does not count.
    let client = &mut served.connect();
    for (leave, take_back) in [("WATCH", "UNWATCH"), ("SUBSCRIBE", "UNSUBSCRIBE")] {
        for number in 0..300 {
            client.call(&[leave, &format!("{number:010000}")]);
            client.say(take_back);
        }
    }
    assert_eq!(client.say("PING"), Value::Simple("PONG".into()));
    assert_eq!(other.say("PUBSUB NUMPAT"), Value::Integer(0), "nothing of theirs is left");
}

/// No part of a reply is sent before all is done, so that all is in memory.
#[test]
fn replies_inside_exec_and_scripts_have_the_limit_of_a_request() {
    let served = Served::with(ServeSettings { request_bytes_max: 1 << 20, ..ServeSettings::default() });
    let (client, other) = (&mut served.connect(), &mut served.connect());
    client.call(&["SET", "long", &"x".repeat(100 << 10)]);
    client.say("SADD set a");
    let refused = error("ERR replies beyond client-query-buffer-limit inside EXEC or a script");
    let endless = ["SRANDMEMBER", "set", "-9000000000000"];
    for (words, count) in [(&["GET", "long"][..], 11), (&endless[..], 1)] {
        assert_eq!(client.say("MULTI"), ok());
        client.say("SET mark 1");
        for _ in 0..count {
            assert_eq!(client.call(words), Value::Simple("QUEUED".into()));
        }
        assert_eq!(client.say("EXEC"), refused);
        assert_eq!(client.say("EXISTS mark"), Value::Integer(0), "all or nothing");
    }
    let script = "return redis.call('SRANDMEMBER', KEYS[1], '-9000000000000')";
    let Value::Error(line) = client.call(&["EVAL", script, "1", "set"]) else { panic!("an error") };
    assert!(line.starts_with("ERR replies beyond client-query-buffer-limit"), "{line}");
    // As long as they may be.
    assert_eq!(client.say("MULTI"), ok());
    for _ in 0..10 {
        client.call(&["GET", "long"]);
    }
    assert!(matches!(client.say("EXEC"), Value::Array(replies) if replies.len() == 10));
    assert_eq!(other.say("PING"), Value::Simple("PONG".into()));
}

#[test]
fn strings_grow_to_the_limit_of_an_argument() {
    let served = Served::with(ServeSettings { argument_bytes_max: 1000, ..ServeSettings::default() });
    let client = &mut served.connect();
    client.call(&["SET", "k", &"x".repeat(999)]);
    assert_eq!(client.say("APPEND k y"), Value::Integer(1000));
    let refused = error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    assert_eq!(client.say("APPEND k y"), refused);
    assert_eq!(client.say("SETRANGE k 1000 y"), refused);
    assert_eq!(client.say("SETBIT k 7999 1"), Value::Integer(1));
    assert_eq!(client.say("SETBIT k 8000 1"), error("ERR bit offset is not an integer or out of range"));
    assert_eq!(client.say("STRLEN k"), Value::Integer(1000));
}

#[test]
fn a_request_over_the_limit_ends_its_connection() {
    let served = Served::with(ServeSettings { request_bytes_max: 1 << 20, ..ServeSettings::default() });
    let (client, other) = (&mut served.connect(), &mut served.connect());
    // It may be closed while it still speaks.
    let _ = client.stream.write_all(&request(&["SET", "k", &"x".repeat(8 << 20)]));
    while client.reply().is_some() {}
    assert_eq!(over_limit_count(other), "1");
    assert_eq!(other.say("EXISTS k"), Value::Integer(0));
}

#[test]
fn who_says_nothing_for_long_is_closed() {
    let settings = ServeSettings { threads: 2, idle_s_max: 4, ..ServeSettings::default() };
    let served = Served::with(settings);
    let (idle, subscriber, busy) = (&mut served.connect(), &mut served.connect(), &mut served.connect());
    idle.say("PING");
    subscriber.say("SUBSCRIBE a");
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(6) {
        assert_eq!(busy.say("PING"), Value::Simple("PONG".into()));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(idle.reply(), None);
    busy.say("PUBLISH a hello");
    assert!(subscriber.reply().is_some(), "who waits for messages may be silent");
}

/// An address of this machine that others could use; `None` where there is none.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this only chooses a way out.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn protected_mode_lets_only_this_machine_in() {
    let Some(outer) = outer_address() else {
        eprintln!("skipped: this machine has no address but its own");
        return;
    };
    let any = ServeSettings { bind: IpAddr::V4(Ipv4Addr::UNSPECIFIED), ..ServeSettings::default() };
    let served = Served::with(any.clone());
    let port = served.server.address().port();
    let from_outside = || Client::connect(SocketAddr::new(outer, port));
    let from_here = || Client::connect(SocketAddr::from(([127, 0, 0, 1], port)));
    let mut refused = from_outside();
    assert!(
        matches!(refused.reply(), Some(Value::Error(text)) if text.starts_with("DENIED Firn is in protected mode"))
    );
    assert_eq!(refused.reply(), None);
    assert_eq!(from_here().say("CONFIG SET protected-mode no"), ok());
    assert_eq!(from_outside().say("PING"), Value::Simple("PONG".into()));
    assert_eq!(from_here().say("CONFIG SET protected-mode yes"), ok());
    assert!(matches!(from_outside().reply(), Some(Value::Error(text)) if text.starts_with("DENIED")));
    assert_eq!(from_here().say("ACL SETUSER default >pw"), ok());
    assert_eq!(from_outside().say("AUTH pw"), ok(), "there is a password now");
    for settings in [
        ServeSettings { is_protected: false, ..any.clone() },
        ServeSettings { password: Password::new("pw"), ..any },
    ] {
        let served = Served::with(settings);
        let mut client = Client::connect(SocketAddr::new(outer, served.server.address().port()));
        assert!(matches!(client.say("AUTH pw"), Value::Simple(_) | Value::Error(_)));
        assert_eq!(client.say("PING"), Value::Simple("PONG".into()));
    }
}

/// What takes longer with each name that is there already would never end.
#[test]
fn very_many_names_are_taken_at_once() {
    const COUNT: usize = 200_000;
    let served = Served::start(1);
    let names = |first: &str, last: &str| {
        let names = (0..COUNT).map(|number| format!("name-{number}"));
        std::iter::once(first.to_owned()).chain(names).chain((!last.is_empty()).then(|| last.to_owned()))
    };
    let mut client = served.connect();
    assert_eq!(client.call(&names("BLPOP", "0.01").collect::<Vec<_>>()), Value::Null);
    client.stream.write_all(&request(&names("SUBSCRIBE", "").collect::<Vec<_>>())).expect("it is sent");
    let (mut replies, end) = (Vec::new(), format!(":{COUNT}\r\n"));
    while !replies.ends_with(end.as_bytes()) {
        let mut piece = [0; 64 << 10];
        let bytes = client.stream.read(&mut piece).expect("more comes");
        assert!(bytes > 0, "it is closed");
        replies.extend_from_slice(&piece[..bytes]);
    }
    assert_eq!(served.connect().say("PUBLISH name-7 x"), Value::Integer(1));
}
