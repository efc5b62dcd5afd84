//! Scans in both directions, within bounds, by batch.

use std::sync::Arc;

use super::Check;
use super::database::{Database, Pairs, key, noise};
use crate::{
    BatchLimit, Direction, ErrorKind, KeyspaceSettings, Outcome, ReadAt, Scan, ScanBatch, ScanRange,
};

pub(super) const CHECKS: &[Check] = &[
    ("scans::keys come in byte order, both ways", true, both_ways),
    ("scans::start is included and end is not", true, bounds),
    ("scans::only keys with the prefix", true, prefixes),
    ("scans::prefixes work with an extractor", true, prefixes_with_extractor),
    ("scans::limits end batches and one record always fits", true, limits),
    ("scans::a finished scan stays finished", true, finished),
    ("scans::deleted records are not seen", true, deleted),
    ("scans::an empty keyspace is scanned in one batch", true, empty),
    ("scans::versions in every stage merge into one answer", true, every_stage),
    ("scans::one that another is opened from sees the same point", true, reopened),
    ("scans::none is opened from one whose batch is pending", true, reopened_while_pending),
];

/// What a scan of `pairs` (in order) must give.
fn expected(pairs: &Pairs, range: &ScanRange) -> Pairs {
    let mut found: Pairs = pairs
        .iter()
        .filter(|(key, _)| *key >= range.start && range.end.as_ref().is_none_or(|end| key < end))
        .filter(|(key, _)| range.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix)))
        .cloned()
        .collect();
    if range.direction == Direction::Backward {
        found.reverse();
    }
    found
}

#[track_caller]
fn assert_scan(database: &mut Database, pairs: &Pairs, range: ScanRange) {
    for range in [range.clone(), range.backward()] {
        assert!(database.scan(range.clone()) == expected(pairs, &range), "scan of {range:?}");
    }
}

/// Keys of odd shapes, in order.
fn odd_pairs() -> Pairs {
    let mut keys: Vec<Vec<u8>> = (0..100).map(key).collect();
    keys.extend([
        vec![],
        vec![0],
        vec![0, 0],
        vec![0xff],
        vec![0xff, 0xff],
        vec![0xff, 0],
        vec![0x7f],
        vec![0x80],
    ]);
    keys.extend((0..30).map(|length| vec![b'k'; length + 1]));
    keys.extend((0..30).map(|number| [&b"key-\xff"[..], &[number * 8]].concat()));
    keys.sort();
    keys.dedup();
    keys.into_iter().enumerate().map(|(index, key)| (key, noise(index as u64, index % 60))).collect()
}

fn fill(database: &mut Database, pairs: &Pairs) {
    // In an order that is neither up nor down.
    for step in 0..7 {
        for (key, value) in pairs.iter().skip(step).step_by(7) {
            database.put(key, value);
        }
    }
}

fn both_ways(database: &mut Database) {
    let pairs = odd_pairs();
    fill(database, &pairs);
    database.everywhere(&mut |database| assert_scan(database, &pairs, ScanRange::all()));
}

fn bounds(database: &mut Database) {
    let pairs = odd_pairs();
    fill(database, &pairs);
    let edges = [
        &b""[..],
        b"\0",
        b"k",
        b"kk",
        b"key-",
        b"key-000050",
        b"key-000050\0",
        b"l",
        b"\xff",
        b"\xff\xff\xff",
    ];
    database.everywhere(&mut |database| {
        for start in edges {
            assert_scan(database, &pairs, ScanRange::from(start..));
            for end in edges {
                assert_scan(database, &pairs, ScanRange::between(start, end));
            }
        }
    });
}

fn assert_prefixes(database: &mut Database, pairs: &Pairs) {
    for prefix in [
        &b""[..],
        b"k",
        b"key-",
        b"key-0000",
        b"key-00005",
        b"key-\xff",
        b"\xff",
        b"\xff\xff",
        b"none",
        b"\0",
    ] {
        let range = ScanRange::with_prefix(prefix);
        assert_scan(database, pairs, range.clone());
        assert_scan(database, pairs, ScanRange { start: b"key-000020".to_vec(), ..range.clone() });
        assert_scan(database, pairs, ScanRange { end: Some(b"key-000020".to_vec()), ..range });
    }
}

fn prefixes(database: &mut Database) {
    let pairs = odd_pairs();
    fill(database, &pairs);
    database.everywhere(&mut |database| assert_prefixes(database, &pairs));
}

fn prefixes_with_extractor(database: &mut Database) {
    let settings = KeyspaceSettings {
        prefix_extractor: Some(super::PREFIX_4.to_owned()),
        ..KeyspaceSettings::default()
    };
    database.keyspace = database.engine().create_keyspace("prefixed", settings).expect("create");
    let pairs = odd_pairs();
    fill(database, &pairs);
    database.everywhere(&mut |database| assert_prefixes(database, &pairs));
}

fn limits(database: &mut Database) {
    for number in 0..100 {
        database.put(&key(number), &noise(number as u64, 1000));
    }
    database.everywhere(&mut |database| {
        let keyspace = database.keyspace;
        for (records, bytes, most) in [(1, 1 << 20, 1), (7, 1 << 20, 7), (1000, 1, 1), (1000, 5 * 1010, 6)] {
            for range in [ScanRange::all(), ScanRange::all().backward()] {
                let mut scan =
                    database.ordered_db().session().scan(ReadAt::Latest, keyspace, range).expect("scan");
                let mut batch = ScanBatch::new();
                let mut seen = Vec::new();
                while !batch.is_finished() {
                    let limit = BatchLimit { records, bytes };
                    database.ordered_db().next_batch(&mut *scan, limit, &mut batch).expect("next_batch");
                    assert!(batch.len() <= most, "{} records in a batch limited by {limit:?}", batch.len());
                    assert!(!batch.is_empty() || batch.is_finished(), "one record always fits");
                    seen.extend(batch.records().map(|(key, _)| key.to_vec()));
                }
                seen.sort();
                seen.dedup();
                assert_eq!(seen.len(), 100, "each record once, whatever the limits");
            }
        }
    });
}

fn finished(database: &mut Database) {
    for number in 0..5 {
        database.put(&key(number), b"1");
    }
    let keyspace = database.keyspace;
    for range in [ScanRange::all(), ScanRange::all().backward(), ScanRange::with_prefix(b"none")] {
        let mut scan = database.ordered_db().session().scan(ReadAt::Latest, keyspace, range).expect("scan");
        let mut batch = ScanBatch::new();
        while !batch.is_finished() {
            database
                .ordered_db()
                .next_batch(&mut *scan, BatchLimit::default(), &mut batch)
                .expect("next_batch");
        }
        database.put(b"zzz", b"later");
        for _ in 0..3 {
            database
                .ordered_db()
                .next_batch(&mut *scan, BatchLimit::default(), &mut batch)
                .expect("next_batch");
            assert!(
                batch.is_empty() && batch.is_finished(),
                "after the end every batch is empty and finished"
            );
        }
        database.delete(b"zzz");
    }
}

fn deleted(database: &mut Database) {
    let pairs: Pairs = (0..200).map(|number| (key(number), key(number))).collect();
    fill(database, &pairs);
    database.flush();
    for number in 50..150 {
        database.delete(&key(number));
    }
    let left: Pairs = pairs.iter().filter(|(k, _)| !(key(50)..key(150)).contains(k)).cloned().collect();
    database.everywhere(&mut |database| {
        assert_scan(database, &left, ScanRange::all());
        assert_scan(database, &left, ScanRange::between(&key(60), &key(155)));
    });
    for number in 0..200 {
        database.delete(&key(number));
    }
    database.everywhere(&mut |database| assert_scan(database, &Pairs::new(), ScanRange::all()));
}

fn empty(database: &mut Database) {
    database.everywhere(&mut |database| {
        let keyspace = database.keyspace;
        for range in [ScanRange::all(), ScanRange::all().backward()] {
            let mut scan =
                database.ordered_db().session().scan(ReadAt::Latest, keyspace, range).expect("scan");
            let mut batch = ScanBatch::new();
            database
                .ordered_db()
                .next_batch(&mut *scan, BatchLimit::default(), &mut batch)
                .expect("next_batch");
            assert!(batch.is_empty() && batch.is_finished());
        }
    });
}

fn every_stage(database: &mut Database) {
    let mut pairs: Pairs = (0..400).map(|number| (key(number), b"compacted".to_vec())).collect();
    fill(database, &pairs);
    database.flush();
    database.compact();
    for (stage, step) in [("flushed", 3), ("flushed again", 5), ("in memory", 7)] {
        for (number, pair) in pairs.iter_mut().enumerate().step_by(step) {
            pair.1 = format!("{stage} {number}").into_bytes();
            database.put(&pair.0, &pair.1);
        }
        if stage != "in memory" {
            database.flush();
        }
    }
    database.everywhere(&mut |database| {
        assert_scan(database, &pairs, ScanRange::all());
        assert_scan(database, &pairs, ScanRange::between(&key(33), &key(333)));
    });
}

/// What is left of `scan`.
fn rest(database: &mut Database, scan: &mut dyn Scan) -> Pairs {
    let (mut batch, mut found) = (ScanBatch::new(), Pairs::new());
    while !batch.is_finished() {
        let limit = BatchLimit { records: 7, ..BatchLimit::default() };
        database.ordered_db().next_batch(scan, limit, &mut batch).expect("next_batch");
        found.extend(batch.records().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    found
}

fn reopened(database: &mut Database) {
    let pairs: Pairs = (0..200).map(|number| (key(number), noise(number as u64, 20))).collect();
    fill(database, &pairs);
    let keyspace = database.keyspace;
    let session = database.ordered_db().session();
    let mut first = session.scan(ReadAt::Latest, keyspace, ScanRange::all()).expect("scan");
    let mut batch = ScanBatch::new();
    let limit = BatchLimit { records: 10, ..BatchLimit::default() };
    database.ordered_db().next_batch(&mut *first, limit, &mut batch).expect("next_batch");
    assert_eq!(batch.len(), 10);
    let changes: [fn(&mut Database); 4] = [
        |database| (0..200).step_by(3).for_each(|number| _ = database.put(&key(number), b"later")),
        |database| {
            database.delete_range(&key(50), &key(100));
            (0..20).for_each(|number| _ = database.delete(&key(number)));
            database.put(b"key-000010+", b"new");
        },
        |database| database.flush(),
        |database| database.compact(),
    ];
    let ranges = [
        ScanRange::all().backward(),
        ScanRange::from(key(40)..key(120)),
        ScanRange::from(key(40)..=key(120)).backward(),
        ScanRange::with_prefix("key-00005"),
        ScanRange::from("nothing"..),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        change(database);
        for range in &ranges {
            let mut other = first.reopen(range.clone()).expect("reopen");
            let found = rest(database, &mut *other);
            assert!(found == expected(&pairs, range), "change {number}, then a scan of {range:?}");
            // From one that is at its end, too.
            let mut again = other.reopen(range.clone()).expect("reopen");
            assert!(rest(database, &mut *again) == found, "change {number}, again a scan of {range:?}");
        }
    }
    let (found, left) = (rest(database, &mut *first), &pairs[10..]);
    assert!(found == left, "the first scan has not moved");
}

fn reopened_while_pending(database: &mut Database) {
    (0..50).for_each(|number| _ = database.put(&key(number), b"1"));
    database.flush();
    let keyspace = database.keyspace;
    let ordered = Arc::clone(database.engine()).ordered().expect("ordered");
    let mut session = ordered.ordered_session();
    let mut scan = session.scan(ReadAt::Latest, keyspace, ScanRange::all()).expect("scan");
    let mut batch = ScanBatch::new();
    let Outcome::Pending(ticket) = scan.next_batch(BatchLimit::default(), &mut batch).expect("next_batch")
    else {
        return;
    };
    // An engine may have done with the batch and not delivered it.
    if let Err(error) = scan.reopen(ScanRange::all()) {
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let mut is_delivered = false;
    while !is_delivered {
        session.wait(None);
        session.poll(&mut |arrived, _| is_delivered |= arrived == ticket);
    }
    assert!(scan.reopen(ScanRange::all()).is_ok());
}
