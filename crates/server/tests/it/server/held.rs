//! What INFO says that the server holds.

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, ok};
use super::info::{info, number};

/// Waits until INFO says something else of `name`: some things are looked up each second.
fn until(client: &mut Client, section: &str, name: &str, is_so: impl Fn(u64) -> bool) {
    let start = Instant::now();
    loop {
        let found = number(client, section, name);
        if is_so(found) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{name}: {found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn scripts_and_their_interpreters_are_told() {
    let served = Served::start(2);
    let client = &mut served.connect();
    let memory = |client: &mut Client, name: &str| number(client, "memory", name);
    for name in ["used_memory_lua", "used_memory_scripts", "number_of_cached_scripts", "number_of_functions"]
    {
        assert_eq!(memory(client, name), 0, "{name}");
    }
    assert_eq!(client.call(&["EVAL", "return 1", "0"]), Value::Integer(1));
    let first = memory(client, "used_memory_lua");
    assert!((10_000..10_000_000).contains(&first), "{first}");
    assert_eq!(memory(client, "number_of_cached_scripts"), 1);
    // Another interpreter, of the other server thread.
    let other = &mut served.connect();
    other.call(&["EVAL", "return 1", "0"]);
    assert!(memory(client, "used_memory_lua") > first + first / 2);
    assert_eq!(memory(client, "used_memory_vm_eval"), memory(client, "used_memory_lua"));
    // A script that is compiled stays so.
    let before = memory(client, "used_memory_lua");
    let large = format!("return #'{}'", "x".repeat(2_000_000));
    assert_eq!(client.call(&["EVAL", &large, "0"]), Value::Integer(2_000_000));
    assert!(memory(client, "used_memory_lua") > before + 2_000_000);
    // Memory of an interpreter that is given up does not count.
    let fails = "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(10000000) .. i end";
    assert!(matches!(other.call(&["EVAL", fails, "0"]), Value::Error(_)));
    assert!(memory(client, "used_memory_lua") < 100 << 20);
}

#[test]
fn the_dataset_is_a_part_of_the_memory() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for _ in 0..50 {
        client.call(&["SET", "k", &"x".repeat(100_000)]);
        let share = info(client, "memory", "used_memory_dataset_perc").expect("a line");
        let share: f64 = share.trim_end_matches('%').parse().expect("a number");
        assert!((0.0..=100.0).contains(&share), "{share}");
    }
    let Value::Bulk(text) = client.say("INFO memory") else { panic!("a text") };
    let text = String::from_utf8(text).expect("a text");
    let of = |name: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.expect("a line").parse().expect("a number")
    };
    assert_eq!(of("used_memory_dataset") + of("used_memory_overhead"), of("used_memory"));
    assert!(of("used_memory_dataset") > 0);
    let Value::Array(stats) = client.say("MEMORY STATS") else { panic!("an array") };
    let after = |name: &str| {
        let at = stats.iter().position(|value| *value == bulk(name)).expect("it is told");
        stats[at + 1].clone()
    };
    let Value::Bulk(share) = after("dataset.percentage") else { panic!("{stats:?}") };
    let share: f64 = String::from_utf8(share).expect("a text").parse().expect("a number");
    assert!((0.0..=100.0).contains(&share), "{share}");
}

#[test]
fn channels_and_patterns_with_subscribers_are_counted() {
    let served = Served::start(2);
    let (client, subscriber) = (&mut served.connect(), &mut served.connect());
    let counts = |client: &mut Client| {
        ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"]
            .map(|name| number(client, "stats", name))
    };
    assert_eq!(counts(client), [0, 0, 0]);
    for line in ["SUBSCRIBE a", "SUBSCRIBE b", "PSUBSCRIBE a*", "SSUBSCRIBE s", "SUBSCRIBE c", "SUBSCRIBE c"]
    {
        subscriber.say(line);
    }
    assert_eq!(counts(client), [3, 1, 1]);
    subscriber.say("UNSUBSCRIBE a");
    assert_eq!(counts(client), [2, 1, 1]);
}

#[test]
fn what_connections_take_is_told() {
    const LARGE: usize = 4 << 20;
    let served = Served::start(2);
    let (client, other) = (&mut served.connect(), &mut served.connect());
    let value = "x".repeat(LARGE);
    until(client, "memory", "mem_clients_normal", |bytes| (500..LARGE as u64).contains(&bytes));
    // What is queued stays, the input and the reply go.
    assert_eq!(other.say("MULTI"), ok());
    assert_eq!(other.call(&["SET", "k", &value]), Value::Simple("QUEUED".into()));
    until(client, "memory", "mem_clients_normal", |bytes| bytes > LARGE as u64);
    until(client, "clients", "client_recent_max_input_buffer", |bytes| bytes >= LARGE as u64);
    assert_eq!(number(client, "clients", "client_recent_max_output_buffer") / LARGE as u64, 0);
    assert_eq!(other.say("EXEC"), Value::Array(vec![ok()]));
    // As a whole, where the answer is what a write has found.
    assert_eq!(other.say("GETSET k small"), bulk(&value));
    until(client, "clients", "client_recent_max_output_buffer", |bytes| bytes >= LARGE as u64);
    until(client, "memory", "mem_clients_normal", |bytes| bytes < LARGE as u64);
    // Lately is not for ever.
    until(client, "clients", "client_recent_max_output_buffer", |bytes| bytes < LARGE as u64);
    until(client, "clients", "client_recent_max_input_buffer", |bytes| bytes < LARGE as u64);
}
