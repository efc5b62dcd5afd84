//! The scan iterator: both ways, over batch limits, over time, and through errors.

use std::sync::Arc;

use firn::storage::place::{Effect, Fault, Faulty, Memory, Operation, When};
use firn::{Compression, Db, ErrorKind, ScanRange, Settings};

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn keys(db: &Db, range: ScanRange) -> Vec<Vec<u8>> {
    db.scan(range).expect("scan").map(|record| record.expect("record").0).collect()
}

#[test]
fn both_ways_over_many_batches() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    // More than the batches of a scan hold until they stop growing: 16 + 32 + … + 1024 + 1024.
    let count = 4000;
    for number in 0..count {
        db.put(key(number), number.to_be_bytes()).expect("put");
        if number == count / 2 {
            db.flush().expect("flushed");
        }
    }
    let all: Vec<_> = (0..count).map(key).collect();
    let reversed: Vec<_> = (0..count).rev().map(key).collect();
    assert_eq!(keys(&db, ScanRange::all()), all);
    assert_eq!(keys(&db, ScanRange::all().backward()), reversed);
    let (start, end) = (key(1000), key(3000));
    assert_eq!(keys(&db, ScanRange::between(&start, &end)), all[1000..3000]);
    assert_eq!(keys(&db, ScanRange::between(&start, &end).backward()), reversed[1000..3000]);
    assert_eq!(keys(&db, ScanRange::with_prefix(b"key 0012")), all[1200..1300]);
    assert_eq!(keys(&db, ScanRange::from(&end)), all[3000..]);
    assert!(keys(&db, ScanRange::between(&end, &start)).is_empty());
    let values = db.scan(ScanRange::all()).expect("scan").map(|record| record.expect("record").1);
    assert!(values.eq((0..count).map(|number| number.to_be_bytes().to_vec())));
}

#[test]
fn a_scan_shows_the_moment_it_was_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    (0..500).for_each(|number| drop(db.put(key(number), "before").expect("put")));
    let mut scan = db.scan(ScanRange::all()).expect("scan");
    assert_eq!(scan.next().expect("a record").expect("good").0, key(0));
    for number in 0..1000 {
        match number % 2 {
            0 => db.put(key(number), "after").expect("put"),
            _ => db.delete(key(number)).expect("delete"),
        };
    }
    db.flush().expect("flushed");
    db.in_default().compact_range("", None).expect("compacted");
    let rest: Vec<_> = scan.by_ref().map(|record| record.expect("record")).collect();
    assert_eq!(rest.len(), 499);
    assert!(rest.iter().all(|(_, value)| value == b"before"));
    assert!(scan.next().is_none(), "an ended scan stays ended");
    assert_eq!(keys(&db, ScanRange::all()).len(), 500);
}

#[test]
fn an_unknown_keyspace_is_refused_when_the_scan_is_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let error = db.in_keyspace(firn::KeyspaceId(77)).scan(ScanRange::all()).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Blocks of compressed tables are read one by one, so a device that begins to fail shows inside a scan.
#[test]
fn an_error_comes_once_and_ends_the_scan() {
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let settings = Settings { compression: Compression::Lz4, ..Settings::for_memory(16 << 20) };
    let db =
        Db::builder("faulty").storage(Arc::clone(&faulty) as _).settings(settings).open().expect("opened");
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..20_000 {
        let noise: Vec<u8> = (0..1000).map(|_| random.u8(..)).collect();
        db.put(key(number), noise).expect("put");
    }
    db.in_default().compact_range("", None).expect("compacted");
    let mut scan = db.scan(ScanRange::all()).expect("scan");
    for _ in 0..10 {
        scan.next().expect("a record").expect("the device is good");
    }
    let effect = Effect::Fail(firn::storage::ErrorKind::Io);
    let dead = Fault { on: Operation::Read, file: "*.table".into(), when: When::Always { after: 0 }, effect };
    faulty.inject(dead);
    let (good, bad): (Vec<_>, Vec<_>) = scan.by_ref().partition(Result::is_ok);
    assert_eq!(bad.len(), 1, "one error after {} records", good.len());
    assert!(scan.next().is_none(), "then the scan is over");
    let error = db.scan(ScanRange::all()).expect("scan").find_map(Result::err).expect("the device is dead");
    assert!(error.to_string().contains(".table"), "{error}");
    faulty.clear_faults();
    assert_eq!(keys(&db, ScanRange::all()).len(), 20_000, "nothing was lost but the scan");
}
