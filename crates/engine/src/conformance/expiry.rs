//! Records that count as deleted from a time on.

use super::Check;
use super::database::{Database, key};
use crate::{Batch, Change, Op, OpKind, ReadAt, ScanRange, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("expiry::a record is gone from its time on", false, gone_from_its_time),
    ("expiry::an expired record hides what it replaced", false, hides_older),
    ("expiry::each operation of a batch has its own time", false, per_operation),
    ("expiry::later writes replace an expiring record", false, replaced),
    ("expiry::updates see expired records as absent", false, updates),
    ("expiry::survives reopening", false, reopened),
    ("expiry::scans skip expired records", true, scans),
];

fn expiring(at_ms: u64) -> WriteOptions {
    WriteOptions { expires_at_ms: at_ms, ..WriteOptions::default() }
}

fn gone_from_its_time(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    database.db().put(keyspace, b"soon", b"1", expiring(now + 1000)).expect("put");
    database.db().put(keyspace, b"late", b"1", expiring(now + 1_000_000)).expect("put");
    database.db().put(keyspace, b"past", b"1", expiring(now - 1)).expect("put");
    database.db().put(keyspace, b"never", b"1", expiring(0)).expect("put");
    database.assert_value(ReadAt::Latest, b"past", None);
    database.harness.advance_ms(999);
    database.assert_value(ReadAt::Latest, b"soon", Some(b"1"));
    database.harness.advance_ms(1);
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"soon", None);
        database.assert_value(ReadAt::Latest, b"past", None);
        database.assert_value(ReadAt::Latest, b"late", Some(b"1"));
        database.assert_value(ReadAt::Latest, b"never", Some(b"1"));
    });
}

fn hides_older(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    for stage in 0..3 {
        let place = key(stage);
        database.put(&place, b"older");
        match stage {
            1 => database.flush(),
            2 => {
                database.flush();
                database.compact();
            }
            _ => {}
        }
        database.db().put(keyspace, &place, b"newer", expiring(now + 1000)).expect("put");
        database.assert_value(ReadAt::Latest, &place, Some(b"newer"));
    }
    database.harness.advance_ms(2000);
    database.everywhere(&mut |database| {
        for stage in 0..3 {
            database.assert_value(ReadAt::Latest, &key(stage), None);
        }
    });
}

fn per_operation(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    let mut batch = Batch::new();
    for number in 0..10 {
        let expires_at_ms = if number % 2 == 0 { now + 1000 * (number as u64 + 1) } else { 0 };
        batch.push(Op { keyspace, kind: OpKind::Put, key: &key(number), value: b"1", expires_at_ms });
    }
    database.write(&batch);
    database.harness.advance_ms(5000);
    database.everywhere(&mut |database| {
        for number in 0..10 {
            let is_there = number % 2 == 1 || number > 4;
            database.assert_value(ReadAt::Latest, &key(number), is_there.then_some(b"1"));
        }
    });
}

fn replaced(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    database.db().put(keyspace, b"a", b"1", expiring(now + 1000)).expect("put");
    database.put(b"a", b"2");
    database.db().put(keyspace, b"b", b"1", expiring(now + 1000)).expect("put");
    database.harness.advance_ms(1000);
    database.put(b"b", b"2");
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"a", Some(b"2"));
        database.assert_value(ReadAt::Latest, b"b", Some(b"2"));
    });
}

fn updates(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    database.db().put(keyspace, b"a", b"1", expiring(now + 1000)).expect("put");
    database.harness.advance_ms(1000);
    let seen = database
        .db()
        .update(keyspace, b"a", expiring(now + 3000), |value| (Change::Put(b"2".to_vec()), value.is_some()));
    assert!(!seen.expect("update"), "an update sees an expired record");
    database.assert_value(ReadAt::Latest, b"a", Some(b"2"));
    database.harness.advance_ms(2000);
    database.assert_value(ReadAt::Latest, b"a", None);
}

fn reopened(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    for number in 0..20 {
        database.db().put(keyspace, &key(number), b"1", expiring(now + 1000 + number as u64)).expect("put");
    }
    database.reopen();
    database.assert_value(ReadAt::Latest, &key(0), Some(b"1"));
    database.harness.advance_ms(1009);
    database.everywhere(&mut |database| {
        for number in 0..20 {
            database.assert_value(ReadAt::Latest, &key(number), (number > 9).then_some(b"1"));
        }
    });
}

fn scans(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    for number in 0..100 {
        let expires_at_ms = if number % 3 == 0 { now + 1000 } else { 0 };
        database.db().put(keyspace, &key(number), b"1", expiring(expires_at_ms)).expect("put");
    }
    assert_eq!(database.scan(ScanRange::all()).len(), 100);
    database.harness.advance_ms(1000);
    database.everywhere(&mut |database| {
        assert_eq!(database.scan(ScanRange::all()).len(), 66);
        assert_eq!(database.scan(ScanRange::all().backward()).len(), 66);
    });
}
