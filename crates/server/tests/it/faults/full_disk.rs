//! P8: what empties a server whose disk is full. The neighbours are T10's and P8's in the tree:
//! deletes one by one, ranges, batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn::storage::place::{Faulty, Memory};
use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, ok, serve};

/// Sets keys of 100 KB in two databases until there is no room; how many.
fn fill(client: &mut Client) -> usize {
    let text = "x".repeat(100_000);
    for number in 0..2000 {
        assert_eq!(client.say(if number % 2 == 0 { "SELECT 0" } else { "SELECT 15" }), ok());
        let key = format!("k{number}");
        if let Value::Error(error) = client.call(&["SET", &key, &text]) {
            assert!(error.starts_with("MISCONF"), "{error}");
            return number;
        }
    }
    panic!("the disk never filled");
}

#[test]
fn p8_flushall_is_taken_on_a_full_disk() {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let settings = firn::Settings::for_memory(64 << 20);
    let db = firn::Db::builder("db").settings(settings).storage(Arc::new(faulty.clone())).open().unwrap();
    faulty.limit_space(Some(100 << 20)).unwrap();
    let server = serve(&Arc::new(db), ServeSettings { threads: 1, ..ServeSettings::default() });
    let client = &mut Client::connect(server.address());
    let count = fill(client);
    assert!(count > 100, "{count}");
    // What compactions write meanwhile takes what is kept for removals, for a while.
    let start = Instant::now();
    while client.say("FLUSHALL") != ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "it is refused");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.say("DBSIZE"), Value::Integer(0));
}
