//! Batches: all or nothing, visible together, later operations win.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Check;
use super::database::{Database, key, noise};
use crate::{Batch, ErrorKind, KeyspaceSettings, OrderedBatch, ReadAt, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("batches::later operations on a key win", false, later_operations_win),
    ("batches::a range delete covers only what is before it", true, range_delete_inside),
    ("batches::records become visible together", false, visible_together),
    ("batches::a refused batch writes nothing", false, refused_batch),
    ("batches::a batch may be larger than the memtable", false, larger_than_memtable),
    ("batches::a batch may hold many records", false, many_records),
    ("batches::positions of single writes and batches share one order", false, one_order),
];

fn later_operations_win(database: &mut Database) {
    let keyspace = database.keyspace;
    database.put(b"old", b"0");
    let mut batch = Batch::new();
    batch.put(keyspace, b"a", b"1").put(keyspace, b"a", b"2").put(keyspace, b"a", b"3");
    batch.put(keyspace, b"b", b"1").delete(keyspace, b"b");
    batch.delete(keyspace, b"c").put(keyspace, b"c", b"1");
    batch.delete(keyspace, b"old").put(keyspace, b"old", b"1").delete(keyspace, b"old");
    database.write(&batch);
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"a", Some(b"3"));
        database.assert_value(ReadAt::Latest, b"b", None);
        database.assert_value(ReadAt::Latest, b"c", Some(b"1"));
        database.assert_value(ReadAt::Latest, b"old", None);
    });
}

fn range_delete_inside(database: &mut Database) {
    let keyspace = database.keyspace;
    database.put(b"b0", b"before");
    let mut batch = OrderedBatch::default();
    batch.put(keyspace, b"b1", b"covered").put(keyspace, b"c", b"end");
    batch.delete_range(keyspace, b"b", b"c").put(keyspace, b"b2", b"after").put(keyspace, b"b0", b"again");
    batch.delete_range(keyspace, b"z", b"a");
    let options = database.options;
    database.ordered_db().write_ordered(&batch, options).expect("write_ordered");
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"b0", Some(b"again"));
        database.assert_value(ReadAt::Latest, b"b1", None);
        database.assert_value(ReadAt::Latest, b"b2", Some(b"after"));
        database.assert_value(ReadAt::Latest, b"c", Some(b"end"));
    });
}

fn visible_together(database: &mut Database) {
    let other = database.engine().create_keyspace("other", KeyspaceSettings::default()).expect("create");
    let keyspace = database.keyspace;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2_usize {
            let mut session = database.session();
            let stop = &stop;
            scope.spawn(move || {
                let mut batch = Batch::new();
                for round in 0..300 {
                    batch.clear();
                    let value = key(writer * 1000 + round);
                    for slot in 0..8 {
                        let place = if slot % 2 == 0 { keyspace } else { other };
                        batch.put(place, &key(slot), &value);
                    }
                    session.write(&batch, WriteOptions::default()).expect("write");
                }
                stop.store(true, Ordering::SeqCst);
            });
        }
        let mut session = database.session();
        let engine = database.engine();
        while !stop.load(Ordering::SeqCst) {
            let keys: Vec<_> = (0..8).step_by(2).map(key).collect();
            let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
            let values = session.multi_get(ReadAt::Latest, keyspace, &keys).expect("multi_get");
            assert!(values.iter().all(|value| value == values.get(0)), "multi_get tears a batch: {values:?}");
            let snapshot = engine.snapshot().expect("snapshot");
            let at = ReadAt::Snapshot(&snapshot);
            let first = session.get(at, keyspace, &key(0)).expect("get");
            for slot in 1..8 {
                let place = if slot % 2 == 0 { keyspace } else { other };
                let value = session.get(at, place, &key(slot)).expect("get");
                assert_eq!(value, first, "a snapshot tears a batch at slot {slot}");
            }
        }
    });
}

fn refused_batch(database: &mut Database) {
    let keyspace = database.keyspace;
    database.put(b"a", b"before");
    let missing = crate::KeyspaceId(4_000_000);
    let too_long = vec![b'x'; 1 << 16];
    let refused: [&dyn Fn(&mut Batch); 3] = [
        &|batch| _ = batch.put(missing, b"b", b"1"),
        &|batch| _ = batch.put(keyspace, &too_long, b"1"),
        &|batch| _ = batch.merge(keyspace, b"b", b"1"),
    ];
    for add in refused {
        for is_first in [true, false] {
            let mut batch = Batch::new();
            if is_first {
                add(&mut batch);
            }
            batch.put(keyspace, b"a", b"after");
            if !is_first {
                add(&mut batch);
            }
            let error = database.db().write(&batch, WriteOptions::default()).expect_err("a bad operation");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
    }
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"a", Some(b"before")));
}

fn larger_than_memtable(database: &mut Database) {
    let keyspace = database.keyspace;
    database.put(&key(0), b"before");
    let mut batch = Batch::new();
    let megabytes = if database.with.tiny { 6 } else { 12 };
    for number in 0..megabytes * 16 {
        batch.put(keyspace, &key(number), &noise(number as u64, 1 << 16));
    }
    let snapshot = database.engine().snapshot().expect("snapshot");
    database.write(&batch);
    database.put(b"behind", b"it");
    assert_eq!(database.get_at(ReadAt::Snapshot(&snapshot), &key(1)), None);
    drop(snapshot);
    database.everywhere(&mut |database| {
        for number in 0..megabytes * 16 {
            assert_eq!(database.get(&key(number)), Some(noise(number as u64, 1 << 16)), "key {number}");
        }
        database.assert_value(ReadAt::Latest, b"behind", Some(b"it"));
    });
}

fn many_records(database: &mut Database) {
    let keyspace = database.keyspace;
    let mut batch = Batch::new();
    for number in 0..20_000 {
        batch.put(keyspace, &key(number % 15_000), &number.to_string().into_bytes());
    }
    database.write(&batch);
    database.everywhere(&mut |database| {
        for number in (0..15_000).step_by(271) {
            let newest = if number < 5_000 { number + 15_000 } else { number };
            database.assert_value(ReadAt::Latest, &key(number), Some(newest.to_string().as_bytes()));
        }
    });
}

fn one_order(database: &mut Database) {
    let keyspace = database.keyspace;
    let mut last = database.put(b"a", b"1");
    for round in 0..20 {
        let mut batch = Batch::new();
        batch.put(keyspace, b"a", &key(round)).put(keyspace, b"b", &key(round));
        for position in [database.write(&batch), database.put(b"c", b"1"), database.delete(b"c")] {
            assert!(position > last, "{position} comes after {last}");
            last = position;
        }
    }
    let before = last;
    database.reopen();
    assert!(database.put(b"a", b"2") > before, "positions are never reused, not even after reopening");
}
