//! Clients that wait for a key, on several server threads.

#![expect(clippy::disallowed_methods, reason = "a test that waits needs the time")]

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::client::{Client, Served, bulk, error, request};

/// Sends a command whose reply is to come later.
fn send(client: &mut Client, line: &str) {
    use std::io::Write;
    let words: Vec<&str> = line.split_whitespace().collect();
    client.stream.write_all(&request(&words)).expect("it is sent");
}

fn array(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

/// Sends a command that will wait, and waits until it does: the server has then taken in what came
/// before.
fn wait(served: &Served, client: &mut Client, line: &str) {
    let before = served.server.waiting_count();
    send(client, line);
    let start = Instant::now();
    while served.server.waiting_count() <= before {
        assert!(start.elapsed() < Duration::from_secs(20), "{line} does not wait");
        std::thread::yield_now();
    }
}

fn assert_waits(client: &mut Client) {
    client.stream.set_read_timeout(Some(Duration::from_millis(60))).expect("an option");
    let mut byte = [0];
    let nothing = client.stream.peek(&mut byte);
    assert!(nothing.is_err(), "something came: {:?}", client.reply());
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
}

fn integer(number: i64) -> Value {
    Value::Integer(number)
}

#[test]
fn who_waits_longest_is_served_first() {
    let served = Served::start(3);
    let pusher = &mut served.connect();
    let mut clients: Vec<Client> = (0..5).map(|_| served.connect()).collect();
    for client in &mut clients {
        wait(&served, client, "BLPOP k 0");
    }
    assert_eq!(pusher.say("RPUSH k 0"), integer(1));
    assert_eq!(clients[0].reply(), Some(array(&["k", "0"])));
    assert_waits(&mut clients[1]);
    // One push of several serves several, in their order.
    assert_eq!(pusher.say("RPUSH k 1 2 3"), integer(3));
    for (index, client) in clients[1..4].iter_mut().enumerate() {
        assert_eq!(client.reply(), Some(array(&["k", &(index + 1).to_string()])));
    }
    assert_waits(&mut clients[4]);
    // A served client goes to the end of the line.
    wait(&served, &mut clients[0], "BLPOP k 0");
    pusher.say("RPUSH k x y");
    assert_eq!(clients[4].reply(), Some(array(&["k", "x"])));
    assert_eq!(clients[0].reply(), Some(array(&["k", "y"])));
    assert_eq!(pusher.say("EXISTS k"), integer(0));
    assert_eq!(served.server.waiting_count(), 0);
}

#[test]
fn time_runs_out() {
    let served = Served::start(2);
    let client = &mut served.connect();
    for line in [
        "BLPOP k 0.08",
        "BRPOP k m 0.08",
        "BLMOVE k m LEFT LEFT 0.08",
        "BRPOPLPUSH k m 0.08",
        "BLMPOP 0.08 2 k m LEFT",
        "BZPOPMIN k 0.08",
        "BZPOPMAX k m 0.08",
        "BZMPOP 0.08 1 k MAX",
    ] {
        let start = Instant::now();
        assert_eq!(client.say(line), Value::Null, "{line}");
        assert!(start.elapsed() >= Duration::from_millis(79), "{line}: {:?}", start.elapsed());
    }
    assert_eq!(served.server.waiting_count(), 0, "who has gone stands in no line");
    assert_eq!(client.say("RPUSH k a"), integer(1));
    assert_eq!(client.say("LRANGE k 0 -1"), array(&["a"]));
    // Zero is for ever.
    wait(&served, client, "BLPOP m 0");
    assert_waits(client);
}

#[test]
fn replies_before_it_do_not_wait() {
    use std::io::Write;
    let served = Served::start(1);
    let client = &mut served.connect();
    client.stream.set_read_timeout(Some(Duration::from_secs(5))).expect("an option");
    for plain in [&["SET", "a", "1"][..], &["APPEND", "a", "1"], &["GET", "a"]] {
        let pipeline = [request(plain), request(&["BLPOP", "q", "0"])].concat();
        client.stream.write_all(&pipeline).expect("it is sent");
        let reply = client.reply().expect("a reply");
        assert!(!matches!(reply, Value::Error(_)), "{plain:?}: {reply:?}");
        served.connect().say("RPUSH q x");
        assert_eq!(client.reply(), Some(array(&["q", "x"])), "{plain:?}");
    }
}

#[test]
fn who_is_gone_takes_nothing() {
    let served = Served::start(2);
    let pusher = &mut served.connect();
    let (mut gone, mut stays) = (served.connect(), served.connect());
    wait(&served, &mut gone, "BLPOP k 0");
    wait(&served, &mut stays, "BLPOP k 0");
    drop(gone);
    let start = Instant::now();
    while served.server.waiting_count() > 1 {
        assert!(start.elapsed() < Duration::from_secs(20), "it still stands in line");
        std::thread::yield_now();
    }
    pusher.say("RPUSH k a b");
    assert_eq!(stays.reply(), Some(array(&["k", "a"])));
    assert_eq!(pusher.say("LRANGE k 0 -1"), array(&["b"]));
}

#[test]
fn whatever_puts_a_list_there_wakes() {
    let served = Served::start(3);
    let (client, other) = (&mut served.connect(), &mut served.connect());
    for lines in [
        &["RPUSH k x"][..],
        &["RPUSH s x", "RENAME s k"],
        &["RPUSH s x", "RENAMENX s k"],
        &["RPUSH s x", "COPY s k"],
        &["RPUSH s x", "LMOVE s k LEFT RIGHT"],
        &["RPUSH s x", "RPOPLPUSH s k"],
        &["RPUSH s x", "BLMOVE s k LEFT LEFT 0"],
        &["MULTI", "DEL k", "SET k v", "DEL k", "RPUSH k y x", "LPOP k", "EXEC"],
        &["SELECT 1", "RPUSH k x", "MOVE k 0", "SELECT 0"],
        &["SELECT 1", "RPUSH k x", "SWAPDB 0 1", "SELECT 0"],
        // The database has another identity afterwards.
        &["FLUSHALL", "RPUSH k x"],
        &["FLUSHDB", "SWAPDB 0 1", "RPUSH k x"],
    ] {
        other.say("FLUSHALL");
        wait(&served, client, "BLPOP j k 0");
        for line in lines {
            let reply = other.say(line);
            assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
        }
        assert_eq!(client.reply(), Some(array(&["k", "x"])), "{lines:?}");
        assert_eq!(served.server.waiting_count(), 0);
    }
}

#[test]
fn what_is_moved_on_wakes_the_next() {
    let served = Served::start(3);
    let mut clients: Vec<Client> = (0..4).map(|_| served.connect()).collect();
    // The last one stands in line first.
    let lines = [
        "BLMOVE a b LEFT RIGHT 0",
        "BRPOPLPUSH b c 0",
        "BLMOVE c d RIGHT LEFT 0",
        "BLMPOP 0 2 x d LEFT COUNT 5",
    ];
    for (client, line) in clients.iter_mut().zip(lines).rev() {
        wait(&served, client, line);
    }
    let pusher = &mut served.connect();
    assert_eq!(pusher.say("RPUSH a element"), integer(1));
    for client in &mut clients[..3] {
        assert_eq!(client.reply(), Some(bulk("element")));
    }
    assert_eq!(clients[3].reply(), Some(Value::Array(vec![bulk("d"), array(&["element"])])));
    assert_eq!(pusher.say("EXISTS a b c d"), integer(0));
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn what_is_of_another_type_is_for_others() {
    let served = Served::start(3);
    let other = &mut served.connect();
    let (mut list, mut set) = (served.connect(), served.connect());
    other.say("SET k v");
    assert_eq!(list.say("BLPOP k 0"), error(WRONG_TYPE), "at first");
    other.say("DEL k");
    wait(&served, &mut list, "BLPOP k 0");
    wait(&served, &mut set, "BZPOPMIN k j 0");
    other.say("SET k v");
    assert_waits(&mut list);
    assert_waits(&mut set);
    other.say("DEL k");
    // The first in line cannot use it.
    assert_eq!(other.say("ZADD k 1.5 m"), integer(1));
    assert_eq!(set.reply(), Some(array(&["k", "m", "1.5"])));
    assert_waits(&mut list);
    other.say("RPUSH k x");
    assert_eq!(list.reply(), Some(array(&["k", "x"])));
    // A destination of another type is told when there is something to be put there, which stays.
    wait(&served, &mut list, "BLMOVE s d LEFT LEFT 0");
    other.say("SET d v");
    other.say("RPUSH s x");
    assert_eq!(list.reply(), Some(error(WRONG_TYPE)));
    assert_eq!(other.say("LRANGE s 0 -1"), array(&["x"]));
    assert_eq!(served.server.waiting_count(), 0);
}

#[test]
fn sorted_sets_are_waited_for_too() {
    let served = Served::start(2);
    let other = &mut served.connect();
    let mut clients: Vec<Client> = (0..3).map(|_| served.connect()).collect();
    for (client, line) in
        clients.iter_mut().zip(["BZPOPMAX j k 0", "BZMPOP 0 2 j k MIN COUNT 2", "BZPOPMIN k 0"])
    {
        wait(&served, client, line);
    }
    other.say("ZADD k 1 a 2 b 3 c 4 d");
    assert_eq!(clients[0].reply(), Some(array(&["k", "d", "4"])));
    let pairs = Value::Array(vec![array(&["a", "1"]), array(&["b", "2"])]);
    assert_eq!(clients[1].reply(), Some(Value::Array(vec![bulk("k"), pairs])));
    assert_eq!(clients[2].reply(), Some(array(&["k", "c", "3"])));
    wait(&served, &mut clients[0], "BZPOPMIN u 0");
    other.say("MULTI");
    other.say("ZADD s 1 a 5 b");
    other.say("ZUNIONSTORE u 2 s s");
    other.say("EXEC");
    assert_eq!(clients[0].reply(), Some(array(&["u", "a", "2"])));
}

/// Clients on all server threads take what others give: nothing is lost, nothing is taken twice.
#[test]
fn a_queue_loses_nothing() {
    const EACH: usize = 400;
    const ENDS: usize = 4;
    let served = Served::start(3);
    let mut taken: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let takers: Vec<_> = (0..ENDS)
            .map(|index| {
                let mut client = served.connect();
                scope.spawn(move || {
                    let line = ["BLPOP q r 0", "BRPOP r q 0", "BLMPOP 0 2 q r LEFT", "BLPOP r q 0"][index];
                    let mut taken = Vec::new();
                    loop {
                        let Value::Array(reply) = client.say(line) else { panic!("no element") };
                        let element = match &reply[1] {
                            Value::Array(elements) => elements[0].clone(),
                            element => element.clone(),
                        };
                        let Value::Bulk(element) = element else { panic!("no string") };
                        if element == b"end" {
                            return taken;
                        }
                        taken.push(String::from_utf8(element).expect("text"));
                    }
                })
            })
            .collect();
        let givers: Vec<_> = (0..2)
            .map(|giver| {
                let mut client = served.connect();
                scope.spawn(move || {
                    for number in 0..EACH {
                        let key = if number % 3 == 0 { "r" } else { "q" };
                        client.say(&format!("RPUSH {key} {giver}-{number}"));
                    }
                })
            })
            .collect();
        givers.into_iter().for_each(|giver| giver.join().expect("it gives"));
        let other = &mut served.connect();
        while other.say("EXISTS q r") != integer(0) {
            std::thread::yield_now();
        }
        for _ in 0..ENDS {
            other.say("RPUSH q end");
        }
        takers.into_iter().for_each(|taker| taken.extend(taker.join().expect("it takes")));
    });
    taken.sort_unstable();
    let mut given: Vec<String> =
        (0..2).flat_map(|giver| (0..EACH).map(move |number| format!("{giver}-{number}"))).collect();
    given.sort_unstable();
    assert_eq!(taken, given);
    assert_eq!(served.server.waiting_count(), 0);
}
