use std::sync::atomic::{AtomicBool, Ordering};

use firn_protocol::resp::Value;

use super::client::{Served, bulk, error, ok};

fn queued() -> Value {
    Value::Simple("QUEUED".into())
}

#[test]
fn exec_runs_what_was_queued_and_reads_its_own_writes() {
    let served = Served::start(2);
    let client = &mut served.connect();
    assert_eq!(client.say("EXEC"), error("ERR EXEC without MULTI"));
    assert_eq!(client.say("DISCARD"), error("ERR DISCARD without MULTI"));
    assert_eq!(client.say("MULTI"), ok());
    assert_eq!(client.say("MULTI"), error("ERR MULTI calls can not be nested"));
    for line in ["SET a 1", "INCR a", "GET a", "SELECT 3", "SET a three", "SELECT 0", "DEL a", "EXISTS a"] {
        assert_eq!(client.say(line), queued());
    }
    let replies =
        [ok(), Value::Integer(2), bulk("2"), ok(), ok(), ok(), Value::Integer(1), Value::Integer(0)];
    assert_eq!(client.say("EXEC"), Value::Array(replies.to_vec()));
    assert_eq!(client.say("EXISTS a"), Value::Integer(0));
    client.say("SELECT 3");
    assert_eq!(client.say("GET a"), bulk("three"));
}

#[test]
fn a_command_that_fails_inside_exec_leaves_the_others() {
    let served = Served::start(1);
    let client = &mut served.connect();
    client.say("MULTI");
    for line in ["SET a word", "INCR a", "SET b 1"] {
        client.say(line);
    }
    let failed = error("ERR value is not an integer or out of range");
    assert_eq!(client.say("EXEC"), Value::Array(vec![ok(), failed, ok()]));
    assert_eq!(client.say("MGET a b"), Value::Array(vec![bulk("word"), bulk("1")]));
    client.say("MULTI");
    assert_eq!(client.say("GET"), error("ERR wrong number of arguments for 'get' command"));
    client.say("SET b 2");
    assert_eq!(client.say("EXEC"), error("EXECABORT Transaction discarded because of previous errors."));
    assert_eq!(client.say("GET b"), bulk("1"));
}

#[test]
fn a_watched_key_that_changes_ends_the_transaction() {
    let served = Served::start(2);
    let (client, other) = (&mut served.connect(), &mut served.connect());
    for change in
        ["SET k 2", "INCR k", "DEL k", "RENAME k m", "FLUSHALL", "EXPIRE k 100", "MSET k 1 m 2", "SWAPDB 0 5"]
    {
        client.say("SET k 1");
        assert_eq!(client.say("WATCH k other"), ok());
        other.say(change);
        client.say("MULTI");
        assert_eq!(client.say("WATCH k"), error("ERR WATCH inside MULTI is not allowed"));
        client.say("SET seen yes");
        assert_eq!(client.say("EXEC"), Value::Null, "{change}");
        assert_eq!(client.say("EXISTS seen"), Value::Integer(0));
        // The next one watches nothing.
        client.say("MULTI");
        assert_eq!(client.say("EXEC"), Value::Array(Vec::new()), "{change}");
    }
    client.say("SET k 1");
    client.say("WATCH k");
    client.say("GET k");
    other.say("SET unrelated 2");
    client.say("UNWATCH");
    other.say("SET k 2");
    client.say("MULTI");
    assert_eq!(client.say("EXEC"), Value::Array(Vec::new()));
}

/// Two accounts and many transfers: whoever reads both in one transaction always sees the same sum.
#[test]
fn transactions_of_many_connections_do_not_mix() {
    let served = Served::start(2);
    served.connect().say("MSET a 1000 b 1000");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for step in [3, 7] {
            let (served, is_over) = (&served, &is_over);
            scope.spawn(move || {
                let mut client = served.connect();
                for _ in 0..300 {
                    client.say("MULTI");
                    client.say(&format!("DECRBY a {step}"));
                    client.say(&format!("INCRBY b {step}"));
                    client.say("EXEC");
                }
                is_over.store(true, Ordering::Release);
            });
        }
        let mut client = served.connect();
        let sum = |reply: Value| match reply {
            Value::Array(values) => values
                .iter()
                .map(|value| match value {
                    Value::Bulk(digits) => {
                        std::str::from_utf8(digits).expect("digits").parse::<i64>().expect("a number")
                    }
                    other => panic!("{other:?}"),
                })
                .sum::<i64>(),
            other => panic!("{other:?}"),
        };
        while !is_over.load(Ordering::Acquire) {
            assert_eq!(sum(client.say("MGET a b")), 2000);
            client.say("MULTI");
            client.say("GET a");
            client.say("GET b");
            assert_eq!(sum(client.say("EXEC")), 2000);
        }
    });
    assert_eq!(served.connect().say("MGET a b"), Value::Array(vec![bulk("-2000"), bulk("4000")]));
}

/// Increments that read, watch and write by themselves are exact if WATCH works.
#[test]
fn optimistic_increments_are_exact() {
    let served = Served::start(2);
    served.connect().say("SET n 0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = served.connect();
                let mut done = 0;
                while done < 100 {
                    client.say("WATCH n");
                    let Value::Bulk(digits) = client.say("GET n") else { panic!("a number is there") };
                    let next =
                        std::str::from_utf8(&digits).expect("digits").parse::<u64>().expect("a number") + 1;
                    client.say("MULTI");
                    client.say(&format!("SET n {next}"));
                    done += i32::from(client.say("EXEC") != Value::Null);
                }
            });
        }
    });
    assert_eq!(served.connect().say("GET n"), bulk("400"));
}
