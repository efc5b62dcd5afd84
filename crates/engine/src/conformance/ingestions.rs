//! Sorted records that come in bulk.

use super::Check;
use super::database::{Database, Pairs, key, noise};
use crate::{
    Batch, ErrorKind, Ingestion, KeyspaceId, KeyspaceSettings, Position, ReadAt, ReadSet, ScanRange,
    WriteOptions,
};

pub(super) const CHECKS: &[Check] = &[
    ("ingestions::records are there together, and only once it is finished", true, together),
    ("ingestions::one that is not finished leaves nothing", true, dropped),
    ("ingestions::keys that do not rise are refused, and nothing else is lost", true, rising),
    (
        "ingestions::it is newer than what was written before, and older than what is written later",
        true,
        in_order,
    ),
    ("ingestions::snapshots show what was there when they were taken", true, snapshots),
    ("ingestions::values of all lengths are what was given", true, of_all_lengths),
    ("ingestions::records expire as others do", true, expiring),
    ("ingestions::one is a write to what a transaction has read", true, conflicts),
    ("ingestions::several follow one another, each as a whole", true, several),
    ("ingestions::scans pass no range that was empty before", true, after_gaps),
    ("ingestions::one without records changes nothing", true, empty),
    ("ingestions::what cannot be ingested is refused", true, refused),
];

fn begin(database: &Database) -> Box<dyn Ingestion> {
    database.ordered().ingest(database.keyspace).expect("ingest")
}

/// Ingests `value` for the keys of these numbers, which rise.
#[track_caller]
fn ingest(database: &Database, numbers: impl IntoIterator<Item = usize>, value: &[u8]) -> Position {
    let mut ingestion = begin(database);
    numbers.into_iter().for_each(|number| ingestion.put(&key(number), value, 0).expect("put"));
    ingestion.finish().expect("finish")
}

fn all(database: &mut Database) -> Pairs {
    database.scan(ScanRange::all())
}

const COUNT: usize = 500;

fn together(database: &mut Database) {
    database.put(&key(COUNT), b"beside");
    let mut ingestion = begin(database);
    for number in 0..COUNT {
        ingestion.put(&key(number), &noise(number as u64, 100), 0).expect("put");
        if number % 100 == 99 {
            assert_eq!(database.get(&key(0)), None, "a record before the end");
            assert_eq!(all(database).len(), 1);
        }
    }
    let before = database.engine().snapshot().expect("snapshot").position();
    let end = ingestion.finish().expect("finish");
    assert!(end > before, "the position {end} of an ingestion that was finished after {before}");
    database.everywhere(&mut |database| {
        for number in [0, 1, COUNT / 2, COUNT - 1] {
            database.assert_value(ReadAt::Latest, &key(number), Some(&noise(number as u64, 100)));
        }
        let found = all(database);
        let expected = (0..COUNT).map(|number| (key(number), noise(number as u64, 100)));
        assert!(found.into_iter().eq(expected.chain([(key(COUNT), b"beside".to_vec())])), "a scan");
        assert_eq!(database.scan(ScanRange::all().backward()).len(), COUNT + 1);
    });
}

fn dropped(database: &mut Database) {
    database.put(&key(3), b"before");
    let mut ingestion = begin(database);
    (0..COUNT).for_each(|number| ingestion.put(&key(number), b"dropped", 0).expect("put"));
    drop(ingestion);
    database.everywhere(&mut |database| {
        assert_eq!(all(database), [(key(3), b"before".to_vec())]);
    });
    ingest(database, 2..5, b"later");
    database.everywhere(&mut |database| assert_eq!(all(database).len(), 3));
}

fn rising(database: &mut Database) {
    let mut ingestion = begin(database);
    ingestion.put(b"b", b"1", 0).expect("put");
    for wrong in [&b"b"[..], b"a", b""] {
        let error = ingestion.put(wrong, b"2", 0).expect_err("a key that does not rise");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for name in [wrong, b"b"] {
            let shown = format!("\"{}\"", name.escape_ascii());
            assert!(error.to_string().contains(&shown), "{error} does not name {shown}");
        }
    }
    ingestion.put(b"b\0", b"3", 0).expect("put");
    ingestion.finish().expect("finish");
    let expected = [(b"b".to_vec(), b"1".to_vec()), (b"b\0".to_vec(), b"3".to_vec())];
    database.everywhere(&mut |database| assert_eq!(all(database), expected));
}

fn in_order(database: &mut Database) {
    let settings =
        KeyspaceSettings { merge_operator: Some(super::APPEND.to_owned()), ..KeyspaceSettings::default() };
    for at in 0..4 {
        let name = format!("appending {at}");
        database.keyspace = database.engine().create_keyspace(&name, settings.clone()).expect("create");
        for number in 0..10 {
            database.put(&key(number), b"old");
        }
        // What was before is in the buffer, in tables of the first level, of the last, of both.
        if at == 1 || at == 3 {
            database.flush();
        }
        if at == 2 || at == 3 {
            database.compact();
        }
        database.merge(&key(2), b"operand");
        database.delete(&key(3));
        database.delete_range(&key(4), &key(6));
        if at == 3 {
            database.flush();
        }
        ingest(database, 1..8, b"new");
        database.put(&key(1), b"newest");
        database.merge(&key(2), b"er");
        database.delete(&key(3));
        database.delete_range(&key(5), &key(6));
        let text = |number| match number {
            1 => Some(&b"newest"[..]),
            2 => Some(&b"newer"[..]),
            3 | 5 => None,
            0 | 8 | 9 => Some(&b"old"[..]),
            _ => Some(&b"new"[..]),
        };
        database.everywhere(&mut |database| {
            (0..10).for_each(|number| database.assert_value(ReadAt::Latest, &key(number), text(number)));
        });
    }
}

fn snapshots(database: &mut Database) {
    (0..20).for_each(|number| _ = database.put(&key(2 * number), b"old"));
    let before = database.engine().snapshot().expect("snapshot");
    ingest(database, 10..30, b"new");
    let between = database.engine().snapshot().expect("snapshot");
    (0..20).for_each(|number| _ = database.put(&key(2 * number), b"newest"));
    for step in 0..3 {
        match step {
            1 => database.flush(),
            2 => database.compact(),
            _ => {}
        }
        let (old, new) = (ReadAt::Snapshot(&before), ReadAt::Snapshot(&between));
        database.assert_value(old, &key(11), None);
        database.assert_value(old, &key(12), Some(b"old"));
        database.assert_value(new, &key(11), Some(b"new"));
        database.assert_value(new, &key(12), Some(b"new"));
        database.assert_value(new, &key(8), Some(b"old"));
        database.assert_value(ReadAt::Latest, &key(12), Some(b"newest"));
        assert_eq!(database.scan_at(old, ScanRange::all()).len(), 20);
        assert_eq!(database.scan_at(new, ScanRange::all()).len(), 5 + 20 + 5);
    }
}

const LENGTHS: [usize; 8] = [0, 1, 31, 32, 999, 1000, 70_000, 3 << 20];

fn of_all_lengths(database: &mut Database) {
    for (name, separate_bytes) in [("inside", None), ("separated", Some(32)), ("some", Some(1000))] {
        let settings = KeyspaceSettings { separate_bytes, ..KeyspaceSettings::default() };
        database.keyspace = database.engine().create_keyspace(name, settings).expect("create_keyspace");
        let mut ingestion = begin(database);
        for (number, bytes) in LENGTHS.into_iter().enumerate() {
            ingestion.put(&key(number), &noise(bytes as u64, bytes), 0).expect("put");
        }
        ingestion.finish().expect("finish");
        // Some of what was separated dies.
        database.put(&key(4), b"short");
        database.everywhere(&mut |database| {
            for (number, bytes) in LENGTHS.into_iter().enumerate().filter(|(number, _)| *number != 4) {
                let found = database.get(&key(number));
                assert!(found == Some(noise(bytes as u64, bytes)), "a value of {bytes} bytes");
            }
            assert_eq!(all(database).len(), LENGTHS.len());
        });
    }
}

fn expiring(database: &mut Database) {
    let soon = database.harness.now_ms() + 1000;
    let mut ingestion = begin(database);
    for number in 0..10 {
        let expires_at_ms = if number % 2 == 0 { soon } else { 0 };
        ingestion.put(&key(number), b"value", expires_at_ms).expect("put");
    }
    ingestion.finish().expect("finish");
    assert_eq!(all(database).len(), 10);
    database.harness.advance_ms(1000);
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, &key(4), None);
        database.assert_value(ReadAt::Latest, &key(5), Some(b"value"));
        assert_eq!(all(database).len(), 5);
    });
}

fn conflicts(database: &mut Database) {
    let keyspace = database.keyspace;
    for (numbers, is_written) in [(10..20, false), (20..30, true)] {
        let mut reads = ReadSet::new(database.engine().snapshot().expect("snapshot"));
        reads.add(keyspace, &key(15)).expect("room");
        ingest(database, numbers, b"ingested");
        let batch = Batch::new().put(keyspace, &key(15), b"written").clone();
        let written = database.db().write_if(&batch, reads, WriteOptions::default());
        match is_written {
            true => drop(written.expect("nothing that was read was ingested")),
            false => {
                let error = written.expect_err("what was read was ingested since");
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
        }
    }
    database.assert_value(ReadAt::Latest, &key(15), Some(b"written"));
}

fn several(database: &mut Database) {
    // Beside one another, and over one another; two at the same time, of which the later one
    // counts.
    ingest(database, 0..50, b"1");
    ingest(database, 100..150, b"2");
    ingest(database, (0..150).step_by(2), b"3");
    let (mut first, mut second) = (begin(database), begin(database));
    for number in 60..70 {
        first.put(&key(number), b"first", 0).expect("put");
        second.put(&key(number), b"second", 0).expect("put");
    }
    let (second, first) = (second.finish().expect("finish"), first.finish().expect("finish"));
    assert!(second < first, "positions {second} and {first} in the order of finishing");
    database.everywhere(&mut |database| {
        for (number, value) in [
            (1, Some(&b"1"[..])),
            (101, Some(b"2")),
            (40, Some(b"3")),
            (140, Some(b"3")),
            (51, None),
            (65, Some(b"first")),
        ] {
            database.assert_value(ReadAt::Latest, &key(number), value);
        }
    });
}

fn after_gaps(database: &mut Database) {
    (0..100).for_each(|number| _ = database.put(&key(number), b"old"));
    (0..100).for_each(|number| _ = database.delete(&key(number)));
    let before = database.engine().snapshot().expect("snapshot");
    for range in [ScanRange::all(), ScanRange::all().backward()] {
        assert_eq!(database.scan(range.clone()), []);
        assert_eq!(database.scan(range), []);
    }
    ingest(database, 40..60, b"new");
    for range in [ScanRange::all(), ScanRange::all().backward()] {
        assert_eq!(database.scan_at(ReadAt::Snapshot(&before), range.clone()), []);
        assert_eq!(database.scan(range).len(), 20);
    }
}

fn empty(database: &mut Database) {
    database.put(b"a", b"1");
    let before = database.engine().snapshot().expect("snapshot").position();
    let end = begin(database).finish().expect("finish");
    assert!(end >= before, "{end} is before {before}");
    database.everywhere(&mut |database| assert_eq!(all(database).len(), 1));
}

fn refused(database: &mut Database) {
    let kind = |result: crate::Result<()>| result.expect_err("refused").kind();
    let ordered = database.ordered();
    assert_eq!(kind(ordered.ingest(KeyspaceId(77)).map(drop)), ErrorKind::Invalid);
    let mut ingestion = begin(database);
    assert_eq!(kind(ingestion.put(&vec![b'x'; 1 << 16], b"", 0)), ErrorKind::Invalid);
    ingestion.put(b"a", b"1", 0).expect("put");
    ingestion.finish().expect("finish");
    // A keyspace that goes meanwhile.
    let other = database.engine().create_keyspace("other", KeyspaceSettings::default()).expect("create");
    let mut ingestion = ordered.ingest(other).expect("ingest");
    ingestion.put(b"a", b"1", 0).expect("put");
    database.engine().drop_keyspace(other).expect("drop_keyspace");
    assert_eq!(kind(ingestion.put(b"b", b"1", 0)), ErrorKind::Invalid);
    assert_eq!(kind(ingestion.finish().map(drop)), ErrorKind::Invalid);
    // A database that closes meanwhile.
    let (mut ingestion, mut finished) = (begin(database), begin(database));
    ingestion.put(b"b", b"1", 0).expect("put");
    finished.put(b"c", b"1", 0).expect("put");
    database.engine().close().expect("close");
    assert_eq!(kind(ingestion.put(b"d", b"1", 0)), ErrorKind::Closed);
    assert_eq!(kind(finished.finish().map(drop)), ErrorKind::Closed);
    assert_eq!(kind(ordered.ingest(database.keyspace).map(drop)), ErrorKind::Closed);
    drop((ingestion, ordered));
    database.reopen();
    assert_eq!(all(database), [(b"a".to_vec(), b"1".to_vec())]);
}
