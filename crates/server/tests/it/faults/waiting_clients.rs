//! C2: `BLPOP` waits; `RPUSH` and `LPOP` in one pipeline. The waiting client gets the element
//! within the push, not the pusher's next command. Neighbours: `BLMOVE` and a chain of them,
//! several waiting in line, `BZPOPMIN`, `BLMPOP` over two lists, a push inside MULTI and in a
//! script. Also a client that waits for another type, or whose connection or time ends.
//!
//! After FLUSHALL, FLUSHDB or SWAPDB waiting clients were served in another order.

use std::io::Write;
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, request};

fn array(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

fn send(client: &mut Client, lines: &[&str]) {
    let requests = lines.iter().map(|line| request(&line.split_whitespace().collect::<Vec<_>>()));
    client.stream.write_all(&requests.collect::<Vec<_>>().concat()).expect("it is sent");
}

/// Sends a command that will wait, and waits until it does.
fn wait(served: &Served, client: &mut Client, line: &str) {
    let before = served.server.waiting_count();
    send(client, &[line]);
    until(line, || served.server.waiting_count() > before);
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::yield_now();
    }
}

/// Replies to the lines, sent in one piece.
fn pipeline(client: &mut Client, lines: &[&str]) -> Vec<Value> {
    send(client, lines);
    lines.iter().map(|_| client.reply().expect("a reply")).collect()
}

const NONE: Value = Value::Null;

#[test]
fn c2_who_waits_is_served_within_the_push() {
    let served = Served::start(3);
    let (pusher, waiter) = (&mut served.connect(), &mut served.connect());
    for round in 0..100 {
        wait(&served, waiter, "BLPOP k 0");
        let value = format!("v{round}");
        let found = pipeline(pusher, &[&format!("RPUSH k {value}"), "LLEN k", "LPOP k"]);
        assert_eq!(found, [Value::Integer(1), Value::Integer(0), NONE]);
        assert_eq!(waiter.reply(), Some(array(&["k", &value])));
    }
    for (line, push, pop, answer) in [
        ("BRPOP k 0", "LPUSH k a", "RPOP k", array(&["k", "a"])),
        ("BLMPOP 0 2 other k LEFT", "RPUSH k a", "LPOP k", Value::Array(vec![bulk("k"), array(&["a"])])),
        ("BZPOPMIN k 0", "ZADD k 1 a", "ZPOPMIN k", array(&["k", "a", "1"])),
        ("BLPOP k 0", "EVAL redis.call('RPUSH',KEYS[1],'a') 1 k", "LPOP k", array(&["k", "a"])),
        // A script that does not say which key it writes.
        ("BLPOP k 0", "EVAL redis.call('RPUSH','k','a') 0", "LPOP k", array(&["k", "a"])),
        ("BLPOP k 0", "RENAME full k", "LPOP k", array(&["k", "a"])),
        ("BLPOP k 0", "COPY full k", "LPOP k", array(&["k", "a"])),
        ("BLPOP k 0", "LMOVE full k LEFT LEFT", "LPOP k", array(&["k", "a"])),
    ] {
        pusher.say("DEL full k");
        pusher.say("RPUSH full a");
        wait(&served, waiter, line);
        let found = pipeline(pusher, &[push, pop]);
        let is_nothing = found[1] == NONE || found[1] == Value::Array(Vec::new());
        assert!(is_nothing, "{line}, {push}: {found:?}");
        assert_eq!(waiter.reply(), Some(answer), "{line}, {push}");
    }
    assert_eq!(served.server.waiting_count(), 0);
}

#[test]
fn c2_those_in_line_are_served_in_their_order() {
    let served = Served::start(3);
    let pusher = &mut served.connect();
    let mut waiters: Vec<Client> = (0..6).map(|_| served.connect()).collect();
    // The second waits for something else to stand there, and the third is gone when its turn
    // comes.
    let lines =
        ["BLPOP k 0", "BZPOPMIN k 0", "BLPOP k 0", "BLMOVE k d LEFT RIGHT 0", "BRPOP k x 0", "BLPOP k 0"];
    for (waiter, line) in waiters.iter_mut().zip(lines) {
        wait(&served, waiter, line);
    }
    drop(waiters.remove(2));
    until("the third is gone", || served.server.waiting_count() == 5);
    let found = pipeline(pusher, &["RPUSH k 1 2 3 4 5", "LRANGE k 0 -1", "LRANGE d 0 -1", "DEL k"]);
    // Its line is not yet known to be over, or is: what it was not given is the next one's.
    assert_eq!(found, [Value::Integer(5), array(&["4"]), array(&["2"]), Value::Integer(1)]);
    assert_eq!(waiters[0].reply(), Some(array(&["k", "1"])));
    assert_eq!(waiters[2].reply(), Some(bulk("2")));
    assert_eq!(waiters[3].reply(), Some(array(&["k", "5"])));
    assert_eq!(waiters[4].reply(), Some(array(&["k", "3"])));
    assert_eq!(pusher.say("ZADD k 7 m"), Value::Integer(1));
    assert_eq!(waiters[1].reply(), Some(array(&["k", "m", "7"])));
    assert_eq!(pusher.say("EXISTS k"), Value::Integer(0));
}

/// Clients that wait for `k` in the order in which they are returned.
fn line(served: &Served, lines: &[&str]) -> Vec<Client> {
    let mut waiters: Vec<Client> = lines.iter().map(|_| served.connect()).collect();
    for (waiter, line) in waiters.iter_mut().zip(lines) {
        wait(served, waiter, line);
    }
    waiters
}

fn in_order(waiters: &mut [Client], what: &str) {
    for (number, waiter) in waiters.iter_mut().enumerate() {
        assert_eq!(waiter.reply(), Some(array(&["k", &number.to_string()])), "{what}");
    }
}

#[test]
fn c2_lines_keep_their_order_when_databases_change() {
    const WAITERS: usize = 20;
    let served = Served::start(3);
    let pusher = &mut served.connect();
    let numbers: Vec<String> = (0..WAITERS).map(|number| number.to_string()).collect();
    let together = format!("RPUSH k {}", numbers.join(" "));
    let singly: Vec<String> = numbers.iter().map(|number| format!("RPUSH k {number}")).collect();
    for changes in [
        &["FLUSHALL"][..],
        &["FLUSHDB"],
        &["SWAPDB 0 1"],
        &["SWAPDB 1 0", "SWAPDB 0 1", "FLUSHDB", "SWAPDB 3 0", "FLUSHALL"],
        &["MULTI", "FLUSHALL", "SET x 1", "EXEC"],
        &["MULTI", "SWAPDB 0 2", "FLUSHDB", "SWAPDB 2 5", "EXEC"],
        &["EVAL redis.call('FLUSHALL') 0"],
    ] {
        let what = changes.join(", ");
        for round in 0..4 {
            let waiters = &mut line(&served, &["BLPOP k other 0"; WAITERS]);
            // All at once, and after the clients have looked.
            pipeline(pusher, changes);
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
            match round < 2 {
                true => drop(pipeline(pusher, &[&together])),
                false => drop(pipeline(pusher, &singly.iter().map(String::as_str).collect::<Vec<_>>())),
            }
            in_order(waiters, &what);
            assert_eq!(pusher.say("EXISTS k"), Value::Integer(0), "{what}");
        }
    }
    assert_eq!(served.server.waiting_count(), 0);
}

#[test]
fn c2_what_a_swap_brings_goes_to_the_line_in_order() {
    const WAITERS: usize = 20;
    let served = Served::start(3);
    let pusher = &mut served.connect();
    let numbers: Vec<String> = (0..WAITERS).map(|number| number.to_string()).collect();
    for round in 0..10 {
        pipeline(pusher, &["SELECT 1", &format!("RPUSH k {}", numbers.join(" ")), "SELECT 0"]);
        let waiters = &mut line(&served, &["BLPOP k 0"; WAITERS]);
        assert_eq!(pusher.say("SWAPDB 0 1"), Value::Simple("OK".into()), "{round}");
        in_order(waiters, "SWAPDB");
        assert_eq!(pusher.say("EXISTS k"), Value::Integer(0));
    }
}

#[test]
fn c2_swaps_beside_pushes_leave_no_client_waiting_for_what_is_there() {
    const EACH: usize = 2000;
    let served = Served::start(3);
    let connect = |index: usize| {
        let mut client = served.connect();
        client.say(&format!("SELECT {index}"));
        client
    };
    let (taken, left) = std::thread::scope(|scope| {
        let waiters: Vec<_> = [0, 0, 1, 1]
            .map(|index| {
                let mut client = connect(index);
                let mut take = move || (0..).find(|_| client.say("BLPOP k 0") == array(&["k", "end"]));
                scope.spawn(move || take().expect("it ends"))
            })
            .into();
        let pushers = [0, 1].map(|index| {
            let mut client = connect(index);
            scope.spawn(move || (0..EACH).for_each(|number| drop(client.say(&format!("RPUSH k {number}")))))
        });
        let swapper = &mut connect(2);
        while pushers.iter().any(|pusher| !pusher.is_finished()) {
            pipeline(swapper, &["SWAPDB 0 1", "SWAPDB 1 2", "SWAPDB 2 1"]);
        }
        let start = Instant::now();
        while served.server.waiting_count() < waiters.len() && start.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        let left = [0, 1, 2].map(|index| {
            pipeline(swapper, &[&format!("SELECT {index}"), "LLEN k", "RPUSH k end end"]).swap_remove(1)
        });
        (waiters.into_iter().map(|waiter| waiter.join().expect("it takes")).sum::<usize>(), left)
    });
    assert_eq!(left[..2], [Value::Integer(0), Value::Integer(0)], "two clients wait for each list");
    // What was pushed between the last two swaps ends up in the third database, where none waits.
    let Value::Integer(aside) = left[2] else { panic!("a length, not {left:?}") };
    assert_eq!(taken + aside as usize, 2 * EACH);
}

#[test]
fn c2_what_a_served_client_moves_serves_others() {
    let served = Served::start(3);
    let pusher = &mut served.connect();
    let mut waiters: Vec<Client> = (0..4).map(|_| served.connect()).collect();
    for (waiter, line) in waiters.iter_mut().zip([
        "BLMOVE a b LEFT LEFT 0",
        "BLMOVE b c LEFT LEFT 0",
        "BRPOPLPUSH c d 0",
        "BLPOP d 0",
    ]) {
        wait(&served, waiter, line);
    }
    let found = pipeline(pusher, &["RPUSH a x", "EXISTS a b c d"]);
    assert_eq!(found, [Value::Integer(1), Value::Integer(0)]);
    for waiter in &mut waiters[..3] {
        assert_eq!(waiter.reply(), Some(bulk("x")));
    }
    assert_eq!(waiters[3].reply(), Some(array(&["d", "x"])));
    // More destinations than are locked ahead: those left over lock for themselves, still within
    // the push.
    let mut many: Vec<Client> = (0..70).map(|_| served.connect()).collect();
    for (index, waiter) in many.iter_mut().enumerate() {
        wait(&served, waiter, &format!("BLMOVE a to{index} LEFT LEFT 0"));
    }
    let push = format!("RPUSH a {}", (0..70).map(|index| index.to_string()).collect::<Vec<_>>().join(" "));
    let found = pipeline(pusher, &[&push, "LLEN a", "LRANGE to69 0 -1"]);
    assert_eq!(found, [Value::Integer(70), Value::Integer(0), array(&["69"])]);
    for (index, waiter) in many.iter_mut().enumerate() {
        assert_eq!(waiter.reply(), Some(bulk(&index.to_string())));
    }
}

#[test]
fn c2_a_list_that_came_first_is_taken_first() {
    let served = Served::start(3);
    let (pusher, waiter) = (&mut served.connect(), &mut served.connect());
    for _ in 0..20 {
        wait(&served, waiter, "BLMPOP 0 2 a b LEFT COUNT 5");
        pipeline(pusher, &["RPUSH b 1", "RPUSH a 2"]);
        assert_eq!(waiter.reply(), Some(Value::Array(vec![bulk("b"), array(&["1"])])));
        assert_eq!(pusher.say("DEL a b"), Value::Integer(1));
    }
    // No client sees what a transaction pushes and takes away again; of two lists the one that is
    // named first is taken (P6).
    wait(&served, waiter, "BLPOP a b 0");
    pipeline(pusher, &["MULTI", "RPUSH a 1", "DEL a", "EXEC"]);
    pipeline(pusher, &["MULTI", "RPUSH b 1", "RPUSH a 2", "EXEC"]);
    assert_eq!(waiter.reply(), Some(array(&["a", "2"])));
    assert_eq!(pusher.say("LRANGE b 0 -1"), array(&["1"]));
}

#[test]
fn c2_pushers_and_waiters_on_all_threads_lose_nothing() {
    let served = Served::start(3);
    const EACH: usize = 300;
    const LINES: [&str; 4] =
        ["BLPOP a b 0.002", "BLPOP b a 0.002", "BLMOVE a b LEFT RIGHT 0.002", "BRPOP c a 0.002"];
    let taken: usize = std::thread::scope(|scope| {
        let pushers: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|key| {
                let mut client = served.connect();
                scope.spawn(move || {
                    for number in 0..EACH {
                        client.say(&format!("RPUSH {key} {number}"));
                    }
                })
            })
            .collect();
        let waiters: Vec<_> = LINES
            .into_iter()
            .map(|line| {
                let mut client = served.connect();
                scope.spawn(move || {
                    let (mut taken, mut nothing) = (0, 0);
                    while nothing < 40 {
                        match client.say(line) {
                            Value::Null => nothing += 1,
                            _ if line.starts_with("BLMOVE") => nothing = 0,
                            _ => (taken, nothing) = (taken + 1, 0),
                        }
                    }
                    taken
                })
            })
            .collect();
        pushers.into_iter().for_each(|pusher| pusher.join().expect("it pushes"));
        waiters.into_iter().map(|waiter| waiter.join().expect("it takes")).sum()
    });
    let client = &mut served.connect();
    let left: i64 = ["a", "b", "c"]
        .iter()
        .map(|key| match client.say(&format!("LLEN {key}")) {
            Value::Integer(len) => len,
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(taken as i64 + left, 3 * EACH as i64);
    assert_eq!(served.server.waiting_count(), 0);
}
