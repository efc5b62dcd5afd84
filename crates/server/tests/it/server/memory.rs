use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, error, ok};

fn usage(client: &mut Client, request: &str) -> i64 {
    match client.say(&format!("MEMORY USAGE {request}")) {
        Value::Integer(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn usage_follows_the_size_of_values() {
    let served = Served::start(2);
    let client = &mut served.connect();
    assert_eq!(client.say("MEMORY USAGE nothing"), Value::Null);
    client.say("SET small x");
    client.call(&["SET", "middle", &"x".repeat(10_000)]);
    client.call(&["SET", "large", &"x".repeat(300_000)]);
    assert!((6..100).contains(&usage(client, "small")));
    assert!((10_000..10_100).contains(&usage(client, "middle")));
    // Sampled fragments stand for all of them.
    for samples in ["", " SAMPLES 1", " SAMPLES 0"] {
        let bytes = usage(client, &format!("large{samples}"));
        assert!((300_000..330_000).contains(&bytes), "{samples}: {bytes}");
    }
    assert_eq!(client.say("MEMORY USAGE small SAMPLES"), error("ERR syntax error"));
    assert_eq!(client.say("MEMORY USAGE small SAMPLES -1"), error("ERR syntax error"));
    let text = "ERR value is not an integer or out of range";
    assert_eq!(client.say("MEMORY USAGE small SAMPLES x"), error(text));
}

#[test]
fn memory_is_told_in_words_and_numbers() {
    let served = Served::start(1);
    let client = &mut served.connect();
    assert_eq!(client.say("MEMORY PURGE"), ok());
    let Value::Array(stats) = client.say("MEMORY STATS") else { panic!("an array") };
    let at = stats.iter().position(|value| *value == bulk("total.allocated")).expect("it is told");
    assert!(matches!(stats[at + 1], Value::Integer(1_000_000..)), "{stats:?}");
    for request in ["MEMORY DOCTOR", "MEMORY MALLOC-STATS"] {
        assert!(matches!(client.say(request), Value::Bulk(text) if text.len() > 40), "{request}");
    }
}
