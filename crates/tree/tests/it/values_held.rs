//! Segments that are collected while a compaction runs: their files stay where it may read values, and only there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::conformance::APPEND;
use firn_engine::{Engine, KeyspaceSettings, Ordered, WriteOptions};
use firn_storage::Storage;
use firn_storage::place::{Memory, Operation};
use firn_tree::{Background, Tree, TreeSettings};

use crate::world::{Hook, World, get_in, session, settle, tiny};

const KEYS: u32 = 300;
const VALUE_BYTES: u32 = 3000;

/// Bytes of files of values that are no segment's, nor kept for new ones.
fn left_bytes(storage: &Memory, tree: &Tree) -> u64 {
    let stats = tree.stats();
    let files = storage.list().unwrap();
    let values = files.iter().filter(|(name, _)| name.ends_with(".values"));
    let listed: u64 = values.map(|(_, bytes)| bytes).sum();
    listed.saturating_sub(stats.values.segment_bytes + stats.spare_bytes)
}

/// Overwrites values of a keyspace with these settings, where they are to lie in the tree if they are shorter than `separate_bytes`, and
/// has segments collected while its tables are compacted: bytes of files that they leave meanwhile.
fn left_while_compacting(keyspace: KeyspaceSettings, separate_bytes: u32) -> u64 {
    let settings = TreeSettings {
        value_segment_bytes: 64 << 10,
        level0_runs_max: 100,
        garbage_share_max: 100.0,
        space_amplification_max: 1.1,
        ..tiny()
    };
    let machine = World::new(settings);
    let hook = Arc::<Hook>::default();
    let tree = machine
        .open_on(Arc::new(hook.before(&machine.storage, Operation::Sync, "*.table")), Background::Manual);
    let id =
        tree.create_keyspace("large", KeyspaceSettings { separate_bytes: Some(1000), ..keyspace }).unwrap();
    let session = &mut session(&tree);
    let value = |key: u32, round: u8| vec![key as u8 ^ round; VALUE_BYTES as usize];
    for round in 0..2_u8 {
        for key in (0..KEYS).filter(|key| round == 0 || key % 3 > 0) {
            session.put(id, &key.to_be_bytes(), &value(key, round), WriteOptions::default()).unwrap();
        }
        tree.flush().unwrap();
    }
    tree.set_separate_bytes(id, Some(separate_bytes)).unwrap();
    let (left, collections) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let (storage, stepping) = (machine.storage.clone(), Arc::downgrade(&tree));
    let (is_left, has_collected) = (Arc::clone(&left), Arc::clone(&collections));
    hook.set(move || {
        let tree = stepping.upgrade().unwrap();
        settle(&tree);
        has_collected.fetch_max(tree.stats().values.collection_count, Ordering::Relaxed);
        is_left.fetch_max(left_bytes(&storage, &tree), Ordering::Relaxed);
    });
    tree.compact_range(id, b"", None).unwrap();
    hook.set(|| ());
    assert!(collections.load(Ordering::Relaxed) > 0, "nothing was collected meanwhile");
    for key in 0..KEYS {
        let expected = value(key, u8::from(key % 3 > 0));
        assert_eq!(get_in(session, id, &key.to_be_bytes()), Some(expected));
    }
    settle(&tree);
    assert_eq!(left_bytes(&machine.storage, &tree), 0, "once it is compacted");
    left.load(Ordering::Relaxed)
}

#[test]
fn a_compaction_that_reads_no_value_keeps_no_collected_file() {
    assert_eq!(left_while_compacting(KeyspaceSettings::default(), 1000), 0);
    // As long as none is shorter.
    assert_eq!(left_while_compacting(KeyspaceSettings::default(), VALUE_BYTES), 0);
}

#[test]
fn a_compaction_that_may_read_values_keeps_the_files_of_all() {
    let merging = KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..KeyspaceSettings::default() };
    for (keyspace, separate_bytes) in [(merging, 1000), (KeyspaceSettings::default(), VALUE_BYTES + 1)] {
        let what = format!("{keyspace:?}, beside the tree from {separate_bytes} bytes on");
        assert!(left_while_compacting(keyspace, separate_bytes) > 0, "{what}");
    }
}
