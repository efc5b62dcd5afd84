//! Snapshots see one point for ever.

use super::Check;
use super::database::{Database, key, noise};
use crate::blocking::Blocking;
use crate::{Batch, BatchLimit, KeyspaceSettings, ReadAt, ScanBatch, ScanRange};

pub(super) const CHECKS: &[Check] = &[
    ("snapshots::isolated from overwrites and deletes", false, isolated),
    ("snapshots::isolated from range deletes and merges", true, isolated_from_ranges),
    ("snapshots::many points are told apart", false, many_points),
    ("snapshots::a clone keeps it alive", false, clones),
    ("snapshots::counted while alive", false, counted),
    ("snapshots::one point for all keyspaces", false, across_keyspaces),
    ("snapshots::a scan sees its point however long it runs", true, scans_keep_their_point),
    ("snapshots::a scan may outlive its snapshot and its session", true, scans_outlive),
];

fn isolated(database: &mut Database) {
    for number in 0..300 {
        database.put(&key(number), &noise(number as u64, 50));
    }
    let snapshot = database.engine().snapshot().expect("snapshot");
    for number in 0..300 {
        match number % 3 {
            0 => drop(database.put(&key(number), b"overwritten")),
            1 => drop(database.delete(&key(number))),
            _ => {}
        }
        database.put(&key(number + 1000), b"new");
    }
    let check = |database: &mut Database| {
        let at = ReadAt::Snapshot(&snapshot);
        for number in (0..300).step_by(7) {
            database.assert_value(at, &key(number), Some(&noise(number as u64, 50)));
            database.assert_value(at, &key(number + 1000), None);
            let now = [Some(b"overwritten".to_vec()), None, Some(noise(number as u64, 50))];
            database.assert_value(ReadAt::Latest, &key(number), now[number % 3].as_deref());
        }
        if database.is_ordered() {
            assert_eq!(database.scan_at(at, ScanRange::all()).len(), 300);
            assert_eq!(database.scan_at(at, ScanRange::all().backward()).len(), 300);
        }
    };
    check(database);
    database.flush();
    check(database);
    database.compact();
    check(database);
    for number in 0..300 {
        database.put(&key(number), b"once more");
    }
    database.flush();
    database.compact();
    for number in (0..300).step_by(7) {
        database.assert_value(ReadAt::Snapshot(&snapshot), &key(number), Some(&noise(number as u64, 50)));
    }
}

fn isolated_from_ranges(database: &mut Database) {
    let settings =
        KeyspaceSettings { merge_operator: Some(super::APPEND.to_owned()), ..KeyspaceSettings::default() };
    database.keyspace = database.engine().create_keyspace("merging", settings).expect("create");
    for number in 0..50 {
        database.put(&key(number), b"a");
        database.merge(&key(number), b"b");
    }
    let snapshot = database.engine().snapshot().expect("snapshot");
    for number in 0..50 {
        database.merge(&key(number), b"c");
    }
    database.delete_range(&key(10), &key(40));
    database.merge(&key(20), b"d");
    let check = |database: &mut Database| {
        for number in 0..50 {
            database.assert_value(ReadAt::Snapshot(&snapshot), &key(number), Some(b"ab"));
            let now: Option<&[u8]> = match number {
                20 => Some(b"d"),
                10..40 => None,
                _ => Some(b"abc"),
            };
            database.assert_value(ReadAt::Latest, &key(number), now);
        }
    };
    check(database);
    database.flush();
    check(database);
    database.compact();
    check(database);
}

fn many_points(database: &mut Database) {
    let mut snapshots = Vec::new();
    for round in 0..40 {
        if round % 5 == 4 {
            database.delete(b"key");
        } else {
            database.put(b"key", &key(round));
        }
        snapshots.push(database.engine().snapshot().expect("snapshot"));
        if round % 9 == 0 {
            database.flush();
        }
    }
    assert!(snapshots.is_sorted_by(|one, next| one.position() < next.position()));
    // Letting go of some must not let go of what the others see.
    let kept: Vec<_> = snapshots.into_iter().enumerate().filter(|(round, _)| round % 2 == 0).collect();
    for compacted in [false, true] {
        if compacted {
            database.flush();
            database.compact();
        }
        for (round, snapshot) in &kept {
            let value = (round % 5 != 4).then(|| key(*round));
            database.assert_value(ReadAt::Snapshot(snapshot), b"key", value.as_deref());
        }
    }
}

fn clones(database: &mut Database) {
    database.put(b"a", b"1");
    let snapshot = database.engine().snapshot().expect("snapshot");
    let clone = snapshot.clone();
    assert_eq!(clone.position(), snapshot.position());
    drop(snapshot);
    database.put(b"a", b"2");
    database.flush();
    database.compact();
    database.assert_value(ReadAt::Snapshot(&clone), b"a", Some(b"1"));
}

fn counted(database: &mut Database) {
    assert_eq!(database.engine().stats().snapshot_count, 0);
    let first = database.engine().snapshot().expect("snapshot");
    let second = database.engine().snapshot().expect("snapshot");
    assert_eq!(database.engine().stats().snapshot_count, 2);
    let clone = first.clone();
    drop((first, second));
    assert_eq!(database.engine().stats().snapshot_count, 1, "a clone is the same snapshot");
    drop(clone);
    assert_eq!(database.engine().stats().snapshot_count, 0);
}

fn across_keyspaces(database: &mut Database) {
    let other = database.engine().create_keyspace("other", KeyspaceSettings::default()).expect("create");
    let keyspace = database.keyspace;
    let mut batch = Batch::new();
    batch.put(keyspace, b"a", b"1").put(other, b"a", b"1");
    database.write(&batch);
    let snapshot = database.engine().snapshot().expect("snapshot");
    batch.clear();
    batch.put(keyspace, b"a", b"2").put(other, b"a", b"2");
    database.write(&batch);
    for place in [keyspace, other] {
        let old = database.db().get(ReadAt::Snapshot(&snapshot), place, b"a").expect("get");
        let new = database.db().get(ReadAt::Latest, place, b"a").expect("get");
        assert_eq!((old.as_deref(), new.as_deref()), (Some(&b"1"[..]), Some(&b"2"[..])));
    }
}

fn scans_keep_their_point(database: &mut Database) {
    for number in 0..500 {
        database.put(&key(number), b"first");
    }
    let keyspace = database.keyspace;
    let mut session = Blocking::new(database.ordered().ordered_session());
    for range in [ScanRange::all(), ScanRange::all().backward()] {
        let mut scan = session.session().scan(ReadAt::Latest, keyspace, range).expect("scan");
        let mut batch = ScanBatch::new();
        let mut seen = 0;
        while !batch.is_finished() {
            let limit = BatchLimit { records: 50, bytes: 1 << 20 };
            session.next_batch(&mut *scan, limit, &mut batch).expect("next_batch");
            assert!(batch.records().all(|(_, value)| value == b"first"), "the scan sees what came after it");
            seen += batch.len();
            for number in 0..500 {
                match number % 2 {
                    0 => database.put(&key(number), b"second"),
                    _ => database.delete(&key(number)),
                };
            }
            database.put(&key(1000 + seen), b"new");
            match seen {
                100 => database.flush(),
                200 => database.compact(),
                _ => {}
            }
        }
        assert_eq!(seen, 500, "every record of the scan's point, none else");
        database.delete_range(&key(1000), &key(9999));
        for number in 0..500 {
            database.put(&key(number), b"first");
        }
    }
}

fn scans_outlive(database: &mut Database) {
    for number in 0..200 {
        database.put(&key(number), b"first");
    }
    database.flush();
    let keyspace = database.keyspace;
    let mut inner = database.ordered().ordered_session();
    inner.set_inline(true);
    let snapshot = database.engine().snapshot().expect("snapshot");
    let mut scan = inner.scan(ReadAt::Snapshot(&snapshot), keyspace, ScanRange::all()).expect("scan");
    drop(snapshot);
    for number in 0..200 {
        database.put(&key(number), b"second");
    }
    database.flush();
    database.compact();
    drop(inner);
    let mut batch = ScanBatch::new();
    let outcome =
        scan.next_batch(BatchLimit { records: 1000, bytes: 1 << 20 }, &mut batch).expect("next_batch");
    if outcome.done().is_some() {
        assert_eq!(batch.len(), 200);
        assert!(batch.records().all(|(_, value)| value == b"first"), "a scan owns what it pins");
    }
}
