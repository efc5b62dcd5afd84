//! Scans in both directions, within bounds, by batch.

use super::Check;
use super::database::{Database, Pairs, key, noise};
use crate::{BatchLimit, Direction, KeyspaceSettings, ReadAt, ScanBatch, ScanRange};

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
            assert_scan(database, &pairs, ScanRange::from(start));
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
