//! Databases of the hashed engine, and which engine a directory is opened with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn::storage::backend::{Memory, OpenWith};
use firn::{
    Batch, Builder, Db, Durability, EngineKind, EngineSettings as _, ErrorKind, KEYSPACE_DEFAULT, PointDb,
    Settings, WriteOptions,
};

fn hashed(path: &Path) -> PointDb {
    PointDb::builder(path).engine(EngineKind::Hash).open_points().expect("opened")
}

/// Names and contents of the files in `path`.
fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(path).expect("listed").map(|entry| entry.expect("entry"));
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("read"))
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}

#[test]
fn a_hashed_database_has_the_calls_that_need_no_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = hashed(dir.path());
    assert_eq!(db.engine_kind(), EngineKind::Hash);
    assert!(db.ordered().is_none());
    db.put("a", "1").expect("put");
    db.put_for("b", "2", Duration::from_secs(3600)).expect("put");
    assert_eq!(db.in_default().add("visits", 41).expect("add"), 41);
    assert_eq!(db.in_default().add("visits", 1).expect("add"), 42);
    let people = db.keyspace("people").expect("made");
    let mut batch = Batch::new();
    batch.put(people, b"1", b"Anna").delete(KEYSPACE_DEFAULT, b"a");
    db.write(&batch).expect("written");
    let before = db.snapshot().expect("a snapshot");
    db.in_keyspace(people).put("1", "Bo").expect("put");
    assert_eq!(db.in_keyspace(people).at(&before).get("1").expect("get").as_deref(), Some(&b"Anna"[..]));
    db.close().expect("closed");
    drop((before, db));

    let again = PointDb::open(dir.path()).expect("opened by what lies there");
    assert_eq!(again.engine_kind(), EngineKind::Hash);
    assert_eq!(again.get("a").expect("get"), None);
    assert_eq!(again.get("b").expect("get").as_deref(), Some(&b"2"[..]));
    assert_eq!(again.in_keyspace(people).get("1").expect("get").as_deref(), Some(&b"Bo"[..]));
    assert_eq!(again.in_default().add("visits", 0).expect("add"), 42);
}

/// Its backups too, one without any record included.
#[test]
fn a_directory_says_which_engine_it_needs() {
    let dir = tempfile::tempdir().expect("a directory");
    let (tree, hash) = (dir.path().join("tree"), dir.path().join("hash"));
    assert_eq!(EngineKind::of(&tree).expect("nothing there"), None);
    drop(PointDb::open(&tree).expect("opened"));
    drop(hashed(&hash));
    for (path, kind) in [(&tree, EngineKind::Tree), (&hash, EngineKind::Hash)] {
        assert_eq!(EngineKind::of(path).expect("found"), Some(kind));
        let db = PointDb::open(path).expect("opened");
        assert_eq!((db.engine_kind(), db.ordered().is_some()), (kind, kind == EngineKind::Tree));
        let copy = dir.path().join(format!("copy of {kind}"));
        db.backup(&copy).expect("copied");
        assert_eq!(EngineKind::of(&copy).expect("found"), Some(kind), "a copy without records");
        assert_eq!(PointDb::open(&copy).expect("opened").engine_kind(), kind);
    }
}

#[test]
fn another_engine_than_the_directorys_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let (tree, hash) = (dir.path().join("tree"), dir.path().join("hash"));
    Db::open(&tree).expect("opened").put("a", "1").expect("put");
    hashed(&hash).put("a", "1").expect("put");
    let before = (files(&tree), files(&hash));
    let refused = |message: String, kind: ErrorKind, path: &Path, asked: EngineKind| {
        assert_eq!(kind, ErrorKind::Invalid);
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.contains(&format!("ask for `{asked}`")), "{message}");
    };
    let error = Db::builder(&tree).engine(EngineKind::Hash).open_points().expect_err("another engine's");
    refused(error.to_string(), error.kind(), &tree, EngineKind::Tree);
    let error = Db::builder(&hash).engine(EngineKind::Tree).open_points().expect_err("another engine's");
    refused(error.to_string(), error.kind(), &hash, EngineKind::Hash);
    let error = Db::open(&hash).expect_err("without order");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("open_points"), "{error}");
    assert!(before == (files(&tree), files(&hash)), "files were changed");
    assert_eq!(PointDb::open(&hash).expect("opened").get("a").expect("get").as_deref(), Some(&b"1"[..]));
}

#[test]
fn what_the_hashed_engine_does_not_offer_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("new");
    let new = || PointDb::builder(&path).engine(EngineKind::Hash);
    let durability = Settings { durability: Durability::Shared, ..Settings::default() };
    let asked: [(Builder, &str); 4] = [
        (new().take_over(true), "take-over"),
        (new().read_only(true), "read-only"),
        (new().settings(durability), "`disk`"),
        (
            new().hash_settings(firn::HashSettings { page_bytes: 3, ..firn::HashSettings::default() }),
            "page_bytes",
        ),
    ];
    for (builder, word) in asked {
        let error = builder.open_points().expect_err("not offered");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(word), "{error}");
        assert!(!path.exists());
    }
    let error = new().create(false).open_points().expect_err("nothing there");
    assert!(!path.exists(), "{error}");
}

#[test]
fn a_database_of_the_hashed_engine_lies_on_shared_storage() {
    let dir = tempfile::tempdir().expect("a directory");
    let location = dir.path().join("shared");
    let with = OpenWith { create: true, ..OpenWith::default() };
    let builder = |machine: &str| {
        let builder = PointDb::builder(dir.path().join(machine)).settings(Settings::for_memory(32 << 20));
        builder.shared_at(location.to_str().expect("text"), with.clone())
    };
    let db = builder("first").engine(EngineKind::Hash).open_points().expect("created");
    let options = WriteOptions { durability: Some(Durability::Shared), expires_at_ms: 0 };
    let mut session = db.session();
    session.put(db.in_default().id(), b"k", b"shared", options).expect("put");
    session.put(db.in_default().id(), b"l", &vec![3; 3 << 20], options).expect("put");
    db.put("m", "here").expect("put");
    // The machine is lost. The next one is not told which engine it was.
    let error = builder("second").open_points().expect_err("another machine has it");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let error = builder("second").engine(EngineKind::Tree).open_points().expect_err("another engine");
    assert!(error.to_string().contains("hashlog"), "{error}");
    let second = builder("second").take_over(true).open_points().expect("taken over");
    assert!(second.ordered().is_none());
    assert_eq!(second.get("k").expect("get").as_deref(), Some(&b"shared"[..]));
    assert_eq!(second.get("l").expect("get").map(|value| value.len()), Some(3 << 20));
    assert_eq!(second.get("m").expect("get"), None);
    let late = session.put(db.in_default().id(), b"late", b"", options).expect_err("it has ended");
    assert_eq!(late.kind(), ErrorKind::Closed, "{late}");
    second.close().expect("closed");
    let alone = PointDb::builder(dir.path().join("second")).open_points().expect_err("without its manifest");
    assert!(alone.to_string().contains("shared location"), "{alone}");
}

/// Those of every engine, and its own.
#[test]
fn settings_reach_the_hashed_engine() {
    let memory = Memory::new();
    let small = Settings { key_bytes_max: 4, ..Settings::for_memory(32 << 20) };
    let own = firn::HashSettings { redo_bytes_max: 1 << 20, ..firn::HashSettings::default() };
    let new = || PointDb::builder("hashed").storage(Arc::new(memory.clone())).engine(EngineKind::Hash);
    let error =
        new().settings(small.clone()).hash_settings(own.clone()).open_points().expect_err("too large");
    assert!(error.to_string().contains("index_bytes_max"), "{error}");
    let own = firn::HashSettings { redo_bytes_max: 1 << 20, ..firn::HashSettings::for_memory(32 << 20) };
    let db = new().settings(small).hash_settings(own).open_points().expect("opened");
    assert_eq!(db.stats().memory_bytes_max, 32 << 20);
    assert_eq!(db.put("fifth", "1").expect_err("too long").kind(), ErrorKind::Invalid);
    for number in 0..40_000_u32 {
        db.put(number.to_be_bytes(), [7; 100]).expect("put");
    }
    db.wait_idle().expect("idle");
    let log_bytes = db.stats().log_bytes;
    assert!(log_bytes < 2 << 20, "{log_bytes} bytes of redo log, with checkpoints after 1 MiB");
}
