//! `firn put`, `get`, `delete`, `scan` and `stats`: one database, many calls.

use std::fs;
use std::path::{Path, PathBuf};

use firn_format::FormatVersion;

use crate::program::{Answer, firn, firn_with_input, text};

/// A database that is removed with its directory.
struct Db {
    home: tempfile::TempDir,
}

impl Db {
    fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a directory") }
    }

    fn with(records: &[(&str, &str)]) -> Self {
        let db = Self::new();
        for (key, value) in records {
            db.call("put", &["--create", key, value]).ended(0);
        }
        db
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("db")
    }

    fn call(&self, command: &str, rest: &[&str]) -> Answer {
        let dir = self.dir();
        firn(&[&[command, "--dir", text(&dir)], rest].concat())
    }
}

#[test]
fn what_is_put_is_found_by_the_next_call() {
    let db = Db::with(&[("city", "Uppsala")]);
    assert_eq!(db.call("get", &["city"]).ended(0), "Uppsala\n");
    db.call("put", &["city", "Växjö\\n"]).ended(0);
    assert_eq!(db.call("get", &["city"]).ended(0), "Växjö\\n\n");
    assert_eq!(db.call("get", &["city", "--raw"]).ended(0), "Växjö\n");
    assert_eq!(db.call("get", &["--hex", "63697479"]).ended(0), "56c3a4786ac3b60a\n");
    db.call("delete", &["city"]).ended(0);
    db.call("get", &["city"]).complained(4, &["the key 'city' has no value"]);
    db.call("delete", &["city"]).ended(0);
}

#[test]
fn standard_input_is_taken_as_it_is() {
    let db = Db::with(&[]);
    let dir = db.dir();
    let value: Vec<u8> = (0..=255).collect();
    firn_with_input(&["put", "--dir", text(&dir), "--create", "bytes", "-"], &value).ended(0);
    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(db.call("get", &["--hex", "6279746573"]).ended(0), format!("{hex}\n"));
}

#[test]
fn scans_have_bounds_prefixes_directions_and_limits() {
    let db = Db::with(&[("a1", "1"), ("a2", "2"), ("b1", "3"), ("\\xff", "4")]);
    let scan = |rest: &[&str]| db.call("scan", rest).ended(0);
    assert_eq!(scan(&[]), "a1\t1\na2\t2\nb1\t3\n\\xff\t4\n");
    assert_eq!(scan(&["--reverse", "--limit", "2"]), "\\xff\t4\nb1\t3\n");
    assert_eq!(scan(&["--prefix", "a", "--keys"]), "a1\na2\n");
    assert_eq!(scan(&["--from", "a2", "--to", "\\xff"]), "a2\t2\nb1\t3\n");
    assert_eq!(scan(&["--limit", "0"]), "");
}

#[test]
fn keyspaces_are_apart() {
    let db = Db::with(&[("k", "default")]);
    db.call("put", &["--create", "--keyspace", "other", "k", "other"]).ended(0);
    assert_eq!(db.call("get", &["k"]).ended(0), "default\n");
    assert_eq!(db.call("get", &["--keyspace", "other", "k"]).ended(0), "other\n");
    db.call("get", &["--keyspace", "none", "k"]).complained(1, &["no keyspace 'none'", "'default', 'other'"]);
}

#[test]
fn a_wrong_directory_is_refused_and_left_as_it_is() {
    let db = Db::new();
    for (command, rest) in [("get", &["k"][..]), ("put", &["k", "v"]), ("delete", &["k"]), ("scan", &[])] {
        db.call(command, rest).complained(1, &["does not exist; check the path"]);
        assert!(!db.dir().exists(), "{command} created {}", db.dir().display());
    }
    fs::create_dir(db.dir()).expect("created");
    db.call("get", &["k"]).complained(1, &["holds no database"]);
    assert_eq!(listing(&db.dir()), [""; 0]);
    fs::write(db.dir().join("letter.txt"), "dear").expect("written");
    db.call("put", &["--create", "k", "v"]).complained(1, &["holds other files and no database"]);
    assert_eq!(listing(&db.dir()), ["letter.txt"]);
    let file = db.dir().join("letter.txt");
    firn(&["get", "--dir", text(&file), "k"]).complained(1, &["cannot list", "letter.txt"]);
}

#[test]
fn what_is_too_long_is_refused_with_its_limit() {
    let db = Db::with(&[("k", "v")]);
    db.call("put", &[&"x".repeat(65_536), "v"]).complained(1, &["65536", "65535"]);
    assert_eq!(db.call("scan", &[]).ended(0), "k\tv\n");
}

#[test]
fn wrong_escapes_and_settings_are_refused_before_anything_is_opened() {
    let db = Db::with(&[("k", "v")]);
    db.call("get", &["\\q"]).complained(2, &["there is no escape"]);
    db.call("put", &["--hex", "6b", "6"]).complained(2, &["two hexadecimal digits"]);
    let settings = db.home.path().join("firn.toml");
    fs::write(&settings, "memory_bytes = \"1 MiB\"").expect("written");
    db.call("get", &["--config", text(&settings), "k"])
        .complained(1, &["firn.toml", "memory_bytes", "16 MiB"]);
    fs::write(&settings, "memory_bytes = \"32 MiB\"").expect("written");
    assert_eq!(db.call("get", &["--config", text(&settings), "k"]).ended(0), "v\n");
}

#[test]
fn a_second_opener_is_told_so() {
    let db = Db::with(&[("k", "v")]);
    let held = firn::Db::open(db.dir()).expect("opened");
    let before = listing(&db.dir());
    for (command, rest) in [("get", &["k"][..]), ("put", &["k", "w"]), ("delete", &["k"]), ("scan", &[])] {
        // It is this one.
        let holder = format!("process {} (`", std::process::id());
        let answer = db.call(command, rest);
        assert_eq!(answer.complaint.matches(text(&db.dir())).count(), 1, "{answer:?}");
        answer.complained(5, &["is locked", &holder]);
    }
    assert_eq!(listing(&db.dir()), before);
    held.close().expect("closed");
    assert_eq!(db.call("get", &["k"]).ended(0), "v\n");
}

#[test]
fn readers_change_nothing_on_disk() {
    let db = Db::with(&[("k", "v")]);
    let before = contents(&db.dir());
    db.call("get", &["k"]).ended(0);
    db.call("scan", &[]).ended(0);
    firn(&["stats", "--dir", text(&db.dir())]).ended(0);
    assert_eq!(contents(&db.dir()), before);
}

#[test]
fn stats_are_lines_or_json() {
    let db = Db::with(&[("k", "v")]);
    let lines = firn(&["stats", "--dir", text(&db.dir())]).ended(0);
    assert!(
        lines.starts_with("durability: process")
            && lines.contains("\nopen for: ")
            && lines.contains("\nkeyspaces\n"),
        "{lines}"
    );
    assert!(lines.lines().count() < 25 && !lines.contains("_total"), "{lines}");
    let json = firn(&["stats", "--json", "--dir", text(&db.dir())]).ended(0);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["memory_bytes_max"], 512 << 20);
    assert_eq!(json["keyspaces"][0]["name"], "default");
    assert!(json["open_us"].as_u64() > Some(0), "{json}");
    assert_eq!((&json["slowdown_wall_us_total"], &json["stop_wall_us_total"]), (&0.into(), &0.into()));
}

#[test]
fn a_newer_format_is_refused_and_left_as_it_is() {
    let db = Db::with(&[("k", "v")]);
    // The version is read before the checksum, so that a newer file is not taken for a damaged one.
    let newest =
        listing(&db.dir()).into_iter().rfind(|name| name.starts_with("manifest-")).expect("a manifest");
    let mut bytes = fs::read(db.dir().join(&newest)).expect("read");
    let newer = FormatVersion::CURRENT as u32 + 1;
    bytes[8..12].copy_from_slice(&newer.to_le_bytes());
    fs::write(db.dir().join(&newest), bytes).expect("written");
    let before = contents(&db.dir());
    for (command, rest) in [("get", &["k"][..]), ("put", &["k", "w"]), ("put", &["--create", "k", "w"])] {
        db.call(command, rest).complained(1, &[&newest, &format!("version {newer}"), "newer Firn: upgrade"]);
    }
    assert_eq!(contents(&db.dir()), before);
}

fn listing(dir: &Path) -> Vec<String> {
    contents(dir).into_iter().map(|(name, _)| name).collect()
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).expect("listed");
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.expect("listed").path())
        .map(|path| {
            (path.file_name().expect("a name").to_string_lossy().into_owned(), fs::read(&path).expect("read"))
        })
        .collect();
    files.sort();
    files
}
