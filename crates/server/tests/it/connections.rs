use std::io::{Read, Write};

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::client::{Served, bulk, error, ok};

#[test]
fn a_connection_says_hello_and_goodbye() {
    let served = Served::start(1);
    let mut client = served.connect();
    assert_eq!(client.say("PING"), Value::Simple("PONG".into()));
    assert_eq!(client.say("ping hi"), bulk("hi"));
    assert_eq!(client.say("ECHO there"), bulk("there"));
    assert_eq!(client.say("PING a b"), error("ERR wrong number of arguments for 'ping' command"));
    assert_eq!(client.say("QUIT"), ok());
    assert_eq!(client.reply(), None);
}

#[test]
fn unknown_words_get_the_texts_that_clients_know() {
    let served = Served::start(1);
    let mut client = served.connect();
    assert_eq!(
        client.say("NONSENSE a b"),
        error("ERR unknown command 'NONSENSE', with args beginning with: 'a' 'b' ")
    );
    assert_eq!(client.say("GET"), error("ERR wrong number of arguments for 'get' command"));
    assert_eq!(client.say("GET a b"), error("ERR wrong number of arguments for 'get' command"));
    let Value::Error(text) = client.say("XADD s * a 1") else { panic!("streams are not offered") };
    assert!(text.starts_with("ERR xadd is not offered yet"), "{text}");
}

#[test]
fn what_is_no_request_ends_the_connection_with_a_reason() {
    let served = Served::start(1);
    for (bytes, text) in [
        (&b"*1\r\n:1\r\n"[..], "ERR Protocol error: expected '$', got ':'"),
        (b"*x\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"SET \"a\r\n", "ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = served.connect();
        client.stream.write_all(bytes).unwrap();
        assert_eq!(client.reply(), Some(error(text)));
        assert_eq!(client.reply(), None);
    }
    assert_eq!(served.connect().say("PING"), Value::Simple("PONG".into()));
}

#[test]
fn databases_are_apart() {
    let served = Served::start(1);
    let (mut first, mut second) = (served.connect(), served.connect());
    assert_eq!(first.say("SET k zero"), ok());
    assert_eq!(second.say("SELECT 3"), ok());
    assert_eq!(second.say("GET k"), Value::Null);
    assert_eq!(second.say("SET k three"), ok());
    assert_eq!(first.say("GET k"), bulk("zero"));
    assert_eq!(second.say("GET k"), bulk("three"));
    assert_eq!(first.say("SELECT 16"), error("ERR DB index is out of range"));
    assert_eq!(first.say("SELECT x"), error("ERR value is not an integer or out of range"));
}

#[test]
fn too_many_connections_are_told_so() {
    let served = Served::with(ServeSettings { clients_max: 2, ..ServeSettings::default() });
    let (mut first, mut second) = (served.connect(), served.connect());
    assert_eq!(first.say("PING"), second.say("PING"));
    let mut third = served.connect();
    assert_eq!(third.reply(), Some(error("ERR max number of clients reached")));
    assert_eq!(third.reply(), None);
    drop(first);
    // The place is free once the server has seen the end of the connection.
    let is_served = || {
        let mut client = served.connect();
        client.stream.write_all(b"PING\r\n").is_ok() && client.reply() == Some(Value::Simple("PONG".into()))
    };
    assert!((0..1000).any(|_| is_served()), "no place became free");
}

#[test]
fn threads_share_the_connections_and_the_keys() {
    let served = Served::start(3);
    let mut clients: Vec<_> = (0..9).map(|_| served.connect()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.call(&["SET", &format!("k{index}"), "v"]), ok());
    }
    for client in &mut clients {
        for index in 0..9 {
            assert_eq!(client.call(&["GET", &format!("k{index}")]), bulk("v"));
        }
    }
}

/// The command table and what is built do not drift apart.
#[test]
fn what_the_table_offers_is_answered() {
    let served = Served::start(1);
    let offered = firn_protocol::command::all().iter().filter(|command| command.is_offered());
    let mut count = 0;
    // SHUTDOWN is answered by the end of the server.
    let harmless = offered.filter(|command| command.subcommands().is_empty() && command.name != "shutdown");
    for command in harmless {
        let mut words: Vec<&str> = command.container.into_iter().chain([command.name]).collect();
        words.resize(command.arity.unsigned_abs() as usize, "1");
        if let Value::Error(text) = served.connect().call(&words) {
            assert!(!text.contains("not offered"), "{words:?}: {text}");
        }
        count += 1;
    }
    assert!(count >= 28, "{count}");
}

#[test]
fn who_leaves_in_the_middle_of_a_reply_is_forgotten() {
    let served = Served::with(ServeSettings { threads: 1, clients_max: 1, ..ServeSettings::default() });
    let mut client = served.connect();
    client.say("SADD k some member");
    // More than any client could read.
    client.stream.write_all(b"SRANDMEMBER k -9000000000000000000\r\n").expect("it is sent");
    assert!(client.stream.read(&mut [0; 4096]).expect("a part of the reply") > 0);
    drop(client);
    let is_served = || {
        let mut next = served.connect();
        next.stream.write_all(b"PING\r\n").is_ok() && next.reply() == Some(Value::Simple("PONG".into()))
    };
    assert!((0..1000).any(|_| is_served()), "the place is still taken");
}

/// A page of the web may have a browser send what it likes, but only behind such words.
#[test]
fn who_speaks_http_is_cut_off() {
    let served = Served::start(1);
    for (bytes, replies) in [
        ("POST / HTTP/1.1\r\nAccept: x\r\n\r\nSET k v\r\n", 0),
        ("PING\r\nhOsT: here\r\nSET k v\r\n", 1),
        ("*1\r\n$4\r\npost\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", 0),
        ("MULTI\r\nHost: here\r\n", 1),
    ] {
        let mut client = served.connect();
        client.stream.write_all(bytes.as_bytes()).expect("it is sent");
        for _ in 0..replies {
            assert!(matches!(client.reply(), Some(Value::Simple(_))), "{bytes}");
        }
        assert_eq!(client.reply(), None, "{bytes}");
    }
    assert_eq!(served.connect().say("GET k"), Value::Null);
}
