//! Hashes and sets where replies are drawn at random or come in parts, and with many members.

use std::collections::{BTreeMap, BTreeSet};

use firn_format::datatype::hash_of;
use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::client::{Client, Served};
use super::reference::seed;

fn words(reply: Value) -> Vec<String> {
    let (Value::Array(values) | Value::Set(values)) = reply else { panic!("no array: {reply:?}") };
    values.into_iter().map(word).collect()
}

fn word(reply: Value) -> String {
    let Value::Bulk(bytes) = reply else { panic!("no string: {reply:?}") };
    String::from_utf8(bytes).expect("text")
}

/// Says `front` and all of `members` as one command.
fn say_with(client: &mut Client, front: &[&str], members: &[String]) -> Value {
    let words: Vec<&str> = front.iter().copied().chain(members.iter().map(String::as_str)).collect();
    client.call(&words)
}

fn members(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("member-{number}")).collect()
}

/// Makes the set `key`, and a hash `h` + `key` with the same members and values.
fn make(client: &mut Client, key: &str, members: &[String]) {
    let count = Value::Integer(members.len() as i64);
    assert_eq!(say_with(client, &["SADD", key], members), count);
    let fields: Vec<String> =
        members.iter().flat_map(|member| [member.clone(), format!("value of {member}")]).collect();
    assert_eq!(say_with(client, &["HSET", &format!("h{key}")], &fields), count);
}

#[test]
fn picks_are_members_and_different_where_they_should_be() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for count in [1, 7, 128, 129, 3000] {
        client.say("FLUSHALL");
        let all = members(count);
        make(client, "k", &all);
        let known: BTreeSet<&String> = all.iter().collect();
        let check = |picked: Vec<String>, expected: usize, are_different: bool| {
            assert_eq!(picked.len(), expected, "of {count}");
            assert!(picked.iter().all(|member| known.contains(member)), "of {count}");
            let different: BTreeSet<&String> = picked.iter().collect();
            assert!(!are_different || different.len() == expected, "of {count}");
        };
        check(vec![word(client.say("SRANDMEMBER k"))], 1, true);
        check(vec![word(client.say("HRANDFIELD hk"))], 1, true);
        for wanted in [0, 1, 5, 100, 1000, 10_000] {
            let expected = wanted.min(count);
            check(words(client.say(&format!("SRANDMEMBER k {wanted}"))), expected, true);
            check(words(client.say(&format!("HRANDFIELD hk {wanted}"))), expected, true);
            if wanted > 0 {
                check(words(client.say(&format!("SRANDMEMBER k -{wanted}"))), wanted, false);
                check(words(client.say(&format!("HRANDFIELD hk -{wanted}"))), wanted, false);
            }
        }
        for pair in words(client.say("HRANDFIELD hk 50 WITHVALUES")).chunks(2) {
            assert_eq!(pair[1], format!("value of {}", pair[0]));
        }
        assert_eq!(client.say("SCARD k"), Value::Integer(count as i64), "nothing was taken");
    }
}

#[test]
fn what_is_popped_is_gone() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for count in [1, 7, 128, 129, 3000] {
        let all = members(count);
        make(client, "k", &all);
        let mut left: BTreeSet<String> = all.into_iter().collect();
        for wanted in [1, 3, 20, 1000, 10_000] {
            let mut popped = words(client.say(&format!("SPOP k {wanted}")));
            assert_eq!(popped.len(), wanted.min(left.len()));
            if wanted == 3 && !left.is_empty() {
                popped.extend(Some(client.say("SPOP k")).filter(|one| *one != Value::Null).map(word));
            }
            for member in popped {
                assert!(left.remove(&member), "{member} was there, and only once");
            }
            let mut found = words(client.say("SMEMBERS k"));
            found.sort();
            assert_eq!(found, left.iter().cloned().collect::<Vec<_>>());
        }
        assert_eq!(client.say("EXISTS k"), Value::Integer(0));
        client.say("DEL hk");
    }
}

/// How often each member is picked.
fn tally(picked: Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for member in picked {
        *counts.entry(member).or_insert(0) += 1;
    }
    counts
}

#[test]
fn members_have_about_the_same_chance() {
    let served = Served::start(1);
    let client = &mut served.connect();
    make(client, "few", &members(10));
    make(client, "many", &members(1000));
    // 500 expected; 150 is seven times the standard deviation.
    for command in ["SRANDMEMBER few -5000", "HRANDFIELD hfew -5000"] {
        let counts = tally(words(client.say(command)));
        assert!(counts.len() == 10 && counts.values().all(|count| (350..650).contains(count)), "{counts:?}");
    }
    // Half of the members each time, of which each is there in half of 1000 times.
    let mut picked = Vec::new();
    for _ in 0..1000 {
        picked.extend(words(client.say("SRANDMEMBER few 5")));
    }
    let counts = tally(picked);
    assert!(counts.values().all(|count| (380..620).contains(count)), "{counts:?}");
    // 20 expected, with some room for members that lie unevenly.
    let counts = tally(words(client.say("SRANDMEMBER many -20000")));
    assert!(counts.len() > 990 && counts.values().all(|count| *count < 80), "{counts:?}");
    // Few of many, one by one; and many of many, walking.
    for (wanted, rounds) in [(50, 100), (500, 20)] {
        let mut picked = Vec::new();
        for _ in 0..rounds {
            picked.extend(words(client.say(&format!("SRANDMEMBER many {wanted}"))));
        }
        let counts = tally(picked);
        assert!(counts.len() > 950 && counts.values().all(|count| *count < 35), "{counts:?}");
    }
}

#[test]
fn a_walk_meets_all_that_stays() {
    let seed = seed();
    println!("FIRN_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let served = Served::start(2);
    let (client, other) = (&mut served.connect(), &mut served.connect());
    let stay = members(500);
    make(client, "k", &stay);
    for (scan, add, remove) in [
        ("SSCAN k", "SADD k come-N", "SREM k come-N"),
        ("HSCAN hk", "HSET hk come-N v", "HDEL hk come-N"),
        ("SSCAN k", "SADD k come-N", "SPOP none"),
    ] {
        for count in [1, 10, 100] {
            let (mut cursor, mut found, mut steps) = (String::from("0"), BTreeSet::new(), 0);
            loop {
                let reply = client.say(&format!("{scan} {cursor} COUNT {count}"));
                let Value::Array(mut parts) = reply else { panic!("no step: {reply:?}") };
                let some = words(parts.pop().expect("elements"));
                assert!(some.len() <= 2 * count + 4, "{} at once, of {count}", some.len());
                found.extend(some);
                cursor = word(parts.pop().expect("a cursor"));
                steps += 1;
                if cursor == "0" {
                    break;
                }
                for line in [add, remove] {
                    other.say(&line.replace('N', &rng.u32(..2000).to_string()));
                }
            }
            assert!(steps >= 500 / count, "{steps} steps of {count}");
            assert!(stay.iter().all(|member| found.contains(member)), "{scan} COUNT {count}");
        }
    }
}

#[test]
fn a_step_does_not_end_between_members_of_one_hash() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let mut by_hash: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for member in members(300_000) {
        by_hash.entry(hash_of(member.as_bytes())).or_default().push(member);
    }
    let mut all: Vec<String> = by_hash.into_values().filter(|same| same.len() > 1).flatten().collect();
    assert!(all.len() > 4, "some of so many have one hash");
    all.extend((0..200).map(|number| format!("other-{number}")));
    make(client, "k", &all);
    let (mut cursor, mut found, mut steps) = (String::from("0"), Vec::new(), 0);
    loop {
        let Value::Array(mut parts) = client.say(&format!("SSCAN k {cursor} COUNT 1")) else {
            panic!("no step")
        };
        found.extend(words(parts.pop().expect("elements")));
        cursor = word(parts.pop().expect("a cursor"));
        steps += 1;
        if cursor == "0" || steps > all.len() {
            break;
        }
    }
    found.sort();
    all.sort();
    assert_eq!(found, all);
}

#[test]
fn patterns_choose_among_what_a_step_looked_at() {
    let served = Served::start(1);
    let client = &mut served.connect();
    make(client, "k", &members(500));
    for (scan, per_member) in [("SSCAN k", 1), ("HSCAN hk", 2)] {
        let (mut cursor, mut found) = (String::from("0"), Vec::new());
        loop {
            let reply = client.say(&format!("{scan} {cursor} MATCH *9 COUNT 50"));
            let Value::Array(mut parts) = reply else { panic!("no step: {reply:?}") };
            found.extend(words(parts.pop().expect("elements")));
            cursor = word(parts.pop().expect("a cursor"));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len(), 50 * per_member);
    }
}

#[test]
fn many_members_are_answered_and_combined() {
    // Long replies go out while the rest of them is still being found.
    let served =
        Served::with(ServeSettings { threads: 1, unread_bytes_max: 4096, ..ServeSettings::default() });
    let client = &mut served.connect();
    let all = members(5000);
    let (low, high, few) = (&all[..3000], &all[2000..], &all[2990..3010]);
    make(client, "all", &all);
    make(client, "low", low);
    make(client, "high", high);
    make(client, "few", few);
    let sorted = |mut found: Vec<String>| {
        found.sort();
        found
    };
    let expect = |client: &mut Client, line: &str, expected: &[String]| {
        assert_eq!(sorted(words(client.say(line))), sorted(expected.to_vec()), "{line}");
    };
    expect(client, "SMEMBERS all", &all);
    expect(client, "HKEYS hall", &all);
    let values: Vec<String> = all.iter().map(|member| format!("value of {member}")).collect();
    expect(client, "HVALS hall", &values);
    expect(client, "HGETALL hall", &[all.clone(), values].concat());
    for (line, expected) in [
        ("SINTER low high", &all[2000..3000]),
        ("SINTER all few high", few),
        ("SINTER low high none", &[]),
        ("SUNION low high few", &all),
        ("SDIFF all high", &all[..2000]),
        ("SDIFF few high", &[]),
        ("SDIFF few low none", &all[3000..3010]),
        ("SDIFF none low", &[]),
        ("SDIFF all", &all),
    ] {
        expect(client, line, expected);
        let (operation, keys) = line.split_once(' ').expect("two words");
        let count = Value::Integer(expected.len() as i64);
        assert_eq!(client.say(&format!("{operation}STORE to {keys}")), count, "{line}");
        expect(client, "SMEMBERS to", expected);
        assert_eq!(client.say("SCARD to"), count, "{line}");
    }
    assert_eq!(client.say("SINTERCARD 2 low high"), Value::Integer(1000));
    assert_eq!(client.say("SINTERCARD 2 low high LIMIT 300"), Value::Integer(300));
    assert_eq!(client.say("SUNIONSTORE low low high"), Value::Integer(5000), "a set may be its own source");
    assert_eq!(say_with(client, &["SREM", "all"], low), Value::Integer(3000));
    expect(client, "SMEMBERS all", &all[3000..]);
    assert_eq!(say_with(client, &["HDEL", "hall"], &all), Value::Integer(5000));
    assert_eq!(client.say("EXISTS hall"), Value::Integer(0));
}

#[test]
fn too_long_members_are_refused_and_never_found() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let long = "x".repeat(65_472);
    let text = "ERR a field or member of 65472 bytes is longer than the longest, 65471 bytes";
    make(client, "k", &members(3));
    for command in [
        vec!["SADD", "k", "new", &long],
        vec!["SADD", "fresh", &long],
        vec!["HSET", "hk", "new", "v", &long, "v"],
        vec!["HSETNX", "hfresh", &long, "v"],
        vec!["HINCRBY", "hfresh", &long, "1"],
        vec!["HINCRBYFLOAT", "hfresh", &long, "1"],
    ] {
        assert_eq!(client.call(&command), Value::Error(text.into()), "{}", command[0]);
    }
    for command in [
        vec!["SISMEMBER", "k", &long],
        vec!["SREM", "k", &long],
        vec!["SMOVE", "k", "fresh", &long],
        vec!["HEXISTS", "hk", &long],
        vec!["HDEL", "hk", &long],
        vec!["HSTRLEN", "hk", &long],
        vec!["EXISTS", "fresh", "hfresh"],
    ] {
        assert_eq!(client.call(&command), Value::Integer(0), "{}", command[0]);
    }
    assert_eq!(
        client.call(&["SMISMEMBER", "k", &long, "member-1"]),
        Value::Array(vec![Value::Integer(0), Value::Integer(1)])
    );
    assert_eq!(
        client.call(&["HMGET", "hk", &long, "member-1"]),
        Value::Array(vec![Value::Null, Value::Bulk(b"value of member-1".to_vec())])
    );
    assert_eq!(client.say("SCARD k"), Value::Integer(3));
    let longest = "x".repeat(65_471);
    assert_eq!(client.call(&["SADD", "k", &longest]), Value::Integer(1));
    assert_eq!(client.call(&["SISMEMBER", "k", &longest]), Value::Integer(1));
}

#[test]
fn encodings_are_those_that_redis_would_choose() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let long = "x".repeat(65);
    let numbers = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    say_with(client, &["SADD", "numbers"], &numbers(512));
    say_with(client, &["SADD", "more-numbers"], &numbers(513));
    say_with(client, &["SADD", "words"], &["1".into(), "x".into()]);
    say_with(client, &["HSET", "small"], &numbers(256));
    say_with(client, &["HSET", "many"], &numbers(1024));
    say_with(client, &["HSET", "large"], &numbers(1026));
    say_with(client, &["ZADD", "few-scores"], &numbers(256));
    say_with(client, &["ZADD", "scores"], &numbers(258));
    say_with(client, &["HSET", "long"], &["1".into(), long.clone()]);
    say_with(client, &["SET", "short"], &["x".repeat(44)]);
    say_with(client, &["SET", "raw"], &["x".repeat(45)]);
    say_with(client, &["SET", "fragments"], &["x".repeat(100_000)]);
    say_with(client, &["SET", "number"], &["-5".into()]);
    for (key, expected) in [
        ("numbers", "intset"),
        ("more-numbers", "hashtable"),
        ("words", "hashtable"),
        ("small", "listpack"),
        ("many", "listpack"),
        ("large", "hashtable"),
        ("few-scores", "listpack"),
        ("scores", "skiplist"),
        ("long", "hashtable"),
        ("short", "embstr"),
        ("raw", "raw"),
        ("fragments", "raw"),
        ("number", "int"),
    ] {
        assert_eq!(word(client.say(&format!("OBJECT ENCODING {key}"))), expected, "{key}");
        assert_eq!(client.say(&format!("OBJECT REFCOUNT {key}")), Value::Integer(1));
        assert_eq!(client.say(&format!("OBJECT IDLETIME {key}")), Value::Integer(0));
    }
}

#[test]
fn very_many_sets_are_combined() {
    let served = Served::start(1);
    let client = &mut served.connect();
    // Each has `all`, one of its own, and one that it shares with the next.
    let names: Vec<String> = (0..600).map(|number| format!("set-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let members = ["all".to_owned(), format!("own-{number}"), format!("pair-{}", number / 2)];
        say_with(client, &["SADD", name], &members);
    }
    let sorted = |reply: Value| {
        let Value::Array(values) = reply else { panic!("{reply:?}") };
        let mut found: Vec<String> = values.into_iter().map(word).collect();
        found.sort();
        found
    };
    let mut union: Vec<String> = (0..600).map(|number| format!("own-{number}")).collect();
    union.extend((0..300).map(|number| format!("pair-{number}")));
    union.push("all".into());
    union.sort();
    assert_eq!(sorted(say_with(client, &["SUNION"], &names)), union);
    assert_eq!(say_with(client, &["SUNIONSTORE", "to"], &names), Value::Integer(901));
    assert_eq!(sorted(client.say("SMEMBERS to")), union);
    assert_eq!(sorted(say_with(client, &["SINTER"], &names)), ["all"]);
    assert_eq!(sorted(say_with(client, &["SDIFF"], &names)), ["own-0"]);
    // The same set again and again is one set.
    let again = |first: &[&str], name: &str| {
        let mut words: Vec<String> = first.iter().map(ToString::to_string).collect();
        words.extend(std::iter::repeat_n(name.to_owned(), 300_000));
        words
    };
    assert_eq!(sorted(client.call(&again(&["SUNION"], "set-0"))), ["all", "own-0", "pair-0"]);
    assert_eq!(sorted(client.call(&again(&["SINTER", "set-1"], "set-0"))), ["all", "pair-0"]);
    assert_eq!(sorted(client.call(&again(&["SDIFF", "set-0"], "set-1"))), ["own-0"]);
    assert!(sorted(client.call(&again(&["SDIFF", "set-0"], "set-0"))).is_empty());
    assert_eq!(client.call(&again(&["SINTERCARD", "300000"], "set-0")), Value::Integer(3));
}
