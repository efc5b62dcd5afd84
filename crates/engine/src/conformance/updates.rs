//! Atomic read-modify-write.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Check;
use super::database::{Database, key};
use crate::{Change, Completion, Durability, KeyspaceSettings, Outcome, ReadAt, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("updates::the function sees the current value and decides", false, sees_and_decides),
    ("updates::the answer comes back", false, answers),
    ("updates::keep writes nothing", false, keep),
    ("updates::keep is answered once, done or later, with the position read at", false, keep_is_answered),
    ("updates::a counter of four threads is exact", false, exact_counter),
    ("updates::blind puts are never lost inside an update", false, blind_puts_survive),
    ("updates::blind deletes are never undone by an update", false, blind_deletes_survive),
    ("updates::batches are never lost inside an update", false, batches_survive),
    ("updates::work on merged values", false, merged_values),
];

const O: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

fn sees_and_decides(database: &mut Database) {
    let keyspace = database.keyspace;
    database.put(b"put", b"1");
    database.put(b"deleted", b"1");
    database.flush();
    let append = |value: Option<&[u8]>| {
        let value = [value.unwrap_or(b"none"), b"+"].concat();
        (Change::Put(value), ())
    };
    database.db().update(keyspace, b"put", O, append).expect("update");
    database.db().update(keyspace, b"absent", O, append).expect("update");
    database.db().update(keyspace, b"deleted", O, |_| (Change::Delete, ())).expect("update");
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"put", Some(b"1+"));
        database.assert_value(ReadAt::Latest, b"absent", Some(b"none+"));
        database.assert_value(ReadAt::Latest, b"deleted", None);
    });
}

fn answers(database: &mut Database) {
    let keyspace = database.keyspace;
    database.put(b"a", b"four");
    for durability in [Durability::Process, Durability::Disk] {
        let options = WriteOptions { durability: Some(durability), ..O };
        let answer = database
            .db()
            .update(keyspace, b"a", options, |value| (Change::Put(b"four".to_vec()), value.map(<[u8]>::len)));
        assert_eq!(answer.expect("update"), Some(4));
    }
    let answer = database.db().update(keyspace, b"b", O, |value| (Change::Keep, value.map(<[u8]>::len)));
    assert_eq!(answer.expect("update"), None);
}

fn keep(database: &mut Database) {
    let keyspace = database.keyspace;
    let put = database.put(b"a", b"1");
    let outcome =
        database.db().session().update(keyspace, b"a", Box::new(|_| Change::Keep), O).expect("update");
    let position = match outcome {
        Outcome::Done(position) => position,
        Outcome::Pending(ticket) => match database.db().wait_for(ticket).expect("wait_for") {
            Completion::Written(position) => position,
            other => panic!("an update completed as {other:?}"),
        },
    };
    assert!(position >= put, "the position read at covers what was acknowledged");
    database.assert_value(ReadAt::Latest, b"a", Some(b"1"));
    database.db().update(keyspace, b"absent", O, |_| (Change::Keep, ())).expect("update");
    database.assert_value(ReadAt::Latest, b"absent", None);
}

fn keep_is_answered(database: &mut Database) {
    let keyspace = database.keyspace;
    let disk = WriteOptions { durability: Some(Durability::Disk), ..O };
    let put = database.put(b"a", b"1");
    let mut session = database.engine().session();
    let mut pending = std::collections::BTreeSet::new();
    let mut positions = Vec::new();
    for round in 0..8 {
        let options = if round % 2 == 0 { O } else { disk };
        match session.update(keyspace, b"a", Box::new(|_| Change::Keep), options).expect("update") {
            Outcome::Done(position) => positions.push(position),
            Outcome::Pending(ticket) => assert!(pending.insert(ticket), "a ticket was given out twice"),
        }
    }
    while !pending.is_empty() {
        session.poll(&mut |ticket, completion| {
            assert!(pending.remove(&ticket), "a completion that is not waited for, or a second one");
            match completion {
                Completion::Written(position) => positions.push(position),
                other => panic!("an update completed as {other:?}"),
            }
        });
        if !pending.is_empty() {
            assert!(session.wait(None), "something is pending");
        }
    }
    let later = database.put(b"a", b"2");
    assert_eq!(positions.len(), 8);
    assert!(
        positions.iter().all(|position| (put..later).contains(position)),
        "{put:?} {positions:?} {later:?}"
    );
}

fn exact_counter(database: &mut Database) {
    let keyspace = database.keyspace;
    let (threads, rounds) = (4, 500);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let mut session = database.session();
            scope.spawn(move || {
                for round in 0..rounds {
                    let counter = key(round as usize % 3);
                    let seen = session.update(keyspace, &counter, O, |value| {
                        let seen = number(value);
                        (Change::Put((seen + 1).to_le_bytes().to_vec()), seen)
                    });
                    seen.expect("update");
                }
            });
        }
    });
    let sum: u64 = (0..3).map(|counter| number(database.get(&key(counter)).as_deref())).sum();
    assert_eq!(sum, threads * rounds, "increments were lost");
}

/// Runs two threads that grow the value by updates while `write` writes and is checked on another.
fn against_updates(database: &mut Database, mut write: impl FnMut(&mut Database, u64)) {
    let keyspace = database.keyspace;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut session = database.session();
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let grown = session.update(keyspace, b"contended", O, |value| {
                        let mut value = value.unwrap_or(b"none").to_vec();
                        // Widen the gap between read and write, and keep the value short.
                        std::thread::yield_now();
                        value.truncate(16);
                        value.push(b'+');
                        (Change::Put(value), ())
                    });
                    grown.expect("update");
                }
            });
        }
        let attempt = std::panic::AssertUnwindSafe(|| (0..300).for_each(|round| write(database, round)));
        let result = std::panic::catch_unwind(attempt);
        stop.store(true, Ordering::SeqCst);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn assert_derives_from(database: &mut Database, origin: &[u8]) {
    let value = database.get(b"contended").unwrap_or_default();
    assert!(
        value.starts_with(origin),
        "the value is {:?}, but {:?} was acknowledged",
        String::from_utf8_lossy(&value),
        String::from_utf8_lossy(origin)
    );
}

fn blind_puts_survive(database: &mut Database) {
    against_updates(database, |database, round| {
        let origin = format!("put-{round:06}").into_bytes();
        database.put(b"contended", &origin);
        assert_derives_from(database, &origin);
    });
}

fn blind_deletes_survive(database: &mut Database) {
    against_updates(database, |database, round| {
        database.put(b"contended", format!("put-{round:06}").as_bytes());
        database.delete(b"contended");
        let value = database.get(b"contended");
        assert!(value.is_none_or(|value| value.starts_with(b"none")), "an update undid a delete");
    });
}

fn batches_survive(database: &mut Database) {
    let keyspace = database.keyspace;
    against_updates(database, |database, round| {
        let origin = format!("bat-{round:06}").into_bytes();
        let mut batch = crate::Batch::new();
        batch.put(keyspace, b"beside", b"1").delete(keyspace, b"contended").put(
            keyspace,
            b"contended",
            &origin,
        );
        database.write(&batch);
        assert_derives_from(database, &origin);
    });
}

fn merged_values(database: &mut Database) {
    let settings =
        KeyspaceSettings { merge_operator: Some(super::ADD.to_owned()), ..KeyspaceSettings::default() };
    database.keyspace = database.engine().create_keyspace("adding", settings).expect("create");
    let keyspace = database.keyspace;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut session = database.session();
            scope.spawn(move || {
                for _ in 0..200 {
                    let one = 1_u64.to_le_bytes();
                    if thread % 2 == 0 {
                        session.merge(keyspace, b"sum", &one, O).expect("merge");
                    } else {
                        let add = |value: Option<&[u8]>| {
                            (Change::Put((number(value) + 1).to_le_bytes().to_vec()), ())
                        };
                        session.update(keyspace, b"sum", O, add).expect("update");
                    }
                }
            });
        }
    });
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"sum", Some(&800_u64.to_le_bytes()));
    });
}
