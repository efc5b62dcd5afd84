//! Scans from both ends, with seeks between: held to a list that is walked the same way.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use firn::storage::backend::Memory;
use firn::{Db, Direction, Record, Scan, ScanRange};

/// Keys are short, so that bounds, prefixes and sought keys often are keys.
fn key(rng: &mut Rng) -> Vec<u8> {
    let bytes = rng.usize(0..4);
    (0..bytes).map(|_| [0, b'a', b'b', b'c', 0xff][rng.usize(0..5)]).collect()
}

fn range(rng: &mut Rng) -> ScanRange {
    let mut some = |one_in: u8| (rng.u8(0..one_in) == 0).then(|| key(rng));
    let (start, end, prefix) = (some(3).unwrap_or_default(), some(3), some(4));
    let direction = [Direction::Forward, Direction::Backward][rng.usize(0..2)];
    ScanRange { start, end, prefix, direction }
}

/// What is left of a scan, as a list in its order.
struct Left {
    all: Vec<Record>,
    front: usize,
    back: usize,
    direction: Direction,
}

impl Left {
    fn of(content: &BTreeMap<Vec<u8>, Vec<u8>>, range: &ScanRange) -> Self {
        let (start, end) = range.bounds();
        let is_within = |key: &[u8]| key >= &start[..] && end.as_ref().is_none_or(|end| key < &end[..]);
        let within = content.iter().filter(|(key, _)| is_within(key));
        let mut all: Vec<Record> = within.map(|(key, value)| (key.clone(), value.clone())).collect();
        if range.direction == Direction::Backward {
            all.reverse();
        }
        Self { front: 0, back: all.len(), all, direction: range.direction }
    }

    fn next(&mut self) -> Option<Record> {
        let record = (self.front < self.back).then(|| self.all[self.front].clone());
        self.front += usize::from(record.is_some());
        record
    }

    fn next_back(&mut self) -> Option<Record> {
        let record = (self.front < self.back).then(|| self.all[self.back - 1].clone());
        self.back -= usize::from(record.is_some());
        record
    }

    fn seek(&mut self, key: &[u8]) {
        let direction = self.direction;
        let is_before = |record: &Record| match direction {
            Direction::Forward => record.0[..] < *key,
            Direction::Backward => record.0[..] > *key,
        };
        self.front = self.all.partition_point(is_before).min(self.back);
    }
}

/// Walks `scan` and `left` the same way until both are over, and a little further.
fn walk(scan: &mut Scan, left: &mut Left, rng: &mut Rng, seed: u64) {
    let (seeks, backs) = ([0, 0, 20, 4][rng.usize(0..4)], [0, 3, 2, 1][rng.usize(0..4)]);
    for step in 0..3 * left.all.len() + 10 {
        let sound = |record: Option<firn::Result<Record>>| record.transpose().expect("sound");
        if seeks > 0 && rng.u32(0..seeks) == 0 {
            let key = key(rng);
            scan.seek(&key).expect("sought");
            left.seek(&key);
        } else if backs > 0 && rng.u32(0..backs) == 0 {
            assert_eq!(sound(scan.next_back()), left.next_back(), "seed {seed}, step {step}, back");
        } else {
            assert_eq!(sound(scan.next()), left.next(), "seed {seed}, step {step}");
        }
    }
}

fn change(db: &Db, content: &mut BTreeMap<Vec<u8>, Vec<u8>>, rng: &mut Rng, count: usize) {
    for _ in 0..count {
        let (key, value) = (key(rng), rng.u64(..).to_le_bytes().to_vec());
        if rng.u8(0..4) == 0 {
            db.delete(&key).expect("deleted");
            content.remove(&key);
        } else {
            db.put(&key, &value).expect("put");
            content.insert(key, value);
        }
    }
    if rng.u8(0..5) == 0 {
        db.flush().expect("flushed");
    }
}

#[test]
fn scans_from_both_ends_are_the_list_walked_from_both_ends() {
    let db = Db::builder("x").storage(Arc::new(Memory::new())).open().expect("opened");
    let mut content = BTreeMap::new();
    for seed in 0..2000 {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(0..30);
        change(&db, &mut content, &mut rng, count);
        let range = range(&mut rng);
        let (mut left, mut scan) =
            (Left::of(&content, &range), db.range(range.clone()).unwrap_or_else(|error| panic!("{error}")));
        // What is written once the scan is open does not show, from whichever end.
        change(&db, &mut content, &mut rng, 10);
        walk(&mut scan, &mut left, &mut rng, seed);
    }
}

#[test]
fn scans_of_a_transaction_have_both_ends_too() {
    let db = Db::builder("x").storage(Arc::new(Memory::new())).open().expect("opened");
    let mut content = BTreeMap::new();
    for seed in 0..2000 {
        let mut rng = Rng::with_seed(seed);
        change(&db, &mut content, &mut rng, 10);
        let mut transaction = db.transaction().expect("begun");
        let mut seen = content.clone();
        for _ in 0..rng.usize(0..40) {
            let key = key(&mut rng);
            if rng.bool() {
                transaction.put(&key, "its own");
                seen.insert(key, b"its own".to_vec());
            } else {
                transaction.delete(&key);
                seen.remove(&key);
            }
        }
        let range = range(&mut rng);
        let mut scan = transaction.range(range.clone()).expect("scan");
        change(&db, &mut content, &mut rng, 5);
        walk(&mut scan, &mut Left::of(&seen, &range), &mut rng, seed);
    }
}

#[test]
fn long_scans_meet_once() {
    let db = Db::builder("x").storage(Arc::new(Memory::new())).open().expect("opened");
    let count = 5000_u32;
    (0..count).for_each(|number| _ = db.put(number.to_be_bytes(), number.to_le_bytes()).expect("put"));
    db.flush().expect("flushed");
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let mut scan = db.range(..).expect("scan");
        let (mut front, mut back) = (0, count);
        while front < back {
            for _ in 0..rng.u32(0..300).min(back - front) {
                let (key, _) = scan.next().expect("there are more").expect("sound");
                assert_eq!(key, front.to_be_bytes());
                front += 1;
            }
            for _ in 0..rng.u32(0..300).min(back - front) {
                let (key, _) = scan.next_back().expect("there are more").expect("sound");
                back -= 1;
                assert_eq!(key, back.to_be_bytes());
            }
        }
        assert!(scan.next().is_none() && scan.next_back().is_none() && scan.next().is_none());
        scan.seek(7_u32.to_be_bytes()).expect("sought");
        let again: Vec<_> = scan.map(|record| record.expect("sound").0).collect();
        assert_eq!(again, (7..back).map(|number| number.to_be_bytes().to_vec()).collect::<Vec<_>>());
    }
}

#[test]
fn ranges_are_what_they_are_for_numbers() {
    let db = Db::builder("x").storage(Arc::new(Memory::new())).open().expect("opened");
    assert_eq!((db.first().expect("read"), db.last().expect("read")), (None, None));
    for number in 10..20_u8 {
        db.put([number], [number; 3]).expect("put");
    }
    let keys = |scan: firn::Result<Scan>| -> Vec<u8> {
        scan.expect("scan").map(|record| record.expect("sound").0[0]).collect()
    };
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let all: Vec<u8> = (10..20).collect();
    assert_eq!(keys(db.range(..)), all);
    assert_eq!(keys(db.range([12]..)), all[2..]);
    assert_eq!(keys(db.range([12]..[15])), all[2..5]);
    assert_eq!(keys(db.range([12]..=[15])), all[2..6]);
    assert_eq!(keys(db.range(..[15])), all[..5]);
    assert_eq!(keys(db.range(..=vec![15])), all[..6]);
    assert_eq!(keys(db.range((Excluded([12]), Included([15])))), all[3..6]);
    assert_eq!(keys(db.range((Excluded([12]), Unbounded))), all[3..]);
    assert!(keys(db.range([15]..[12])).is_empty());
    assert!(keys(db.range((Excluded([12]), Excluded([12])))).is_empty());
    assert_eq!(db.range(..).expect("scan").rev().count(), 10);
    assert_eq!(db.first().expect("read"), Some((vec![10], vec![10; 3])));
    assert_eq!(db.last().expect("read"), Some((vec![19], vec![19; 3])));

    let before = db.snapshot().expect("taken");
    db.delete([10]).expect("deleted");
    db.put([30], "").expect("put");
    let then = db.in_default().at(&before);
    assert_eq!(then.first().expect("read").expect("some").0, [10]);
    assert_eq!(then.last().expect("read").expect("some").0, [19]);
    assert_eq!(db.first().expect("read").expect("some").0, [11]);
    assert_eq!(db.last().expect("read").expect("some").0, [30]);
}

#[test]
fn a_bound_may_be_the_longest_key() {
    let db = Db::builder("x").storage(Arc::new(Memory::new())).open().expect("opened");
    let longest = vec![b'k'; usize::from(u16::MAX)];
    let shorter = &longest[..longest.len() - 1];
    db.put(&longest, "longest").expect("put");
    db.put(shorter, "shorter").expect("put");
    let count = |range: ScanRange| db.range(range).expect("scan").filter(Result::is_ok).count();
    assert_eq!(count((..=&longest).into()), 2);
    assert_eq!(count(ScanRange::from(..=&longest).backward()), 2);
    assert_eq!(count((std::ops::Bound::Excluded(&longest[..]), std::ops::Bound::Unbounded).into()), 0);
    assert_eq!(count((std::ops::Bound::Excluded(shorter), std::ops::Bound::Unbounded).into()), 1);
    let mut scan = db.range(..).expect("scan").rev();
    assert_eq!(scan.next().expect("some").expect("sound").1, b"longest");
    // All of the range counts as read, up to its last key.
    let mut transaction = db.transaction().expect("begun");
    assert_eq!(transaction.range(..=&longest).expect("scan").count(), 2);
    transaction.put("a", "");
    transaction.commit().expect("nothing was written");
}

#[test]
fn contains_key_is_whether_get_finds_something() {
    let clock = Arc::new(firn::storage::ManualClock::new(1_000));
    let opened = Db::builder("x").storage(Arc::new(Memory::new())).clock(clock.clone()).open();
    let db = opened.expect("opened");
    let beside = firn::KeyspaceSettings { separate_bytes: Some(64), ..firn::KeyspaceSettings::default() };
    let beside = db.in_keyspace(db.create_keyspace("beside", beside).expect("created"));
    let until = firn::WriteOptions { expires_at_ms: 2_000, ..firn::WriteOptions::default() };
    beside.put("large", [7; 1000]).expect("put");
    beside.put("empty", "").expect("put");
    beside.with_options(until).put("short-lived", [7; 1000]).expect("put");
    let before = db.snapshot().expect("taken");
    beside.put("late", "").expect("put");
    let reads = || db.stats().tree.expect("it is a tree").blobs.read_count;
    let read_before = reads();
    // Sessions count what they have read now and then.
    for round in 0..100 {
        for (key, expected) in [("large", true), ("empty", true), ("short-lived", true), ("none", false)] {
            assert_eq!(beside.contains_key(key).expect("read"), expected, "{key}");
        }
        assert!(beside.contains_key("late").expect("read"));
        assert!(!beside.at(&before).contains_key("late").expect("read"));
        if round == 50 {
            db.flush().expect("flushed");
        }
    }
    assert_eq!(reads(), read_before, "no separated value was read");
    clock.advance(std::time::Duration::from_millis(1_000));
    assert!(!beside.contains_key("short-lived").expect("read"), "it has expired");
    beside.delete("large").expect("deleted");
    assert!(!beside.contains_key("large").expect("read"));
    db.put("k", "v").expect("put");
    assert!(db.contains_key("k").expect("read") && !db.contains_key("large").expect("read"));
    db.close().expect("closed");
    assert_eq!(db.contains_key("k").expect_err("closed").kind(), firn::ErrorKind::Closed);
}
