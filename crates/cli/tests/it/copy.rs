//! Databases that `firn copy` gives to the other engine.

use std::fs;
use std::path::Path;

use firn::{Batch, EngineKind, KeyspaceSettings, PointDb, StoredRecord};
use redis::Connection;

use crate::program::{firn, text};
use crate::rounds;
use crate::serve::Serving;

const KEYS: u32 = 100_000;

/// As far away as no test takes.
const LATER_MS: u64 = 1 << 50;

fn copy(from: &Path, to: &Path, engine: &str) -> crate::program::Answer {
    firn(&["copy", "--dir", text(from), "--to", text(to), "--engine", engine])
}

/// Makes a database with three keyspaces, values long and short, and some that expire.
fn make(dir: &Path, engine: EngineKind) {
    let db = PointDb::builder(dir).engine(engine).open_points().expect("opened");
    let settings = KeyspaceSettings { separate_bytes: Some(4096), ..KeyspaceSettings::default() };
    let films = db.create_keyspace("films", settings).expect("made");
    let few = db.keyspace("few").expect("made");
    for some in (0..KEYS).collect::<Vec<_>>().chunks(1000) {
        let mut batch = Batch::new();
        for number in some {
            let into = if number % 3 == 0 { films } else { few };
            let expires_at_ms = if number % 5 == 0 { LATER_MS + u64::from(*number) } else { 0 };
            let value = format!("value {number}").repeat(1 + *number as usize % 4);
            batch.put_until(into, format!("key {number}").as_bytes(), value.as_bytes(), expires_at_ms);
        }
        db.write(&batch).expect("written");
    }
    db.in_keyspace(films).put("long", vec![7; 5 << 20]).expect("put");
    db.put("of the default keyspace", "1").expect("put");
    db.in_keyspace(few).put_for("gone", "1", std::time::Duration::ZERO).expect("put");
    db.close().expect("closed");
}

/// Records with their keyspaces, and keyspaces with their settings.
type Content = (Vec<(String, StoredRecord)>, Vec<(String, KeyspaceSettings)>);

/// All of the database in `dir`, records sorted.
fn content(dir: &Path) -> Content {
    let db = PointDb::builder(dir).create(false).open_points().expect("opened");
    let mut records = Vec::new();
    db.record_totals(&mut |name, record| records.push((name.to_owned(), record.clone()))).expect("read");
    records.sort_by(|a, b| (&a.0, &a.1.key).cmp(&(&b.0, &b.1.key)));
    let keyspaces = db.keyspaces().into_iter();
    let keyspaces = keyspaces.map(|(name, id)| (name, db.keyspace_settings(id).expect("there"))).collect();
    (records, keyspaces)
}

#[test]
fn a_database_goes_to_the_other_engine_and_back() {
    let home = tempfile::tempdir().expect("a directory");
    let [tree, hash, again] = ["tree", "hash", "again"].map(|name| home.path().join(name));
    make(&tree, EngineKind::Tree);
    let expected = content(&tree);
    assert_eq!(expected.0.len(), KEYS as usize + 2);
    let said = copy(&tree, &hash, "hashlog").ended(0);
    assert!(said.contains(&format!("{} records", KEYS + 2)) && said.contains("compared"), "{said}");
    assert_eq!(EngineKind::of(&hash).expect("told"), Some(EngineKind::Hash));
    // Not by `assert_eq`, which would print all of them.
    assert!(content(&hash) == expected, "the same records and settings");
    copy(&hash, &again, "tree").ended(0);
    assert_eq!(EngineKind::of(&again).expect("told"), Some(EngineKind::Tree));
    assert!(content(&again) == expected, "the same records and settings");
    let left: Vec<_> = fs::read_dir(home.path()).expect("listed").collect();
    assert_eq!(left.len(), 3, "nothing else is there: {left:?}");
    firn(&["verify", "--dir", text(&hash)]).ended(0);
}

#[test]
fn where_a_copy_cannot_go_nothing_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    let [from, full, to] = ["from", "full", "to"].map(|name| home.path().join(name));
    for dir in [&from, &full] {
        firn(&["put", "--dir", text(dir), "--create", "k", "v"]).ended(0);
    }
    copy(&from, &full, "hashlog").complained(1, &["is not empty", "new directory"]);
    copy(&from, &from.join("copy"), "hashlog").complained(1, &["lies in the database", "another directory"]);
    copy(&home.path().join("none"), &to, "hashlog").complained(1, &["does not exist"]);
    let misused = copy(&from, &to, "heap");
    assert!(misused.code == 2 && misused.complaint.contains("tree and hashlog"), "{misused:?}");
    assert!(!to.exists() && fs::read_dir(home.path()).expect("listed").count() == 2);
    let db = PointDb::open(&from).expect("opened");
    copy(&from, &to, "hashlog").complained(5, &["is locked", "close it there first"]);
    drop(db);
    assert_eq!(firn(&["get", "--dir", text(&full), "k"]).ended(0), "v\n");
}

#[test]
fn a_copy_that_was_interrupted_is_not_opened() {
    let home = tempfile::tempdir().expect("a directory");
    let [from, to, part] = ["from", "to", ".to.copying"].map(|name| home.path().join(name));
    firn(&["put", "--dir", text(&from), "--create", "k", "v"]).ended(0);
    // As a killed copy leaves it: a part of what is there, which opens.
    firn(&["put", "--dir", text(&part), "--create", "k", "of a part"]).complained(1, &["`firn copy`"]);
    let db = PointDb::builder(&part).engine(EngineKind::Hash).open_points().expect("opened");
    db.put("k", "of a part").expect("put");
    drop(db);
    for (command, rest) in [("get", &["k"][..]), ("verify", &[]), ("serve", &["--port", "0"]), ("scan", &[])]
    {
        let call = |dir: &Path| firn(&[&[command, "--dir", text(dir)], rest].concat());
        call(&to).complained(1, &["`firn copy`", "interrupted", "copy again"]);
        call(&part).complained(1, &["is a part of a database", "copy again"]);
    }
    // One that still runs is not disturbed.
    let lock = fs::File::open(&part).expect("opened");
    lock.lock().expect("locked");
    copy(&from, &to, "hashlog").complained(5, &["another process is copying"]);
    drop(lock);
    copy(&from, &to, "hashlog").ended(0);
    assert_eq!(firn(&["get", "--dir", text(&to), "k"]).ended(0), "v\n");
    assert!(!part.exists());
}

/// Strings of each form, in two databases, as `SCAN` and the tools show them.
fn write_strings(client: &mut Connection) {
    let long = "x".repeat(100_000);
    for words in [
        &["SET", "city", "Oslo"][..],
        &["SET", "soon", "1", "EX", "100000"],
        &["SET", "gone", "1", "PX", "1"],
        &["SET", "long", &long],
        &["SET", "long and soon", &long, "EX", "100000"],
        &["SET", "deleted", &long],
        &["DEL", "deleted"],
        &["SETRANGE", "holes", "80000", "end"],
        &["SELECT", "3"],
        &["INCRBY", "other", "41"],
        &["SELECT", "5"],
        &["SET", "flushed", &long],
        &["FLUSHDB"],
    ] {
        let mut request = redis::cmd(words[0]);
        request.arg(&words[1..]).exec(client).expect("done");
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// What clients find in the database in `dir`.
fn check_strings(dir: &Path, engine: &str) {
    let serving = Serving::start_with(&["--engine", engine], dir);
    let client = &mut rounds::connect(&serving.address);
    let ask = |client: &mut Connection, words: &[&str]| -> redis::Value {
        redis::cmd(words[0]).arg(&words[1..]).query(client).expect("a reply")
    };
    let text = |bytes: &[u8]| redis::Value::BulkString(bytes.to_vec());
    assert_eq!(ask(client, &["DBSIZE"]), redis::Value::Int(5));
    assert_eq!(ask(client, &["GET", "city"]), text(b"Oslo"));
    for key in ["soon", "long and soon"] {
        assert!(matches!(ask(client, &["TTL", key]), redis::Value::Int(99_000..=100_000)), "{key}");
    }
    for key in ["long", "long and soon"] {
        assert_eq!(ask(client, &["GET", key]), text("x".repeat(100_000).as_bytes()), "{key}");
    }
    let mut holes = vec![0; 80_000];
    holes.extend_from_slice(b"end");
    assert_eq!(ask(client, &["GET", "holes"]), text(&holes));
    ask(client, &["SELECT", "3"]);
    assert_eq!(ask(client, &["INCR", "other"]), redis::Value::Int(42));
    ask(client, &["DECR", "other"]);
    serving.end();
}

#[test]
fn what_clients_of_a_server_have_goes_to_the_other_engine_and_back() {
    let home = tempfile::tempdir().expect("a directory");
    let [tree, hash, again] = ["tree", "hash", "again"].map(|name| home.path().join(name));
    let serving = Serving::start(&tree);
    write_strings(&mut rounds::connect(&serving.address));
    serving.end();
    copy(&tree, &hash, "hashlog").ended(0);
    check_strings(&hash, "hashlog");
    assert!(firn(&["verify", "--dir", text(&hash)]).ended(0).contains("6 keys"));
    copy(&hash, &again, "tree").ended(0);
    check_strings(&again, "tree");
    assert!(firn(&["verify", "--dir", text(&again)]).ended(0).contains("6 keys"));
}

#[test]
fn collections_stay_with_the_engine_that_keeps_order() {
    let home = tempfile::tempdir().expect("a directory");
    let [tree, to] = ["tree", "to"].map(|name| home.path().join(name));
    let serving = Serving::start(&tree);
    let client = &mut rounds::connect(&serving.address);
    redis::cmd("HSET").arg(&["h", "f", "v"]).exec(client).expect("done");
    redis::cmd("SADD").arg(&["s", "m"]).exec(client).expect("done");
    redis::cmd("SET").arg(&["k", "v"]).exec(client).expect("done");
    serving.end();
    copy(&tree, &to, "hashlog").complained(1, &["1 of type hash", "1 of type set", "--engine tree"]);
    assert!(!to.exists() && fs::read_dir(home.path()).expect("listed").count() == 1);
    copy(&tree, &to, "tree").ended(0);
    assert_eq!(firn(&["get", "--dir", text(&to), "h"]).ended(0), "f\tv\n");
    // What was deleted, and what has expired, is no hindrance.
    let serving = Serving::start(&tree);
    let client = &mut rounds::connect(&serving.address);
    redis::cmd("DEL").arg("h").exec(client).expect("done");
    redis::cmd("PEXPIRE").arg(&["s", "1"]).exec(client).expect("done");
    serving.end();
    let hash = home.path().join("hash");
    copy(&tree, &hash, "hashlog").ended(0);
    assert_eq!(firn(&["scan", "--dir", text(&hash)]).ended(0), "0\tk\tstring\t-\tv\n");
}
