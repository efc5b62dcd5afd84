use std::io::Write;

use firn_protocol::resp::Value;

use super::client::{Client, IS_ORDERED, Served, bulk, error, leave_out, ok, request};

/// What confirms a subscription, as version 2 has it.
fn confirmation(kind: &str, name: &str, count: i64) -> Value {
    Value::Array(vec![bulk(kind), bulk(name), Value::Integer(count)])
}

fn message(channel: &str, payload: &str) -> Value {
    Value::Array(vec![bulk("message"), bulk(channel), bulk(payload)])
}

/// What the client is sent next without having asked.
#[track_caller]
fn next(client: &mut Client) -> Value {
    client.reply().expect("a message")
}

#[test]
fn messages_reach_who_is_subscribed_on_any_thread() {
    let served = Served::start(2);
    let mut subscribers: Vec<Client> = (0..4).map(|_| served.connect()).collect();
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.say("SUBSCRIBE news"), confirmation("subscribe", "news", 1));
        assert_eq!(subscriber.say("PSUBSCRIBE n?w*"), confirmation("psubscribe", "n?w*", 2));
    }
    let publisher = &mut served.connect();
    assert_eq!(publisher.say("PUBLISH news one"), Value::Integer(8));
    assert_eq!(publisher.say("PUBLISH now two"), Value::Integer(4));
    assert_eq!(publisher.say("PUBLISH other three"), Value::Integer(0));
    let by_pattern = |channel: &str, payload: &str| {
        Value::Array(vec![bulk("pmessage"), bulk("n?w*"), bulk(channel), bulk(payload)])
    };
    for subscriber in &mut subscribers {
        assert_eq!(next(subscriber), message("news", "one"));
        assert_eq!(next(subscriber), by_pattern("news", "one"));
        assert_eq!(next(subscriber), by_pattern("now", "two"));
    }
    assert_eq!(publisher.say("PUBSUB NUMSUB news other"), {
        Value::Array(vec![bulk("news"), Value::Integer(4), bulk("other"), Value::Integer(0)])
    });
    assert_eq!(publisher.say("PUBSUB NUMPAT"), Value::Integer(1));
    assert_eq!(publisher.say("PUBSUB CHANNELS n*"), Value::Array(vec![bulk("news")]));
    subscribers.clear();
    // Connections that are gone are noticed as their server threads come to it.
    for _ in 0..500 {
        if publisher.say("PUBLISH news four") == Value::Integer(0) {
            assert_eq!(publisher.say("PUBSUB NUMPAT"), Value::Integer(0));
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("subscriptions outlive their connections");
}

#[test]
fn who_is_subscribed_may_say_little() {
    let served = Served::start(1);
    let client = &mut served.connect();
    assert_eq!(client.say("UNSUBSCRIBE"), {
        Value::Array(vec![bulk("unsubscribe"), Value::Null, Value::Integer(0)])
    });
    assert_eq!(client.say("SUBSCRIBE a b"), confirmation("subscribe", "a", 1));
    assert_eq!(next(client), confirmation("subscribe", "b", 2));
    assert_eq!(client.say("SUBSCRIBE a"), confirmation("subscribe", "a", 2));
    assert_eq!(
        client.say("GET k"),
        error(
            "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )
    );
    assert_eq!(client.say("PING"), Value::Array(vec![bulk("pong"), bulk("")]));
    assert_eq!(client.say("SSUBSCRIBE s"), confirmation("ssubscribe", "s", 1));
    assert_eq!(client.say("UNSUBSCRIBE"), confirmation("unsubscribe", "a", 1));
    assert_eq!(next(client), confirmation("unsubscribe", "b", 0));
    assert_eq!(client.say("SUNSUBSCRIBE s"), confirmation("sunsubscribe", "s", 0));
    assert_eq!(client.say("PING"), Value::Simple("PONG".into()));
}

#[test]
fn messages_of_a_transaction_are_sent_when_it_is_written() {
    let served = Served::start(2);
    let (subscriber, publisher) = (&mut served.connect(), &mut served.connect());
    subscriber.say("SUBSCRIBE c");
    publisher.say("MULTI");
    publisher.say("PUBLISH c first");
    publisher.say("SET k 1");
    publisher.say("PUBLISH c second");
    publisher.say("EXEC");
    publisher.say("MULTI");
    publisher.say("PUBLISH c never");
    publisher.say("DISCARD");
    publisher.say("PUBLISH c last");
    for payload in ["first", "second", "last"] {
        assert_eq!(next(subscriber), message("c", payload));
    }
}

/// Each publisher's messages arrive in its order, and all of them.
#[test]
fn messages_of_many_publishers_keep_their_orders() {
    const MESSAGES: usize = 500;
    let served = Served::start(2);
    let subscriber = &mut served.connect();
    subscriber.say("SUBSCRIBE c");
    std::thread::scope(|scope| {
        for publisher in 0..4 {
            let served = &served;
            scope.spawn(move || {
                let mut client = served.connect();
                for number in 0..MESSAGES {
                    client.say(&format!("PUBLISH c {publisher}:{number}"));
                }
            });
        }
        let mut seen = [0; 4];
        for _ in 0..4 * MESSAGES {
            let Value::Array(parts) = next(subscriber) else { panic!("a message") };
            let Value::Bulk(payload) = &parts[2] else { panic!("{parts:?}") };
            let payload = std::str::from_utf8(payload).expect("digits");
            let (publisher, number) = payload.split_once(':').expect("two numbers");
            let publisher: usize = publisher.parse().expect("a number");
            assert_eq!(number, seen[publisher].to_string(), "publisher {publisher}");
            seen[publisher] += 1;
        }
        assert_eq!(seen, [MESSAGES; 4]);
    });
}

/// Messages on both sides of the size from which on they are shared, to clients of all kinds, each
/// as it was published.
#[test]
fn large_messages_come_whole_and_in_order_to_clients_of_all_kinds() {
    if !IS_ORDERED {
        return leave_out("large_messages_come_whole_and_in_order_to_clients_of_all_kinds");
    }
    let served = Served::start(2);
    let subscribe = |line: &str, protocol: u32| {
        let mut client = served.connect();
        client.say(&format!("HELLO {protocol}"));
        client.say(line);
        client
    };
    let lines = [("SUBSCRIBE c", "message"), ("PSUBSCRIBE ?", "pmessage"), ("SSUBSCRIBE c", "smessage")];
    let pairs = lines.iter().flat_map(|(line, word)| [(line, word, 2), (line, word, 3)]);
    let mut subscribers: Vec<(Client, &str)> =
        pairs.map(|(line, word, protocol)| (subscribe(line, protocol), *word)).collect();
    let publisher = &mut served.connect();
    let lens = [(16 << 10) - 1, 16 << 10, 1, 3 << 20, 0, (16 << 10) + 1, 700_000, 5];
    let message = |index: usize| index.to_string().repeat(lens[index]);
    for index in 0..lens.len() {
        assert_eq!(publisher.call(&["PUBLISH", "c", &message(index)]), Value::Integer(4));
        assert_eq!(publisher.call(&["SPUBLISH", "c", &message(index)]), Value::Integer(2));
    }
    for (subscriber, word) in &mut subscribers {
        for index in 0..lens.len() {
            let (Some(Value::Array(parts)) | Some(Value::Push(parts))) = subscriber.reply() else {
                panic!("a message")
            };
            let is_same = parts.last() == Some(&bulk(&message(index)));
            assert!(parts[0] == bulk(word) && is_same, "message {index} of {word}");
        }
    }
    // A message that comes while a long reply is read stands behind it.
    let (subscriber, _) = &mut subscribers[1];
    assert_eq!(publisher.call(&["HSET", "h", "f", &"y".repeat(8 << 20)]), Value::Integer(1));
    let fields: Vec<&str> = ["HMGET", "h"].into_iter().chain(["f"; 8]).collect();
    subscriber.stream.write_all(&request(&fields)).expect("it is sent");
    for index in 0..3 {
        assert_eq!(publisher.call(&["PUBLISH", "c", &message(index)]), Value::Integer(4));
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        match subscriber.reply() {
            Some(Value::Push(parts)) => {
                let index = (0..3).find(|index| parts.last() == Some(&bulk(&message(*index))));
                seen.push(index.expect("a whole message").to_string());
            }
            Some(Value::Array(fields)) => {
                assert!(fields.iter().all(|field| *field == bulk(&"y".repeat(8 << 20))), "a whole reply");
            }
            other => panic!("{:?}", other.map(|_| "something else")),
        }
    }
    assert_eq!(seen, ["0", "1", "2"]);
    assert_eq!(publisher.say("SET k v"), ok());
}
