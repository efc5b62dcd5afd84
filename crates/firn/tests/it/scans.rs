//! The scan iterator: both ways, over batch limits, over time, and through errors.

use firn::{Db, ErrorKind, ScanRange};

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn keys(db: &Db, range: ScanRange) -> Vec<Vec<u8>> {
    db.range(range).expect("scan").map(|record| record.expect("record").0).collect()
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
    assert_eq!(keys(&db, ScanRange::from(&end..)), all[3000..]);
    assert!(keys(&db, ScanRange::between(&end, &start)).is_empty());
    let values = db.range(..).expect("scan").map(|record| record.expect("record").1);
    assert!(values.eq((0..count).map(|number| number.to_be_bytes().to_vec())));
}

#[test]
fn a_scan_shows_the_moment_it_was_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    for number in 0..500 {
        db.put(key(number), "before").expect("put");
    }
    let mut scan = db.range(..).expect("scan");
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
    assert_eq!(db.range(..).expect("scan").count_records().expect("counted"), 500);
}

#[test]
fn an_unknown_keyspace_is_refused_when_the_scan_is_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let error = db.in_keyspace(firn::KeyspaceId(77)).range(..).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// A block is checked when it is first touched, so damage shows inside a scan, not when it is
/// opened.
#[test]
fn damage_comes_once_and_ends_the_scan() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    for number in 0..20_000 {
        db.put(key(number), [number as u8; 100]).expect("put");
    }
    db.in_default().compact_range("", None).expect("compacted");
    db.close().expect("closed");
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "table");
    let mut paths = std::fs::read_dir(dir.path()).expect("listed").map(|entry| entry.expect("entry").path());
    let table = paths.find(is_table).expect("a table");
    let mut bytes = std::fs::read(&table).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).expect("written");

    let db = Db::open(dir.path()).expect("the damage is not seen yet");
    let mut scan = db.range(..).expect("scan");
    let (good, bad): (Vec<_>, Vec<_>) = scan.by_ref().partition(Result::is_ok);
    assert!((1000..19_000).contains(&good.len()), "{} records before the damage", good.len());
    let [Err(error)] = &bad[..] else { panic!("{} errors", bad.len()) };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let location = error.location().expect("it says where");
    assert!(table.ends_with(&location.file) && location.offset.is_some(), "{error}");
    assert!(scan.next().is_none(), "then the scan is over");
    let counted = db.range(..).expect("scan").count_records();
    assert_eq!(counted.expect_err("it meets the damage").kind(), ErrorKind::Corrupt);
    let sound = |record: firn::Result<(Vec<u8>, Vec<u8>)>| record.expect("before the damage").0;
    let first: Vec<_> = db.range(..).expect("scan").take(1000).map(sound).collect();
    assert_eq!(first, (0..1000).map(key).collect::<Vec<_>>(), "other blocks are read as before");
}
