//! Commands on a database of the hashed engine.

use std::fs;
use std::path::Path;

use crate::program::{firn, text};
use crate::rounds;
use crate::serve::Serving;

fn made(dir: &Path) {
    let put = |key: &str, value: &str| {
        firn(&["put", "--dir", text(dir), "--create", "--engine", "hashlog", key, value]).ended(0);
    };
    put("a", "1");
    put("b", "2");
}

#[test]
fn single_keys_are_put_read_and_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path().join("db");
    made(&dir);
    let (dir, value) = (text(&dir), directory.path().join("value"));
    assert_eq!(firn(&["get", "--dir", dir, "a"]).ended(0), "1\n");
    firn(&["put", "--dir", dir, "a", "3"]).ended(0);
    firn(&["delete", "--dir", dir, "b"]).ended(0);
    assert_eq!(firn(&["get", "--dir", dir, "a"]).ended(0), "3\n");
    firn(&["get", "--dir", dir, "b"]).complained(4, &["'b' has no value"]);
    fs::write(&value, vec![7; 5 << 20]).expect("written");
    firn(&["put", "--dir", dir, "--file", text(&value), "long"]).ended(0);
    let copy = directory.path().join("copy");
    firn(&["get", "--dir", dir, "--file", text(&copy), "long"]).ended(0);
    assert!(fs::read(&copy).expect("read") == vec![7; 5 << 20]);
    let stats = firn(&["stats", "--dir", dir, "--json"]).ended(0);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(stats["engine"], "hashlog");
    assert!(stats["hash"]["index_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{stats}");
}

#[test]
fn what_needs_order_or_another_engine_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path().join("db");
    made(&dir);
    let path = text(&dir);
    for range in [&["--from", "a"][..], &["--to", "b"], &["--reverse"]] {
        let scan = [&["scan", "--dir", path], range].concat();
        firn(&scan).complained(2, &["hashlog", "no order", "--prefix", "`firn copy --engine tree`"]);
    }
    firn(&["repair", "--dir", path]).complained(1, &["engine `hashlog`", "`firn verify`", "`firn restore`"]);
    let asked = ["put", "--dir", path, "--create", "--engine", "tree", "a", "1"];
    let refused = firn(&asked);
    assert_eq!(refused.complaint.matches(path).count(), 1, "{refused:?}");
    refused.complained(1, &["engine `hashlog`", "ask for `hashlog`"]);
    // A server of the other engine changes nothing either.
    let files = || {
        let entries = fs::read_dir(&dir).expect("listed").map(|entry| entry.expect("an entry"));
        let mut files: Vec<_> =
            entries.map(|entry| (entry.path(), fs::read(entry.path()).expect("read"))).collect();
        files.sort();
        files
    };
    let before = files();
    firn(&["serve", "--dir", path, "--engine", "tree", "--port", "0"])
        .complained(1, &["engine `hashlog`", "`tree` was asked for", "name another directory"]);
    assert!(files() == before, "nothing has changed");
    let misused = firn(&["put", "--dir", path, "--engine", "hashlog", "a", "1"]);
    assert!(misused.code == 2 && misused.complaint.contains("--create"), "{misused:?}");
    let misused = firn(&["put", "--dir", path, "--create", "--engine", "heap", "a", "1"]);
    assert!(misused.code == 2 && misused.complaint.contains("tree and hashlog"), "{misused:?}");
    assert_eq!(firn(&["get", "--dir", path, "a"]).ended(0), "1\n");
}

#[test]
fn a_scan_prints_all_records_in_no_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path().join("db");
    made(&dir);
    let scan = |rest: &[&str]| {
        let answer = firn(&[&["scan", "--dir", text(&dir)], rest].concat());
        assert!(answer.complaint.contains("hashlog keeps keys in no order"), "{answer:?}");
        let mut lines: Vec<String> = answer.ended(0).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(scan(&[]), ["a\t1", "b\t2"]);
    assert_eq!(scan(&["--keys", "--prefix", "b"]), ["b"]);
    assert_eq!(scan(&["--limit", "1"]).len(), 1);
}

/// What `firn serve` has written on this engine, under the other commands.
#[test]
fn the_tools_show_what_clients_have_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path().join("db");
    let serving = Serving::start_with(&["--engine", "hashlog"], &dir);
    let client = &mut rounds::connect(&serving.address);
    let long = "x".repeat(100_000);
    for words in [
        &["SET", "city", "Oslo"][..],
        &["SET", "soon", "1", "EX", "1000"],
        &["SET", "gone", "1", "PX", "1"],
        &["SET", "long", &long],
        &["SELECT", "3"],
        &["SET", "other", "3"],
    ] {
        redis::cmd(words[0]).arg(&words[1..]).exec(client).expect("done");
    }
    serving.end();
    let call = |command: &str, rest: &[&str]| firn(&[&[command, "--dir", text(&dir)], rest].concat());
    assert_eq!(call("get", &["city"]).ended(0), "Oslo\n");
    assert_eq!(call("get", &["--database", "3", "other"]).ended(0), "3\n");
    call("get", &["other"]).complained(4, &["'other' has no value"]);
    call("get", &["gone"]).complained(4, &["'gone' has no value"]);
    assert!(call("get", &["--raw", "long"]).ended(0) == long);
    let out = call("scan", &[]).ended(0);
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let soon = lines.iter().position(|line| line.starts_with("0\tsoon\tstring\t"));
    lines.remove(soon.unwrap_or_else(|| panic!("no soon in {lines:?}")));
    let expected = ["0\tcity\tstring\t-\tOslo", "0\tlong\tstring\t-\t100000 bytes", "3\tother\tstring\t-\t3"];
    assert_eq!(lines, expected);
    assert_eq!(call("scan", &["--database", "3", "--keys"]).ended(0), "3\tother\tstring\t-\n");
    assert!(call("stats", &[]).ended(0).contains("written by `firn serve`"));
    let words = ["written by `firn serve`", "redis-cli SET KEY VALUE"];
    call("put", &["city", "Bergen"]).complained(1, &words);
    call("delete", &["city"]).complained(1, &words);
    let sound = call("verify", &[]).ended(0);
    assert!(sound.contains("keys and 7 parts of clients; 0 findings"), "{sound}");
    // What no server writes is named.
    let db = firn::PointDb::open(&dir).expect("opened");
    let keys = db.engine().keyspace("keys").expect("there");
    db.in_keyspace(keys).put("y", "1").expect("written");
    drop(db);
    call("verify", &[]).complained(3, &["damaged in 1 place"]);
    call("copy", &["--to", text(&directory.path().join("to")), "--engine", "tree"]).ended(0);
    call("scan", &[]).complained(3, &["none that `firn serve` writes"]);
}

#[test]
fn a_backup_is_verified_and_restored() {
    let directory = tempfile::tempdir().expect("a directory");
    let [dir, backup, restored] = ["db", "backup", "restored"].map(|name| directory.path().join(name));
    made(&dir);
    let sound = firn(&["verify", "--dir", text(&dir)]).ended(0);
    assert!(sound.starts_with("sound: ") && sound.contains("1 keyspace"), "{sound}");
    firn(&["backup", "--dir", text(&dir), "--to", text(&backup)]).ended(0);
    firn(&["restore", "--from", text(&backup), "--dir", text(&restored)]).ended(0);
    assert_eq!(firn(&["get", "--dir", text(&restored), "b"]).ended(0), "2\n");
    let names: Vec<_> =
        fs::read_dir(&dir).expect("listed").map(|entry| entry.expect("an entry").path()).collect();
    let of_kind = |extension: &str| {
        let found = names.iter().find(|path| path.extension().is_some_and(|found| found == extension));
        found.unwrap_or_else(|| panic!("no {extension} among {names:?}"))
    };
    assert!(firn(&["inspect", text(of_kind("redo"))]).ended(0).contains("generation"));
    let segment = of_kind("hybrid");
    assert!(firn(&["inspect", text(segment)]).ended(0).contains("record"));
    let mut bytes = fs::read(segment).expect("read");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("it holds records");
    bytes[last] ^= 1;
    fs::write(segment, bytes).expect("written");
    firn(&["verify", "--dir", text(&dir)]).complained(3, &["damaged in 1 place"]);
    let failed = firn(&["restore", "--from", text(&dir), "--dir", text(&directory.path().join("no"))]);
    failed.complained(3, &["nothing was restored"]);
}
