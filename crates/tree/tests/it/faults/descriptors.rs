//! T6: a process that may have few files open. A flush that finds no descriptor is reported and
//! tried again, and writes go on. More tables than it may have open are read.
//!
//! Neighbours: no descriptor for the next log segment, for a compaction's outputs, for an edit of
//! the manifest. Files that are opened again by their names are tested beside the code
//! (`storage/src/backend/local/descriptors.rs`).

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, Ordered};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};
use firn_tree::{Background, Tree};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::world::{World, get, get_in, put, session, settle, tiny};

/// Tells the other process that it is one.
const IS_OTHER: &str = "FIRN_TEST_FEW_DESCRIPTORS";

/// A limit belongs to a process, so that what is tested has one of its own.
#[test]
fn t6_a_process_with_few_descriptors_writes_flushes_and_reads() {
    let test = "faults::descriptors::t6_works_with_few_descriptors";
    let arguments = ["--exact", test, "--ignored", "--nocapture", "--test-threads=1"];
    let mut other = Command::new(std::env::current_exe().unwrap());
    let output = other.args(arguments).env(IS_OTHER, "1").output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success() && said.contains("all was done"), "{said}");
}

#[test]
#[ignore = "the other process of t6_a_process_with_few_descriptors_writes_flushes_and_reads"]
fn t6_works_with_few_descriptors() {
    if std::env::var_os(IS_OTHER).is_none() {
        return;
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
    many_tables_are_read();
    what_finds_no_descriptor_is_tried_again();
    what_is_held_for_later_is_closed();
    println!("all was done");
}

fn open(world: &World, path: &Path) -> Arc<Tree> {
    let local = Local::open(path, LocalOptions { create: true }).unwrap();
    // Of tables that are not mapped each needs one while it is read.
    let storage = Arc::new(local.without_mappings().with_open_files_max(8)) as Arc<dyn Storage>;
    world.open_on(storage, Background::Manual)
}

fn many_tables_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let tree = open(&World::new(tiny()), directory.path());
    let keyspace = |number: u8| {
        tree.create_keyspace(&format!("keyspace {number}"), KeyspaceSettings::default()).unwrap()
    };
    let keyspaces: Vec<_> = (0..20).map(keyspace).collect();
    for id in &keyspaces {
        session(&tree).put(*id, b"key", &id.0.to_le_bytes(), Default::default()).unwrap();
    }
    tree.flush().unwrap();
    settle(&tree);
    for id in keyspaces.iter().rev().chain(&keyspaces) {
        let found = get_in(&mut session(&tree), *id, b"key");
        assert_eq!(found.as_deref(), Some(&id.0.to_le_bytes()[..]));
    }
    tree.close().unwrap();
}

/// A file that is not being read gives its descriptor to an opening that finds none.
fn what_is_held_for_later_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let local = Local::open(directory.path(), LocalOptions { create: true }).unwrap();
    let local = local.without_mappings().with_open_files_max(8);
    let open = |name: &str| {
        std::fs::write(directory.path().join(name), name).unwrap();
        local.open_read(name).unwrap()
    };
    let (held, _) = (open("1.table"), open("2.table"));
    std::fs::write(directory.path().join("3.table"), "3.table").unwrap();
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let found = local.open_read("3.table").unwrap();
    for (file, expected) in [(&found, b"3.table"), (&held, b"1.table"), (&found, b"3.table")] {
        let mut bytes = [0; 7];
        file.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, expected);
    }
    drop(taken);
}

fn what_finds_no_descriptor_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(tiny());
    let tree = open(&world, directory.path());
    put(&mut session(&tree), b"before", b"kept");
    // Another part of the process takes all descriptors.
    let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let error = tree.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    put(&mut session(&tree), b"meanwhile", b"taken");
    // One for the next log segment and none for the output.
    taken.pop();
    let error = tree.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    let stats = tree.stats();
    let why = stats.background_refusal.unwrap();
    assert!(why.contains("open_files_max") && why.contains("tried again by itself"), "{why}");
    assert_eq!(stats.write_failure, None);
    put(&mut session(&tree), b"meanwhile", b"taken again");

    drop(taken);
    tree.flush().unwrap();
    assert_eq!(tree.stats().background_refusal, None);
    settle(&tree);
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    tree.close().unwrap();
    let tree = open(&world, directory.path());
    for (key, value) in [(&b"before"[..], &b"kept"[..]), (b"meanwhile", b"taken again")] {
        assert_eq!(get(&mut session(&tree), key).as_deref(), Some(value));
    }
}
