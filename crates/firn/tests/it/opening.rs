//! Opening and closing: what may open a database, what a refusal says, and what is found again.

use std::path::Path;

use firn::{Db, ErrorKind};

/// Names and contents of the files in `path`.
fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(path).expect("listed").map(|entry| entry.expect("entry"));
    let mut files: Vec<_> = entries
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("read"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_path_is_enough() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("missing").join("too");
    let db = Db::open(&path).expect("opened");
    assert_eq!(db.get("a").expect("get"), None);
    db.put("a", "1").expect("put");
    drop(db);
    let db = Db::open(path).expect("opened again");
    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_second_handle_is_told_which_directory_is_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    for read_only in [false, true] {
        let error = Db::builder(dir.path()).read_only(read_only).open().expect_err("it is taken");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let text = error.to_string();
        assert!(text.contains(&dir.path().display().to_string()), "{text}");
        assert!(text.contains("another handle"), "{text}");
    }
    db.put("still", "open").expect("the first handle goes on");
    db.close().expect("closed");
    Db::open(dir.path()).expect("a closed database is free, even while its handle lives");
}

#[test]
fn dropping_closes() {
    let dir = tempfile::tempdir().expect("a directory");
    for number in 0..5_u8 {
        let db = Db::open(dir.path()).expect("the one before let go");
        assert_eq!(db.range(..).expect("scan").count(), usize::from(number));
        db.put([number], "value").expect("put");
    }
}

#[test]
fn sessions_and_scans_may_outlive_their_database() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    db.put("a", "1").expect("put");
    let mut session = db.session();
    let scan = db.range(..).expect("scan");
    let snapshot = db.snapshot().expect("snapshot");
    drop(db);
    let options = firn::WriteOptions::default();
    let refused = session.put(firn::KEYSPACE_DEFAULT, b"b", b"2", options).expect_err("closed");
    assert_eq!(refused.kind(), ErrorKind::Closed);
    let again = Db::open(dir.path()).expect("they do not hold the directory");
    assert_eq!(scan.count(), 1);
    drop((session, snapshot, again));
}

#[test]
fn a_closed_database_refuses_writes_and_closes_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    db.put("a", "1").expect("put");
    db.close().expect("closed");
    db.close().expect("closing twice is no error");
    let mut batch = firn::Batch::new();
    batch.put(firn::KEYSPACE_DEFAULT, b"a", b"2");
    let refused = [
        db.put("a", "2").map(drop),
        db.delete("a").map(drop),
        db.delete_range("a", "b").map(drop),
        db.write(&batch).map(drop),
        db.update("a", |_| (firn::Change::Delete, ())),
        db.keyspace("new").map(drop),
        db.snapshot().map(drop),
        db.sync().map(drop),
        db.flush(),
        db.copy_to(dir.path().join("copy")).map(drop),
    ];
    for (index, answer) in refused.into_iter().enumerate() {
        assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Closed), "call {index}");
    }
}

/// Their files may become a later opening's.
#[test]
fn a_closed_database_refuses_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let closed = Db::open(dir.path()).expect("opened");
    closed.put("a", "1").expect("put");
    let (snapshot, mut session) = (closed.snapshot().expect("taken"), closed.session());
    let mut scan = closed.range(..).expect("begun");
    closed.close().expect("closed");
    let later = Db::open(dir.path()).expect("opened while a closed handle is held");
    later.put("a", "2").expect("put");
    let (here, now) = (firn::KEYSPACE_DEFAULT, firn::ReadAt::Latest);
    let refused = [
        closed.get("a").map(drop),
        closed.multi_get(&["a"]).map(drop),
        closed.in_default().at(&snapshot).get("a").map(drop),
        closed.in_default().read_into("a", &mut std::io::sink()).map(drop),
        closed.range(..).map(drop),
        scan.next().expect("an error").map(drop),
        session.get(now, here, b"a").map(drop),
        session.get_range_into(now, here, b"a", 0..1, &mut Vec::new()).map(drop),
        session.is_stored(here, b"a").map(drop),
    ];
    for (index, answer) in refused.into_iter().enumerate() {
        assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Closed), "call {index}");
    }
    assert_eq!(later.get("a").expect("read"), Some(b"2".to_vec()));
}

#[test]
fn what_is_no_database_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing");
    let error = Db::builder(&missing).create(false).open().expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(!missing.exists(), "refusing made nothing");

    let letters = dir.path().join("letters");
    std::fs::create_dir(&letters).expect("created");
    std::fs::write(letters.join("letter.txt"), "dear").expect("written");
    let error = Db::open(&letters).expect_err("somebody else's directory");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(files(&letters), [("letter.txt".to_owned(), b"dear".to_vec())]);
}

#[test]
fn readers_share_and_change_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = Db::builder(dir.path().join("none")).read_only(true).open().expect_err("nothing to read");
    assert_eq!(missing.kind(), ErrorKind::Invalid);

    let db = Db::open(dir.path()).expect("opened");
    let names = db.in_keyspace(db.keyspace("names").expect("created"));
    db.put("flushed", "1").expect("put");
    db.flush().expect("flushed");
    db.put("in the log", "2").expect("put");
    names.put("name", "3").expect("put");
    db.close().expect("closed");
    let before = files(dir.path());

    let reader = Db::builder(dir.path()).read_only(true).open().expect("read");
    let beside = Db::builder(dir.path()).read_only(true).open().expect("readers share");
    for db in [&reader, &beside] {
        assert_eq!(db.get("flushed").expect("get").as_deref(), Some(&b"1"[..]));
        assert_eq!(db.range(..).expect("scan").count(), 2);
        let id = db.keyspace("names").expect("it is there");
        assert_eq!(db.in_keyspace(id).get("name").expect("get").as_deref(), Some(&b"3"[..]));
        let kinds = [
            db.put("a", "1").expect_err("refused").kind(),
            db.delete("flushed").expect_err("refused").kind(),
            db.flush().expect_err("refused").kind(),
            db.keyspace("others").expect_err("refused").kind(),
        ];
        assert_eq!(kinds, [ErrorKind::Closed; 4]);
        db.wait_idle().expect("there is nothing to wait for");
    }
    let writer = Db::open(dir.path()).expect_err("readers keep writers out").kind();
    assert_eq!(writer, ErrorKind::Conflict);
    reader.close().expect("closed");
    drop(beside);
    assert!(files(dir.path()) == before, "reading changed the directory");
}
