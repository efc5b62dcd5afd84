//! Records that count as deleted from a time on.

use super::Check;
use super::database::{Database, key};
use crate::{
    Batch, BatchLimit, Change, ErrorKind, KeyspaceId, KeyspaceSettings, Op, OpKind, OrderedBatch,
    OrderedOpKind, ReadAt, ScanBatch, ScanRange, WriteOptions,
};

pub(super) const CHECKS: &[Check] = &[
    ("expiry::a record is gone from its time on", false, gone_from_its_time),
    ("expiry::an expired record hides what it replaced", false, hides_older),
    ("expiry::each operation of a batch has its own time", false, per_operation),
    ("expiry::later writes replace an expiring record", false, replaced),
    ("expiry::updates see expired records as absent", false, updates),
    ("expiry::survives reopening", false, reopened),
    ("expiry::only values expire", false, only_values),
    ("expiry::range deletes do not expire", true, range_deletes_stay),
    ("expiry::deletes and what has expired are told apart", false, stored),
    ("expiry::a snapshot tells what was stored at its point", false, stored_at_snapshot),
    ("expiry::operands are stored, whatever they apply to", false, operands_stored),
    ("expiry::what a range delete covers is not stored", true, covered_is_not_stored),
    ("expiry::operands on an expired value apply to nothing", false, operands_on_expired),
    ("expiry::scans skip expired records", true, scans),
    ("expiry::reads tell when values expire", false, reported),
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

fn only_values(database: &mut Database) {
    let now = database.harness.now_ms();
    let keyspace = appending(database);
    let soon = expiring(now + 1000);
    for name in [&b"deleted"[..], b"deleted in a batch", b"deleted by an update", b"kept"] {
        database.put(name, b"1");
    }
    database.db().delete(keyspace, b"deleted", soon).expect("delete");
    database.db().merge(keyspace, b"merged", b"a", soon).expect("merge");
    database.db().merge(keyspace, b"merged", b"b", expiring(now - 1)).expect("merge");
    database.db().update(keyspace, b"deleted by an update", soon, |_| (Change::Delete, ())).expect("update");
    database.db().update(keyspace, b"kept", soon, |_| (Change::Keep, ())).expect("update");
    let mut batch = Batch::new();
    let mut push = |kind, key: &[u8], value: &[u8]| {
        batch.push(Op { keyspace, kind, key, value, expires_at_ms: now + 1000 });
    };
    push(OpKind::Delete, b"deleted in a batch", b"");
    push(OpKind::Merge, b"merged in a batch", b"a");
    // The batch's own operations say when they expire, not the options.
    batch.put(keyspace, b"put in a batch", b"1").merge(keyspace, b"merged in a batch", b"b");
    database.db().write(&batch, soon).expect("write");
    database.harness.advance_ms(1000);
    database.everywhere(&mut |database| {
        for gone in [&b"deleted"[..], b"deleted in a batch", b"deleted by an update"] {
            database.assert_value(ReadAt::Latest, gone, None);
        }
        database.assert_value(ReadAt::Latest, b"merged", Some(b"ab"));
        database.assert_value(ReadAt::Latest, b"merged in a batch", Some(b"ab"));
        database.assert_value(ReadAt::Latest, b"put in a batch", Some(b"1"));
        database.assert_value(ReadAt::Latest, b"kept", Some(b"1"));
    });
}

fn range_deletes_stay(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    database.put(b"in a range", b"1");
    database.put(b"in a batch", b"1");
    let soon = expiring(now + 1000);
    let mut batch = OrderedBatch::default();
    let kind = OrderedOpKind::DeleteRange;
    batch.push(Op { keyspace, kind, key: b"in a b", value: b"in a c", expires_at_ms: now + 1000 });
    database.ordered_db().write_ordered(&batch, soon).expect("write_ordered");
    database.ordered_db().delete_range(keyspace, b"in a r", b"in b", soon).expect("delete_range");
    database.harness.advance_ms(1000);
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"in a range", None);
        database.assert_value(ReadAt::Latest, b"in a batch", None);
    });
}

/// Works in a keyspace whose operands are appended.
fn appending(database: &mut Database) -> KeyspaceId {
    let settings =
        KeyspaceSettings { merge_operator: Some(super::APPEND.to_owned()), ..KeyspaceSettings::default() };
    database.keyspace = database.engine().create_keyspace("appending", settings).expect("create");
    database.keyspace
}

/// Whether a value of `key` is stored, asked every way there is.
#[track_caller]
fn is_stored(database: &mut Database, key: &[u8]) -> bool {
    let keyspace = database.keyspace;
    let before = database.db().is_stored(keyspace, key).expect("told");
    let values = database.db().multi_get(ReadAt::Latest, keyspace, &[b"absent", key]).expect("multi_get");
    assert!(!values.is_stored(0), "what was never put is stored");
    let after = database.db().is_stored(keyspace, key).expect("told");
    // It may have been dropped meanwhile.
    if before == after {
        assert_eq!(values.is_stored(1), after, "multi_get of {:?}", key.escape_ascii().to_string());
    }
    after
}

fn stored(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    for place in ["expired", "deleted"] {
        database.put(place.as_bytes(), b"older");
        database.flush();
        database.db().put(keyspace, place.as_bytes(), b"1", expiring(now + 1000)).expect("put");
    }
    database.put(b"stays", b"1");
    assert!(is_stored(database, b"deleted"));
    database.delete(b"deleted");
    database.harness.advance_ms(1000);
    database.assert_value(ReadAt::Latest, b"expired", None);
    database.everywhere(&mut |database| {
        assert!(is_stored(database, b"stays"));
        assert!(!is_stored(database, b"deleted"));
        assert!(!is_stored(database, b"never"));
        // Dropped or not, every way answers the same.
        let _ = is_stored(database, b"expired");
    });
    // By now it may have been dropped; what it hid is not there.
    if is_stored(database, b"expired") {
        database.delete(b"expired");
    }
    database.everywhere(&mut |database| {
        assert!(!is_stored(database, b"expired"));
        database.assert_value(ReadAt::Latest, b"expired", None);
    });
    let unknown = database.db().is_stored(KeyspaceId(u32::MAX), b"a").expect_err("there is none");
    assert_eq!(unknown.kind(), ErrorKind::Invalid);
}

fn stored_at_snapshot(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    database.put(b"replaced", b"1");
    let snapshot = database.engine().snapshot().expect("snapshot");
    database.db().put(keyspace, b"replaced", b"2", expiring(now + 1000)).expect("put");
    database.db().put(keyspace, b"new", b"1", expiring(now + 1000)).expect("put");
    database.harness.advance_ms(1000);
    for _ in 0..2 {
        let keys = [&b"new"[..], b"replaced"];
        let values =
            database.db().multi_get(ReadAt::Snapshot(&snapshot), keyspace, &keys).expect("multi_get");
        assert!(!values.is_stored(0), "what was put later");
        assert_eq!((values.get(1), values.is_stored(1)), (Some(&b"1"[..]), true));
        database.flush();
    }
}

fn operands_stored(database: &mut Database) {
    let now = database.harness.now_ms();
    let keyspace = appending(database);
    database.db().put(keyspace, b"on expired", b"1", expiring(now + 1000)).expect("put");
    database.merge(b"on expired", b"2");
    database.merge(b"alone", b"3");
    database.harness.advance_ms(1000);
    database.everywhere(&mut |database| {
        assert!(is_stored(database, b"on expired"));
        assert!(is_stored(database, b"alone"));
        assert!(!is_stored(database, b"never"));
    });
    database.delete(b"on expired");
    database.everywhere(&mut |database| assert!(!is_stored(database, b"on expired")));
}

fn covered_is_not_stored(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    for key in [b"a", b"b", b"c"] {
        database.db().put(keyspace, key, b"1", expiring(now + 1000)).expect("put");
    }
    database.delete_range(b"a", b"c");
    database.db().put(keyspace, b"b", b"2", expiring(now + 2000)).expect("put");
    assert!(!is_stored(database, b"a"));
    assert!(is_stored(database, b"b"), "put again");
    assert!(is_stored(database, b"c"), "beside the range");
    database.harness.advance_ms(2000);
    database.everywhere(&mut |database| assert!(!is_stored(database, b"a")));
}

fn operands_on_expired(database: &mut Database) {
    let now = database.harness.now_ms();
    let keyspace = appending(database);
    database.put(b"a", b"older");
    database.db().put(keyspace, b"a", b"1", expiring(now + 1000)).expect("put");
    database.merge(b"a", b"2");
    database.flush();
    database.merge(b"a", b"3");
    database.assert_value(ReadAt::Latest, b"a", Some(b"123"));
    database.compact();
    database.assert_value(ReadAt::Latest, b"a", Some(b"123"));
    database.harness.advance_ms(1000);
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"a", Some(b"23")));
}

/// When the value of `key` expires, asked every way there is; `None` = it has none.
#[track_caller]
fn expiry(database: &mut Database, key: &[u8]) -> Option<u64> {
    let keyspace = database.keyspace;
    let mut answers = Vec::new();
    for keys in [&[key][..], &[b"absent", key, key]] {
        let values = database.db().multi_get(ReadAt::Latest, keyspace, keys).expect("multi_get");
        let last = keys.len() - 1;
        answers.push(values.get(last).map(|_| values.expires_at_ms(last)));
        assert_eq!(values.expires_at_ms(keys.len()), 0, "past the last");
    }
    if std::sync::Arc::clone(database.engine()).ordered().is_some() {
        for range in [ScanRange::all(), ScanRange::all().backward()] {
            let db = database.ordered_db();
            let mut scan = db.session().scan(ReadAt::Latest, keyspace, range).expect("scan");
            let (mut batch, mut found) = (ScanBatch::new(), None);
            while !batch.is_finished() {
                let limit = BatchLimit { records: 2, bytes: 1 << 20 };
                db.next_batch(&mut *scan, limit, &mut batch).expect("a batch");
                let place = batch.records().position(|(found, _)| found == key);
                found = found.or(place.map(|index| batch.expires_at_ms(index)));
            }
            answers.push(found);
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    answers[0]
}

fn reported(database: &mut Database) {
    let now = database.harness.now_ms();
    let keyspace = appending(database);
    let long = vec![b'v'; 200_000];
    for (name, value, after_ms) in
        [(&b"a"[..], &b"1"[..], 1000), (b"b", &long, 2000), (b"c", b"", 3000), (b"merged", b"1", 3000)]
    {
        database.db().put(keyspace, name, value, expiring(now + after_ms)).expect("put");
    }
    database.put(b"never", b"1");
    database.db().put(keyspace, b"replaced", b"1", expiring(now + 1000)).expect("put");
    database.put(b"replaced", &long);
    database.merge(b"merged", b"2");
    database.everywhere(&mut |database| {
        assert_eq!(expiry(database, b"a"), Some(now + 1000));
        assert_eq!(expiry(database, b"b"), Some(now + 2000));
        assert_eq!(expiry(database, b"c"), Some(now + 3000));
        for name in [&b"never"[..], b"replaced", b"merged"] {
            assert_eq!(expiry(database, name), Some(0));
        }
        assert_eq!(expiry(database, b"deleted"), None);
    });
    database.harness.advance_ms(1000);
    assert_eq!((expiry(database, b"a"), expiry(database, b"c")), (None, Some(now + 3000)));
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
