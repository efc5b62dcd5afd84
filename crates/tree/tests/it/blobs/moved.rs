//! Values that leave the tree and come back, and values that compactions have to read where they
//! lie.

use std::collections::BTreeMap;

use firn_engine::conformance::{APPEND, FILTER_DROP};
use firn_engine::{
    Engine, ErrorKind, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange, WriteOptions,
};
use firn_storage::Storage;
use firn_tree::{Settings, Tree};

use crate::support::world::{self, World, get_in, rows, settle, tiny};

const PUT: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

fn settings() -> Settings {
    tiny().with_engine(|tree| tree.blob_segment_bytes = 256 << 10)
}

fn separated() -> KeyspaceSettings {
    KeyspaceSettings { separate_bytes: Some(100), ..KeyspaceSettings::default() }
}

/// Bytes of separated values that live.
fn beside(tree: &Tree) -> u64 {
    let stats = tree.stats().tree.expect("a tree").blobs;
    stats.segment_bytes - stats.dead_bytes
}

#[test]
fn a_threshold_that_changes_moves_values_out_and_in() {
    let machine = World::new(settings());
    let mut tree = machine.open().unwrap();
    let keyspace = tree.create_keyspace("some", KeyspaceSettings::default()).unwrap();
    let mut model = BTreeMap::new();
    {
        let session = &mut world::session(&tree);
        for key in 0..600_u32 {
            // A third of a few bytes, a third of a few thousand, a third of more than a chunk's
            // worth of them.
            let value = vec![key as u8; [20, 4000, 9000][key as usize % 3]];
            session.put(keyspace, &key.to_be_bytes(), &value, PUT).unwrap();
            model.insert(key.to_be_bytes().to_vec(), value);
        }
    }
    let check = |tree: &Tree, what: &str| {
        let found = rows(&mut world::session(tree), ReadAt::Latest, keyspace, ScanRange::all());
        assert!(found.into_iter().eq(model.clone()), "{what}");
    };
    let large: u64 = model.values().map(Vec::len).filter(|bytes| *bytes >= 100).sum::<usize>() as u64;
    let larger: u64 = model.values().map(Vec::len).filter(|bytes| *bytes >= 5000).sum::<usize>() as u64;
    // Between these, as the records' heads and the segments' ends take their part.
    for (bytes, least, most) in [
        (None, 0, 0),
        (Some(100), large, large + 80_000),
        (Some(5000), larger, larger + 80_000),
        (Some(32), large, large + 80_000),
        (Some(u32::MAX), 0, 0),
    ] {
        let what = format!("values of {bytes:?} bytes and more are separated");
        tree.set_separate_bytes(keyspace, bytes).unwrap();
        check(&tree, &what);
        tree.close().unwrap();
        tree = machine.open().unwrap();
        // The program's own settings are what they were.
        assert_eq!(tree.create_keyspace("some", KeyspaceSettings::default()).unwrap(), keyspace);
        tree.flush().unwrap();
        tree.compact_range(keyspace, b"", None).unwrap();
        check(&tree, &what);
        settle(&tree);
        check(&tree, &what);
        let found = beside(&tree);
        assert!((least..=most).contains(&found), "{what}: {found} bytes, not {least} to {most}");
    }
    let files = machine.storage.list().unwrap();
    let values: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".blobs")).collect();
    assert!(values.is_empty(), "{values:?}");
}

#[test]
fn a_threshold_below_a_reference_is_refused() {
    let tree = World::new(settings()).open().unwrap();
    let keyspace = tree.create_keyspace("some", separated()).unwrap();
    let too_small = tree.set_separate_bytes(keyspace, Some(31)).unwrap_err();
    assert_eq!(too_small.kind(), ErrorKind::Invalid);
    assert!(too_small.to_string().contains("at least 32"), "{too_small}");
    let settings = KeyspaceSettings { separate_bytes: Some(0), ..KeyspaceSettings::default() };
    assert_eq!(tree.create_keyspace("other", settings).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tree.set_separate_bytes(KeyspaceId(77), None).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn operands_are_combined_with_separated_values() {
    let machine = World::new(Settings { space_amplification_max: 1.1, ..settings() });
    let tree = machine.open().unwrap();
    let appending = KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..separated() };
    let keyspace = tree.create_keyspace("appending", appending).unwrap();
    let session = &mut world::session(&tree);
    let mut expected = Vec::new();
    for key in 0..200_u32 {
        session.put(keyspace, &key.to_be_bytes(), &[key as u8; 3000], PUT).unwrap();
        // A neighbour that dies, so that the other is collected.
        session.put(keyspace, &(key + 1000).to_be_bytes(), &[1; 3000], PUT).unwrap();
        expected.push([key as u8; 3000].to_vec());
    }
    tree.flush().unwrap();
    for key in 1000..1200_u32 {
        session.delete(keyspace, &key.to_be_bytes(), PUT).unwrap();
    }
    tree.compact_range(keyspace, b"", None).unwrap();
    settle(&tree);
    assert!(
        tree.stats().tree.expect("a tree").blobs.relocation_count > 0,
        "{:?}",
        tree.stats().tree.expect("a tree").blobs
    );
    for round in 0..3_u8 {
        for key in 0..200_u32 {
            session.merge(keyspace, &key.to_be_bytes(), &[round; 10], PUT).unwrap();
            expected[key as usize].extend([round; 10]);
        }
        tree.compact_range(keyspace, b"", None).unwrap();
        settle(&tree);
        for (key, value) in (0_u32..).zip(&expected) {
            assert_eq!(get_in(session, keyspace, &key.to_be_bytes()).as_ref(), Some(value), "round {round}");
        }
        // One record each: the values of the round before are dead.
        let bytes: u64 = expected.iter().map(|value| value.len() as u64).sum();
        let found = beside(&tree);
        assert!((bytes..bytes + 50_000).contains(&found), "round {round}: {found} bytes of {bytes}");
    }
}

#[test]
fn a_filter_sees_separated_values() {
    let machine = World::new(settings());
    let tree = machine.open().unwrap();
    let filtered = KeyspaceSettings { compaction_filter: Some(FILTER_DROP.to_owned()), ..separated() };
    let keyspace = tree.create_keyspace("filtered", filtered).unwrap();
    let session = &mut world::session(&tree);
    let value = |key: u32| {
        let word: &[u8] = if key.is_multiple_of(3) { b"drop" } else { b"keep" };
        [word, &[key as u8; 3000]].concat()
    };
    for key in 0..300_u32 {
        session.put(keyspace, &key.to_be_bytes(), &value(key), PUT).unwrap();
    }
    tree.flush().unwrap();
    tree.compact_range(keyspace, b"", None).unwrap();
    settle(&tree);
    for key in 0..300_u32 {
        let expected = (!key.is_multiple_of(3)).then(|| value(key));
        assert_eq!(get_in(session, keyspace, &key.to_be_bytes()), expected, "key {key}");
    }
    assert!(beside(&tree) < 200 * 3100, "{:?}", tree.stats().tree.expect("a tree").blobs);
}
