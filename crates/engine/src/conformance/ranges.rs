//! Range deletes.

use super::Check;
use super::database::{Database, key, noise};
use crate::{ReadAt, ScanRange};

pub(super) const CHECKS: &[Check] = &[
    ("ranges::start is covered and end is not", true, bounds),
    ("ranges::cover every stage and only what is older", true, every_stage),
    ("ranges::empty and reversed ranges delete nothing", true, empty_ranges),
    ("ranges::overlapping ranges", true, overlapping),
    ("ranges::many ranges", true, many),
    ("ranges::from the empty key, to the last", true, extremes),
    ("ranges::only their keyspace", true, only_their_keyspace),
];

fn fill(database: &mut Database, value: &[u8]) {
    for number in 0..100 {
        database.put(&key(number), value);
    }
}

#[track_caller]
fn assert_left(database: &mut Database, is_left: impl Fn(usize) -> bool) {
    let left: Vec<Vec<u8>> = (0..100).filter(|number| is_left(*number)).map(key).collect();
    let scanned: Vec<Vec<u8>> = database.scan(ScanRange::all()).into_iter().map(|(key, _)| key).collect();
    assert_eq!(scanned, left, "scan after a range delete");
    let mut backward: Vec<Vec<u8>> =
        database.scan(ScanRange::all().backward()).into_iter().map(|(key, _)| key).collect();
    backward.reverse();
    assert_eq!(backward, left, "backward scan after a range delete");
    for number in 0..100 {
        assert_eq!(database.get(&key(number)).is_some(), is_left(number), "get of key {number}");
    }
}

fn bounds(database: &mut Database) {
    fill(database, b"1");
    database.delete_range(&key(20), &key(30));
    database.everywhere(&mut |database| assert_left(database, |number| !(20..30).contains(&number)));
}

fn every_stage(database: &mut Database) {
    fill(database, b"compacted");
    database.flush();
    database.compact();
    for number in (0..100).step_by(2) {
        database.put(&key(number), b"flushed");
    }
    database.flush();
    for number in (0..100).step_by(3) {
        database.put(&key(number), b"in memory");
    }
    database.delete_range(&key(10), &key(90));
    database.put(&key(50), b"after");
    let is_left = |number: usize| !(10..90).contains(&number) || number == 50;
    database.everywhere(&mut |database| {
        assert_left(database, is_left);
        database.assert_value(ReadAt::Latest, &key(50), Some(b"after"));
    });
    database.delete_range(&key(0), &key(60));
    database.everywhere(&mut |database| assert_left(database, |number| number >= 90));
}

fn empty_ranges(database: &mut Database) {
    fill(database, b"1");
    let keyspace = database.keyspace;
    for (start, end) in [(20, 20), (30, 20)] {
        // An engine may refuse such a range or ignore it; it must not delete.
        let options = database.options;
        let _ = database.ordered_db().delete_range(keyspace, &key(start), &key(end), options);
    }
    database.delete_range(b"a", b"b");
    database.everywhere(&mut |database| assert_left(database, |_| true));
}

fn overlapping(database: &mut Database) {
    fill(database, b"1");
    for (start, end) in [(10, 30), (20, 40), (25, 26), (60, 90), (70, 80), (5, 12)] {
        database.delete_range(&key(start), &key(end));
        database.put(&key(25), b"again");
        database.put(&key(75), b"again");
    }
    // The last ranges came after 25 was put for the last time but do not cover it.
    let is_left = |number: usize| match number {
        25 | 75 => true,
        5..40 | 60..90 => false,
        _ => true,
    };
    database.everywhere(&mut |database| assert_left(database, is_left));
}

fn many(database: &mut Database) {
    let count = 3000;
    for number in 0..count {
        database.put(&key(number), &noise(number as u64, 20));
    }
    for number in (0..count).step_by(3) {
        database.delete_range(&key(number), &key(number + 2));
        if number == 1500 {
            database.flush();
        }
    }
    database.everywhere(&mut |database| {
        let scanned = database.scan(ScanRange::all());
        assert_eq!(scanned.len(), count / 3);
        for (index, (found, _)) in scanned.iter().enumerate() {
            assert_eq!(*found, key(index * 3 + 2));
        }
        for number in (0..count).step_by(97) {
            assert_eq!(database.get(&key(number)).is_some(), number % 3 == 2, "get of key {number}");
        }
    });
}

fn extremes(database: &mut Database) {
    fill(database, b"1");
    database.put(b"", b"empty key");
    database.put(&[0xff; 20], b"last key");
    database.delete_range(b"", &key(50));
    database.assert_value(ReadAt::Latest, b"", None);
    database.delete_range(&key(60), &[0xff; 21]);
    database.everywhere(&mut |database| assert_left(database, |number| (50..60).contains(&number)));
}

fn only_their_keyspace(database: &mut Database) {
    fill(database, b"1");
    let other =
        database.engine().create_keyspace("other", crate::KeyspaceSettings::default()).expect("create");
    let own = std::mem::replace(&mut database.keyspace, other);
    fill(database, b"1");
    database.delete_range(&key(0), &key(50));
    database.everywhere(&mut |database| {
        database.keyspace = other;
        assert_left(database, |number| number >= 50);
        database.keyspace = own;
        assert_left(database, |_| true);
    });
}
