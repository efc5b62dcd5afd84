//! A clock that was ahead and is set back: what was deleted meanwhile is not there again, though it
//! had expired by that clock.

use std::sync::Arc;

use firn::storage::ManualClock;
use firn::storage::backend::Memory;
use firn_protocol::resp::Value;
use firn_server::{ServeSettings, Server};

use super::client::{Client, bulk};

const RIGHT_MS: u64 = 1_000_000_000;

/// The commands that leave nothing at `a`, and what they answer where there was nothing.
const REMOVALS: [(&str, Value); 8] = [
    ("DEL a b", Value::Integer(0)),
    ("UNLINK a", Value::Integer(0)),
    ("GETDEL a", Value::Null),
    ("SINTERSTORE a b c", Value::Integer(0)),
    ("SUNIONSTORE a b", Value::Integer(0)),
    ("ZUNIONSTORE a 1 b", Value::Integer(0)),
    ("BITOP NOT a b", Value::Integer(0)),
    ("ZRANGESTORE a b 0 -1", Value::Integer(0)),
];

/// What stands at `a`: a string, one that lies apart from its key, a collection.
const WRITES: [&[&str]; 3] = [
    &["SET a value PX 8000"],
    &["SETRANGE a 100000 end", "PEXPIRE a 8000"],
    &["HSET a field value", "PEXPIRE a 8000"],
];

#[test]
fn what_was_removed_while_the_clock_was_ahead_is_gone() {
    // Within the minute for which the engine keeps what has expired, and after it.
    for ahead_ms in [10_000, 3_600_000] {
        for (removal, answer) in REMOVALS {
            for writes in WRITES {
                let what = format!("{writes:?}, {removal} {ahead_ms} ms ahead");
                let (served, clock) = serve();
                let client = &mut Client::connect(served.address());
                // No turn of the server's own removes what a command has found expired: only a
                // command can.
                assert_eq!(client.say("DEBUG SET-ACTIVE-EXPIRE 0"), Value::Simple("OK".into()), "{what}");
                for write in writes {
                    client.say(write);
                }
                clock.set_unix_ms(RIGHT_MS + ahead_ms);
                assert_eq!(client.say(removal), answer, "{what}");
                clock.set_unix_ms(RIGHT_MS);
                assert_eq!(client.say("EXISTS a"), Value::Integer(0), "{what}");
                assert_eq!(client.say("RPUSH a other"), Value::Integer(1), "{what}");
                served.stop().expect("it ends");
            }
        }
    }
}

/// The clock alone removes nothing: a key that was not deleted is there again. This shows that the
/// test above could fail.
#[test]
fn what_nobody_removed_is_there_again() {
    let (served, clock) = serve();
    let client = &mut Client::connect(served.address());
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    client.say("SET a value PX 8000");
    clock.set_unix_ms(RIGHT_MS + 3_600_000);
    assert_eq!(client.say("GET a"), Value::Null);
    clock.set_unix_ms(RIGHT_MS);
    assert_eq!(client.say("GET a"), bulk("value"));
    served.stop().expect("it ends");
}

/// What was over when it was set to be over stays so.
#[test]
fn who_lets_it_expire_at_once_removes_what_has_expired() {
    for ahead_ms in [10_000, 3_600_000] {
        for command in ["EXPIRE a 0", "PEXPIREAT a 1", "EXPIRE a -1 NX"] {
            let (served, clock) = serve();
            let client = &mut Client::connect(served.address());
            client.say("DEBUG SET-ACTIVE-EXPIRE 0");
            client.say("SET a value PX 8000");
            clock.set_unix_ms(RIGHT_MS + ahead_ms);
            assert_eq!(client.say(command), Value::Integer(0), "{command} {ahead_ms}");
            clock.set_unix_ms(RIGHT_MS);
            assert_eq!(client.say("EXISTS a"), Value::Integer(0), "{command} {ahead_ms}");
            served.stop().expect("it ends");
        }
    }
}

/// Of several keys each is told apart.
#[test]
fn those_of_several_keys_that_have_expired_are_removed() {
    for ahead_ms in [10_000, 3_600_000] {
        let (served, clock) = serve();
        let client = &mut Client::connect(served.address());
        client.say("DEBUG SET-ACTIVE-EXPIRE 0");
        client.say("MSET a 1 d 1");
        for key in ["b", "e", "left"] {
            client.say(&format!("SET {key} value PX 8000"));
        }
        clock.set_unix_ms(RIGHT_MS + ahead_ms);
        assert_eq!(client.say("DEL e d c b a"), Value::Integer(2), "{ahead_ms}");
        clock.set_unix_ms(RIGHT_MS);
        assert_eq!(client.say("EXISTS a b c d e"), Value::Integer(0), "{ahead_ms}");
        assert_eq!(client.say("EXISTS left"), Value::Integer(1), "nobody removed it");
        served.stop().expect("it ends");
    }
}

/// A transaction counts what is there for it, and what has expired is gone whatever it does
/// afterwards.
#[test]
fn a_transaction_removes_what_has_expired() {
    let ok = || Value::Simple("OK".into());
    let rounds = [
        (vec!["DEL a", "DEL a"], vec![Value::Integer(0), Value::Integer(0)]),
        (vec!["DEL a", "SET a new", "DEL a"], vec![Value::Integer(0), ok(), Value::Integer(1)]),
        (vec!["SET a new", "DEL a", "DEL a"], vec![ok(), Value::Integer(1), Value::Integer(0)]),
    ];
    for (commands, answers) in rounds {
        let (served, clock) = serve();
        let client = &mut Client::connect(served.address());
        client.say("SET a value PX 8000");
        clock.set_unix_ms(RIGHT_MS + 3_600_000);
        client.say("MULTI");
        for command in &commands {
            client.say(command);
        }
        assert_eq!(client.say("EXEC"), Value::Array(answers), "{commands:?}");
        clock.set_unix_ms(RIGHT_MS);
        assert_eq!(client.say("EXISTS a"), Value::Integer(0), "{commands:?}");
        served.stop().expect("it ends");
    }
}

/// A client that watched it while it was there hears of it. One that watched a key where nothing
/// stood any more does not.
#[test]
fn who_watched_it_while_it_was_there_hears_that_it_is_removed() {
    let watches = [(RIGHT_MS, false), (RIGHT_MS + 10_000, true)];
    for ((watched_ms, is_done), ahead_ms) in
        watches.into_iter().flat_map(|watch| [(watch, 10_000), (watch, 3_600_000)])
    {
        let (served, clock) = serve();
        let (watcher, other) =
            (&mut Client::connect(served.address()), &mut Client::connect(served.address()));
        other.say("DEBUG SET-ACTIVE-EXPIRE 0");
        other.say("SET a value PX 8000");
        other.say("SET b value EX 1000");
        clock.set_unix_ms(watched_ms);
        watcher.say("WATCH b a");
        clock.set_unix_ms(RIGHT_MS + ahead_ms);
        assert_eq!(other.say("DEL a"), Value::Integer(0));
        clock.set_unix_ms(RIGHT_MS);
        watcher.say("MULTI");
        watcher.say("EXISTS a");
        let expected = if is_done { Value::Array(vec![Value::Integer(0)]) } else { Value::Null };
        assert_eq!(watcher.say("EXEC"), expected, "watched at {watched_ms}, {ahead_ms} ms ahead");
        served.stop().expect("it ends");
    }
}

/// A server whose time is the test's, on a database in memory.
fn serve() -> (Server, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(RIGHT_MS));
    let db = firn::Db::builder("in memory").storage(Arc::new(Memory::new())).clock(Arc::clone(&clock) as _);
    let db = Arc::new(db.open().expect("opened"));
    let settings = ServeSettings { port: 0, threads: 1, ..ServeSettings::default() };
    let server = Server::start_with(&db, settings, Arc::clone(&clock) as _).expect("a server");
    (server, clock)
}
