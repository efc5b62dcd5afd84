//! Transactions of an embedded database: what they see, when they fail, what they leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use firn::storage::backend::Memory;
use firn::{Db, Direction, ErrorKind, OrderedReadSet, ReadSet, ScanRange};

fn open() -> Db {
    Db::builder("transactions").storage(Arc::new(Memory::new())).open().expect("it opens")
}

#[test]
fn a_transaction_sees_its_own_writes_and_others_see_them_together() {
    let db = open();
    let other = db.keyspace("other").expect("made");
    db.put("a", "1").expect("put");
    let mut transaction = db.transaction().expect("begun");
    transaction.put("a", "2");
    transaction.put("b", "2");
    transaction.in_keyspace(other).put("a", "elsewhere");
    transaction.delete("b");
    assert_eq!(transaction.get("a").expect("get").as_deref(), Some(&b"2"[..]));
    assert!(!transaction.contains_key("b").expect("get"));
    assert_eq!(transaction.in_keyspace(other).get("a").expect("get").as_deref(), Some(&b"elsewhere"[..]));
    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"1"[..]), "nothing is done yet");
    transaction.commit().expect("committed");
    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"2"[..]));
    assert_eq!(db.in_keyspace(other).get("a").expect("get").as_deref(), Some(&b"elsewhere"[..]));
    drop(db.transaction().map(|mut transaction| transaction.put("a", "3")));
    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"2"[..]), "one that is dropped does nothing");
}

#[test]
fn what_was_read_and_written_since_is_a_conflict_and_nothing_is_done() {
    let db = open();
    db.put("a", "1").expect("put");
    let mut transaction = db.transaction().expect("begun");
    assert_eq!(transaction.get("a").expect("get").as_deref(), Some(&b"1"[..]));
    transaction.put("b", "from a");
    db.put("a", "2").expect("put");
    assert_eq!(transaction.get("a").expect("get").as_deref(), Some(&b"1"[..]), "it reads at one point");
    let refused = transaction.commit().expect_err("a conflict");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(db.get("b").expect("get"), None);
    // What it only writes, or wrote before it read, is none.
    let mut transaction = db.transaction().expect("begun");
    transaction.put("a", "3");
    transaction.get("a").expect("get");
    db.put("a", "4").expect("put");
    transaction.commit().expect("it read nothing of others");
    // One that only read says where.
    let mut transaction = db.transaction().expect("begun");
    transaction.get("a").expect("get");
    let before = db.put("a", "5").expect("put");
    assert!(transaction.commit().expect("it was right at one point") < before);
}

/// What a scan in a transaction shows, beside a model.
#[test]
fn scans_show_writes_over_what_was_there_both_ways() {
    for seed in 1..=50_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let db = open();
        let mut model = BTreeMap::new();
        let key = |number: u8| vec![b'k', number];
        for _ in 0..random.u8(0..30) {
            let number = random.u8(0..40);
            db.put(key(number), [number]).expect("put");
            model.insert(key(number), vec![number]);
        }
        let mut transaction = db.transaction().expect("begun");
        for _ in 0..random.u8(0..30) {
            let number = random.u8(0..40);
            match random.bool() {
                true => {
                    transaction.put(key(number), [number, 1]);
                    model.insert(key(number), vec![number, 1]);
                }
                false => {
                    transaction.delete(key(number));
                    model.remove(&key(number));
                }
            }
        }
        db.put(key(50), "beyond").expect("put");
        for _ in 0..6 {
            let (start, end) = (key(random.u8(0..45)), random.bool().then(|| key(random.u8(0..45))));
            let direction = if random.bool() { Direction::Forward } else { Direction::Backward };
            let range = ScanRange { start: start.clone(), end: end.clone(), direction, ..ScanRange::all() };
            let found: Vec<_> =
                transaction.range(range).expect("scan").map(|record| record.expect("a record")).collect();
            let is_inside = |key: &Vec<u8>| *key >= start && end.as_ref().is_none_or(|end| key < end);
            let mut expected: Vec<_> = model.clone().into_iter().filter(|(key, _)| is_inside(key)).collect();
            if direction == Direction::Backward {
                expected.reverse();
            }
            assert_eq!(found, expected, "seed {seed}, {start:?} to {end:?} {direction:?}");
        }
    }
}

#[test]
fn a_key_that_comes_into_a_scanned_range_is_a_conflict() {
    let db = open();
    db.put("job/1", "one").expect("put");
    let count_if = |write: &dyn Fn()| {
        let mut transaction = db.transaction().expect("begun");
        let jobs = transaction.prefix("job/").expect("scan").count();
        transaction.put("count", [jobs as u8]);
        write();
        transaction.commit().is_ok()
    };
    assert!(count_if(&|| _ = db.put("jobs", "beside").expect("put")));
    assert!(!count_if(&|| _ = db.put("job/2", "two").expect("put")));
    assert!(!count_if(&|| _ = db.delete("job/1").expect("delete")));
    assert!(!count_if(&|| _ = db.delete_range("job", "job0").expect("delete")));
}

/// Each job is taken once, by one of four threads.
#[test]
fn workers_take_each_job_of_a_queue_once() {
    let db = open();
    let jobs = 200_u32;
    for job in 0..jobs {
        db.put(format!("job/{job:04}"), job.to_le_bytes()).expect("put");
    }
    let taken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let job = db.transact(|transaction| {
                        let first = transaction.prefix("job/")?.next();
                        let Some((key, value)) = first.transpose()? else { return Ok(None) };
                        transaction.delete(&key);
                        Ok(Some(value))
                    });
                    match job.expect("no failure") {
                        Some(job) => taken.lock().expect("no panic").push(job),
                        None => return,
                    }
                }
            });
        }
    });
    let taken = taken.into_inner().expect("no panic");
    assert_eq!(taken.len(), jobs as usize);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), jobs as usize);
}

#[test]
fn what_a_function_refuses_is_not_done_and_bounds_are_said() {
    let db = open();
    let refused = db.transact(|transaction| {
        transaction.put("a", "1");
        transaction.range(ScanRange {
            start: b"b".to_vec(),
            end: Some(b"a".to_vec()),
            ..ScanRange::all()
        })?;
        Err::<(), _>(firn::Error::invalid("not today"))
    });
    assert_eq!(refused.expect_err("refused").to_string(), "not today");
    assert_eq!(db.get("a").expect("get"), None);
    let mut transaction = db.transaction().expect("begun");
    for number in 0..ReadSet::KEYS_MAX as u32 {
        transaction.get(number.to_le_bytes()).expect("room");
    }
    let refused = transaction.get("one more").expect_err("full").to_string();
    assert!(refused.contains("at most 1024 keys"), "{refused}");
    for number in 0..OrderedReadSet::RANGES_MAX as u32 {
        transaction.prefix(number.to_le_bytes()).expect("room");
    }
    let refused = transaction.range(ScanRange::all()).expect_err("full").to_string();
    assert!(refused.contains("at most 16 ranges"), "{refused}");
    transaction.put("still", "1");
    transaction.commit().expect("what it read is as it was");
    let transaction = db.transaction().expect("begun");
    db.close().expect("closed");
    transaction.commit().expect("nothing was to be written");
    assert_eq!(db.transaction().expect_err("closed").kind(), ErrorKind::Closed);
}
