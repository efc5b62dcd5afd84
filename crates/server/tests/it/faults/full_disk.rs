//! P8: what empties a server whose disk is full. The neighbours are T10's and P8's in the tree:
//! deletes one by one, ranges, batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn::storage::Storage;
use firn::storage::place::{Faulty, Memory};
use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, ok, serve};
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

/// Fills a disk of `bytes`, empties the database, and writes to it again: three times.
fn fill_and_empty(bytes: u64, count_min: usize) {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let settings = firn::Settings::for_memory(64 << 20);
    let db =
        firn::Db::builder("db").settings(settings).storage(Arc::new(faulty.clone())).open().expect("opened");
    faulty.limit_space(Some(bytes)).expect("limited");
    let db = Arc::new(db);
    let server = serve(&db, ServeSettings { threads: 1, http: Some(ANYWHERE), ..ServeSettings::default() });
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
            let is_told =
                info.contains("aof_last_write_status:err") && info.contains("write_refusal:the disk");
            let (status, why) = readiness();
            let is_unready = status == 503 && why.starts_with("no writes are taken: the disk is full");
            if is_told && is_unready && count > count_min {
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
