use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Served, error, ok};
use super::info::{info, number};

#[test]
fn saving_is_told_when_it_was() {
    let served = Served::start(2);
    let client = &mut served.connect();
    let Value::Integer(started) = client.say("LASTSAVE") else { panic!("a number") };
    assert_eq!(client.say("SET k v"), ok());
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(client.say("SAVE"), ok());
    let Value::Integer(saved) = client.say("LASTSAVE") else { panic!("a number") };
    assert!(saved > started && saved < started + 60, "{started} {saved}");
    assert_eq!(client.say("BGSAVE"), Value::Simple("Background saving started".into()));
    let start = Instant::now();
    while number(client, "persistence", "rdb_saves") < 2 {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(number(client, "persistence", "rdb_bgsave_in_progress"), 0);
    assert_eq!(client.say("BGSAVE x"), error("ERR syntax error"));
    let text = "Background append only file rewriting started";
    assert_eq!(client.say("BGREWRITEAOF"), Value::Simple(text.into()));
    while number(client, "persistence", "aof_rewrite_in_progress") == 1 {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(info(client, "persistence", "rdb_last_bgsave_status").as_deref(), Some("ok"));
    assert_eq!(info(client, "persistence", "loading").as_deref(), Some("0"));
    assert_eq!(client.say("DEBUG RELOAD"), ok());
    assert_eq!(client.say("GET k"), Value::Bulk(b"v".to_vec()));
}

#[test]
fn shutdown_ends_every_thread_and_keeps_the_data() {
    for request in ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN SAVE NOW FORCE"] {
        let served = Served::start(3);
        let (mut client, mut others) = (served.connect(), [served.connect(), served.connect()]);
        client.say("SET k v");
        for (bad, text) in [
            ("SHUTDOWN ABORT", "ERR No shutdown in progress."),
            ("SHUTDOWN ABORT NOW", "ERR syntax error"),
            ("SHUTDOWN SAVE NOSAVE", "ERR syntax error"),
            ("SHUTDOWN foo", "ERR syntax error"),
        ] {
            assert_eq!(client.say(bad), error(text), "{bad}");
        }
        others.iter_mut().for_each(|other| drop(other.say("PING")));
        let start = Instant::now();
        std::io::Write::write_all(&mut client.stream, format!("{request}\r\n").as_bytes()).unwrap();
        assert_eq!(client.reply(), None);
        served.server.wait().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        others.iter_mut().for_each(|other| assert_eq!(other.reply(), None));
        let served = served.restart();
        assert_eq!(served.connect().say("GET k"), Value::Bulk(b"v".to_vec()));
    }
}

#[test]
fn debug_has_what_tests_need() {
    let served = Served::start(2);
    let client = &mut served.connect();
    for request in [
        "DEBUG SLEEP 0",
        "DEBUG RELOAD",
        "DEBUG LOADAOF",
        "DEBUG STRINGMATCH-LEN 10 a*b",
        "DEBUG QUICKLIST-PACKED-THRESHOLD 10",
        "DEBUG SET-DISABLE-DENY-SCRIPTS 1",
        "DEBUG CHANGE-REPL-ID",
    ] {
        assert_eq!(client.say(request), ok(), "{request}");
    }
    let unknown = "ERR unknown subcommand or wrong number of arguments for 'foo'. Try DEBUG HELP.";
    assert_eq!(client.say("DEBUG foo"), error(unknown));
    assert_eq!(client.say("DEBUG OBJECT nothing"), error("ERR no such key"));
    client.say("SET k v");
    let Value::Simple(text) = client.say("DEBUG OBJECT k") else { panic!("a line") };
    assert!(text.contains("refcount:1 encoding:raw serializedlength:"), "{text}");
    // What has expired stays until a command asks, and is not found.
    let long = "x".repeat(100_000);
    assert_eq!(client.say("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
    client.call(&["SET", "long", &long, "PX", "1"]);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!((client.say("EXISTS long"), served.records("expiry")), (Value::Integer(0), 1));
    assert_eq!(client.say("DEBUG SET-ACTIVE-EXPIRE 1"), ok());
    let start = Instant::now();
    while served.records("expiry") > 0 {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(number(client, "stats", "expired_keys"), 1);
}
