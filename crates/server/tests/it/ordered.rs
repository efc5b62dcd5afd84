//! Lists and sorted sets with many elements, and what is picked at random.

use std::collections::{BTreeMap, BTreeSet};

use firn_format::datatype::FIELDS;
use firn_protocol::resp::Value;

use super::client::{Client, Served, bulk, ok};

const MANY: usize = 5000;

fn say(client: &mut Client, front: &[&str], words: &[String]) -> Value {
    let words: Vec<&str> = front.iter().copied().chain(words.iter().map(String::as_str)).collect();
    client.call(&words)
}

fn integer(number: usize) -> Value {
    Value::Integer(number as i64)
}

fn words(reply: Value) -> Vec<String> {
    let Value::Array(values) = reply else { panic!("no array: {reply:?}") };
    let word = |value| match value {
        Value::Bulk(bytes) => String::from_utf8(bytes).expect("text"),
        other => panic!("no string: {other:?}"),
    };
    values.into_iter().map(word).collect()
}

/// What a list is to be after a command.
fn assert_list(client: &mut Client, expected: &[String]) {
    assert_eq!(client.say("LLEN l"), integer(expected.len()));
    assert!(words(client.say("LRANGE l 0 -1")) == expected, "the elements and their order");
    // Every index is found by a seek: there is no gap.
    for index in [0, 1, expected.len() / 3, expected.len() / 2, expected.len() - 1] {
        assert_eq!(client.say(&format!("LINDEX l {index}")), bulk(&expected[index]));
    }
}

#[test]
fn long_lists_stay_dense() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let mut model: Vec<String> = (0..MANY).map(|number| format!("e{}", number % 1000)).collect();
    let half = MANY / 2;
    let left: Vec<String> = model[..half].iter().rev().cloned().collect();
    assert_eq!(say(client, &["RPUSH", "l"], &model[half..]), integer(MANY - half));
    assert_eq!(say(client, &["LPUSH", "l"], &left), integer(MANY));
    assert_list(client, &model);

    for (pivot, place) in [("e10", "BEFORE"), ("e999", "AFTER")] {
        let at = model.iter().position(|word| word == pivot).unwrap() + usize::from(place == "AFTER");
        model.insert(at, "new".into());
        let line = format!("LINSERT l {place} {pivot} new");
        assert_eq!(client.say(&line), integer(model.len()));
        assert_list(client, &model);
    }
    // From the front, from the back, and all over.
    for (count, element, from_back, removed) in
        [("2", "e5", false, 2), ("-2", "e995", true, 2), ("0", "e500", false, 5), ("0", "absent", false, 0)]
    {
        let mut places: Vec<usize> = (0..model.len()).filter(|place| model[*place] == element).collect();
        if from_back {
            places.reverse();
        }
        places.truncate(removed);
        places.sort_unstable();
        places.iter().rev().for_each(|place| drop(model.remove(*place)));
        assert_eq!(client.say(&format!("LREM l {count} {element}")), integer(removed), "{element}");
        assert_list(client, &model);
    }
    let places: Vec<Value> = (0..model.len()).filter(|place| model[*place] == "e7").map(integer).collect();
    assert_eq!(client.say("LPOS l e7 COUNT 0"), Value::Array(places.clone()));
    assert_eq!(client.say("LPOS l e7 RANK -2"), places[places.len() - 2]);
    assert_eq!(client.say("LSET l 2500 set"), ok());
    model[2500] = "set".into();
    assert_eq!(words(client.say("LPOP l 700")), model.drain(..700).collect::<Vec<_>>());
    let popped: Vec<String> = model.split_off(model.len() - 600);
    assert_eq!(words(client.say("RPOP l 600")), popped.into_iter().rev().collect::<Vec<_>>());
    assert_list(client, &model);
    assert_eq!(client.say("LTRIM l 100 -101"), ok());
    model = model[100..model.len() - 100].to_vec();
    assert_list(client, &model);
    // As many records as elements.
    assert_eq!(served.records(FIELDS), model.len());
    assert_eq!(client.say("LTRIM l 1 0"), ok());
    assert_eq!(client.say("EXISTS l"), integer(0));
}

/// A sorted set `z` of many members, each score twice; members and scores in its order.
fn make_ranking(client: &mut Client) -> Vec<(String, usize)> {
    let ranking: Vec<(String, usize)> =
        (0..MANY).map(|number| (format!("m{number:05}"), number / 2)).collect();
    let mut pairs: Vec<&(String, usize)> = ranking.iter().collect();
    fastrand::Rng::with_seed(7).shuffle(&mut pairs);
    let pairs: Vec<String> =
        pairs.into_iter().flat_map(|(member, score)| [score.to_string(), member.clone()]).collect();
    assert_eq!(say(client, &["ZADD", "z"], &pairs), integer(MANY));
    ranking
}

#[test]
fn large_sorted_sets_are_found_by_rank_score_and_name() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let ranking = make_ranking(client);
    let names: Vec<String> = ranking.iter().map(|(member, _)| member.clone()).collect();
    assert_eq!(served.records(FIELDS), 2 * MANY);
    for rank in [0, 1, 17, MANY / 2 - 1, MANY / 2, MANY - 2, MANY - 1] {
        let name = &names[rank];
        assert_eq!(client.say(&format!("ZRANK z {name}")), integer(rank));
        assert_eq!(client.say(&format!("ZREVRANK z {name}")), integer(MANY - 1 - rank));
        let to = (rank + 3).min(MANY - 1);
        assert_eq!(words(client.say(&format!("ZRANGE z {rank} {to}"))), names[rank..=to]);
        let reversed: Vec<String> = names[MANY - 1 - to..=MANY - 1 - rank].iter().rev().cloned().collect();
        assert_eq!(words(client.say(&format!("ZREVRANGE z {rank} {to}"))), reversed);
    }
    assert!(words(client.say("ZRANGE z 0 -1")) == names);
    assert!(words(client.say("ZRANGE z -inf +inf BYSCORE")) == names);
    assert_eq!(client.say("ZCOUNT z (10 1000"), integer(1980));
    assert_eq!(words(client.say("ZRANGE z 100 (2000 BYSCORE LIMIT 3000 4")), names[3200..3204]);
    assert_eq!(client.say("ZRANGESTORE d z 1000 (2000 BYSCORE"), integer(2000));
    assert_eq!(words(client.say("ZRANGE d 0 0")), names[2000..2001]);
    assert_eq!(client.say("ZINTERCARD 2 z d"), integer(2000));
    assert_eq!(client.say("ZDIFFSTORE e 2 z d"), integer(3000));
    assert_eq!(client.say("ZUNIONSTORE u 2 d e"), integer(MANY));
    assert!(words(client.say("ZRANGE u 0 -1")) == names);
    assert_eq!(client.say("ZREMRANGEBYSCORE z -inf (500"), integer(1000));
    assert_eq!(client.say("ZREMRANGEBYRANK z -1000 -1"), integer(1000));
    assert!(words(client.say("ZRANGE z 0 -1")) == names[1000..4000]);
    assert_eq!(words(client.say("ZPOPMIN z 1500")).len(), 3000);
    assert_eq!(words(client.say("ZPOPMAX z 1500")).len(), 3000);
    assert_eq!(client.say("EXISTS z"), integer(0));

    let zeros: Vec<String> = names.iter().flat_map(|name| ["0".to_string(), name.clone()]).collect();
    assert_eq!(say(client, &["ZADD", "z"], &zeros), integer(MANY));
    assert_eq!(client.say("ZLEXCOUNT z [m01000 (m03000"), integer(2000));
    assert_eq!(words(client.say("ZRANGE z (m04000 [m01000 BYLEX REV LIMIT 999 2")), ["m03000", "m02999"]);
    assert_eq!(client.say("ZREMRANGEBYLEX z - (m02500"), integer(2500));
    assert_eq!(words(client.say("ZRANGE z 0 0")), ["m02500"]);
}

#[test]
fn zscan_meets_all_that_stay() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let ranking = make_ranking(client);
    let (mut seen, mut cursor, mut steps) = (BTreeMap::new(), "0".to_string(), 0);
    loop {
        let Value::Array(step) = client.say(&format!("ZSCAN z {cursor} COUNT 50")) else { panic!("no step") };
        for pair in words(step[1].clone()).chunks(2) {
            seen.insert(pair[0].clone(), pair[1].clone());
        }
        cursor = words(Value::Array(vec![step[0].clone()])).remove(0);
        steps += 1;
        if cursor == "0" {
            break;
        }
        // Others come and go.
        client.say(&format!("ZADD z 1 other{steps}"));
        client.say(&format!("ZREM z other{}", steps - 1));
    }
    assert!(steps >= MANY / 60, "{steps}");
    for (member, score) in &ranking {
        assert_eq!(seen.get(member), Some(&score.to_string()), "{member}");
    }
}

#[test]
fn zrandmember_picks_members() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let known: BTreeSet<String> = make_ranking(client).into_iter().map(|(member, _)| member).collect();
    for (count, expected) in [(1, 1), (100, 100), (3000, 3000), (9000, MANY)] {
        let picked: BTreeSet<String> =
            words(client.say(&format!("ZRANDMEMBER z {count}"))).into_iter().collect();
        assert_eq!(picked.len(), expected, "no two are the same");
        assert!(picked.is_subset(&known));
    }
    let pairs = words(client.say("ZRANDMEMBER z -500 WITHSCORES"));
    assert_eq!(pairs.len(), 1000);
    for pair in pairs.chunks(2) {
        let number: usize = pair[0][1..].parse().unwrap();
        assert_eq!(pair[1], (number / 2).to_string());
    }
    client.say("ZADD few 1 a 2 b 3 c");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for member in words(client.say("ZRANDMEMBER few -3000")) {
        *counts.entry(member).or_default() += 1;
    }
    // 1000 expected; 200 is more than seven times the standard deviation.
    assert!(counts.len() == 3 && counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
}
