//! P8: what empties a server whose disk is full, and what is refused there though it brings little.
//! The neighbours are T10's and P8's in the tree: deletes one by one, ranges, batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn::storage::Storage;
use firn::storage::backend::{Faulty, Memory};
use firn_protocol::resp::Value;
use firn_server::{ServeSettings, Server};

use super::super::client::{Client, bulk, ok, serve};
use super::super::http::{ANYWHERE, get};

/// Sets keys of 100 KB in two databases, from this number on, until there is no room; the first
/// number that found none.
fn fill(client: &mut Client, from: usize) -> usize {
    let text = "x".repeat(100_000);
    for number in from..2000 {
        assert_eq!(client.say(if number % 2 == 0 { "SELECT 0" } else { "SELECT 15" }), ok());
        let key = format!("k{number}");
        if let Value::Error(error) = client.call(&["SET", &key, &text]) {
            assert!(error.starts_with("MISCONF"), "{error}");
            return number;
        }
    }
    panic!("the disk never filled");
}

/// A server whose disk has `bytes`.
fn on_disk_of(bytes: u64) -> (Faulty, Arc<firn::Db>, Server) {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let settings = firn::Settings::for_memory(64 << 20);
    let db =
        firn::Db::builder("db").settings(settings).storage(Arc::new(faulty.clone())).open().expect("opened");
    faulty.limit_space(Some(bytes)).expect("limited");
    let db = Arc::new(db);
    let server = serve(&db, ServeSettings { threads: 1, http: Some(ANYWHERE), ..ServeSettings::default() });
    (faulty, db, server)
}

/// Fills a disk of `bytes`, empties the database, and writes to it again: three times.
fn fill_and_empty(bytes: u64, count_min: usize) {
    let (faulty, db, server) = on_disk_of(bytes);
    let readiness = || get(server.http_address().expect("HTTP"), "/readyz");
    let client = &mut Client::connect(server.address());
    for round in 0..3 {
        let (mut count, start) = (0, Instant::now());
        let stats = || format!("round {round}: {:#?}, free: {:?}", db.stats(), faulty.free_bytes());
        // What waits to be written out, and what was emptied before, makes room for a while yet.
        loop {
            count = fill(client, count);
            let Value::Bulk(info) = client.say("INFO everything") else { panic!("no INFO") };
            let info = String::from_utf8_lossy(&info).into_owned();
            let is_reported =
                info.contains("aof_last_write_status:err") && info.contains("write_refusal:the disk");
            let (status, why) = readiness();
            let is_unready = status == 503 && why.starts_with("no writes are taken: the disk is full");
            if is_reported && is_unready && count > count_min {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{count} {why} {info} {}", stats());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(client.say("FLUSHALL"), ok(), "round {round}");
        assert_eq!(client.say("DBSIZE"), Value::Integer(0));
        let start = Instant::now();
        while client.call(&["SET", "after", &"y".repeat(100_000)]) != ok() || readiness().0 != 200 {
            assert!(start.elapsed() < Duration::from_secs(20), "{}", stats());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(client.say("FLUSHALL"), ok(), "round {round}");
    }
}

#[test]
fn p8_a_full_disk_is_emptied_by_flushall_and_written_to_again() {
    fill_and_empty(100 << 20, 300);
}

/// There is room for little beside what is kept for removals.
#[test]
fn p8_a_small_full_disk_is_emptied_by_flushall_and_written_to_again() {
    fill_and_empty(40 << 20, 100);
}

/// Fills it so that there is no room for keys of a few bytes either; the key at which that was.
fn fill_wholly(client: &mut Client, from: usize) -> usize {
    let mut number = from;
    for text in [100_000, 1000, 10].map(|bytes| "x".repeat(bytes)) {
        while client.call(&["SET", &format!("k{number}"), &text]) == ok() {
            number += 1;
            assert!(number < 20_000, "the disk never filled");
        }
    }
    number
}

/// A change of expiry brings a record and makes no room until the key is gone. What is refused
/// changes nothing, and a moment that is over deletes. A collection's earlier expiry is removed.
#[test]
fn p8_expiry_is_changed_on_a_full_disk_where_that_removes_something() {
    let (_faulty, _db, server) = on_disk_of(40 << 20);
    let client = &mut Client::connect(server.address());
    const TRIES: usize = 40;
    for number in 0..TRIES {
        assert_eq!(client.say(&format!("SET never{number} text")), ok());
        assert_eq!(client.say(&format!("SET late{number} text PXAT 5000000000000")), ok());
        assert_eq!(client.say(&format!("RPUSH list{number} a")), Value::Integer(1));
        assert_eq!(client.say(&format!("RPUSH latelist{number} a")), Value::Integer(1));
        assert_eq!(client.say(&format!("PEXPIREAT latelist{number} 5000000000000")), Value::Integer(1));
    }
    let mut count = 0;
    let refused = [
        "EXPIRE never# 1000",
        "PEXPIRE never# 1000000",
        "EXPIREAT never# 4000000000",
        "PEXPIREAT late# 4000000000000",
        "PERSIST late#",
        "GETEX late# PERSIST",
        "EXPIRE list# 1000",
    ];
    for command in refused {
        // Background work may make room for a few yet.
        let found = (0..TRIES).find_map(|number| {
            let words = command.replace('#', &number.to_string());
            let key = words.split(' ').nth(1).expect("a key");
            count = fill_wholly(client, count);
            let before = client.say(&format!("PEXPIRETIME {key}"));
            let Value::Error(error) = client.say(&words) else { return None };
            assert_eq!(client.say(&format!("PEXPIRETIME {key}")), before, "{words}");
            Some(error)
        });
        let error = found.unwrap_or_else(|| panic!("never refused: {command}"));
        assert!(error.starts_with("MISCONF the disk is full") && error.contains("delete records"), "{error}");
    }
    for command in ["PEXPIREAT latelist# 4000000000000", "PERSIST latelist#"] {
        count = fill_wholly(client, count);
        assert_eq!(client.say(&command.replace('#', "0")), Value::Integer(1), "{command}");
    }
    for (number, command) in ["EXPIRE never# 0", "PEXPIRE never# -1", "PEXPIREAT never# 1"].iter().enumerate()
    {
        count = fill_wholly(client, count);
        assert_eq!(client.say(&command.replace('#', &number.to_string())), Value::Integer(1), "{command}");
        assert_eq!(client.say(&format!("EXISTS never{number}")), Value::Integer(0), "{command}");
    }
    // Nothing was lost, and all goes on once there is room.
    for number in 3..TRIES {
        assert_eq!(client.say(&format!("GET never{number}")), bulk("text"));
        assert_eq!(client.say(&format!("GET late{number}")), bulk("text"));
        assert_eq!(client.say(&format!("LRANGE list{number} 0 -1")), Value::Array(vec![bulk("a")]));
    }
    for number in 0..count {
        assert_eq!(client.say(&format!("DEL k{number}")), Value::Integer(1));
    }
    let start = Instant::now();
    while client.say(&format!("PEXPIRE never{} 1000000", TRIES - 1)) != Value::Integer(1) {
        assert!(start.elapsed() < Duration::from_secs(20), "there is no room");
        std::thread::sleep(Duration::from_millis(20));
    }
}
