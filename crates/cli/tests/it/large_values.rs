//! `firn put --file` and `firn get --file`: values that are longer than memory should be.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{Answer, firn, text};

/// A database whose values are separated, and a directory for files.
struct Db {
    home: tempfile::TempDir,
}

impl Db {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join("firn.toml"), "[tree]\nseparate_bytes = \"64 KiB\"\n").expect("written");
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn call(&self, command: &str, rest: &[&str]) -> Answer {
        let (dir, settings) = (self.path("db"), self.path("firn.toml"));
        firn(&[&[command, "--dir", text(&dir), "--config", text(&settings)], rest].concat())
    }

    fn put(&self, key: &str, file: &Path) -> Answer {
        self.call("put", &["--create", "--file", text(file), key])
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..bytes / 8).flat_map(|_| random.u64(..).to_le_bytes()).collect()
}

#[test]
fn a_file_of_64_mib_comes_back() {
    let db = Db::new();
    let (file, copy) = (db.path("film"), db.path("copy"));
    let film = noise(1, 64 << 20);
    fs::write(&file, &film).expect("written");
    db.put("film", &file).ended(0);
    db.call("get", &["--file", text(&copy), "film"]).ended(0);
    assert!(fs::read(&copy).expect("read") == film);
    // What is there is replaced as a whole, and by a shorter one too.
    fs::write(&file, &film[..5 << 20]).expect("written");
    db.put("film", &file).ended(0);
    db.call("get", &["film", "--file", text(&copy)]).ended(0);
    assert!(fs::read(&copy).expect("read") == film[..5 << 20]);
    db.call("get", &["--file", text(&copy), "none"]).complained(4, &["the key 'none' has no value"]);
    assert!(fs::read(&copy).expect("read").len() == 5 << 20);
    fs::write(&file, b"").expect("written");
    db.put("empty", &file).ended(0);
    db.call("get", &["--file", text(&copy), "empty"]).ended(0);
    assert_eq!(fs::read(&copy).expect("read"), b"");
    let left = fs::read_dir(db.home.path()).expect("listed").count();
    assert_eq!(left, 4, "database, settings, and two files");
    let dir = db.path("db");
    firn(&["verify", "--dir", text(&dir)]).ended(0);
}

#[test]
fn raw_output_is_the_value_and_may_be_cut_off() {
    let db = Db::new();
    let (file, film) = (db.path("film"), noise(2, 20 << 20));
    fs::write(&file, &film).expect("written");
    db.put("film", &file).ended(0);
    let get = |bytes: u64| {
        let (dir, mut found) = (db.path("db"), Vec::new());
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["get", "--dir", text(&dir), "--raw", "film"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = child.stdout.take().expect("piped");
        output.take(bytes).read_to_end(&mut found).expect("read");
        let ended = child.wait_with_output().expect("the program ends");
        assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
        assert!(found == film[..found.len()]);
        found.len()
    };
    assert_eq!(get(u64::MAX), film.len());
    assert_eq!(get(1000), 1000);
    db.call("get", &["--raw", "none"]).complained(4, &["the key 'none' has no value"]);
}

#[test]
fn what_cannot_be_streamed_is_refused_with_what_to_do() {
    let db = Db::new();
    let file = db.path("film");
    fs::write(&file, noise(3, 5 << 20)).expect("written");
    let dir = db.path("db");
    db.put("film", &db.path("none")).complained(1, &["cannot read", "none"]);
    db.put("film", Path::new("/dev/null")).complained(1, &["no regular file", "value `-`"]);
    assert!(!dir.exists());
    let settings = firn(&["put", "--dir", text(&dir), "--create", "--file", text(&file), "film"]);
    settings.complained(1, &["\"default\"", "separate_bytes"]);
    firn(&["get", "--dir", text(&dir), "film"]).complained(4, &["no value"]);
    db.put(&"k".repeat(65_536), &file).complained(1, &["65536", "65535"]);
    db.call("put", &["film", "value", "--file", text(&file)]).ended(2);
    db.call("put", &["film"]).ended(2);
    db.call("get", &["--file", text(db.home.path()), "film"]).complained(1, &["cannot write"]);
    let values = fs::read_dir(&dir).expect("listed").flatten();
    assert_eq!(values.filter(|entry| entry.path().extension().is_some_and(|it| it == "blobs")).count(), 0);
}
