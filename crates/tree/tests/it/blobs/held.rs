//! Segments that are collected while a flush or a compaction runs: their files stay where it may
//! read values, and only there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::conformance::APPEND;
use firn_engine::{Engine, KeyspaceSettings, Ordered, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions, Memory, Operation};
use firn_tree::{Background, Settings, Tree};

use crate::support::world::{self, Hook, World, get_in, settle, tiny};

const KEYS: u32 = 300;
const VALUE_BYTES: u32 = 3000;

/// Bytes of files of values that are no segment's, nor kept for new ones.
fn left_bytes(storage: &Memory, tree: &Tree) -> u64 {
    let stats = tree.stats();
    let files = storage.list().unwrap();
    let values = files.iter().filter(|(name, _)| name.ends_with(".blobs"));
    let listed: u64 = values.map(|(_, bytes)| bytes).sum();
    listed.saturating_sub(stats.tree.as_ref().expect("a tree").blobs.segment_bytes + stats.recycled_bytes)
}

/// Has all work done where `hook` happens: bytes of files that were left then at most, and how many
/// GCs that were.
fn collect_meanwhile(hook: &Hook, storage: &Memory, tree: &Arc<Tree>) -> (Arc<AtomicU64>, Arc<AtomicU64>) {
    let (left, gcs) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let (storage, stepping) = (storage.clone(), Arc::downgrade(tree));
    let (is_left, has_collected) = (Arc::clone(&left), Arc::clone(&gcs));
    hook.set(move || {
        let tree = stepping.upgrade().unwrap();
        let before = tree.stats().tree.expect("a tree").blobs.gc_count;
        settle(&tree);
        has_collected
            .fetch_add(tree.stats().tree.expect("a tree").blobs.gc_count - before, Ordering::Relaxed);
        is_left.fetch_max(left_bytes(&storage, &tree), Ordering::Relaxed);
    });
    (left, gcs)
}

/// Overwrites values of a keyspace with these settings, where values shorter than `separate_bytes`
/// are to lie in the tree, and merges as many `operands`. Has segments collected while its tables
/// are compacted. Answers the bytes of files that they leave meanwhile.
fn left_while_compacting(keyspace: KeyspaceSettings, separate_bytes: u32, operands: u32) -> u64 {
    let settings = Settings { space_amplification_max: 100.0, ..tiny() }.with_engine(|tree| {
        tree.blob_segment_bytes = 64 << 10;
        tree.level0_runs_max = 100;
    });
    let mut machine = World::new(settings);
    let mut tree = machine.open().unwrap();
    let id =
        tree.create_keyspace("large", KeyspaceSettings { separate_bytes: Some(1000), ..keyspace }).unwrap();
    let mut session = world::session(&tree);
    let value = |key: u32, round: u8| vec![key as u8 ^ round; VALUE_BYTES as usize];
    // All, some again, whose first values a compaction finds dead, and some for another one.
    let rounds = [(0..KEYS).step_by(1), (0..KEYS).step_by(2), (0..KEYS).step_by(3)];
    let mut latest = vec![0; KEYS as usize];
    for (round, keys) in (0..).zip(rounds) {
        for key in keys {
            session.put(id, &key.to_be_bytes(), &value(key, round), WriteOptions::default()).unwrap();
            latest[key as usize] = round;
        }
        for key in KEYS..KEYS + operands {
            session.merge(id, &key.to_be_bytes(), b"more", WriteOptions::default()).unwrap();
        }
        tree.flush().unwrap();
        if round == 1 {
            tree.compact_range(id, b"", None).unwrap();
        }
    }
    tree.set_separate_bytes(id, Some(separate_bytes)).unwrap();
    drop(session);
    tree.close().unwrap();
    machine.settings.space_amplification_max = 1.1;
    let hook = Arc::<Hook>::default();
    let backend = hook.before(&machine.storage, Operation::Sync, "*.table");
    tree = machine.open_on(Arc::new(backend), Background::Manual);
    assert!(tree.stats().tree.expect("a tree").blobs.dead_bytes > 0);
    let (left, gcs) = collect_meanwhile(&hook, &machine.storage, &tree);
    settle(&tree);
    hook.set(|| ());
    assert!(gcs.load(Ordering::Relaxed) > 0, "nothing was collected meanwhile");
    let mut session = world::session(&tree);
    for (key, round) in (0..).zip(latest) {
        assert_eq!(get_in(&mut session, id, &u32::to_be_bytes(key)), Some(value(key, round)));
    }
    settle(&tree);
    assert_eq!(left_bytes(&machine.storage, &tree), 0, "once it is compacted");
    left.load(Ordering::Relaxed)
}

/// Settings of a keyspace with a merge operator.
fn merging() -> KeyspaceSettings {
    KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..KeyspaceSettings::default() }
}

#[test]
fn a_compaction_that_reads_no_value_keeps_no_collected_file() {
    assert_eq!(left_while_compacting(KeyspaceSettings::default(), 1000, 0), 0);
    // As long as none is shorter.
    assert_eq!(left_while_compacting(KeyspaceSettings::default(), VALUE_BYTES, 0), 0);
    // An operator that has nothing to merge.
    assert_eq!(left_while_compacting(merging(), 1000, 0), 0);
}

#[test]
fn a_compaction_that_may_read_values_keeps_the_files_of_all() {
    for (keyspace, separate_bytes, operands) in
        [(merging(), 1000, 1), (KeyspaceSettings::default(), VALUE_BYTES + 1, 0)]
    {
        let what = format!("{keyspace:?}, separated from {separate_bytes} bytes on");
        assert!(left_while_compacting(keyspace, separate_bytes, operands) > 0, "{what}");
    }
}

#[test]
fn a_flush_keeps_no_collected_file() {
    let mut machine = World::new(Settings { space_amplification_max: 100.0, ..tiny() }.with_engine(|tree| {
        tree.blob_segment_bytes = 64 << 10;
        tree.level0_runs_max = 100;
    }));
    let tree = machine.open().unwrap();
    let settings = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let id = tree.create_keyspace("large", settings).unwrap();
    let mut session = world::session(&tree);
    for round in 0..3_u8 {
        for key in (0..KEYS).step_by(1 + usize::from(round)) {
            let value = vec![key as u8 ^ round; VALUE_BYTES as usize];
            session.put(id, &key.to_be_bytes(), &value, WriteOptions::default()).unwrap();
        }
        tree.flush().unwrap();
    }
    drop(session);
    tree.close().unwrap();
    machine.settings.space_amplification_max = 1.1;
    let hook = Arc::<Hook>::default();
    let backend = hook.before(&machine.storage, Operation::Sync, "*.table");
    let tree = machine.open_on(Arc::new(backend), Background::Manual);
    let (left, gcs) = collect_meanwhile(&hook, &machine.storage, &tree);
    let mut session = world::session(&tree);
    session.put(id, b"short", b"in the tree", WriteOptions::default()).unwrap();
    tree.flush().unwrap();
    hook.set(|| ());
    assert!(gcs.load(Ordering::Relaxed) > 0, "nothing was collected meanwhile");
    assert_eq!(left.load(Ordering::Relaxed), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_last_segment_s_file_is_let_go_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let held = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let files = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let ours = files.filter(|file| file.starts_with(dir.path()));
        ours.filter(|file| file.to_string_lossy().contains(".blobs")).collect::<Vec<_>>()
    };
    let machine = World::new(tiny().with_engine(|tree| tree.blob_segment_bytes = 64 << 10));
    let tree = machine.open_on(
        Arc::new(Local::open(dir.path(), LocalOptions { create: true }).unwrap()),
        Background::Manual,
    );
    let settings = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let id = tree.create_keyspace("large", settings).unwrap();
    let mut session = world::session(&tree);
    session.put(id, b"key", &[7; 9000], WriteOptions::default()).unwrap();
    assert_eq!(held().len(), 1, "the one that takes values");
    session.delete(id, b"key", WriteOptions::default()).unwrap();
    tree.flush().unwrap();
    tree.compact_range(id, b"", None).unwrap();
    settle(&tree);
    assert_eq!(tree.stats().tree.expect("a tree").blobs.segment_count, 0);
    assert_eq!(held(), Vec::<std::path::PathBuf>::new(), "nothing is left of it, and no other one is begun");
    session.put(id, b"key", &[8; 9000], WriteOptions::default()).unwrap();
    assert_eq!(get_in(&mut session, id, b"key"), Some(vec![8; 9000]));
    drop(session);
    tree.close().unwrap();
}
