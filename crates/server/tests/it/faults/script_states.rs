//! C3: while an endless script holds what others need, they wait without an end. It goes on when
//! its client is gone, and SCRIPT KILL ends one of several. Neighbours: commands that need nothing
//! of it, scripts and transactions that do, the parameter's two names, waits for other reasons.
//!
//! C4: MONITOR shows neither EVAL nor what scripts call. Neighbours: a script that is begun again,
//! one in a transaction, EVALSHA.

use std::io::Write;
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, error, ok, request};
use super::super::reference::RedisServer;

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";
const ENDLESS: &str = "redis.call('set', KEYS[1], 'lost') while true do end";

#[test]
fn c3_what_needs_a_busy_script_s_keys_is_told() {
    let served = Served::start(2);
    let (running, other) = (&mut served.connect(), &mut served.connect());
    assert_eq!(other.say("CONFIG SET lua-time-limit 200"), ok());
    let start = Instant::now();
    running.stream.write_all(&request(&["EVAL", ENDLESS, "1", "k"])).expect("it is sent");
    while other.say("SET k v") != error(BUSY) {
        assert!(start.elapsed() < Duration::from_secs(10), "it does not run");
    }
    assert!(start.elapsed() >= Duration::from_millis(200), "after {:?}", start.elapsed());
    // What it does not keep from them, others have.
    for (line, expected) in
        [("PING", Value::Simple("PONG".into())), ("SET free v", ok()), ("GET k", bulk("v"))]
    {
        let asked = Instant::now();
        let reply = other.say(line);
        assert!(
            reply == expected || line == "GET k" && matches!(reply, Value::Null | Value::Bulk(_)),
            "{line}: {reply:?}"
        );
        assert!(asked.elapsed() < Duration::from_millis(100), "{line}");
    }
    assert_eq!(other.call(&["EVAL", "return redis.call('incr', KEYS[1])", "1", "k"]), error(BUSY));
    other.say("MULTI");
    other.say("APPEND k v");
    assert_eq!(other.say("EXEC"), error(BUSY));
    assert_eq!(other.say("SCRIPT KILL"), ok());
    assert_eq!(running.reply(), Some(error(KILLED)));
    assert_eq!(other.say("SCRIPT KILL"), error("NOTBUSY No scripts in execution right now."));
    // Nothing of it was written; what others wait for is there again.
    assert_ne!(other.say("GET k"), bulk("lost"));
    assert_eq!(other.say("SET k v"), ok());
}

/// A lock that is granted to a client that has its refusal already is let go of, also on a thread
/// on which nothing waits.
#[test]
fn c3_what_was_refused_keeps_no_lock() {
    let served = Served::start(2);
    let mut killer = served.connect();
    assert_eq!(killer.say("CONFIG SET lua-time-limit 50"), ok());
    let mut others = Vec::new();
    for round in 0..6 {
        let key = &format!("k{round}");
        let (mut running, mut refused) = (served.connect(), served.connect());
        running.stream.write_all(&request(&["EVAL", ENDLESS, "1", key])).expect("it is sent");
        let start = Instant::now();
        while refused.call(&["SET", key, "v"]) != error(BUSY) {
            assert!(start.elapsed() < Duration::from_secs(10), "round {round}: it does not run");
        }
        if round % 2 == 0 {
            assert_eq!(killer.say("SCRIPT KILL"), ok());
            assert_eq!(running.reply(), Some(error(KILLED)));
        } else {
            drop(running);
        }
        // Of either thread.
        for _ in 0..2 {
            let mut other = served.connect();
            other.stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
            assert_eq!(other.call(&["SET", key, "v"]), ok(), "round {round}");
            others.push(other);
        }
        others.push(refused);
    }
}

/// Clients that wait for a key look again when databases change, and wait on where a script keeps
/// it.
#[test]
fn c3_waiting_clients_wait_on_beside_a_script() {
    let served = Served::start(2);
    let other = &mut served.connect();
    assert_eq!(other.say("CONFIG SET lua-time-limit 200"), ok());
    let (mut brief, mut long) = (served.connect(), served.connect());
    brief.stream.write_all(&request(&["BLPOP", "k", "1"])).expect("it is sent");
    long.stream.write_all(&request(&["BLPOP", "k", "0"])).expect("it is sent");
    let start = Instant::now();
    while !info(other).contains("blocked_clients:2") {
        assert!(start.elapsed() < Duration::from_secs(10), "they do not wait");
    }
    let mut running = served.connect();
    running.stream.write_all(&request(&["EVAL", ENDLESS, "1", "k"])).expect("it is sent");
    while other.say("SET k v") != error(BUSY) {
        assert!(start.elapsed() < Duration::from_secs(10), "it does not run");
    }
    assert_eq!(other.say("FLUSHALL"), ok());
    assert_eq!(brief.reply(), Some(Value::Null), "its time is over");
    assert_eq!(other.say("SCRIPT KILL"), ok());
    assert_eq!(running.reply(), Some(error(KILLED)));
    assert_eq!(other.say("RPUSH k v"), Value::Integer(1));
    assert_eq!(long.reply(), Some(Value::Array(vec![bulk("k"), bulk("v")])));
}

fn info(client: &mut Client) -> String {
    match client.say("INFO clients") {
        Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn c3_all_are_killed_and_one_ends_without_its_client() {
    let served = Served::start(2);
    let mut clients: Vec<Client> = (0..5).map(|_| served.connect()).collect();
    let mut other = clients.pop().expect("a client");
    for (index, client) in clients.iter_mut().enumerate() {
        let words = ["EVAL", ENDLESS, "1", &index.to_string()];
        client.stream.write_all(&request(&words)).expect("it is sent");
    }
    let is_held = |other: &mut Client, key: usize| {
        // It cannot be had at once: another client's script has it.
        other.stream.set_read_timeout(Some(Duration::from_millis(100))).expect("an option");
        other.stream.write_all(&request(&["SET", &key.to_string(), "v"])).expect("it is sent");
        let is_held = other.stream.peek(&mut [0]).is_err();
        other.stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
        is_held
    };
    for key in 0..4 {
        let mut probe = served.connect();
        let start = Instant::now();
        while !is_held(&mut probe, key) {
            probe.reply();
            assert!(start.elapsed() < Duration::from_secs(10), "{key} does not run");
        }
    }
    assert_eq!(other.say("SCRIPT KILL"), ok());
    for client in &mut clients {
        client.stream.set_read_timeout(Some(Duration::from_secs(5))).expect("an option");
        assert_eq!(client.reply(), Some(error(KILLED)));
    }
    assert_eq!(other.say("CONFIG SET busy-reply-threshold 100"), ok());
    let mut leaving = clients.pop().expect("a client");
    leaving.stream.write_all(&request(&["EVAL", ENDLESS, "1", "left"])).expect("it is sent");
    std::thread::sleep(Duration::from_millis(50));
    drop(leaving);
    let start = Instant::now();
    while other.say("SET left v") != ok() {
        assert!(start.elapsed() < Duration::from_secs(5), "it goes on without its client");
    }
    // A second one, to be sure that it is not found before it began.
    while start.elapsed() < Duration::from_millis(400) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(other.say("SCRIPT KILL"), error("NOTBUSY No scripts in execution right now."));
}

/// The next line that is shown, without time and port.
fn shown(client: &mut Client) -> String {
    let Some(Value::Simple(line)) = client.reply() else { panic!("a line") };
    let (front, command) = line.split_once("] ").expect("an address");
    let (_, origin) = front.split_once(" [").expect("a time");
    format!("{} {command}", origin.split(':').next().expect("an address"))
}

#[test]
fn c4_monitors_see_scripts_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let mut seen = Vec::new();
    for is_ours in [false, true] {
        let connect = || if is_ours { served.connect() } else { redis.connect() };
        let (mut monitor, mut client) = (connect(), connect());
        assert_eq!(monitor.say("MONITOR"), ok());
        client.call(&[
            "EVAL",
            "redis.call('set', KEYS[1], ARGV[1]) return redis.pcall('incr', KEYS[1])",
            "1",
            "k",
            "v",
        ]);
        // It touches what it has not named, and is begun again here.
        client.call(&[
            "EVAL",
            "redis.call('set', KEYS[1], 1) redis.call('select', 2) redis.call('incr', 'other')",
            "1",
            "k",
        ]);
        client.call(&["EVAL", "return redis.call('nonsense')", "0"]);
        client.call(&["EVAL", "this is no Lua", "0"]);
        let Value::Bulk(sum) = client.call(&["SCRIPT", "LOAD", "return redis.call('get', KEYS[1])"]) else {
            panic!("a sum")
        };
        client.call(&["EVALSHA", &String::from_utf8_lossy(&sum), "1", "k"]);
        client.say("MULTI");
        client.say("INCR n");
        client.call(&["EVAL", "redis.call('incr', 'n') return redis.call('incr', 'm')", "1", "n"]);
        client.say("EXEC");
        client.say("ECHO end");
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.contains("end")) {
            lines.push(shown(&mut monitor));
        }
        seen.push(lines);
    }
    // A transaction that is done again shows its plain commands again; what its script does it does
    // not.
    seen.iter_mut().for_each(|lines| lines.retain(|line| !line.contains("INCR") || line.contains("EVAL")));
    assert_eq!(seen[1], seen[0]);
    assert!(seen[0].iter().any(|line| line == "0 lua \"set\" \"k\" \"v\""), "{:?}", seen[0]);
}
