//! T3, T4: keyspaces made and dropped, kills and copies each left 16 MiB of log behind. One key
//! took 97 MB of disk, and 400 MB went to a log that may have 16 MiB.
//!
//! Neighbours: keyspaces that stay, empty and with a record; many batches of a frame's greatest
//! size; a database at rest.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Engine, KEYSPACE_DEFAULT, KeyspaceSettings, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};
use firn_tree::{Background, Settings, Tree};

use crate::support::world::{World, get, put, session, settle, tiny};

const MIB: u64 = 1 << 20;

/// What the files below `path` take on disk.
pub(super) fn disk_bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| entry.metadata().unwrap().blocks() * 512).sum()
}

/// The database of `world` in the directory `path`; the owner does its background work.
pub(super) fn open_at(world: &World, path: &Path) -> Arc<Tree> {
    let backend: Arc<dyn Storage> = Arc::new(Local::open(path, LocalOptions { create: true }).unwrap());
    world.open_on(backend, Background::Manual)
}

/// Writes nothing for `seconds`.
pub(super) fn rest(world: &World, tree: &Tree, seconds: u64) {
    for _ in 0..seconds {
        settle(tree);
        world.clock.advance(Duration::from_secs(1));
    }
    settle(tree);
}

#[test]
fn t3_dropped_keyspaces_leave_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(Settings::default());
    let tree = open_at(&world, dir.path());
    let mut writer = session(&tree);
    let mut most = 0;
    for number in 0..40 {
        let id = tree.create_keyspace(&format!("temporary {number}"), KeyspaceSettings::default()).unwrap();
        writer.put(id, b"key", b"value", WriteOptions::default()).unwrap();
        tree.drop_keyspace(id).unwrap();
        settle(&tree);
        most = most.max(disk_bytes(dir.path()));
    }
    assert!(most <= 64 * MIB, "{most} bytes of disk meanwhile");
    assert!(tree.stats().log_bytes <= 64 * MIB, "{} bytes are told", tree.stats().log_bytes);
    rest(&world, &tree, 20);
    let left = disk_bytes(dir.path());
    assert!(left <= 8 * MIB, "{left} bytes of disk are left");
}

/// All that the last segments hold is of keyspaces that are gone, so that no flush ever says that
/// it is not needed.
#[test]
fn t3_what_dropped_keyspaces_wrote_last_leaves_no_log() {
    for mib_count in [14, 40] {
        let dir = tempfile::tempdir().unwrap();
        let world = World::new(Settings::default());
        let tree = open_at(&world, dir.path());
        let mut writer = session(&tree);
        let id = tree.create_keyspace("temporary", KeyspaceSettings::default()).unwrap();
        for key in 0..mib_count {
            writer.put(id, &[key], &[key; MIB as usize], WriteOptions::default()).unwrap();
        }
        settle(&tree);
        tree.drop_keyspace(id).unwrap();
        rest(&world, &tree, 20);
        let (used, reported) = (disk_bytes(dir.path()), tree.stats().log_bytes);
        assert!(
            reported <= 4 * MIB,
            "{reported} bytes of log are told of {mib_count} MiB in a dropped keyspace"
        );
        assert!(used <= 8 * MIB, "{used} bytes of disk are left of them");
        put(&mut writer, b"key", b"value");
        tree.close().unwrap();
        let tree = open_at(&world, dir.path());
        assert_eq!(get(&mut session(&tree), b"key").as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn t3_keyspaces_of_one_record_share_what_the_log_may_have() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(Settings::default());
    let tree = open_at(&world, dir.path());
    let mut writer = session(&tree);
    let ids: Vec<_> = (0..40)
        .map(|number| {
            let id = tree.create_keyspace(&format!("{number}"), KeyspaceSettings::default()).unwrap();
            if number % 2 == 0 {
                writer.put(id, b"key", b"value", WriteOptions::default()).unwrap();
            }
            id
        })
        .collect();
    settle(&tree);
    let (used, reported) = (disk_bytes(dir.path()), tree.stats().log_bytes);
    assert!(used <= 24 * MIB, "{used} bytes of disk");
    assert!(reported.abs_diff(used) <= MIB, "{reported} bytes are told of {used}");
    rest(&world, &tree, 20);
    let left = disk_bytes(dir.path());
    assert!(left <= 8 * MIB, "{left} bytes of disk are left");
    for id in ids.iter().step_by(2) {
        assert_eq!(crate::support::world::get_in(&mut writer, *id, b"key").as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn t3_kills_and_copies_leave_no_room_set_aside() {
    let root = tempfile::tempdir().unwrap();
    let world = World::new(Settings::default());
    let path = |number: u32| root.path().join(number.to_string());
    for number in 0..12_u32 {
        let tree = open_at(&world, &path(number));
        put(&mut session(&tree), &number.to_be_bytes(), b"value");
        let copy = root.path().join(format!("copy {number}"));
        tree.copy_to(&copy).unwrap();
        put(&mut session(&tree), &number.to_be_bytes(), b"newer");
        let copied = disk_bytes(&copy);
        assert!(copied <= MIB, "{copied} bytes of disk for a copy");
        // As a kill leaves it, with the files' room. Under other names an opening finds no trace of
        // the process.
        fs::create_dir(path(number + 1)).unwrap();
        fs::write(path(number + 1).join("LOCK"), b"").unwrap();
        for entry in fs::read_dir(path(number)).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_name() != "LOCK" {
                fs::hard_link(entry.path(), path(number + 1).join(entry.file_name())).unwrap();
            }
        }
        std::mem::forget(tree);
    }
    let tree = open_at(&world, &path(12));
    let used = disk_bytes(&path(12));
    assert!(used <= 8 * MIB, "{used} bytes of disk after twelve kills");
    let mut reader = session(&tree);
    for number in 0..12_u32 {
        assert_eq!(get(&mut reader, &number.to_be_bytes()).as_deref(), Some(&b"newer"[..]));
    }
}

#[test]
fn t3_one_key_takes_little() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(Settings::default());
    let tree = open_at(&world, dir.path());
    for name in ["one", "two", "three", "four", "five"] {
        tree.create_keyspace(name, KeyspaceSettings::default()).unwrap();
    }
    put(&mut session(&tree), b"key", b"value");
    settle(&tree);
    let used = disk_bytes(dir.path());
    assert!(used <= 5_000_000, "{used} bytes of disk");
}

/// Writes 48 MiB in frames of `bytes` to a log that may have 16 MiB, in segments of 4; its greatest
/// length.
fn longest_log(bytes: usize) -> u64 {
    let settings = Settings { memory_bytes: 2 << 30, ..tiny() }.with_engine(|tree| {
        tree.memtable_bytes = 512 << 20;
        tree.buffer_bytes = 512 << 20;
        tree.buffer_bytes_max = 1 << 30;
        tree.log_bytes_max = 16 << 20;
    });
    let world = World::new(settings);
    let tree = world.open().unwrap();
    let small = tree.create_keyspace("small", KeyspaceSettings::default()).unwrap();
    let mut writer = session(&tree);
    // Whatever holds the oldest of it flushes, be it one record.
    writer.put(small, b"key", b"value", WriteOptions::default()).unwrap();
    let value = vec![7; bytes];
    let mut most = 0;
    for key in 0..(48 << 20) / bytes as u32 {
        writer.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value, WriteOptions::default()).unwrap();
        most = most.max(tree.stats().log_bytes);
    }
    assert_eq!(crate::support::world::get_in(&mut writer, small, b"key").as_deref(), Some(&b"value"[..]));
    most
}

#[test]
fn t4_the_log_has_its_limit_and_a_segment() {
    for bytes in [16 << 10, 900 << 10] {
        let most = longest_log(bytes);
        assert!(most <= 20 * MIB, "{most} bytes of log with values of {bytes}");
    }
}

#[test]
fn t4_at_rest_the_log_is_one_segment() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(Settings::default());
    let tree = open_at(&world, dir.path());
    let mut writer = session(&tree);
    for round in 0..40_u8 {
        put(&mut writer, b"one key", &vec![round; 1 << 20]);
    }
    rest(&world, &tree, 20);
    let (used, reported) = (disk_bytes(dir.path()), tree.stats().log_bytes);
    assert!(used <= 8 * MIB, "{used} bytes of disk for one value of 1 MiB");
    assert!(reported <= 4 * MIB, "{reported} bytes of log are told");
    assert_eq!(get(&mut writer, b"one key"), Some(vec![39; 1 << 20]));
}
