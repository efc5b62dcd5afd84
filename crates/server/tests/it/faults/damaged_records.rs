//! S21: one record of `expiry` or `purges` that cannot be read ended expiry and purges for good,
//! without a word. Neighbours:
//! - more of them than one round reads
//! - the record of the expired key, also of one that a command found expired
//! - unreadable parts, an unreadable block of `expiry`, counts of keys

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use firn_format::datatype::{DatabaseId, UserKey};
use firn_protocol::resp::Value;

use super::super::client::{Client, Served, ok};

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as u64
}

/// The engine's key of `user` in the first database.
fn key_of(user: &str) -> Vec<u8> {
    let mut key = Vec::new();
    UserKey::of(DatabaseId::FIRST, user.as_bytes()).expect("it is short").encode(&mut key);
    key
}

#[track_caller]
fn comes_to(served: &Served, keyspace: &str, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while served.records(keyspace) != count {
        assert!(Instant::now() < deadline, "{keyspace} has {} records", served.records(keyspace));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn is_counted(client: &mut Client, count: usize) {
    let Value::Bulk(text) = client.say("INFO") else { panic!("INFO is refused") };
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix("damaged_records:"));
    assert_eq!(line, Some(count.to_string().as_str()));
}

/// A round reads 128 of them, and those of the last minute are read again ten times a second.
#[test]
fn s21_damaged_records_of_expiry_are_passed_over() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let first_ms = now_ms() - 1000;
    for number in 0..200_u64 {
        served.put_record("expiry", &(first_ms + number).to_be_bytes(), b"no generation");
    }
    client.say("HSET h f v");
    assert_eq!(client.say("PEXPIRE h 1"), Value::Integer(1));
    comes_to(&served, "fields", 0);
    std::thread::sleep(Duration::from_millis(300));
    is_counted(client, 200);
    assert_eq!(served.records("expiry"), 200, "they stay for those who look into it");
}

#[test]
fn s21_a_damaged_key_does_not_keep_others_from_expiring() {
    let served = Served::start(1);
    let client = &mut served.connect();
    assert_eq!(client.say("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
    for key in ["a", "b", "s", "t"] {
        client.call(&if key < "s" { vec!["HSET", key, "f", "v"] } else { vec!["SET", key, "v"] });
        client.call(&["PEXPIRE", key, "1"]);
    }
    std::thread::sleep(Duration::from_millis(5));
    // The strings are noted, and removed for that.
    assert_eq!(client.say("EXISTS s t"), Value::Integer(0));
    served.put_record("keys", &key_of("a"), b"\xff");
    served.put_record("keys", &key_of("s"), b"\xff");
    assert_eq!(client.say("DEBUG SET-ACTIVE-EXPIRE 1"), ok());
    comes_to(&served, "keys", 2);
    comes_to(&served, "fields", 1);
    // INFO counts keys, and comes upon the same two.
    is_counted(client, 2);
    let Value::Bulk(text) = client.say("INFO keyspace") else { panic!("INFO is refused") };
    assert_eq!(text, b"# Keyspace\r\n", "no key is left that can be read");
}

#[test]
fn s21_damaged_purges_are_passed_over() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for number in 0..100_u8 {
        served.put_record("purges", &[0, 0, 0, 0, number], b"what is this?");
    }
    for key in 0..10 {
        client.say(&format!("HSET h{key} f v"));
    }
    // The start reads them all, before what is deleted later.
    let served = served.restart();
    let client = &mut served.connect();
    for key in 0..10 {
        assert_eq!(client.say(&format!("DEL h{key}")), Value::Integer(1));
    }
    comes_to(&served, "fields", 0);
    comes_to(&served, "purges", 100);
    is_counted(client, 100);
}

/// A table in the folder that holds `bytes`, and where: other files hold them too, but not at the
/// front of a key.
fn damage(dir: &Path, bytes: &[u8]) {
    let mut damaged = 0;
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("a file").path();
        // Small keyspaces may share a file.
        if path.extension().is_none_or(|extension| extension != "table" && extension != "tables") {
            continue;
        }
        let content = fs::read(&path).expect("a file");
        if let Some(at) = content.windows(bytes.len()).position(|window| window == bytes) {
            let file = fs::OpenOptions::new().write(true).open(&path).expect("a file");
            file.write_all_at(b"?", at as u64 + 7).expect("it is written");
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1, "a table holds it");
}

#[test]
fn s21_what_fails_again_and_again_holds_up_nothing_else() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let at_ms = now_ms() + 1500;
    for key in ["a", "b"] {
        client.say(&format!("HSET {key} f v"));
    }
    client.say(&format!("PEXPIREAT a {at_ms}"));
    served.flush(false);
    let served = served.restart_after(|dir| damage(dir, &at_ms.to_be_bytes()));
    let client = &mut served.connect();
    std::thread::sleep(Duration::from_millis((at_ms + 300).saturating_sub(now_ms())));
    // Nothing that is due can be read by now.
    assert_eq!(client.say("DEL b"), Value::Integer(1));
    client.say("SET s v PX 1");
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(client.say("GET s"), Value::Null);
    comes_to(&served, "fields", 1);
    comes_to(&served, "keys", 1);
}

#[test]
fn s21_parts_that_cannot_be_read_are_purged() {
    let served = Served::start(1);
    served.connect().say("HSET a field-with-a-name value-with-a-name");
    served.flush(false);
    let served = served.restart_after(|dir| damage(dir, b"value-with-a-name"));
    let client = &mut served.connect();
    assert!(matches!(client.say("HGET a field-with-a-name"), Value::Error(_)), "it is damaged");
    assert_eq!(client.say("DEL a"), Value::Integer(1));
    comes_to(&served, "purges", 0);
    is_counted(client, 0);
}
