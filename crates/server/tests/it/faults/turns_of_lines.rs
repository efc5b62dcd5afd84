//! S13: SWAPDB and FLUSHALL beside one BLPOP of 200 000 keys stood all clients of a thread for 1.5
//! to 4 s. FLUSHALL beside a WATCH of 500 000 keys did so for 4 s. RPUSH to one of the keys waited
//! until all others were left. Neighbours: FLUSHDB, watched keys where something stands and where
//! nothing does, a watch that ends, lines of databases that are gone.
//!
//! A push beside a line of clients that wait for another type cost the cube of their number: 2.9 s
//! for 4000.

use std::io::Write;
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, Served, bulk, ok, request};
use super::turns::{COUNT, count_turns, turns_given, turns_reported, with_numbers};

/// A client that waits for very many keys.
fn waiting(served: &Served, count: usize) -> Client {
    let mut client = served.connect();
    let mut words = with_numbers(&["BLPOP"], &["q#"], count);
    words.push("0".to_owned());
    let before = served.server.waiting_count();
    client.stream.write_all(&request(&words)).expect("it is sent");
    until("it waits", || served.server.waiting_count() > before);
    client
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What CLIENT LIST says of the client that waits.
fn memory_of_waiting(admin: &mut Client) -> usize {
    let Value::Bulk(text) = admin.say("CLIENT LIST") else { panic!("a text") };
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find(|line| line.contains(" cmd=blpop")).expect("a client waits");
    let number = line.split(" tot-mem=").nth(1).and_then(|rest| rest.split(' ').next());
    number.expect("it is told").parse().expect("a number")
}

#[test]
fn s13_databases_change_beside_many_that_are_waited_for() {
    count_turns(COUNT / 1000, |served, measure| {
        let (mut admin, mut waiter) = (served.connect(), waiting(served, COUNT));
        let before = memory_of_waiting(&mut admin);
        // Only what a swap brings is looked for: lines are not of a database, but of its index.
        for (words, least) in [("SWAPDB 0 1", 3), ("FLUSHALL", 0), ("FLUSHDB", 0), ("SWAPDB 1 0", 3)] {
            measure(served, words, least, &mut || assert_eq!(admin.say(words), ok()));
            assert_eq!(memory_of_waiting(&mut admin), before, "it stands where it stood");
        }
        assert_eq!(admin.say("RPUSH q7 x"), Value::Integer(1));
        assert_eq!(waiter.reply(), Some(Value::Array(vec![bulk("q7"), bulk("x")])));
        until("it has left all lines", || {
            let before = turns_given(&mut admin);
            assert_eq!(admin.say("SWAPDB 0 1"), ok());
            turns_given(&mut admin) - before < 4
        });
    });
}

#[test]
fn s13_databases_change_beside_many_that_are_watched() {
    count_turns(COUNT / 1000, |served, measure| {
        let (mut admin, mut watcher) = (served.connect(), served.connect());
        let watch = with_numbers(&["WATCH"], &["w#"], COUNT);
        assert_eq!(watcher.call(&watch), ok());
        let memory = |client: &mut Client| {
            let Value::Bulk(line) = client.say("CLIENT INFO") else { panic!("a text") };
            let line = String::from_utf8(line).expect("text");
            let number = line.split(" tot-mem=").nth(1).and_then(|rest| rest.split(' ').next());
            number.expect("it is told").parse::<usize>().expect("a number")
        };
        let named = memory(&mut watcher);
        for _ in 0..3 {
            measure(served, "FLUSHALL", 8, &mut || assert_eq!(admin.say("FLUSHALL"), ok()));
            // What is watched instead is counted, once.
            let moved = memory(&mut watcher);
            assert!((named * 3 / 2..named * 5 / 2).contains(&moved), "{named} bytes, then {moved}");
        }
        // Nothing stood there: nothing has changed.
        assert_eq!(watcher.say("MULTI"), ok());
        assert_eq!(watcher.say("EXEC"), Value::Array(Vec::new()));
        let before = turns_given(&mut admin);
        assert_eq!(admin.say("FLUSHALL"), ok());
        assert!(turns_given(&mut admin) - before < 4, "what is watched no more is passed over");
        // And where something stands, all of it has.
        assert_eq!(admin.say("SET w7 x"), ok());
        assert_eq!(watcher.call(&watch), ok());
        measure(served, "FLUSHALL of a key", 8, &mut || assert_eq!(admin.say("FLUSHALL"), ok()));
        assert_eq!(watcher.say("MULTI"), ok());
        assert_eq!(watcher.say("EXEC"), Value::Null);
    });
}

/// The command that gives a client what it waits for goes on before the client has left all other
/// lines.
#[test]
fn s13_a_push_does_not_wait_until_others_lines_are_left() {
    let served = Served::with(ServeSettings { threads: 1, turn_us: 0, ..ServeSettings::default() });
    let (mut pusher, mut waiter) = (served.connect(), waiting(&served, COUNT));
    let mut next = served.connect();
    next.stream.write_all(&request(&["BLPOP", "q5", "0"])).expect("it is sent");
    until("both wait", || served.server.waiting_count() == 2);
    let before = turns_given(&mut pusher);
    // Both at once, so that little else runs between them.
    let both = [request(&["RPUSH", "q5", "a"]), request(&["INFO", "stats"])].concat();
    pusher.stream.write_all(&both).expect("they are sent");
    assert_eq!(pusher.reply(), Some(Value::Integer(1)));
    let given = turns_reported(pusher.reply().expect("a text")) - before;
    // To leave all takes some four for each thousand lines.
    assert!(given < COUNT as u64 / 1000, "{given} turns before the push was answered");
    // While the client leaves its lines, what comes is for the next one in line, and what it says
    // waits.
    assert_eq!(pusher.say("RPUSH q5 b"), Value::Integer(1));
    assert_eq!(waiter.reply(), Some(Value::Array(vec![bulk("q5"), bulk("a")])));
    assert_eq!(next.reply(), Some(Value::Array(vec![bulk("q5"), bulk("b")])));
    assert_eq!(served.server.waiting_count(), 0);
    assert_eq!(pusher.say("RPUSH q6 c"), Value::Integer(1));
    assert_eq!(waiter.say("LPOP q6"), bulk("c"), "it waits no more");
}

/// A push that serves none of a long line costs no more than one that serves all of it.
#[test]
fn s13_a_push_of_another_type_passes_a_long_line_once() {
    const WAITERS: usize = 2000;
    let served = Served::start(1);
    let mut pusher = served.connect();
    let mut waiters: Vec<Client> = (0..WAITERS).map(|_| served.connect()).collect();
    for (index, waiter) in waiters.iter_mut().enumerate() {
        waiter.stream.write_all(&request(&["BZPOPMIN", "k", "0"])).expect("it is sent");
        while served.server.waiting_count() <= index {
            std::thread::yield_now();
        }
    }
    let mut time = |words: &[String]| {
        let start = Instant::now();
        let reply = pusher.call(words);
        (reply, start.elapsed())
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (pushed, passing) = time(&words("RPUSH k a"));
    assert_eq!(pushed, Value::Integer(1));
    assert_eq!(served.server.waiting_count(), WAITERS, "it is of no use to them");
    time(&words("DEL k"));
    let scores = (0..WAITERS).flat_map(|number| [number.to_string(), format!("m{number}")]);
    let (added, serving) = time(&words("ZADD k").into_iter().chain(scores).collect::<Vec<_>>());
    assert_eq!(added, Value::Integer(WAITERS as i64));
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let (member, score) = (format!("m{number}"), number.to_string());
        assert_eq!(waiter.reply(), Some(Value::Array(vec![bulk("k"), bulk(&member), bulk(&score)])));
    }
    assert!(passing < 2 * serving, "{passing:?} to pass the line, {serving:?} to serve it");
}
