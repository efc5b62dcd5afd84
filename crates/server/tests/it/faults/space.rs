//! P1: of 8 000 keys with values of 100 KB that were deleted one by one 823 MB stayed on disk of an
//! empty database.
//!
//! Neighbours: UNLINK, expiry, expiry of short strings that no command meets, values that nothing
//! overwrote, fields of a hash.

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served};

/// How many values, and their bytes.
const VALUES: (usize, usize) = (600, 100 << 10);

/// A segment of the log, and 8 MiB.
const FREE: u64 = 24 << 20;

/// Command and arguments before the value.
type Request = fn(usize) -> Vec<String>;

/// How keys go.
type Remove = fn(&mut Client, &str);

/// Writes by `request`, has them removed and waits for a minute at most.
fn assert_given_back(name: &str, (count, bytes): (usize, usize), request: Request, remove: Remove) {
    let served = Served::start(1);
    let client = &mut served.connect();
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..count {
        let mut words: Vec<Vec<u8>> = request(number).into_iter().map(String::into_bytes).collect();
        let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
        words.push(value);
        assert!(!matches!(client.call(&words), Value::Error(_)), "{name}");
    }
    // At rest it may be in tables before it goes.
    std::thread::sleep(Duration::from_secs(8));
    (0..count).for_each(|number| remove(client, &number.to_string()));
    let since = Instant::now();
    while served.disk_bytes() > FREE {
        let disk = served.disk_bytes();
        assert!(since.elapsed() < Duration::from_secs(60), "{name}: {disk} bytes of disk after a minute");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn set(number: usize) -> Vec<String> {
    vec!["SET".to_owned(), number.to_string()]
}

fn field(number: usize) -> Vec<String> {
    vec!["HSET".to_owned(), "hash".to_owned(), number.to_string()]
}

#[test]
#[ignore = "long form: cargo x faults"]
fn p1_what_clients_remove_is_given_back_long() {
    let ways: [(&str, Request, Remove); 5] = [
        ("DEL", set, |client, key| drop(client.call(&["DEL", key]))),
        ("UNLINK", set, |client, key| drop(client.call(&["UNLINK", key]))),
        ("PEXPIRE", set, |client, key| drop(client.call(&["PEXPIRE", key, "1"]))),
        ("SET to nothing", set, |client, key| drop(client.call(&["SET", key, ""]))),
        ("HDEL", field, |client, key| drop(client.call(&["HDEL", "hash", key]))),
    ];
    std::thread::scope(|scope| {
        for (name, request, remove) in ways {
            scope.spawn(move || assert_given_back(name, VALUES, request, remove));
        }
    });
}

/// What is longer has parts, which the server removes once it has expired.
#[test]
#[ignore = "long form: cargo x faults"]
fn p1_short_strings_that_expire_unmet_are_given_back_long() {
    let request = |number: usize| vec!["PSETEX".to_owned(), number.to_string(), "6000".to_owned()];
    assert_given_back("PSETEX", (20_000, 5000), request, |_, _| {});
}
