use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_protocol::resp::Value;

use super::client::{IS_ORDERED, Served, bulk, error, ok, request};

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

#[test]
fn a_watched_key_that_expires_ends_the_transaction() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let in_parts = if IS_ORDERED { "HSET k f v" } else { "SETRANGE k 100000 v" };
    for lines in [&["SET k v PX 60"][..], &["DEBUG SET-ACTIVE-EXPIRE 0", in_parts, "PEXPIRE k 60"]] {
        // Until it is watched before it expires.
        loop {
            lines.iter().for_each(|line| drop(client.say(line)));
            assert_eq!(client.say("WATCH k other"), ok());
            if matches!(client.say("PTTL k"), Value::Integer(1..)) {
                break;
            }
            client.say("UNWATCH");
        }
        client.say("MULTI");
        client.say("SET seen yes");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(client.say("EXEC"), Value::Null, "{lines:?}");
        // It is not there now, and nothing expires any more.
        assert_eq!(client.say("WATCH k"), ok());
        client.say("MULTI");
        client.say("EXISTS seen");
        assert_eq!(client.say("EXEC"), Value::Array(vec![Value::Integer(0)]), "{lines:?}");
    }
}

/// Increments by WATCH while another client takes what there is, and the whole database with it.
#[test]
fn to_watch_while_databases_are_flushed_loses_nothing() {
    const TAKEN: usize = 1000;
    let served = Served::start(2);
    let is_over = AtomicBool::new(false);
    let number = |reply: &Value| match reply {
        Value::Bulk(digits) => std::str::from_utf8(digits).expect("digits").parse::<u64>().expect("a number"),
        _ => 0,
    };
    let (given, taken) = std::thread::scope(|scope| {
        let (served, is_over) = (&served, &is_over);
        let threads = [(); 2].map(|()| {
            scope.spawn(move || {
                let (mut client, mut given) = (served.connect(), 0);
                while !is_over.load(Ordering::Acquire) {
                    client.say("WATCH n");
                    let next = number(&client.say("GET n")) + 1;
                    client.say("MULTI");
                    client.say(&format!("SET n {next}"));
                    given += u64::from(client.say("EXEC") != Value::Null);
                }
                given
            })
        });
        let (mut client, mut taken) = (served.connect(), 0);
        for _ in 0..TAKEN {
            for line in ["MULTI", "GET n", "FLUSHALL"] {
                client.say(line);
            }
            let Value::Array(replies) = client.say("EXEC") else { panic!("it runs") };
            taken += number(&replies[0]);
        }
        is_over.store(true, Ordering::Release);
        (threads.into_iter().map(|thread| thread.join().expect("it ends")).sum::<u64>(), taken)
    });
    assert_eq!(taken + number(&served.connect().say("GET n")), given);
}

/// Increments while another client takes what there is, and the whole database with it. Increments
/// that wait meanwhile come after that.
#[test]
fn to_flush_what_was_read_loses_nothing() {
    let served = Served::start(2);
    let is_over = AtomicBool::new(false);
    let number = |reply: &Value| match reply {
        Value::Bulk(digits) => std::str::from_utf8(digits).expect("digits").parse::<u64>().expect("a number"),
        _ => 0,
    };
    let (given, taken) = std::thread::scope(|scope| {
        let (served, is_over) = (&served, &is_over);
        let threads = ["INCR n", "EVAL return(redis.call('incr',KEYS[1])) 1 n"].map(|line| {
            scope.spawn(move || {
                let (mut client, mut given) = (served.connect(), 0);
                while !is_over.load(Ordering::Acquire) {
                    assert!(matches!(client.say(line), Value::Integer(_)));
                    given += 1;
                }
                given
            })
        });
        let (mut client, mut taken) = (served.connect(), 0);
        for _ in 0..1000 {
            for line in ["MULTI", "GET n", "FLUSHALL"] {
                client.say(line);
            }
            let Value::Array(replies) = client.say("EXEC") else { panic!("it runs") };
            taken += number(&replies[0]);
        }
        is_over.store(true, Ordering::Release);
        (threads.into_iter().map(|thread| thread.join().expect("it ends")).sum::<u64>(), taken)
    });
    assert_eq!(taken + number(&served.connect().say("GET n")), given);
}

/// Every key that was set, by itself or with others in a pipeline, is taken with its database once,
/// or is there at the end.
#[test]
fn to_flush_what_was_set_loses_nothing() {
    const RUNS: usize = 300;
    let served = Served::start(2);
    let is_over = AtomicBool::new(false);
    let keys = |reply: Value| match reply {
        Value::Array(keys) => keys,
        other => panic!("no keys: {other:?}"),
    };
    let mut taken = std::thread::scope(|scope| {
        let (served, is_over) = (&served, &is_over);
        let taker = scope.spawn(move || {
            let (mut client, mut taken) = (served.connect(), Vec::new());
            while !is_over.load(Ordering::Acquire) {
                for line in ["MULTI", "KEYS *", "FLUSHALL"] {
                    client.say(line);
                }
                taken.extend(keys(keys(client.say("EXEC")).swap_remove(0)));
            }
            taken
        });
        let setters = [1, 3, 10].map(|count| {
            scope.spawn(move || {
                let mut client = served.connect();
                for run in 0..RUNS {
                    let sets =
                        (0..count).map(|number| request(&["SET", &format!("{count}:{run}:{number}"), "v"]));
                    client.stream.write_all(&sets.collect::<Vec<_>>().concat()).expect("it is sent");
                    (0..count).for_each(|_| assert_eq!(client.reply(), Some(ok())));
                }
            })
        });
        setters.into_iter().for_each(|setter| setter.join().expect("it ends"));
        is_over.store(true, Ordering::Release);
        taker.join().expect("it ends")
    });
    taken.extend(keys(served.connect().say("KEYS *")));
    let found = taken.len();
    taken.sort_by_key(|key| format!("{key:?}"));
    taken.dedup();
    assert_eq!((found, taken.len()), (14 * RUNS, 14 * RUNS));
}

/// Two accounts and many transfers: a client that reads both in one transaction always sees the
/// same sum.
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

/// What is swapped in the middle of a transaction is locked like the rest.
#[test]
fn a_swap_in_a_transaction_loses_no_increment() {
    const ROUNDS: i64 = 50;
    let served = Served::start(2);
    let client = &mut served.connect();
    client.call(&["SET", "text", &"ab".repeat(500)]);
    client.say("COPY text text DB 1");
    let is_over = AtomicBool::new(false);
    let given: i64 = std::thread::scope(|scope| {
        // Of both server threads, and in the database that the transaction does not name.
        let threads = [(); 3].map(|()| {
            let (served, is_over) = (&served, &is_over);
            scope.spawn(move || {
                let (mut client, mut given) = (served.connect(), 0);
                client.say("SELECT 1");
                while !is_over.load(Ordering::Acquire) {
                    client.say("INCR n");
                    given += 1;
                }
                given
            })
        });
        for _ in 0..ROUNDS {
            // Work between what is read and what is written.
            for line in ["MULTI", "SWAPDB 0 1", "INCR n", "LCS text text LEN"] {
                client.say(line);
            }
            client.say("EXEC");
        }
        is_over.store(true, Ordering::Release);
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    });
    let sum: i64 = (0..2)
        .map(|database| {
            client.say(&format!("SELECT {database}"));
            let Value::Integer(number) = client.say("INCRBY n 0") else { panic!("a number is there") };
            number
        })
        .sum();
    assert_eq!(sum, given + ROUNDS);
}

#[test]
fn what_reads_all_keys_twice_finds_the_same() {
    let served = Served::start(2);
    let is_over = AtomicBool::new(false);
    let replies: Vec<Value> = std::thread::scope(|scope| {
        let (served, is_over) = (&served, &is_over);
        scope.spawn(move || {
            let mut client = served.connect();
            for number in 0.. {
                if is_over.load(Ordering::Acquire) {
                    break;
                }
                client.say(&format!("SET k{} 1", number % 500));
                client.say(&format!("DEL k{}", number * 7 % 500));
            }
        });
        let mut client = served.connect();
        let replies = (0..200).map(|_| {
            for line in ["MULTI", "DBSIZE", "KEYS *", "DBSIZE"] {
                client.say(line);
            }
            client.say("EXEC")
        });
        let replies = replies.collect();
        is_over.store(true, Ordering::Release);
        replies
    });
    for reply in replies {
        let Value::Array(replies) = reply else { panic!("it runs") };
        let Value::Array(keys) = &replies[1] else { panic!("no keys: {replies:?}") };
        assert_eq!([&replies[0], &replies[2]], [&Value::Integer(keys.len() as i64); 2]);
    }
}
