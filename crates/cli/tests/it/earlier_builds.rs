//! Databases that a build before the first release wrote: every command refuses them, and changes
//! nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use firn_format::checksum::xxh3;

use crate::object_store::{LOCATION, Scene};
use crate::program::{Answer, firn, text};

/// Names that only such builds gave.
const NAMES: [&str; 3] = ["STAGE", "00000001.values", "gc-7-000000.values"];

/// Checksum of the content, and time of change, of everything in `folder`.
fn everything_in(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let of = |entry: fs::DirEntry| {
        let changed = entry.metadata().and_then(|meta| meta.modified()).expect("a time");
        let content = if entry.path().is_dir() { Vec::new() } else { fs::read(entry.path()).expect("read") };
        (entry.path(), (xxh3(&content), changed))
    };
    fs::read_dir(folder).expect("listed").map(|entry| of(entry.expect("an entry"))).collect()
}

/// Without the times.
fn contents_of(folder: &Path) -> Vec<(PathBuf, u64)> {
    everything_in(folder).into_iter().map(|(path, (checksum, _))| (path, checksum)).collect()
}

/// What `firn serve` by `command` says instead of serving `dir`.
fn serve(mut command: Command, dir: &Path, arguments: &[&str]) -> Answer {
    let command = command.args(["serve", "--port", "0", "--threads", "1", "--memory-bytes", "64M"]);
    let command = command.args(arguments).arg("--dir").arg(dir);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("read");
    if !line.is_empty() {
        process.kill().expect("killed");
    }
    let output = process.wait_with_output().expect("it ends");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    Answer { code: output.status.code().unwrap_or(-1), out: line, complaint }
}

#[track_caller]
fn refuses(answer: Answer, name: &str) {
    answer.complained(1, &[name, "an earlier build of Firn", "copy the data out with that build"]);
}

#[test]
fn a_directory_of_an_earlier_build_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a directory");
    for name in NAMES {
        let (dir, other) = (folder.path().join(name), folder.path().join("other"));
        let path = text(&dir);
        firn(&["put", "--create", "--dir", path, "k", "v"]).ended(0);
        fs::write(dir.join(name), "acknowledged").expect("written");
        // What the next opening for writing would remove.
        fs::write(dir.join(".half.tmp"), "").expect("written");
        let before = everything_in(&dir);
        for arguments in [
            &["get", "--dir", path, "k"][..],
            &["scan", "--dir", path],
            &["stats", "--dir", path],
            &["put", "--dir", path, "k", "w"],
            &["put", "--create", "--dir", path, "k", "w"],
            &["verify", "--dir", path],
            &["repair", "--dir", path],
            &["repair", "--dry-run", "--dir", path],
            &["backup", "--dir", path, "--to", text(&other)],
            &["restore", "--from", path, "--dir", text(&other)],
        ] {
            refuses(firn(arguments), name);
        }
        refuses(serve(Command::new(env!("CARGO_BIN_EXE_firn")), &dir, &[]), name);
        assert_eq!(everything_in(&dir), before, "{name}");
        assert!(!other.exists(), "nothing was made of it");
    }
}

/// Neither part of a database on shared storage is opened where one has such a file.
fn shared(in_store: bool) {
    let scene = Scene::new();
    let (location, files) = match in_store {
        true => (LOCATION.to_owned(), scene.path("s3/firn-test/some/db")),
        false => (text(&scene.path("shared")).to_owned(), scene.path("shared")),
    };
    let (dir, fresh) = (scene.path("data"), scene.path("fresh"));
    let call = |arguments: &[&str]| scene.call(&[arguments, &["--shared", &location]].concat());
    call(&["put", "--create", "--dir", text(&dir), "k", "v"]).ended(0);
    let planted = [(&dir, "STAGE"), (&dir, "00000001.values"), (&files, "gc-7-000000.values")];
    for (folder, name) in planted {
        fs::write(folder.join(name), "acknowledged").expect("written");
        let before = (contents_of(&dir), everything_in(&files));
        let other = scene.path("other");
        for arguments in [
            &["get", "--dir", text(&dir), "k"][..],
            &["put", "--dir", text(&dir), "k", "w"],
            &["put", "--create", "--dir", text(&dir), "k", "w"],
            &["verify", "--dir", text(&dir)],
            &["backup", "--dir", text(&dir), "--to", text(&other)],
        ] {
            refuses(call(arguments), name);
        }
        refuses(serve(scene.command(), &dir, &["--shared", &location]), name);
        if folder == &files {
            refuses(call(&["put", "--take-over", "--dir", text(&fresh), "k", "w"]), name);
            refuses(serve(scene.command(), &fresh, &["--shared", &location, "--take-over"]), name);
        }
        // A bucket is first listed under the directory's lock, which empties its combiner anew.
        assert_eq!((contents_of(&dir), everything_in(&files)), before, "{name}");
        fs::remove_file(folder.join(name)).expect("removed");
    }
    assert_eq!(call(&["get", "--dir", text(&dir), "k"]).ended(0), "v\n");
}

#[test]
fn a_shared_directory_of_an_earlier_build_is_refused_and_left_as_it_is() {
    shared(false);
}

#[test]
fn a_bucket_of_an_earlier_build_is_refused_and_left_as_it_is() {
    shared(true);
}
