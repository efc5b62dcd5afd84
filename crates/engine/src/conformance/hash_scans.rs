//! Scans by hash: every key, from cursor to cursor. Engines without them pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Check;
use super::database::{Database, key, noise};
use crate::blocking::Blocking;
use crate::{
    Batch, BatchLimit, ErrorKind, HashBatch, HashCursor, HashScan, HashedSession, KeyspaceId,
    KeyspaceSettings, ReadAt, Result, WriteOptions,
};

pub(super) const CHECKS: &[Check] = &[
    ("hash scans::every key is returned once, with its value", false, whole),
    ("hash scans::a batch ends at its limit and goes on from its cursor", false, resumed),
    ("hash scans::a cursor holds for other sessions and after reopening", false, resumed_elsewhere),
    ("hash scans::a key that stays is returned whatever is written meanwhile", false, disturbed),
    ("hash scans::deleted and expired keys are left out", false, gone),
    ("hash scans::a snapshot's keys are returned as they were", false, at_snapshots),
    ("hash scans::keyspaces are apart", false, keyspaces),
    ("hash scans::operands are merged", false, operands),
    ("hash scans::long values are read, or left alone", false, long_values),
];

/// A session that scans by hash; `None` if the engine has none.
fn session(database: &Database) -> Option<Blocking<dyn HashedSession>> {
    let hashed = Arc::clone(database.engine()).hashed()?;
    Some(Blocking::new(hashed.hashed_session()))
}

fn scan(keyspace: KeyspaceId, from: HashCursor, records: usize) -> HashScan {
    HashScan { keyspace, from, limit: BatchLimit { records, ..BatchLimit::default() }, has_values: true }
}

/// Keys with their values, and when they expire.
type Found = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// Records that a scan from its beginning returns, in batches of `records`.
fn all(database: &Database, at: ReadAt<'_>, records: usize) -> Option<Found> {
    let mut session = session(database)?;
    let (mut found, mut batch, mut next) = (BTreeMap::new(), HashBatch::new(), Some(HashCursor::START));
    while let Some(from) = next {
        session.scan_by_hash(at, scan(database.keyspace, from, records), &mut batch).expect("scan_by_hash");
        for (index, (key, value)) in batch.records().records().enumerate() {
            let before = found.insert(key.to_vec(), (value.to_vec(), batch.expires_at_ms(index)));
            assert!(before.is_none(), "{:?} came twice", key.escape_ascii().to_string());
        }
        assert!(batch.next().is_none_or(|next| next > from), "a batch goes on behind its cursor");
        assert_eq!(batch.next().is_none(), batch.records().is_finished());
        next = batch.next();
    }
    Some(found)
}

/// Asserts that a scan returns these records, none of which expires.
#[track_caller]
fn assert_all(database: &Database, at: ReadAt<'_>, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for records in [1, 7, usize::MAX] {
        let Some(found) = all(database, at, records) else { return };
        let found: BTreeMap<_, _> = found.into_iter().map(|(key, (value, _))| (key, value)).collect();
        assert!(found == *expected, "batches of {records}: {} of {} keys", found.len(), expected.len());
    }
}

fn fill(database: &mut Database, numbers: std::ops::Range<usize>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let records = numbers.map(|number| (key(number), noise(number as u64, 40)));
    records.inspect(|(key, value)| _ = database.put(key, value)).collect()
}

fn whole(database: &mut Database) {
    assert_all(database, ReadAt::Latest, &BTreeMap::new());
    let mut expected = fill(database, 0..1500);
    for number in (0..1500).step_by(7) {
        let value = noise(number as u64 + 9, number % 90);
        database.put(&key(number), &value);
        expected.insert(key(number), value);
    }
    database.everywhere(&mut |database| assert_all(database, ReadAt::Latest, &expected));
}

fn resumed(database: &mut Database) {
    let Some(mut session) = session(database) else { return };
    let expected = fill(database, 0..300);
    let (mut batch, mut found, mut from) = (HashBatch::new(), 0, HashCursor::START);
    let mut batches = 0;
    loop {
        session.scan_by_hash(ReadAt::Latest, scan(database.keyspace, from, 10), &mut batch).expect("scan");
        assert!(batch.records().len() < 20, "more records share one slot and hash than is likely");
        (found, batches) = (found + batch.records().len(), batches + 1);
        let Some(next) = batch.next() else { break };
        // The same again, as a client does that lost the answer.
        let first: Vec<_> = batch.records().records().map(|(key, _)| key.to_vec()).collect();
        session.scan_by_hash(ReadAt::Latest, scan(database.keyspace, from, 10), &mut batch).expect("scan");
        assert!(batch.records().records().map(|(key, _)| key).eq(first.iter().map(Vec::as_slice)));
        from = HashCursor::from_u64(next.as_u64()).expect("a cursor is a number");
    }
    assert_eq!(found, expected.len());
    assert!(batches >= 15, "{batches} batches");
    // By bytes.
    let limit = BatchLimit { bytes: 100, ..BatchLimit::default() };
    let by_bytes = HashScan { limit, ..scan(database.keyspace, HashCursor::START, 1) };
    session.scan_by_hash(ReadAt::Latest, by_bytes, &mut batch).expect("scan");
    assert!((1..10).contains(&batch.records().len()));
}

fn resumed_elsewhere(database: &mut Database) {
    let expected = fill(database, 0..200);
    let (mut found, mut next) = (BTreeMap::new(), Some(HashCursor::START));
    while let Some(from) = next {
        let Some(mut session) = session(database) else { return };
        let mut batch = HashBatch::new();
        session.scan_by_hash(ReadAt::Latest, scan(database.keyspace, from, 90), &mut batch).expect("scan");
        found.extend(batch.records().records().map(|(key, value)| (key.to_vec(), value.to_vec())));
        next = batch.next();
        drop(session);
        database.reopen();
    }
    assert!(found == expected);
}

fn disturbed(database: &mut Database) {
    let Some(mut session) = session(database) else { return };
    let staying = fill(database, 0..400);
    let (mut found, mut batch, mut next) = (BTreeMap::new(), HashBatch::new(), Some(HashCursor::START));
    let mut number = 400;
    while let Some(from) = next {
        session.scan_by_hash(ReadAt::Latest, scan(database.keyspace, from, 10), &mut batch).expect("scan");
        found.extend(batch.records().records().map(|(key, _)| (key.to_vec(), ())));
        next = batch.next();
        for _ in 0..100 {
            database.put(&key(number), &noise(number as u64, 30));
            if number % 3 == 0 {
                database.delete(&key(number));
            }
            database.put(&key(number % 400), &noise(number as u64, number % 200));
            number = if number < 4000 { number + 1 } else { 400 };
        }
    }
    let missed: Vec<_> = staying.keys().filter(|key| !found.contains_key(*key)).collect();
    assert!(missed.is_empty(), "{} keys that stayed were not returned", missed.len());
}

fn gone(database: &mut Database) {
    let mut expected = fill(database, 0..100);
    for number in (0..100).step_by(3) {
        database.delete(&key(number));
        expected.remove(&key(number));
    }
    let expires_at_ms = database.harness.now_ms() + 1000;
    let options = WriteOptions { expires_at_ms, ..database.options };
    let keyspace = database.keyspace;
    database.db().put(keyspace, b"soon", b"1", options).expect("put");
    let late = WriteOptions { expires_at_ms: expires_at_ms + 1, ..options };
    database.db().put(keyspace, b"later", b"2", late).expect("put");
    database.everywhere(&mut |database| {
        let Some(found) = all(database, ReadAt::Latest, 10) else { return };
        assert_eq!(found.get(&b"soon"[..]), Some(&(b"1".to_vec(), expires_at_ms)));
        assert_eq!(found.len(), expected.len() + 2);
    });
    database.harness.advance_ms(1000);
    expected.insert(b"later".to_vec(), b"2".to_vec());
    database.everywhere(&mut |database| assert_all(database, ReadAt::Latest, &expected));
}

fn at_snapshots(database: &mut Database) {
    let expected = fill(database, 0..300);
    let snapshot = database.engine().snapshot().expect("snapshot");
    for number in 0..300 {
        match number % 3 {
            0 => _ = database.delete(&key(number)),
            1 => _ = database.put(&key(number), b"later"),
            _ => _ = database.put(&key(number + 1000), b"new"),
        }
    }
    assert_all(database, ReadAt::Snapshot(&snapshot), &expected);
    database.flush();
    assert_all(database, ReadAt::Snapshot(&snapshot), &expected);
}

fn keyspaces(database: &mut Database) {
    let first = fill(database, 0..100);
    let settings = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    let small = database.engine().create_keyspace("small", settings.clone()).expect("create");
    let again = database.engine().create_keyspace("small", settings).expect("create");
    assert_eq!(again, small);
    let other = database.engine().create_keyspace("other", KeyspaceSettings::default()).expect("create");
    assert!(other != small);
    let mut batch = Batch::new();
    (0..100).for_each(|number| _ = batch.put(small, &key(number), b"s").put(other, &key(number), b"o"));
    database.write(&batch);
    database.everywhere(&mut |database| {
        assert_all(database, ReadAt::Latest, &first);
        for (keyspace, value) in [(small, b"s"), (other, b"o")] {
            let before = std::mem::replace(&mut database.keyspace, keyspace);
            let expected = (0..100).map(|number| (key(number), value.to_vec())).collect();
            assert_all(database, ReadAt::Latest, &expected);
            database.assert_value(ReadAt::Latest, &key(7), Some(value));
            database.keyspace = before;
        }
    });
    let Some(mut session) = session(database) else { return };
    let mut slots: Vec<u16> = Vec::new();
    let (mut batch, mut next) = (HashBatch::new(), Some(HashCursor::START));
    while let Some(from) = next {
        session.scan_by_hash(ReadAt::Latest, scan(small, from, 1), &mut batch).expect("scan");
        next = batch.next();
        slots.extend(next.map(HashCursor::slot).filter(|_| !batch.records().is_empty()));
    }
    slots.dedup();
    assert!(slots.len() <= 2, "keys of a keyspace in one slot lie in {} slots", slots.len());
    let unknown: Result<()> =
        session.scan_by_hash(ReadAt::Latest, scan(KeyspaceId(77), HashCursor::START, 1), &mut batch);
    assert_eq!(unknown.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
}

fn operands(database: &mut Database) {
    let settings =
        KeyspaceSettings { merge_operator: Some(super::APPEND.to_owned()), ..KeyspaceSettings::default() };
    database.keyspace = database.engine().create_keyspace("merged", settings).expect("create");
    let mut expected = BTreeMap::new();
    for number in 0..60 {
        if number % 2 == 0 {
            database.put(&key(number), b"a");
        }
        database.merge(&key(number), b"b");
        database.merge(&key(number), b"c");
        expected.insert(key(number), if number % 2 == 0 { b"abc".to_vec() } else { b"bc".to_vec() });
    }
    database.everywhere(&mut |database| assert_all(database, ReadAt::Latest, &expected));
}

fn long_values(database: &mut Database) {
    let mut expected = fill(database, 0..10);
    for number in 0..3 {
        let value = noise(number, 900_000);
        database.put(&key(100 + number as usize), &value);
        expected.insert(key(100 + number as usize), value);
    }
    database.everywhere(&mut |database| {
        assert_all(database, ReadAt::Latest, &expected);
        let Some(mut session) = session(database) else { return };
        let (mut batch, mut next, mut count) = (HashBatch::new(), Some(HashCursor::START), 0);
        while let Some(from) = next {
            let keys = HashScan { has_values: false, ..scan(database.keyspace, from, 100) };
            session.scan_by_hash(ReadAt::Latest, keys, &mut batch).expect("scan");
            let is_key = |(key, value): (&[u8], &[u8])| value.is_empty() && expected.contains_key(key);
            assert!(batch.records().records().all(is_key));
            count += batch.records().len();
            next = batch.next();
        }
        assert_eq!(count, expected.len());
    });
}
