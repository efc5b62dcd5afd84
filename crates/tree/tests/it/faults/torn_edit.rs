//! P10: the newest manifest edit is torn, and the database does not open although the edits before
//! it do.
//!
//! Neighbours: an edit cut off, emptied, or with a byte flipped. An edit stays where what earlier
//! edits name is gone; an edit of a newer release does not count as torn.

use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KeyspaceSettings, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Memory};
use firn_tree::{RepairOptions, RepairStep, Tree, repair};

use crate::support::inspect::report;
use crate::support::world::{World, get, put, session, tiny};

/// A database with records in a table and in the log that was killed, and its newest manifest edit,
/// which creates a keyspace.
fn killed() -> (World, String) {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut writer = session(&tree);
    for key in 0..100_u32 {
        put(&mut writer, &key.to_be_bytes(), b"value");
        if key == 50 {
            tree.flush().unwrap();
        }
    }
    tree.sync().unwrap();
    drop(writer);
    tree.create_keyspace("later", KeyspaceSettings::default()).unwrap();
    let world = world.crash(Crash::Kill);
    let newest = newest(&world.storage);
    (world, newest)
}

fn newest(storage: &Memory) -> String {
    let files = storage.list().unwrap().into_iter().map(|(name, _)| name);
    files.filter(|name| name.starts_with("manifest-")).max().unwrap()
}

fn holds(tree: &Tree) {
    let mut reader = session(tree);
    for key in 0..100_u32 {
        assert_eq!(get(&mut reader, &key.to_be_bytes()).as_deref(), Some(&b"value"[..]), "key {key}");
    }
}

fn run(storage: &Memory, dry_run: bool) -> firn_engine::Result<Vec<RepairStep>> {
    repair(&RepairOptions { storage: Arc::new(storage.clone()), log: None, dry_run })
}

/// What is done to a file of that name.
type Tear = fn(&Memory, &str);

/// How an edit is torn.
const TEARS: [(&str, Tear); 3] = [
    ("cut off", |storage, name| storage.open_write(name).unwrap().set_len(60).unwrap()),
    ("emptied", |storage, name| storage.open_write(name).unwrap().set_len(0).unwrap()),
    ("flipped", |storage, name| storage.open_write(name).unwrap().write_at(50, &[0xee, 0xee]).unwrap()),
];

#[test]
fn p10_a_torn_newest_edit_is_set_aside() {
    for (what, tear) in TEARS {
        let (world, newest) = killed();
        tear(&world.storage, &newest);
        assert_eq!(world.open().unwrap_err().kind(), ErrorKind::Corrupt, "{what}");
        let planned = run(&world.storage, true).unwrap();
        assert_eq!(planned.len(), 1, "{what}: {planned:?}");
        assert_eq!((planned[0].file.as_str(), planned[0].kept_bytes), (newest.as_str(), None), "{what}");
        assert_eq!(world.open().unwrap_err().kind(), ErrorKind::Corrupt, "{what}: a dry run changes nothing");
        assert_eq!(run(&world.storage, false).unwrap(), planned, "{what}");
        assert!(report(&world.storage).is_sound(), "{what}: {:?}", report(&world.storage));
        holds(&world.open().unwrap());
        assert!(world.storage.open_read(&planned[0].kept_as).is_ok(), "{what}: it is kept");
        assert_eq!(run(&world.storage, false).unwrap(), [], "{what}");
    }
}

#[test]
fn p10_an_edit_stays_where_the_ones_before_do_not_do() {
    let (world, newest) = killed();
    world.storage.open_write(&newest).unwrap().set_len(60).unwrap();
    let files = crate::support::sample::read_files(&world.storage);
    let table = files.keys().find(|name| name.ends_with(".table")).unwrap();
    world.storage.remove(table).unwrap();
    let error = run(&world.storage, false).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("backup"), "{error}");
    assert!(world.storage.open_read(&newest).is_ok(), "nothing was changed");
}

/// An edit that made a keyspace, of which records are in the log alone.
#[test]
fn p10_records_of_a_keyspace_that_the_edit_made_are_not_lost() {
    for (what, tear) in TEARS {
        let (world, before) = killed();
        let tree = world.open().unwrap();
        let id = tree.create_keyspace("latest", KeyspaceSettings::default()).unwrap();
        let edit = newest(&world.storage);
        assert_ne!(edit, before);
        let mut writer = session(&tree);
        writer.put(id, b"key", b"value", WriteOptions::default()).unwrap();
        let world = world.crash(Crash::Kill);
        tear(&world.storage, &edit);
        let files = crate::support::sample::read_files(&world.storage);
        for dry_run in [true, false] {
            let error = run(&world.storage, dry_run).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            assert!(error.to_string().contains(&format!("keyspace {}", id.0)), "{what}: {error}");
        }
        assert_eq!(crate::support::sample::read_files(&world.storage), files, "{what}: nothing was changed");
        // As an earlier repair has left it: an opening does not drop the records either.
        world.storage.remove(&edit).unwrap();
        let error = world.open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        assert!(error.location().is_some_and(|found| found.file.ends_with(".log")), "{what}: {error:?}");
        assert!(!report(&world.storage).is_sound(), "{what}: verify says the same");
    }
}

#[test]
fn p10_what_a_newer_release_wrote_is_not_taken_away() {
    let (world, newest) = killed();
    let version = firn_format::FormatVersion::CURRENT as u8 + 1;
    world.storage.open_write(&newest).unwrap().write_at(8, &[version]).unwrap();
    assert_eq!(run(&world.storage, false).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(world.storage.open_read(&newest).is_ok());
}
