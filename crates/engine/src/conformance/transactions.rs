//! Writes that are done only if nothing was written to what was read.

use super::Check;
use super::database::{Database, key};
use crate::{
    Batch, Completion, ErrorKind, KeyspaceId, OrderedBatch, OrderedReadSet, Outcome, Position, ReadAt,
    ReadRange, ReadSet, Result, WriteOptions,
};

pub(super) const CHECKS: &[Check] = &[
    ("transactions::what read nothing that was written is done", false, is_done),
    ("transactions::every kind of write to a key that was read is a conflict", false, conflicts),
    ("transactions::a key without a value was read, too", false, absent_keys),
    ("transactions::a conflict is found wherever the write is by then", false, everywhere),
    ("transactions::what is before the read, or beside it, is no conflict", false, beside),
    ("transactions::a pending one completes, as a conflict too", false, pending),
    ("transactions::what cannot be written is refused, and read sets too large", false, refused),
    ("transactions::counters of four threads are exact", false, exact_counters),
    ("transactions::of two that read what the other writes one is done", false, no_skew),
    ("transactions::a range that a key came into, left, or changed in is a conflict", true, ranges),
    ("transactions::a range that is as it was is no conflict", true, untouched_ranges),
];

const O: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

fn read_set(database: &Database, keys: &[&[u8]]) -> ReadSet {
    let mut reads = ReadSet::new(database.engine().snapshot().expect("snapshot"));
    keys.iter().for_each(|key| reads.add(database.keyspace, key).expect("room"));
    reads
}

/// Puts `result` if `reads` hold; whether they did.
#[track_caller]
fn put_if(database: &mut Database, reads: ReadSet, value: &[u8]) -> bool {
    let (keyspace, options) = (database.keyspace, database.options);
    let written = database.db().write_if(Batch::new().put(keyspace, b"result", value), reads, options);
    is_written(written)
}

#[track_caller]
fn is_written(written: Result<Position>) -> bool {
    match written {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::Conflict => false,
        Err(error) => panic!("neither done nor a conflict: {error}"),
    }
}

fn is_done(database: &mut Database) {
    database.put(b"a", b"1");
    let reads = read_set(database, &[b"a", b"absent"]);
    assert_eq!(database.get_at(reads.read_at(), b"a").as_deref(), Some(&b"1"[..]));
    assert!(put_if(database, reads, b"done"));
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"result", Some(b"done")));
}

fn conflicts(database: &mut Database) {
    let keyspace = database.keyspace;
    let writes: [fn(&mut Database); 4] = [
        |database| _ = database.put(b"a", b"2"),
        |database| _ = database.put(b"a", b"1"),
        |database| _ = database.delete(b"a"),
        |database| {
            let (keyspace, mut batch) = (database.keyspace, Batch::new());
            batch.put(keyspace, b"b", b"2").put(keyspace, b"a", b"2");
            database.write(&batch);
        },
    ];
    for (number, write) in writes.into_iter().enumerate() {
        database.put(b"a", b"1");
        let reads = read_set(database, &[b"a"]);
        write(database);
        assert!(!put_if(database, reads, b"done"), "write {number}");
        assert_eq!(database.get(b"result"), None, "nothing of it is done");
    }
    let reads = read_set(database, &[b"a"]);
    database.db().update(keyspace, b"a", O, |_| (crate::Change::Put(b"3".to_vec()), ())).expect("update");
    assert!(!put_if(database, reads, b"done"), "an update");
    // What it wrote itself is read anew.
    let reads = read_set(database, &[b"a"]);
    assert!(put_if(database, reads, b"done"));
}

fn absent_keys(database: &mut Database) {
    let reads = read_set(database, &[b"a"]);
    database.put(b"a", b"1");
    assert!(!put_if(database, reads, b"done"));
    database.delete(b"a");
    let reads = read_set(database, &[b"a"]);
    assert!(put_if(database, reads, b"done"));
}

fn everywhere(database: &mut Database) {
    let moves: [fn(&mut Database); 3] = [
        |_| {},
        |database| database.flush(),
        |database| {
            database.flush();
            database.compact();
        },
    ];
    for (number, then) in moves.into_iter().enumerate() {
        database.put(b"a", b"1");
        database.flush();
        let reads = read_set(database, &[b"a"]);
        database.put(b"a", b"2");
        then(database);
        assert!(!put_if(database, reads, b"done"), "move {number}");
        let reads = read_set(database, &[b"a"]);
        then(database);
        assert!(put_if(database, reads, b"done"), "nothing was written, move {number}");
        database.delete(b"result");
    }
}

fn beside(database: &mut Database) {
    let other =
        database.engine().create_keyspace("beside", crate::KeyspaceSettings::default()).expect("made");
    database.put(b"a", b"1");
    let reads = read_set(database, &[b"a"]);
    database.put(b"a\0", b"2");
    database.put(b"", b"2");
    database.db().put(other, b"a", b"2", O).expect("put");
    assert!(put_if(database, reads, b"done"));
}

fn pending(database: &mut Database) {
    let keyspace = database.keyspace;
    let mut session = database.engine().session();
    let mut write = |reads: ReadSet, value: &[u8]| match session.write_if(
        Batch::new().put(keyspace, b"result", value),
        reads,
        O,
    )? {
        Outcome::Done(position) => Ok(position),
        Outcome::Pending(ticket) => loop {
            let mut completion = None;
            session.poll(&mut |arrived, with| {
                assert_eq!(arrived, ticket, "only one is under way");
                assert!(completion.replace(with).is_none(), "it completes once");
            });
            match completion {
                Some(Completion::Written(position)) => return Ok(position),
                Some(Completion::Failed(error)) => return Err(error),
                Some(other) => panic!("a write completed as {other:?}"),
                None => assert!(session.wait(None), "something is pending"),
            }
        },
    };
    database.put(b"a", b"1");
    let (first, second) = (read_set(database, &[b"a"]), read_set(database, &[b"result"]));
    assert!(is_written(write(first, b"first")));
    assert!(!is_written(write(second, b"second")));
    assert_eq!(database.get(b"result").as_deref(), Some(&b"first"[..]));
}

fn refused(database: &mut Database) {
    let keyspace = database.keyspace;
    let kind = |written: Result<Position>| written.expect_err("it is refused").kind();
    let reads = read_set(database, &[]);
    assert_eq!(kind(database.db().write_if(&Batch::new(), reads.clone(), O)), ErrorKind::Invalid);
    let nowhere = KeyspaceId(77_777);
    let there = Batch::new().put(nowhere, b"a", b"1").clone();
    assert_eq!(kind(database.db().write_if(&there, reads.clone(), O)), ErrorKind::Invalid);
    let mut elsewhere = reads;
    elsewhere.add(nowhere, b"a").expect("room");
    let here = Batch::new().put(keyspace, b"a", b"1").clone();
    assert_eq!(kind(database.db().write_if(&here, elsewhere, O)), ErrorKind::Invalid);
    assert_eq!(database.get(b"a"), None);
}

/// Does `change` to the numbers of `keys` until there is no conflict.
fn transact(
    session: &mut crate::blocking::Blocking,
    snapshot: impl Fn() -> crate::Snapshot,
    keyspace: KeyspaceId,
    keys: &[Vec<u8>],
    change: impl Fn(&mut [u64]),
) {
    loop {
        let mut reads = ReadSet::new(snapshot());
        let mut numbers: Vec<u64> = Vec::new();
        for key in keys {
            reads.add(keyspace, key).expect("room");
            let value = session.get(reads.read_at(), keyspace, key).expect("get");
            numbers.push(value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("eight bytes"))));
        }
        change(&mut numbers);
        let mut batch = Batch::new();
        for (key, number) in keys.iter().zip(numbers) {
            batch.put(keyspace, key, &number.to_le_bytes());
        }
        if is_written(session.write_if(&batch, reads, O)) {
            return;
        }
        std::thread::yield_now();
    }
}

fn exact_counters(database: &mut Database) {
    let keyspace = database.keyspace;
    let engine = database.engine().clone();
    let (threads, rounds) = (4, 100_u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (mut session, engine) = (database.session(), engine.clone());
            scope.spawn(move || {
                for round in 0..rounds {
                    // Two of three counters, and one blind write beside them.
                    let first = (thread + round as usize) % 3;
                    let keys = [key(first), key((first + 1) % 3)];
                    let snapshot = || engine.snapshot().expect("snapshot");
                    transact(&mut session, snapshot, keyspace, &keys, |numbers| {
                        numbers.iter_mut().for_each(|number| *number += 1);
                    });
                    session.put(keyspace, b"beside", b"1", O).expect("put");
                }
            });
        }
    });
    let count = |counter: usize| {
        let value = database.get(&key(counter)).expect("it was counted");
        u64::from_le_bytes(value.try_into().expect("eight bytes"))
    };
    let sum: u64 = [0, 1, 2].map(count).into_iter().sum();
    assert_eq!(sum, 2 * threads as u64 * rounds, "increments were lost");
}

fn no_skew(database: &mut Database) {
    let keyspace = database.keyspace;
    // One of both is to stay on call.
    for round in 0..20_u32 {
        database.put(b"first", b"on call");
        database.put(b"second", b"on call");
        let one = read_set(database, &[b"first", b"second"]);
        let other = read_set(database, &[b"first", b"second"]);
        let leave = |database: &mut Database, key: &[u8], reads: ReadSet| {
            is_written(database.db().write_if(Batch::new().delete(keyspace, key), reads, O))
        };
        assert!(leave(database, b"first", one), "round {round}");
        assert!(!leave(database, b"second", other), "round {round}: both have left");
    }
}

/// Puts `result` if the range `start..end` is as it was after `write`; whether it was.
#[track_caller]
fn put_if_range(
    database: &mut Database,
    (start, end): (&[u8], Option<&[u8]>),
    write: impl FnOnce(&mut Database),
) -> bool {
    let (keyspace, options) = (database.keyspace, database.options);
    let mut reads = OrderedReadSet::new(database.engine().snapshot().expect("snapshot"));
    let range = ReadRange { keyspace, start: start.to_vec(), end: end.map(<[u8]>::to_vec) };
    reads.add_range(range).expect("room");
    write(database);
    let mut batch = OrderedBatch::default();
    batch.put(keyspace, b"result", b"done");
    is_written(database.ordered_db().write_ordered_if(&batch, reads, options))
}

fn ranges(database: &mut Database) {
    for is_flushed in [false, true] {
        (10..20).for_each(|number| _ = database.put(&key(number), b"1"));
        if is_flushed {
            database.flush();
        }
        let (start, end) = (key(10), key(20));
        let inside = (start.as_slice(), Some(end.as_slice()));
        let within = |number: usize, what: &str, database: &mut Database, write: fn(&mut Database, &[u8])| {
            let then = |database: &mut Database| {
                write(database, &key(number));
                if is_flushed {
                    database.flush();
                }
            };
            assert!(!put_if_range(database, inside, then), "{what}, flushed {is_flushed}");
        };
        within(15, "changed", database, |database, key| _ = database.put(key, b"2"));
        within(15, "left", database, |database, key| _ = database.delete(key));
        within(15, "came", database, |database, key| _ = database.put(key, b"3"));
        within(10, "the first key", database, |database, key| _ = database.put(key, b"3"));
        within(12, "a range delete", database, |database, start| _ = database.delete_range(start, &key(14)));
        within(5, "a range delete that begins before", database, |database, start| {
            database.delete_range(start, &key(11));
        });
        assert_eq!(database.get(b"result"), None, "nothing was done");
    }
}

fn untouched_ranges(database: &mut Database) {
    (0..30).for_each(|number| _ = database.put(&key(number), b"1"));
    let (start, end) = (key(10), key(20));
    let around = |database: &mut Database| {
        database.put(&key(9), b"2");
        database.put(&key(20), b"2");
        database.delete_range(&key(20), &key(25));
        database.delete_range(&key(5), &key(10));
    };
    assert!(put_if_range(database, (&start, Some(&end)), around));
    database.delete(b"result");
    assert!(put_if_range(database, (&start, Some(&end)), |database| database.flush()));
    assert!(
        !put_if_range(database, (&start, None), |database| _ = database.put(b"\xff", b"2")),
        "to the end"
    );
}
