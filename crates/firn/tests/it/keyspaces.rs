//! Keyspaces: apart in their keys, together in the log.

use std::sync::Arc;

use firn::storage::ManualClock;
use firn::{
    Batch, Change, Db, Durability, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, MergeOperator, Settings,
    WriteOptions,
};

/// Puts operands one behind the other.
#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "test.append.1"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(base.into_iter().chain(operands.iter().copied()).flatten().copied().collect())
    }
}

fn text(value: Option<Vec<u8>>) -> Option<String> {
    value.map(|value| String::from_utf8(value).expect("text"))
}

#[test]
fn keys_are_apart() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let one = db.in_keyspace(db.keyspace("one").expect("created"));
    let two = db.in_keyspace(db.keyspace("two").expect("created"));
    db.put("key", "default").expect("put");
    one.put("key", "one").expect("put");
    assert_eq!(two.get("key").expect("get"), None);
    assert_eq!(text(db.get("key").expect("get")).as_deref(), Some("default"));
    one.delete_range("a", "z").expect("delete_range");
    assert_eq!(one.get("key").expect("get"), None);
    assert_eq!(text(db.get("key").expect("get")).as_deref(), Some("default"));
    let names: Vec<String> = db.keyspaces().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["default", "one", "two"]);
    assert_eq!(db.keyspace("one").expect("it is there"), one.id());
    assert_eq!(db.in_default().id(), KEYSPACE_DEFAULT);
}

#[test]
fn every_call_works_in_a_keyspace() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::builder(dir.path()).merge_operator(Arc::new(Append)).open().expect("opened");
    let settings =
        KeyspaceSettings { merge_operator: Some("test.append.1".into()), ..KeyspaceSettings::default() };
    let id = db.create_keyspace("lists", settings.clone()).expect("created");
    assert_eq!(db.create_keyspace("lists", settings).expect("the same"), id);
    let conflict = db.create_keyspace("lists", KeyspaceSettings::default()).expect_err("other settings");
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    let lists = db.in_keyspace(id);
    lists.merge("a", "1").expect("merge");
    lists.merge("a", "2").expect("merge");
    let then = db.snapshot().expect("snapshot");
    let length =
        lists.update("a", |old| (Change::Put(b"new".to_vec()), old.map(<[u8]>::len))).expect("update");
    assert_eq!(length, Some(2));
    lists.put("b", "3").expect("put");
    lists.delete("b").expect("delete");
    lists.compact_range("", None).expect("compacted");
    let values = lists.multi_get(&["a", "b"]).expect("multi_get");
    assert_eq!(values.iter().collect::<Vec<_>>(), [Some(&b"new"[..]), None]);
    let values = lists.at(&then).multi_get(&["a", "b"]).expect("multi_get");
    assert_eq!(values.iter().collect::<Vec<_>>(), [Some(&b"12"[..]), None]);
    let refused = db.in_default().merge("a", "1").expect_err("the default keyspace has no operator");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let empty = lists.delete_range("b", "a").expect_err("nothing to delete");
    assert_eq!(empty.kind(), ErrorKind::Invalid);
    drop((db, lists));
    let error = Db::open(dir.path()).expect_err("the operator is not registered");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("lists") && error.to_string().contains("test.append.1"), "{error}");
}

#[test]
fn a_dropped_keyspace_is_gone_for_good() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let first = db.keyspace("again").expect("created");
    db.in_keyspace(first).put("key", "old").expect("put");
    db.drop_keyspace(first).expect("dropped");
    assert_eq!(db.in_keyspace(first).get("key").expect_err("gone").kind(), ErrorKind::Invalid);
    assert_eq!(db.in_keyspace(first).put("key", "new").expect_err("gone").kind(), ErrorKind::Invalid);
    assert_eq!(db.drop_keyspace(KEYSPACE_DEFAULT).expect_err("stays").kind(), ErrorKind::Invalid);
    let second = db.keyspace("again").expect("created");
    assert_ne!(first, second, "numbers are not given twice");
    assert_eq!(db.in_keyspace(second).get("key").expect("get"), None);
    drop(db);
    let db = Db::open(dir.path()).expect("opened again");
    assert_eq!(db.in_keyspace(db.keyspace("again").expect("there")).get("key").expect("get"), None);
}

/// The log's first segments hold no record: they were only current while keyspaces were created.
#[test]
fn a_database_whose_first_segments_are_empty_opens_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let names = ["one", "two", "three"].map(|name| db.keyspace(name).expect("created"));
    let two = db.in_keyspace(names[1]);
    for round in 0..5 {
        two.put(format!("key {round}"), "value").expect("put");
        // Ends a segment, freezes what it holds and looks for segments that no keyspace needs.
        let copy = dir.path().with_extension(format!("copy-{round}"));
        db.copy_to(&copy).expect("copy");
        db.wait_idle().expect("idle");
        let copied = Db::open(&copy).expect("the copy opens");
        let id = copied.keyspace("two").expect("it is there");
        assert_eq!(copied.in_keyspace(id).range(..).expect("scan").count(), round + 1);
        drop(copied);
        std::fs::remove_dir_all(copy).expect("removed");
    }
    drop((db, two));
    let db = Db::open(dir.path()).expect("opened again");
    let two = db.in_keyspace(db.keyspace("two").expect("there"));
    assert_eq!(two.range(..).expect("scan").count(), 5);
    db.flush().expect("flushed");
    db.wait_idle().expect("idle");
    assert!(
        log_files(dir.path()) <= 2,
        "a flushed database keeps the segment it writes to, and at most an empty one"
    );
}

fn log_files(path: &std::path::Path) -> usize {
    let names = std::fs::read_dir(path).expect("listed").map(|entry| entry.expect("entry").file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".log")).count()
}

#[test]
fn dropping_a_keyspace_gives_its_log_back() {
    let dir = tempfile::tempdir().expect("a directory");
    // The buffer flushes at 16 MiB only; a log segment has 4 MiB.
    let db = Db::builder(dir.path()).settings(Settings::for_memory(64 << 20)).open().expect("opened");
    let id = db.keyspace("large").expect("created");
    for number in 0..3000_u32 {
        db.in_keyspace(id).put(number.to_be_bytes(), [7; 4096]).expect("put");
    }
    db.wait_idle().expect("idle");
    assert!(log_files(dir.path()) >= 3);
    db.drop_keyspace(id).expect("dropped");
    db.wait_idle().expect("idle");
    let left = log_files(dir.path());
    assert!(left <= 2, "the segment that is written to, one kept for the next: {left}");
    db.put("after", "it").expect("put");
    db.close().expect("closed");
    let db = Db::open(dir.path()).expect("opened again");
    assert_eq!(db.range(..).expect("scan").count(), 1);
}

/// Dropped keyspaces held nearly all there was in the buffer: others must be able to write on.
#[test]
fn writes_go_on_however_much_is_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::builder(dir.path()).settings(Settings::for_memory(16 << 20)).open().expect("opened");
    for round in 0..6 {
        let id = db.keyspace(&format!("round {round}")).expect("created");
        for number in 0..1200_u32 {
            db.in_keyspace(id).put(number.to_be_bytes(), [7; 4096]).expect("put");
        }
        db.drop_keyspace(id).expect("dropped");
    }
    for number in 0..6000_u32 {
        db.put(number.to_be_bytes(), [9; 4096]).expect("put");
    }
    db.close().expect("closed");
    let db = Db::open(dir.path()).expect("opened again");
    assert_eq!(db.range(..).expect("scan").count(), 6000);
    assert_eq!(db.keyspaces().len(), 1);
}

#[test]
fn batches_cross_keyspaces_and_are_found_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let other = db.keyspace("other").expect("created");
    for number in 0..500_u32 {
        let mut batch = Batch::new();
        batch.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), b"default").put(
            other,
            &number.to_be_bytes(),
            b"other",
        );
        if number > 0 {
            batch.delete(KEYSPACE_DEFAULT, &(number - 1).to_be_bytes());
        }
        let durability = (number % 100 == 0).then_some(Durability::Disk);
        db.write_with(&batch, WriteOptions { durability, ..WriteOptions::default() }).expect("written");
    }
    assert_eq!(db.write(&Batch::new()).expect_err("empty").kind(), ErrorKind::Invalid);
    drop(db);
    let db = Db::open(dir.path()).expect("opened again");
    assert_eq!(db.range(..).expect("scan").count(), 1);
    assert_eq!(db.in_keyspace(other).range(..).expect("scan").count(), 500);
}

#[test]
fn options_of_a_keyspace_expire_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(1_000_000));
    let db = Db::builder(dir.path()).clock(Arc::clone(&clock) as _).open().expect("opened");
    let until = WriteOptions { expires_at_ms: 1_005_000, ..WriteOptions::default() };
    db.in_default().with_options(until).put("short", "lived").expect("put");
    db.put("long", "lived").expect("put");
    clock.set_unix_ms(1_004_999);
    assert!(db.get("short").expect("get").is_some());
    clock.set_unix_ms(1_005_000);
    assert_eq!(db.get("short").expect("get"), None);
    assert_eq!(db.range(..).expect("scan").count(), 1);
}
