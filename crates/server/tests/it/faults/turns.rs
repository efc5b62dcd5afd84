//! S13: these commands stood half of the clients for 1 to 28 s:
//! - SETRANGE and BITOP of 512 MB
//! - WATCH, DEL and MULTI of 500 000, ZADD of 300 000, LPOP of 300 000, SUBSCRIBE to 500 000
//!
//! Neighbours: every command that goes over its arguments, an element's bytes or what a client has
//! left here. These are MSET, MGET, EXISTS, SADD, HSET, RPUSH, SINTER, BITCOUNT. Also GET of a long
//! string, and the end of a connection.

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, Served, ok};
use super::beside::worst_ping;

/// Arguments of a command in the small form, and bytes of a string.
pub(super) const COUNT: usize = 20_000;
const BYTES: usize = 16 << 20;

pub(super) fn with_numbers(words: &[&str], each: &[&str], count: usize) -> Vec<String> {
    let words = words.iter().map(|word| (*word).to_owned());
    let repeated =
        (0..count).flat_map(|number| each.iter().map(move |word| word.replace('#', &number.to_string())));
    words.chain(repeated).collect()
}

/// Runs an action by its name, for each part of what was sent, and checks that it gives others at
/// least so many turns. Looks at others meanwhile.
pub(super) type Measure<'t> = &'t mut dyn FnMut(&Served, &str, u64, &mut dyn FnMut());

/// Runs actions on a server where others have a turn each time that the clock is looked at, and
/// counts these turns. How long anything takes is another question. What is sent has so many parts.
pub(super) fn count_turns(parts: usize, run: impl FnOnce(&Served, Measure<'_>)) {
    let served = Served::with(ServeSettings { threads: 1, turn_us: 0, ..ServeSettings::default() });
    let mut other = served.connect();
    let mut complaints = String::new();
    run(&served, &mut |_, what, least_of_part, act| {
        let before = turns_given(&mut other);
        act();
        let (given, least) = (turns_given(&mut other) - before, least_of_part * parts as u64);
        eprintln!("{what}: {given} turns, {least} at least");
        if given < least {
            complaints += &format!("{what} gave {given} turns, {least} are the least\n");
        }
    });
    assert!(complaints.is_empty(), "{complaints}");
}

pub(super) fn turns_given(client: &mut Client) -> u64 {
    turns_reported(client.say("INFO stats"))
}

/// The number in what INFO has answered.
pub(super) fn turns_reported(info: Value) -> u64 {
    let Value::Bulk(text) = info else { panic!("a text") };
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix("turns_given:")).expect("it is told");
    line.parse().expect("a number")
}

/// A command, the words repeated after its own, and how many turns of others each thousand repeats
/// give. That is some four for each time that all of it is gone over.
pub(super) type Words = (&'static [&'static str], &'static [&'static str], u64);

const CALLS: [Words; 20] = [
    (&["MSETNX"], &["k#", "v"], 3),
    (&["MSET"], &["k#", "v"], 3),
    (&["MGET"], &["k#"], 3),
    (&["EXISTS"], &["k#"], 5),
    (&["WATCH"], &["k#"], 7),
    (&["UNWATCH"], &[], 3),
    (&["DEL"], &["k#"], 10),
    (&["SADD", "set"], &["m#"], 8),
    (&["SMISMEMBER", "set"], &["m#"], 2),
    (&["SREM", "set"], &["m#"], 8),
    (&["HSET", "hash"], &["f#", "v"], 8),
    (&["HMGET", "hash"], &["f#"], 3),
    (&["HDEL", "hash"], &["f#"], 10),
    (&["ZADD", "sorted"], &["#", "m#"], 14),
    (&["ZMSCORE", "sorted"], &["m#"], 3),
    (&["ZREM", "sorted"], &["m#"], 10),
    (&["SUNION"], &["k#"], 10),
    (&["PUBSUB", "NUMSUB"], &["c#"], 3),
    (&["BITFIELD", "bits"], &["SET", "u8", "#", "1"], 7),
    (&["BLPOP"], &["q#"], 14),
];

/// Commands on lists. What is scanned first is put in order by the engine, all of it: so they have
/// a server of their own.
const OF_LISTS: [Words; 4] = [
    (&["RPUSH", "list"], &["e#"], 3),
    (&["LPOP", "list", "100000000"], &[], 3),
    (&["LPUSH", "list"], &["e#"], 3),
    (&["LTRIM", "list", "0", "0"], &[], 3),
];

/// Runs each of these commands of very many arguments.
pub(super) fn run_all(served: &Served, calls: &[Words], count: usize, measure: Measure<'_>) {
    let mut client = served.connect();
    for (words, each, least) in calls.iter().copied() {
        let mut words = with_numbers(words, each, count);
        if words[0] == "BLPOP" {
            words.push("0.01".to_owned());
        }
        let name = words[0].clone();
        measure(served, &name, least, &mut || {
            assert!(!matches!(client.call(&words), Value::Error(_)), "{name}")
        });
    }
}

/// MULTI with very many commands, EXEC and DISCARD; what is watched and subscribed to, and its end.
fn queue_and_leave(served: &Served, count: usize, measure: Measure<'_>) {
    let mut client = served.connect();
    for (end, least) in [("EXEC", 10), ("DISCARD", 3)] {
        assert_eq!(client.say("MULTI"), ok());
        let requests = (0..count).flat_map(|number| format!("SET q{number} v\r\n").into_bytes());
        std::io::Write::write_all(&mut client.stream, &requests.collect::<Vec<u8>>()).expect("it is sent");
        (0..count).for_each(|_| assert_eq!(client.reply(), Some(Value::Simple("QUEUED".into()))));
        measure(served, end, least, &mut || assert!(!matches!(client.say(end), Value::Error(_))));
    }
    let names = with_numbers(&["SUBSCRIBE"], &["channel-#"], count);
    let confirm = |client: &mut Client| (0..count).for_each(|_| assert!(client.reply().is_some()));
    measure(served, "SUBSCRIBE", 3, &mut || {
        std::io::Write::write_all(&mut client.stream, &super::super::client::request(&names))
            .expect("it is sent");
        confirm(&mut client);
    });
    let mut admin = served.connect();
    measure(served, "PUBSUB CHANNELS", 5, &mut || {
        let Value::Array(found) = admin.say("PUBSUB CHANNELS") else { panic!("an array") };
        assert_eq!(found.len(), count);
    });
    let mut leaving = Some(client);
    measure(served, "the end of a subscriber", 3, &mut || {
        leaving = None;
        while admin.say("PUBSUB CHANNELS") != Value::Array(Vec::new()) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
}

/// What a user may do is asked for each key, here with forty patterns. That is so for a command of
/// its own, and for one that was queued.
fn look_at_rights(served: &Served, count: usize, measure: Measure<'_>) {
    let (mut admin, mut client) = (served.connect(), served.connect());
    let patterns: Vec<String> = (0..40).map(|number| format!("~{number}:*")).collect();
    let words = ["ACL", "SETUSER", "limited", "on", "nopass", "+@all", "~k*"].into_iter();
    let rules: Vec<&str> = words.chain(patterns.iter().map(String::as_str)).collect();
    assert_eq!(admin.call(&rules), ok());
    assert_eq!(client.say("AUTH limited x"), ok());
    let mut words = with_numbers(&["EXISTS"], &["k#"], count);
    measure(served, "rights", 5 + LOOKS_OF_RIGHTS, &mut || {
        assert_eq!(client.call(&words), Value::Integer(0));
    });
    assert_eq!(client.say("MULTI"), ok());
    measure(served, "rights to queue", LOOKS_OF_RIGHTS, &mut || {
        assert_eq!(client.call(&words), Value::Simple("QUEUED".into()));
    });
    measure(served, "rights of what was queued", 5 + LOOKS_OF_RIGHTS, &mut || {
        assert_eq!(client.say("EXEC"), Value::Array(vec![Value::Integer(0)]));
    });
    words.push("other".to_owned());
    assert!(matches!(client.call(&words), Value::Error(line) if line.starts_with("NOPERM")));
}

/// Sorted sets of very many names, none of which are there.
fn combine(served: &Served, count: usize, measure: Measure<'_>) {
    let mut client = served.connect();
    let number = count.to_string();
    for command in ["ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD"] {
        let words = with_numbers(&[command, &number], &["k#"], count);
        measure(served, command, 3, &mut || {
            assert!(matches!(client.call(&words), Value::Array(_) | Value::Integer(0)));
        });
    }
}

/// Of forty patterns of some bytes, each compared with a thousand keys of some bytes.
const LOOKS_OF_RIGHTS: u64 = 10;

/// Strings of so many bytes, gone over as a whole. What only writes is done by a thread beside the
/// server threads, without turns.
fn go_over_bytes(served: &Served, bytes: usize, measure: Measure<'_>) {
    let mut client = served.connect();
    let last = (bytes - 3).to_string();
    let calls: [(&[&str], u64); 6] = [
        (&["SETRANGE", "x", &last, "abc"], 0),
        (&["BITOP", "NOT", "y", "x"], 60),
        (&["BITCOUNT", "y"], 3),
        (&["BITPOS", "x", "1"], 1),
        (&["GET", "y"], 3),
        (&["DEL", "y"], 0),
    ];
    for (words, least) in calls {
        let name = words[0];
        measure(served, name, least, &mut || {
            assert!(!matches!(client.call(words), Value::Error(_)), "{name}")
        });
    }
}

#[test]
fn s13_many_arguments_leave_others_their_turns() {
    for calls in [&CALLS[..], &OF_LISTS] {
        count_turns(COUNT / 1000, |served, measure| run_all(served, calls, COUNT, measure));
    }
}

#[test]
fn s13_many_requests_and_names_leave_others_their_turns() {
    count_turns(COUNT / 1000, |served, measure| queue_and_leave(served, COUNT, measure));
}

#[test]
fn s13_rights_to_many_keys_leave_others_their_turns() {
    count_turns(COUNT / 1000, |served, measure| look_at_rights(served, COUNT, measure));
}

#[test]
fn s13_sorted_sets_of_many_names_leave_others_their_turns() {
    count_turns(COUNT / 1000, |served, measure| combine(served, COUNT, measure));
}

#[test]
fn s13_long_strings_leave_others_their_turns() {
    count_turns(BYTES >> 21, |served, measure| go_over_bytes(served, BYTES, measure));
}

#[test]
#[ignore = "long form: cargo x faults"]
fn s13_everything_of_the_report_leaves_others_their_turns_long() {
    let served = Served::start(1);
    let mut measure = |served: &Served, what: &str, _: u64, act: &mut dyn FnMut()| {
        let (took, worst) = worst_ping(served, act);
        eprintln!("{what}: {took:?}, another client waited {worst:?} at most");
        // As much as a busy machine and its disk may hold a thread that nothing here holds.
        assert!(worst < std::time::Duration::from_millis(120) + took / 2, "{what}");
    };
    run_all(&served, &CALLS, 500_000, &mut measure);
    run_all(&Served::start(1), &OF_LISTS, 300_000, &mut measure);
    queue_and_leave(&served, 500_000, &mut measure);
    look_at_rights(&served, 500_000, &mut measure);
    combine(&served, 500_000, &mut measure);
    go_over_bytes(&served, 536_870_903, &mut measure);
}
