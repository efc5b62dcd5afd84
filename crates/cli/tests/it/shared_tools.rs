//! `firn verify`, `firn inspect` and `firn backup` of databases whose tables lie where other
//! machines reach them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firn_s3_server::Faults;

use crate::object_store::{LOCATION, Scene};
use crate::program::{firn, text};
use crate::rounds::{self, Model, SETTINGS, value};
use crate::serve::Serving;
use crate::service_http::get_at;

/// A database, and how it is reached.
struct Shared {
    scene: Scene,
    location: String,
    /// Where files of the location lie after all.
    files: PathBuf,
    dir: PathBuf,
    model: Model,
}

impl Shared {
    fn new(in_store: bool) -> Self {
        let scene = Scene::new();
        let (location, files) = match in_store {
            true => (LOCATION.to_owned(), scene.path("s3/firn-test/some/db")),
            false => (text(&scene.path("shared")).to_owned(), scene.path("shared")),
        };
        fs::write(scene.path("settings.toml"), SETTINGS).expect("written");
        let dir = scene.path("data");
        Self { scene, location, files, dir, model: Model::new() }
    }

    fn serve(&self, arguments: &[&str]) -> Serving {
        let mut command = self.scene.command();
        command.args([
            "serve",
            "--shared",
            &self.location,
            "--config",
            text(&self.scene.path("settings.toml")),
        ]);
        Serving::start_as(command.args(arguments), &self.dir).expect("it serves")
    }

    /// Writes enough for tables and blob segments, until there are some.
    fn write(&mut self, serving: &Serving, round: u32) {
        let mut client = rounds::connect(&serving.address);
        for batch in 0.. {
            assert!(batch < 1000, "nothing is flushed");
            let info: String = redis::cmd("INFO").arg("firn").query(&mut client).expect("a reply");
            if batch >= 40 && !info.contains("flush_count:0\r\n") {
                return;
            }
            rounds::write(&mut client, &mut self.model, (round, batch), 1500);
        }
    }

    /// The first file of the location that ends with `ending`.
    fn file(&self, ending: &str) -> PathBuf {
        let files = fs::read_dir(&self.files).expect("listed").map(|entry| entry.expect("listed").path());
        let found = files.filter(|path| path.to_string_lossy().ends_with(ending)).min();
        found.unwrap_or_else(|| panic!("no {ending} in {}", self.files.display()))
    }

    /// Expects in the database in `dir`, which is all there, everything of `older`, and nothing
    /// that is not in `newer`.
    fn check(dir: &Path, older: &Model, newer: &Model) {
        let serving = Serving::start(dir);
        let mut client = rounds::connect(&serving.address);
        for (key, newest) in newer {
            let found: Option<Vec<u8>> = redis::cmd("GET").arg(key).query(&mut client).expect("a reply");
            let is_right = match (&found, older.get(key)) {
                (None, oldest) => oldest.is_none(),
                (Some(found), oldest) => {
                    (*oldest.unwrap_or(&0)..=*newest).any(|round| *found == value(*key, round))
                }
            };
            assert!(is_right, "key {key} of {:?} to {newest}", older.get(key));
        }
        let count: usize = redis::cmd("DBSIZE").query(&mut client).expect("a reply");
        assert!((older.len()..=newer.len()).contains(&count), "{count}");
        serving.end();
    }
}

/// `firn verify` tells what is sound, where the log is not, and what is damaged.
fn verify(in_store: bool) {
    let mut shared = Shared::new(in_store);
    let serving = shared.serve(&[]);
    shared.write(&serving, 0);
    let Shared { scene, location, dir, .. } = &shared;
    let ask = |dir: &PathBuf| scene.call(&["verify", "--shared", location, "--dir", text(dir)]);
    ask(dir).complained(5, &["data"]);
    serving.end();
    let before = scene.path("empty");
    fs::create_dir(&before).expect("made");
    ask(&before).complained(1, &["empty is not a database"]);
    assert_eq!(fs::read_dir(&before).expect("listed").count(), 0, "it changes nothing");
    ask(&scene.path("gone")).complained(1, &["does not exist"]);
    let plain = scene.path("plain");
    firn(&["put", "--create", "--dir", text(&plain), "k", "v"]).ended(0);
    ask(&plain).complained(1, &["plain holds a whole database", "leave --shared out"]);
    let out = ask(dir).ended(0);
    assert!(out.contains("sound: ") && !out.contains(" 0 tables"), "{out}");
    // A directory that another database has, or had.
    let other = scene.path("other");
    let counted = scene.call(&["stats", "--json", "--shared", location, "--dir", text(dir)]).ended(0);
    assert!(!counted.contains("\"table_count\":0,"), "{counted}");
    let put = ["put", "--shared", location, "--dir", text(&other), "k", "v"];
    scene.call(&put).complained(5, &["lies in another directory"]);
    ask(&other).complained(5, &["lies in another directory"]);
    let repair =
        |dir: &PathBuf| scene.call(&["repair", "--dry-run", "--shared", location, "--dir", text(dir)]);
    repair(&other).complained(5, &["lies in another directory"]);
    assert!(repair(dir).ended(0).starts_with("no edit is torn and no log is damaged"));
    firn(&["verify", "--dir", text(dir)]).complained(1, &["has only the log", "--shared"]);
    if !in_store {
        firn(&["verify", "--dir", location]).complained(5, &["is the shared part of a database"]);
    }

    for ending in [".table", ".blobs"] {
        let file = shared.file(ending);
        let good = fs::read(&file).expect("read");
        let mut bad = good.clone();
        // In the header of the one and in the first block of the other: dead values are not read.
        bad[20] ^= 1;
        fs::write(&file, bad).expect("written");
        let answer = ask(dir);
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(answer.out.contains(&format!("damage: {name}")), "{answer:?}");
        answer.complained(3, &["is damaged in"]);
        fs::write(&file, good).expect("written");
    }
    ask(dir).ended(0);
}

#[test]
fn a_database_on_a_shared_directory_is_verified() {
    verify(false);
}

#[test]
fn a_database_in_a_bucket_is_verified() {
    verify(true);
}

#[test]
fn files_in_a_bucket_are_inspected_by_name() {
    let mut shared = Shared::new(true);
    let serving = shared.serve(&[]);
    shared.write(&serving, 0);
    serving.end();
    let Shared { scene, location, .. } = &shared;
    for ending in [".table", ".blobs"] {
        let file = shared.file(ending);
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let out = scene.call(&["inspect", "--shared", location, &name]).ended(0);
        let lines = firn(&["inspect", text(&file)]).ended(0);
        assert!(out.lines().count() > 3 && out == lines, "{name}: {out}");
    }
    let ask = |location: &str, name: &str| scene.call(&["inspect", "--shared", location, name]);
    ask(location, "1-000000.table").complained(1, &["cannot read 1-000000.table of", "no such object"]);
    ask(location, "a/b").complained(1, &["cannot read a/b of"]);
    ask("s3://no-such-bucket/x", "1-000000.table")
        .complained(1, &["1-000000.table of s3://no-such-bucket/x"]);
    ask("ftp://x/y", "1-000000.table").complained(1, &["cannot use ftp://x/y"]);
}

/// Backups of a server that goes on, and of a database that no process has open, need neither the
/// shared location nor the directory.
fn backup(in_store: bool) {
    let mut shared = Shared::new(in_store);
    let folder = shared.scene.path("backups");
    let serving = shared.serve(&["--http-port", "0", "--backup-dir", text(&folder)]);
    shared.write(&serving, 0);
    let http = serving.http.clone().expect("it answers");
    let older = shared.model.clone();
    // Compactions make tables dead while they are copied, which takes a moment each.
    let slow = Faults { delay: Duration::from_millis(10), ..Faults::default() };
    shared.scene.server().set_faults(slow);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| firn(&["backup", "--server", &http, "--to", "first"]));
        for round in 1.. {
            shared.write(&serving, round);
            if asked.is_finished() {
                break;
            }
        }
        asked.join().expect("it ends").ended(0);
    });
    shared.scene.server().set_faults(Faults::default());
    serving.end();
    let Shared { scene, location, dir, .. } = &shared;
    let second = folder.join("second");
    let ask =
        |to: &PathBuf| scene.call(&["backup", "--dir", text(dir), "--shared", location, "--to", text(to)]);
    assert!(ask(&second).ended(0).contains("second holds all writes before position"));
    ask(&second).complained(1, &["second exists"]);
    firn(&["backup", "--dir", text(dir), "--to", text(&folder.join("x"))]).complained(1, &["only the log"]);
    let http = ["backup", "--server", "127.0.0.1:1", "--shared", location, "--to", "x"];
    let refused = firn(&http);
    assert!(refused.code == 2 && refused.complaint.contains("cannot be used with '--shared"), "{refused:?}");
    // The database goes on as it was.
    scene.call(&["verify", "--shared", location, "--dir", text(dir)]).ended(0);

    // What is not there cannot be copied, and then there is no backup.
    let table = shared.file(".table");
    let aside = scene.path("aside");
    fs::rename(&table, &aside).expect("moved");
    let third = folder.join("third");
    let answer = ask(&third);
    let name = table.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(answer.code == 1 || answer.code == 3, "{answer:?}");
    assert!(answer.complaint.contains(&name), "{answer:?}");
    let names = |folder: &PathBuf| {
        let mut names: Vec<_> =
            fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&folder), ["first", "second"]);

    fs::remove_dir_all(&shared.files).expect("removed");
    fs::remove_dir_all(dir).expect("removed");
    for (name, older) in [("first", &older), ("second", &shared.model)] {
        let (from, to) = (folder.join(name), scene.path(&format!("restored-{name}")));
        let out = firn(&["verify", "--dir", text(&from)]).ended(0);
        assert!(out.contains("sound: ") && !out.contains(" 0 tables"), "{out}");
        firn(&["restore", "--from", text(&from), "--dir", text(&to)]).ended(0);
        Shared::check(&to, older, &shared.model);
    }
}

#[test]
fn a_backup_of_a_database_on_a_shared_directory_is_whole() {
    backup(false);
}

#[test]
fn a_backup_of_a_database_in_a_bucket_is_whole() {
    backup(true);
}

#[test]
fn a_whole_database_is_not_taken_for_the_log_of_another() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    firn(&["put", "--create", "--dir", text(&at("whole")), "k", "v"]).ended(0);
    let shared = at("shared");
    for command in [&["get"][..], &["put", "--create"], &["serve", "--port", "0", "--http-port", "none"]] {
        let words: &[&str] = if command[0] == "serve" { &[] } else { &["k"] };
        let value: &[&str] = if command[0] == "put" { &["v"] } else { &[] };
        let place = ["--dir", text(&at("whole")), "--shared", text(&shared)].map(str::to_owned);
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let answer = firn(&[command, &place[..], words, value].concat());
        answer.complained(1, &["holds a whole database", "leave --shared out"]);
    }
    assert_eq!(firn(&["get", "--dir", text(&at("whole")), "k"]).ended(0), "v\n");
}

/// A server whose database another one has taken says so to its clients and its operator, and where
/// to go.
#[test]
fn a_server_that_was_taken_over_says_where_to_go() {
    let mut shared = Shared::new(false);
    let old = shared.serve(&["--http-port", "0"]);
    shared.write(&old, 0);
    let mut command = shared.scene.command();
    command.args(["serve", "--shared", &shared.location, "--take-over"]);
    let new = Serving::start_as(&mut command, &shared.scene.path("new")).expect("it serves");
    // Connections are cut off as it finds out, with a message where one waits for a reply.
    let refused = || {
        (0..1000).find_map(|round| {
            let client = redis::Client::open(format!("redis://{}", old.address)).expect("an address");
            let mut client = client.get_connection().ok()?;
            let saved: redis::RedisResult<()> = redis::cmd("SAVE").query(&mut client);
            let set: redis::RedisResult<()> = redis::cmd("SET").arg("k").arg(round).query(&mut client);
            saved.and(set).err().filter(|error| !error.is_io_error())
        })
    };
    for what in ["as it finds out", "from then on"] {
        let error = refused().expect("it writes no more").to_string();
        for words in ["opened on another machine", "connect to where it is open"] {
            assert!(error.contains(words), "{what}: no {words:?} in {error}");
        }
        assert!(!error.contains("reopen"), "{what}: {error}");
    }
    let http = old.http.as_deref().expect("it answers").trim_start_matches("http://");
    let (_, status) = get_at(http, "/status");
    assert!(status.contains("connect to where it is open") && status.contains("takes no writes"), "{status}");
    redis::cmd("SET").arg("k").arg("v").exec(&mut rounds::connect(&new.address)).expect("it writes");
    new.end();
}
