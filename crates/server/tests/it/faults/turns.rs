//! S13: SETRANGE and BITOP of 512 MB, WATCH, DEL and MULTI of 500 000, ZADD of 300 000, LPOP of 300 000 and SUBSCRIBE to 500 000 stood half of
//! the clients for 1 to 28 s. Neighbours: every command that goes over its arguments, an element's bytes or what a client has left
//! here: MSET, MGET, EXISTS, SADD, HSET, RPUSH, SINTER, BITCOUNT, GET of a long string, the end of a connection.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, ok};
use super::beside::{in_three, serves_others, worst_ping};

/// Arguments of a command in the small form.
const COUNT: usize = 40_000;

fn with_numbers(words: &[&str], each: &[&str], count: usize) -> Vec<String> {
    let words = words.iter().map(|word| (*word).to_owned());
    let repeated =
        (0..count).flat_map(|number| each.iter().map(move |word| word.replace('#', &number.to_string())));
    words.chain(repeated).collect()
}

/// Lets an action run that is called so, and looks at others meanwhile.
type Told<'t> = &'t mut dyn FnMut(&Served, &str, &mut dyn FnMut());

/// What is complained of by whoever is not served.
fn complaints(run: impl FnOnce(Told<'_>)) -> String {
    let mut text = String::new();
    run(&mut |served, what, act| text.extend(serves_others(served, what, act)));
    text
}

/// A command, and what follows its words many times.
type Words = (&'static [&'static str], &'static [&'static str]);

const CALLS: [Words; 20] = [
    (&["MSET"], &["k#", "v"]),
    (&["MSETNX"], &["k#", "v"]),
    (&["MGET"], &["k#"]),
    (&["EXISTS"], &["k#"]),
    (&["WATCH"], &["k#"]),
    (&["UNWATCH"], &[]),
    (&["DEL"], &["k#"]),
    (&["SADD", "set"], &["m#"]),
    (&["SMISMEMBER", "set"], &["m#"]),
    (&["SREM", "set"], &["m#"]),
    (&["HSET", "hash"], &["f#", "v"]),
    (&["HMGET", "hash"], &["f#"]),
    (&["HDEL", "hash"], &["f#"]),
    (&["ZADD", "sorted"], &["#", "m#"]),
    (&["ZMSCORE", "sorted"], &["m#"]),
    (&["ZREM", "sorted"], &["m#"]),
    (&["SUNION"], &["k#"]),
    (&["PUBSUB", "NUMSUB"], &["c#"]),
    (&["BITFIELD", "bits"], &["SET", "u8", "#", "1"]),
    (&["BLPOP"], &["q#"]),
];

/// Commands on lists. What is scanned first is put in order by the engine, all of it: so they have a server of their own.
const OF_LISTS: [Words; 4] = [
    (&["RPUSH", "list"], &["e#"]),
    (&["LPOP", "list", "100000000"], &[]),
    (&["LPUSH", "list"], &["e#"]),
    (&["LTRIM", "list", "0", "0"], &[]),
];

/// Runs each of these commands of very many arguments, and tells how long it took and how long others waited.
fn run_all(served: &Served, calls: &[Words], count: usize, told: Told<'_>) {
    let mut client = served.connect();
    for (words, each) in calls.iter().copied() {
        let mut words = with_numbers(words, each, count);
        if words[0] == "BLPOP" {
            words.push("0.01".to_owned());
        }
        let name = words[0].clone();
        told(served, &name, &mut || assert!(!matches!(client.call(&words), Value::Error(_)), "{name}"));
    }
}

/// MULTI with very many commands, EXEC and DISCARD; what is watched and subscribed to, and its end.
fn queue_and_leave(served: &Served, count: usize, told: Told<'_>) {
    let mut client = served.connect();
    for end in ["EXEC", "DISCARD"] {
        assert_eq!(client.say("MULTI"), ok());
        let requests = (0..count).flat_map(|number| format!("SET q{number} v\r\n").into_bytes());
        std::io::Write::write_all(&mut client.stream, &requests.collect::<Vec<u8>>()).expect("it is sent");
        (0..count).for_each(|_| assert_eq!(client.reply(), Some(Value::Simple("QUEUED".into()))));
        told(served, end, &mut || assert!(!matches!(client.say(end), Value::Error(_))));
    }
    let names = with_numbers(&["SUBSCRIBE"], &["channel-#"], count);
    let confirm = |client: &mut Client| (0..count).for_each(|_| assert!(client.reply().is_some()));
    told(served, "SUBSCRIBE", &mut || {
        std::io::Write::write_all(&mut client.stream, &super::super::client::request(&names))
            .expect("it is sent");
        confirm(&mut client);
    });
    let mut admin = served.connect();
    let mut leaving = Some(client);
    told(served, "the end of a subscriber", &mut || {
        leaving = None;
        while admin.say("PUBSUB CHANNELS") != Value::Array(Vec::new()) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
}

/// Strings of so many bytes, gone over as a whole.
fn go_over_bytes(served: &Served, bytes: usize, told: Told<'_>) {
    let mut client = served.connect();
    let last = (bytes - 3).to_string();
    for words in [
        &["SETRANGE", "x", &last, "abc"][..],
        &["BITOP", "NOT", "y", "x"],
        &["BITCOUNT", "y"],
        &["BITPOS", "x", "1"],
        &["GET", "y"],
        &["DEL", "y"],
    ] {
        let name = words[0];
        told(served, name, &mut || assert!(!matches!(client.call(words), Value::Error(_)), "{name}"));
    }
}

#[test]
fn s13_many_arguments_leave_others_their_turns() {
    for calls in [&CALLS[..], &OF_LISTS] {
        in_three(|| complaints(|told| run_all(&Served::start(1), calls, COUNT, told)));
    }
}

#[test]
fn s13_many_requests_and_names_leave_others_their_turns() {
    in_three(|| complaints(|told| queue_and_leave(&Served::start(1), COUNT, told)));
}

#[test]
fn s13_long_strings_leave_others_their_turns() {
    in_three(|| complaints(|told| go_over_bytes(&Served::start(1), 16 << 20, told)));
}

#[test]
#[ignore = "long form: cargo x faults"]
fn s13_everything_of_the_report_leaves_others_their_turns_long() {
    let served = Served::start(1);
    let mut told = |served: &Served, what: &str, act: &mut dyn FnMut()| {
        let (took, worst) = worst_ping(served, act);
        eprintln!("{what}: {took:?}, another client waited {worst:?} at most");
        assert!(worst < std::time::Duration::from_millis(100) + took / 8, "{what}");
    };
    run_all(&served, &CALLS, 500_000, &mut told);
    run_all(&Served::start(1), &OF_LISTS, 300_000, &mut told);
    queue_and_leave(&served, 500_000, &mut told);
    go_over_bytes(&served, 536_870_903, &mut told);
}
