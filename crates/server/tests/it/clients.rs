//! Connections as others see them, on several server threads.

#![expect(clippy::disallowed_methods, reason = "the servers run in real time")]

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::client::{Client, Served, bulk, error, ok};

fn text(value: Value) -> String {
    match value {
        Value::Bulk(bytes) | Value::Verbatim(bytes) => String::from_utf8(bytes).expect("text"),
        other => panic!("no text: {other:?}"),
    }
}

/// The field `name` of a line of CLIENT LIST.
fn field(line: &str, name: &str) -> String {
    let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
}

fn id(client: &mut Client) -> i64 {
    match client.say("CLIENT ID") {
        Value::Integer(id) => id,
        other => panic!("{other:?}"),
    }
}

fn list(client: &mut Client, line: &str) -> Vec<String> {
    text(client.say(line)).lines().map(str::to_owned).collect()
}

/// Waits until `is_so`, some seconds at most.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_list_has_the_connections_of_all_threads() {
    let served = Served::start(2);
    // Each is numbered before the next one comes: two threads take them.
    let connect = || {
        let mut client = served.connect();
        let id = id(&mut client);
        (client, id)
    };
    let (mut clients, ids): (Vec<Client>, Vec<i64>) = (0..6).map(|_| connect()).unzip();
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.say(&format!("CLIENT SETNAME name-{index}")), ok());
    }
    clients[1].say("SELECT 7");
    clients[2].say("HELLO 3");
    clients[3].say("MULTI");
    clients[3].say("SET k 12345");
    clients[4].say("SUBSCRIBE a b");
    clients[4].reply();
    clients[4].say("PSUBSCRIBE c");
    clients[5].say("CLIENT SETINFO lib-name tester");
    clients[5].say("CLIENT NO-EVICT on");
    let lines = list(&mut clients[0], "CLIENT LIST");
    let found: Vec<String> = lines.iter().map(|line| field(line, "id")).collect();
    let expected: Vec<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "in the order they came");
    let of = |index: usize, name: &str| field(&lines[index], name);
    for (index, client) in clients.iter().enumerate() {
        assert_eq!(of(index, "name"), format!("name-{index}"));
        assert_eq!(of(index, "addr"), client.stream.local_addr().unwrap().to_string());
        assert_eq!(of(index, "laddr"), served.server.address().to_string());
        assert_eq!(of(index, "user"), "default");
    }
    assert_eq!(of(0, "cmd"), "client|list");
    assert_eq!((of(1, "db"), of(1, "flags")), ("7".into(), "N".into()));
    assert_eq!((of(2, "resp"), of(1, "resp")), ("3".into(), "2".into()));
    assert_eq!((of(3, "multi"), of(3, "flags")), ("1".into(), "x".into()));
    let queued_bytes: usize = of(3, "multi-mem").parse().unwrap();
    assert!((50..500).contains(&queued_bytes), "arguments, and what describes them: {queued_bytes}");
    assert_eq!((of(4, "sub"), of(4, "psub"), of(4, "flags")), ("2".into(), "1".into(), "P".into()));
    assert_eq!((of(5, "lib-name"), of(5, "flags")), ("tester".into(), "e".into()));

    let some = list(&mut clients[0], &format!("CLIENT LIST ID {} {} 99999", ids[4], ids[1]));
    assert_eq!(
        some.iter().map(|line| field(line, "id")).collect::<Vec<_>>(),
        [ids[1].to_string(), ids[4].to_string()]
    );
    let subscribers = list(&mut clients[0], "CLIENT LIST TYPE pubsub");
    assert_eq!(subscribers.len(), 1);
    assert_eq!(list(&mut clients[0], "CLIENT LIST TYPE normal").len(), 5);
    let own = text(clients[0].say("CLIENT INFO"));
    assert_eq!((field(own.trim_end(), "id"), field(&own, "cmd")), (ids[0].to_string(), "client|info".into()));
}

#[test]
fn connections_are_closed_whatever_they_do() {
    let served = Served::start(2);
    let admin = &mut served.connect();
    let own = id(admin);
    // By number, on either server thread; one that waits for messages, one that has half a request
    // sent.
    for kind in 0..8 {
        let mut client = served.connect();
        let number = id(&mut client);
        match kind % 4 {
            0 => {}
            1 => drop(client.say("SUBSCRIBE a")),
            2 => std::io::Write::write_all(&mut client.stream, b"*2\r\n$3\r\nGET\r\n").unwrap(),
            _ => drop(client.say("MULTI")),
        }
        assert_eq!(admin.say(&format!("CLIENT KILL ID {number}")), Value::Integer(1));
        assert_eq!(client.reply(), None, "kind {kind}");
        assert_eq!(admin.say(&format!("CLIENT KILL ID {number}")), Value::Integer(0));
    }
    let mut by_address = served.connect();
    by_address.say("PING");
    let address = by_address.stream.local_addr().unwrap();
    assert_eq!(admin.say(&format!("CLIENT KILL {address}")), ok());
    assert_eq!(by_address.reply(), None);
    let mut others: Vec<Client> = (0..5).map(|_| served.connect()).collect();
    others.iter_mut().for_each(|other| drop(other.say("PING")));
    assert_eq!(admin.say("CLIENT KILL TYPE normal USER default"), Value::Integer(5));
    others.iter_mut().for_each(|other| assert_eq!(other.reply(), None));
    // Oneself last, with the reply.
    assert_eq!(admin.say(&format!("CLIENT KILL ID {own}")), Value::Integer(0));
    assert_eq!(admin.say(&format!("CLIENT KILL ID {own} SKIPME no")), Value::Integer(1));
    assert_eq!(admin.reply(), None);
    wait_until("an empty list", || list(&mut served.connect(), "CLIENT LIST").len() == 1);
}

#[test]
fn a_pause_holds_commands_until_it_ends() {
    let served = Served::start(2);
    let (admin, reader, writer) = (&mut served.connect(), &mut served.connect(), &mut served.connect());
    reader.say("PING");
    writer.say("PING");
    assert_eq!(admin.say("CLIENT PAUSE 100000 WRITE"), ok());
    let late = Duration::from_millis(200);
    let quiet = |client: &mut Client| {
        client.stream.set_read_timeout(Some(late)).unwrap();
        let outcome = std::io::Read::read(&mut client.stream, &mut [0]);
        client.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        outcome.is_err_and(|error| {
            matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        })
    };
    assert_eq!(reader.say("GET k"), Value::Null);
    std::io::Write::write_all(&mut writer.stream, b"SET k 1\r\nGET k\r\n").unwrap();
    assert!(quiet(writer), "a write went through");
    assert_eq!(reader.say("GET k"), Value::Null);
    assert_eq!(admin.say("CLIENT UNPAUSE"), ok());
    assert_eq!((writer.reply(), writer.reply()), (Some(ok()), Some(bulk("1"))));

    // All commands, for a time.
    let since = Instant::now();
    assert_eq!(admin.say("CLIENT PAUSE 300"), ok());
    assert_eq!(reader.say("GET k"), bulk("1"));
    assert!(since.elapsed() >= Duration::from_millis(290), "{:?}", since.elapsed());

    // A client that is closed while it waits is gone, and its command never runs.
    assert_eq!(admin.say("CLIENT PAUSE 100000 WRITE"), ok());
    let number = id(writer);
    std::io::Write::write_all(&mut writer.stream, b"SET k 2\r\n").unwrap();
    assert!(quiet(writer));
    assert_eq!(admin.say(&format!("CLIENT KILL ID {number}")), Value::Integer(1));
    assert_eq!(writer.reply(), None);
    admin.say("CLIENT UNPAUSE");
    assert_eq!(admin.say("GET k"), bulk("1"));
}

#[test]
fn replies_are_kept_from_who_does_not_want_them() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let pipeline = "CLIENT REPLY SKIP\r\nSET a 1\r\nSET b 2\r\nCLIENT REPLY OFF\r\nSET c 3\r\nGET a\r\nNONSENSE\r\n\
                    CLIENT REPLY SKIP\r\nMGET a b\r\nCLIENT REPLY ON\r\nGET c\r\nCLIENT REPLY SKIP\r\nGET a\r\nGET b\r\n";
    std::io::Write::write_all(&mut client.stream, pipeline.as_bytes()).unwrap();
    for expected in [ok(), ok(), bulk("3"), bulk("2")] {
        assert_eq!(client.reply(), Some(expected));
    }
    assert_eq!(client.say("PING"), Value::Simple("PONG".into()));
}

#[test]
fn who_does_not_wait_is_not_unblocked() {
    let served = Served::start(2);
    let (admin, other) = (&mut served.connect(), &mut served.connect());
    let number = id(other);
    assert_eq!(admin.say(&format!("CLIENT UNBLOCK {number}")), Value::Integer(0));
    assert_eq!(admin.say("CLIENT UNBLOCK 99999 ERROR"), Value::Integer(0));
    // Where lists are offered: clients that wait get an end or an error.
    for (how, expected) in
        [("TIMEOUT", Value::Null), ("ERROR", error("UNBLOCKED client unblocked via CLIENT UNBLOCK"))]
    {
        if matches!(other.say("LLEN none"), Value::Error(_)) {
            return;
        }
        std::io::Write::write_all(&mut other.stream, b"BLPOP none 0\r\n").unwrap();
        let line = format!("CLIENT UNBLOCK {number} {how}");
        wait_until("somebody who waits", || admin.say(&line) == Value::Integer(1));
        assert_eq!(other.reply(), Some(expected), "{how}");
    }
}
