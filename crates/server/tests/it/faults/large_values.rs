//! S8: HMGET that names one value of 20 MB 128 times, of a client that does not read, took 1.4 to
//! 2 GiB. S14: 30 subscribers that do not read and a message of 100 MB took 1.9 GB, MONITOR beside
//! a SET of 100 MB 1.0 GB. Neighbours: MGET, HSET and HDEL of large fields, a GET of a long string,
//! a message in EXEC.

use std::io::Write;

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Served, bulk, ok, request};
use super::beside::{in_a_process_of_its_own, memory_beside};

#[test]
fn s8_large_values_are_read_as_they_are_sent() {
    in_a_process_of_its_own("large_values::s8_large_values_are_read_as_they_are_sent", read_as_sent);
}

fn read_as_sent() {
    let served = Served::start(1);
    let (client, other) = (&mut served.connect(), &mut served.connect());
    let value = "x".repeat(8 << 20);
    client.call(&["HSET", "h", "f", &value, "small", "s"]);
    client.call(&["SET", "k", &value]);
    let fields: Vec<&str> = ["HMGET", "h"].into_iter().chain(["f"; 127]).chain(["small"]).collect();
    let keys: Vec<&str> = ["MGET"].into_iter().chain(["k"; 127]).collect();
    for words in [&fields, &keys] {
        let mut reader = served.connect();
        let held = memory_beside(|| {
            reader.stream.write_all(&request(words)).expect("it is sent");
            // What comes later is answered after all that the first could do without being read.
            for _ in 0..50 {
                assert_eq!(other.say("HGET h small"), bulk("s"));
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        assert!(held < 500 << 20, "{} MiB are held for {}", held >> 20, words[0]);
    }
    // Whether a field is there is told without all of them in memory.
    let pairs: Vec<String> = (0..60).flat_map(|number| [format!("g{number}"), "y".to_owned()]).collect();
    let set: Vec<&str> = ["HSET", "h"].into_iter().chain(pairs.iter().map(String::as_str)).collect();
    assert_eq!(client.call(&set), Value::Integer(60));
    assert_eq!(client.say("HDEL h g0 g1 g1 none f"), Value::Integer(3));
    // Everything in its place, in more than one batch.
    client.call(&["HSET", "h", "f", &value[..3 << 20], "e", ""]);
    let Value::Array(found) = client.say("HMGET h small f none f e small") else { panic!("an array") };
    let bytes = |value: &Value| if let Value::Bulk(bytes) = value { Some(bytes.len()) } else { None };
    let lens: Vec<Option<usize>> = found.iter().map(bytes).collect();
    assert_eq!(lens, [Some(1), Some(3 << 20), None, Some(3 << 20), Some(0), Some(1)]);
    assert_eq!(client.say("GET k"), bulk(&value));
    assert_eq!(client.say("GETRANGE k 1 5000000"), bulk(&value[..5_000_000]));
}

#[test]
fn s14_a_message_beyond_the_limit_is_copied_for_nobody() {
    in_a_process_of_its_own(
        "large_values::s14_a_message_beyond_the_limit_is_copied_for_nobody",
        copied_for_nobody,
    );
}

fn copied_for_nobody() {
    let settings = ServeSettings { threads: 2, output_bytes_max: 1 << 20, ..ServeSettings::default() };
    let served = Served::with(settings);
    let mut subscribers: Vec<_> = (0..30).map(|_| served.connect()).collect();
    for subscriber in &mut subscribers {
        subscriber.say("SUBSCRIBE news");
    }
    let publisher = &mut served.connect();
    let (message, small) = ("x".repeat(30 << 20), "x".repeat(1000));
    let held = memory_beside(|| {
        assert_eq!(publisher.call(&["PUBLISH", "news", &message]), Value::Integer(30));
        assert_eq!(publisher.call(&["PUBLISH", "other", &message]), Value::Integer(0));
    });
    assert!(held < 400 << 20, "{} MiB are held for subscribers", held >> 20);
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.reply(), None, "it is closed");
    }
    // Below the limit everything comes.
    let subscriber = &mut served.connect();
    subscriber.say("SUBSCRIBE news");
    publisher.say("MULTI");
    publisher.call(&["PUBLISH", "news", &small]);
    assert_eq!(publisher.say("EXEC"), Value::Array(vec![Value::Integer(1)]));
    assert_eq!(subscriber.reply(), Some(Value::Array(vec![bulk("message"), bulk("news"), bulk(&small)])));
}

#[test]
fn s14_monitor_shows_the_front_of_long_commands() {
    let served = Served::start(1);
    let (monitor, client) = (&mut served.connect(), &mut served.connect());
    assert_eq!(monitor.say("MONITOR"), ok());
    let zeros = vec![0; 4 << 20];
    assert_eq!(client.call(&[b"SET", &b"k"[..], &zeros]), ok());
    let many: Vec<String> = (0..300_000).map(|number| format!("key-{number}")).collect();
    let exists: Vec<&str> = ["EXISTS"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(client.call(&exists), Value::Integer(0));
    for end in [" more bytes)\"", " more arguments)"] {
        let Some(Value::Simple(line)) = monitor.reply() else { panic!("a line") };
        assert!(line.ends_with(end) && line.len() < 2 << 20, "{} bytes", line.len());
    }
}
