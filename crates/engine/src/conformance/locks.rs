//! Locks on keys.

use super::Check;
use super::database::{Database, key};
use crate::blocking::Blocking;
use crate::{Completion, KeyLocks, KeyspaceId, KeyspaceSettings, Outcome, ReadAt, Ticket, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("locks::a key is locked once at a time", false, one_holder),
    ("locks::first come, first served", false, in_order),
    ("locks::a call has all of its keys or none", false, all_or_none),
    ("locks::a key named twice is locked once", false, named_twice),
    ("locks::reads and writes look at no lock", false, others_pass),
    ("locks::what a dropped session held or waited for is free", false, dropped_sessions),
    ("locks::a counter of four threads under locks is exact", false, exact_counter),
    ("locks::keys in any order never wait for each other", false, no_deadlock),
    ("locks::a lock on everything excludes all others", false, everything),
    ("locks::locks on everything and locks on keys never wait for each other", false, everything_at_times),
];

const O: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

fn at_once(session: &mut Blocking, keys: &[(KeyspaceId, &[u8])]) -> KeyLocks {
    session.session().lock(keys).done().expect("nothing holds a lock on it")
}

fn later(session: &mut Blocking, keys: &[(KeyspaceId, &[u8])]) -> Ticket {
    match session.session().lock(keys) {
        Outcome::Pending(ticket) => ticket,
        Outcome::Done(_) => panic!("another session holds a lock on it"),
    }
}

/// The locks that arrived at `session`, if any did.
fn arrived(session: &mut Blocking, expected: Ticket) -> Option<KeyLocks> {
    let mut found = None;
    session.session().poll(&mut |ticket, completion| {
        assert_eq!(ticket, expected);
        match completion {
            Completion::Locked(locks) => found = Some(locks),
            other => panic!("a lock completed as {other:?}"),
        }
    });
    found
}

fn one_holder(database: &mut Database) {
    let keys = [(database.keyspace, &b"key"[..])];
    let (mut first, mut second) = (database.session(), database.session());
    let locks = at_once(&mut first, &keys);
    let ticket = later(&mut second, &keys);
    assert!(arrived(&mut second, ticket).is_none(), "the lock is held");
    drop(locks);
    let locks = second.wait_for(ticket).expect("wait_for");
    let ticket = later(&mut first, &keys);
    drop(locks);
    assert!(arrived(&mut first, ticket).is_some(), "the lock is free");
    drop(at_once(&mut second, &keys));
}

fn in_order(database: &mut Database) {
    let keys = [(database.keyspace, &b"key"[..])];
    let mut sessions: Vec<Blocking> = (0..4).map(|_| database.session()).collect();
    let mut locks = at_once(&mut sessions[0], &keys);
    let tickets: Vec<Ticket> = sessions[1..].iter_mut().map(|session| later(session, &keys)).collect();
    for (index, ticket) in tickets.iter().enumerate() {
        drop(locks);
        for (other, ticket) in tickets.iter().enumerate().skip(index + 1) {
            assert!(arrived(&mut sessions[other + 1], *ticket).is_none(), "{other} came after {index}");
        }
        locks = arrived(&mut sessions[index + 1], *ticket).expect("the first in line");
    }
}

fn all_or_none(database: &mut Database) {
    let keyspace = database.keyspace;
    let names: Vec<Vec<u8>> = (0..20).map(key).collect();
    let keys: Vec<(KeyspaceId, &[u8])> = names.iter().map(|name| (keyspace, &name[..])).collect();
    let (mut first, mut second) = (database.session(), database.session());
    let locks = at_once(&mut first, &keys[19..]);
    let ticket = later(&mut second, &keys);
    assert!(arrived(&mut second, ticket).is_none(), "one of them is held");
    drop(locks);
    let locks = arrived(&mut second, ticket).expect("all are free");
    let tickets: Vec<Ticket> = keys.iter().map(|key| later(&mut first, &[*key])).collect();
    drop(locks);
    for ticket in tickets {
        // Names may share a lock: each is let go before the next is waited for.
        drop(first.wait_for(ticket).expect("wait_for"));
    }
}

fn named_twice(database: &mut Database) {
    let key = (database.keyspace, &b"key"[..]);
    let mut session = database.session();
    drop(at_once(&mut session, &[key, key]));
    drop(at_once(&mut session, &[key]));
}

fn others_pass(database: &mut Database) {
    let keyspace = database.keyspace;
    let mut holder = database.session();
    let _locks = at_once(&mut holder, &[(keyspace, b"key")]);
    database.put(b"key", b"1");
    database.assert_value(ReadAt::Latest, b"key", Some(b"1"));
}

fn dropped_sessions(database: &mut Database) {
    let keys = [(database.keyspace, &b"key"[..])];
    let (mut first, mut second, mut third) = (database.session(), database.session(), database.session());
    let locks = at_once(&mut first, &keys);
    later(&mut second, &keys);
    let ticket = later(&mut third, &keys);
    drop(second);
    // Locks do not need the session that got them.
    drop(first);
    assert!(arrived(&mut third, ticket).is_none(), "the lock is held");
    drop(locks);
    drop(third.wait_for(ticket).expect("wait_for"));
    // Locks that arrived at a session which is dropped before it takes them.
    let mut first = database.session();
    let locks = at_once(&mut first, &keys);
    later(&mut third, &keys);
    drop(locks);
    drop(third);
    drop(at_once(&mut first, &keys));
}

fn number(session: &mut Blocking, keyspace: KeyspaceId, key: &[u8]) -> u64 {
    let value = session.get(ReadAt::Latest, keyspace, key).expect("get");
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

fn exact_counter(database: &mut Database) {
    let keyspace = database.keyspace;
    let (threads, rounds) = (4, 300);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let mut session = database.session();
            scope.spawn(move || {
                for round in 0..rounds {
                    let counter = key(round % 3);
                    let _locks = session.lock(&[(keyspace, &counter)]).expect("lock");
                    let next = number(&mut session, keyspace, &counter) + 1;
                    session.put(keyspace, &counter, &next.to_le_bytes(), O).expect("put");
                }
            });
        }
    });
    let total: u64 = (0..3).map(|index| number(database.db(), keyspace, &key(index))).sum();
    assert_eq!(total, (threads * rounds) as u64);
}

fn no_deadlock(database: &mut Database) {
    let keyspace = database.keyspace;
    let (threads, rounds, accounts) = (4_usize, 300_usize, 5_usize);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut session = database.session();
            scope.spawn(move || {
                for round in 0..rounds {
                    let (from, to) = ((round + thread) % accounts, (round * 3 + thread * 2 + 1) % accounts);
                    let (from, to) = (key(from), key(to));
                    if from == to {
                        continue;
                    }
                    let _locks = session.lock(&[(keyspace, &from), (keyspace, &to)]).expect("lock");
                    let less = number(&mut session, keyspace, &from).wrapping_sub(1);
                    let more = number(&mut session, keyspace, &to).wrapping_add(1);
                    session.put(keyspace, &from, &less.to_le_bytes(), O).expect("put");
                    session.put(keyspace, &to, &more.to_le_bytes(), O).expect("put");
                }
            });
        }
    });
    let total = (0..accounts)
        .fold(0_u64, |total, index| total.wrapping_add(number(database.db(), keyspace, &key(index))));
    assert_eq!(total, 0, "what left one account came to another");
}

fn everything(database: &mut Database) {
    let other = database.engine().create_keyspace("other", KeyspaceSettings::default()).expect("a keyspace");
    let (mut first, mut second) = (database.session(), database.session());
    let held = at_once(&mut first, &[(database.keyspace, b"key")]);
    let Outcome::Pending(all) = second.session().lock_all() else { panic!("a key is locked") };
    assert!(arrived(&mut second, all).is_none(), "a key is locked");
    drop(held);
    let locks = arrived(&mut second, all).expect("no session holds any");
    let tickets: Vec<Ticket> = [database.keyspace, other]
        .into_iter()
        .flat_map(|keyspace| (0..8).map(move |index| (keyspace, key(index))))
        .map(|(keyspace, name)| later(&mut first, &[(keyspace, &name[..])]))
        .collect();
    drop(locks);
    for ticket in tickets {
        drop(first.wait_for(ticket).expect("wait_for"));
    }
    drop(second.lock_all().expect("no session holds any"));
}

fn everything_at_times(database: &mut Database) {
    let keyspace = database.keyspace;
    let (threads, rounds) = (4, 100);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut session = database.session();
            scope.spawn(move || {
                for round in 0..rounds {
                    let names = [key(0), key(round % 3)];
                    let keys = names.each_ref().map(|name| (keyspace, &name[..]));
                    let _locks = match (round + thread) % 3 {
                        0 => session.lock_all(),
                        _ => session.lock(&keys),
                    }
                    .expect("locks");
                    let next = number(&mut session, keyspace, &names[0]) + 1;
                    session.put(keyspace, &names[0], &next.to_le_bytes(), O).expect("put");
                }
            });
        }
    });
    assert_eq!(number(database.db(), keyspace, &key(0)), (threads * rounds) as u64);
}
