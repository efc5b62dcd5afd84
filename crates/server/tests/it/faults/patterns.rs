//! S6: `PSUBSCRIBE *aaa…ab` of 25 KB and `PUBLISH aaa…a` of 50 KB stood all threads for 11 s. KEYS
//! and SCAN with patterns of 16 KB on keys of 65 KB stood one. Neighbours: HSCAN, PUBSUB CHANNELS,
//! pieces with `?` and sets, many patterns at once, patterns of a user's rules.

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Served, error, ok};
use super::beside::{in_three, serves_others};

const KEY_BYTES: usize = 65_000;
const PATTERN_BYTES: usize = 4_000;

/// More than any command here takes, which is a tenth of a second at most. With a step for each
/// pair of bytes it would take some seconds more than this.
const TOOK_MAX: Duration = Duration::from_secs(2);

/// What is complained of while `act` runs: another client waits, or the command takes as long as
/// the product of the bytes.
fn is_quick(served: &Served, what: &str, act: impl FnOnce()) -> Option<String> {
    let since = Instant::now();
    let complaint = serves_others(served, what, act);
    let took = since.elapsed();
    (took > TOOK_MAX).then(|| format!("{what} took {took:?}\n")).or(complaint)
}

#[test]
fn s6_patterns_do_not_hold_others() {
    in_three(look_for_keys);
}

/// What is complained of while keys and fields are looked for.
fn look_for_keys() -> String {
    let served = Served::start(1);
    let client = &mut served.connect();
    for number in 0..8 {
        let name = format!("{}{number}", "a".repeat(KEY_BYTES));
        assert_eq!(client.call(&["SET", &name, "x"]), ok());
        assert_eq!(client.call(&["HSET", "h", &name, "x"]), Value::Integer(1));
    }
    // A small hash is looked at as a whole.
    let plain = format!("*{}b", "a".repeat(PATTERN_BYTES));
    let sets = format!("*{}[^a0-9]*", "a?".repeat(PATTERN_BYTES / 2));
    for pattern in [&plain, &sets] {
        let calls: [&[&str]; 3] = [
            &["KEYS", pattern],
            &["SCAN", "0", "MATCH", pattern, "COUNT", "100"],
            &["HSCAN", "h", "0", "MATCH", pattern],
        ];
        for words in calls {
            let complaint = is_quick(&served, words[0], || {
                let found = match client.call(words) {
                    Value::Array(mut step) if words[0] != "KEYS" => step.pop().expect("what is found"),
                    found => found,
                };
                assert_eq!(found, Value::Array(Vec::new()), "{}", words[0]);
            });
            if let Some(complaint) = complaint {
                return complaint;
            }
        }
    }
    String::new()
}

#[test]
fn s6_messages_are_compared_with_long_patterns_in_turns() {
    in_three(publish);
}

/// What is complained of while messages are published.
fn publish() -> String {
    let served = Served::start(1);
    let (subscriber, publisher) = (&mut served.connect(), &mut served.connect());
    for number in 0..8 {
        let pattern = format!("*{}b{number}", "a".repeat(PATTERN_BYTES));
        assert!(matches!(subscriber.call(&["PSUBSCRIBE", &pattern]), Value::Array(_)));
    }
    subscriber.call(&["PSUBSCRIBE", "*a*"]);
    let channel = "a".repeat(50_000);
    let published = is_quick(&served, "PUBLISH", || {
        assert_eq!(publisher.call(&["PUBLISH", &channel, "m"]), Value::Integer(1));
    });
    assert!(matches!(subscriber.reply(), Some(Value::Array(message)) if message.len() == 4));
    // As long as in the report: refused.
    let long = format!("*{}b", "a".repeat(25_000));
    let refused = error("ERR a pattern of 25002 bytes is longer than the longest, 4096 bytes");
    assert_eq!(subscriber.call(&["PSUBSCRIBE", &long]), refused);
    assert!(matches!(publisher.call(&["ACL", "SETUSER", "u", &format!("~{long}")]), Value::Error(_)));
    assert!(matches!(subscriber.call(&["SUBSCRIBE", &channel]), Value::Array(_)));
    let listed = is_quick(&served, "PUBSUB CHANNELS", || {
        assert_eq!(publisher.call(&["PUBSUB", "CHANNELS", &long]), Value::Array(Vec::new()));
    });
    published.into_iter().chain(listed).collect()
}
