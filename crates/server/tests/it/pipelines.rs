use std::io::Write;

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::client::{Served, bulk, error, ok, request};

#[test]
fn replies_come_in_the_order_of_requests() {
    let served = Served::start(1);
    let mut client = served.connect();
    let mut rng = Rng(7);
    let mut model = std::collections::BTreeMap::<u64, u64>::new();
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for number in 0..20_000 {
        let key = rng.next() % 50;
        let name = format!("k{key}");
        match rng.next() % 8 {
            0..4 => {
                bytes.extend(request(&["SET", &name, &number.to_string()]));
                model.insert(key, number);
                expected.push(ok());
            }
            4..6 => {
                bytes.extend(request(&["GET", &name]));
                expected.push(model.get(&key).map_or(Value::Null, |value| bulk(&value.to_string())));
            }
            6 => {
                bytes.extend(request(&["DEL", &name]));
                expected.push(Value::Integer(i64::from(model.remove(&key).is_some())));
            }
            _ => {
                bytes.extend(request(&["GET"]));
                expected.push(error("ERR wrong number of arguments for 'get' command"));
            }
        }
    }
    let mut writer = client.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for piece in bytes.chunks(3331) {
                writer.write_all(piece).unwrap();
            }
        });
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(client.reply(), Some(expected), "request {index}, seed 7");
        }
    });
}

#[test]
fn who_does_not_read_is_not_served_and_disturbs_nobody() {
    let settings = ServeSettings { unread_bytes_max: 64 << 10, ..ServeSettings::default() };
    let served = Served::with(settings);
    let (mut deaf, mut other) = (served.connect(), served.connect());
    let value = "x".repeat(100_000);
    assert_eq!(deaf.call(&["SET", "k", &value]), ok());
    let count = 2000;
    let requests = request(&["GET", "k"]).repeat(count);
    deaf.stream.write_all(&requests).unwrap();
    deaf.stream.write_all(&request(&["SET", "last", "done"])).unwrap();
    for _ in 0..100 {
        assert_eq!(other.say("PING"), Value::Simple("PONG".into()));
    }
    // 200 MB of replies fit into no socket: the last request waits.
    assert_eq!(other.say("GET last"), Value::Null);
    for _ in 0..count {
        assert_eq!(deaf.reply(), Some(bulk(&value)));
    }
    assert_eq!(deaf.reply(), Some(ok()));
    assert_eq!(other.say("GET last"), bulk("done"));
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let served = Served::start(1);
    let mut client = served.connect();
    for byte in request(&["SET", "key", "a value"]) {
        client.stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.reply(), Some(ok()));
    assert_eq!(client.say("GET key"), bulk("a value"));
}

#[test]
fn large_values_pass() {
    let served = Served::start(1);
    let mut client = served.connect();
    let value = "v".repeat(20 << 20);
    assert_eq!(client.call(&["SET", "large", &value]), ok());
    assert_eq!(client.call(&["GET", "large"]), bulk(&value));
    assert_eq!(client.say("STRLEN large"), Value::Integer(20 << 20));
}

/// A generator that needs nothing.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}
