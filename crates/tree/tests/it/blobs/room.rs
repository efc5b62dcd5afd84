//! Room that deleted values took comes back by itself, down to what is allowed.

use firn_engine::{Engine, KeyspaceSettings, WriteOptions};
use firn_storage::Storage;
use firn_tree::{Settings, Tree};

use crate::support::world::{self, World, get_in, seed, settle, tiny};

/// So many that what deletes two of five of them has far more than 256 KiB. No memtable with less
/// is frozen for the values that it hides.
const KEYS: u32 = 40_000;
const VALUE_BYTES: usize = 2000;

/// Bytes of what ends in one of `ends`.
fn listed(machine: &World, ends: &[&str]) -> u64 {
    let files = machine.storage.list().unwrap();
    let is_one = |name: &str| ends.iter().any(|end| name.ends_with(end));
    files.iter().filter(|(name, _)| is_one(name)).map(|(_, bytes)| bytes).sum()
}

/// Bytes of tables and of blob segments, those being written to included. Logs have their size
/// whatever is in them, and files that are kept to be written over go by themselves. There is
/// nothing else, as `check_files` sees.
fn held(tree: &Tree) -> u64 {
    let stats = tree.stats();
    stats.tree.as_ref().expect("a tree").table_bytes
        + stats.tree.as_ref().expect("a tree").blobs.segment_bytes
        + stats.tree.as_ref().expect("a tree").blobs.retired_bytes
}

fn check_files(machine: &World, tree: &Tree, what: &str) {
    let all = listed(machine, &[""]);
    let known = listed(machine, &[".log", ".table", ".blobs"]);
    assert!(all - known < 1 << 20, "{what}: {} bytes of manifests and the like", all - known);
    let files = listed(machine, &[".table", ".blobs"]);
    let (held, recycled_bytes) = (held(tree), tree.stats().recycled_bytes);
    assert!(files <= held + recycled_bytes, "{what}: {files} bytes, {held} held, {recycled_bytes} kept");
}

#[test]
fn files_come_back_to_what_is_allowed_after_many_values_are_deleted() {
    let random = &mut fastrand::Rng::with_seed(seed(11));
    // What is allowed, and how many of a hundred keys are left: where it is the most, files are not
    // much larger than allowed before.
    for (max, left) in [(1.5, 10), (1.5, 60), (1.2, 60)] {
        let settings = Settings { space_amplification_max: max, ..tiny() }
            .with_engine(|tree| tree.blob_segment_bytes = 256 << 10);
        let machine = World::new(settings);
        let tree = machine.open().unwrap();
        let settings = KeyspaceSettings { separate_bytes: Some(100), ..KeyspaceSettings::default() };
        let keyspace = tree.create_keyspace("large", settings).unwrap();
        let session = &mut world::session(&tree);
        let value = |key: u32| key.to_be_bytes().repeat(VALUE_BYTES / 4);
        let mut keys: Vec<u32> = (0..KEYS).collect();
        random.shuffle(&mut keys);
        for key in &keys {
            session.put(keyspace, &key.to_be_bytes(), &value(*key), WriteOptions::default()).unwrap();
        }
        settle(&tree);
        let full = held(&tree);
        assert!(full >= u64::from(KEYS) * VALUE_BYTES as u64, "all are separated: {full} bytes");
        random.shuffle(&mut keys);
        let (left, gone) = keys.split_at((KEYS / 100 * left) as usize);
        for key in gone {
            session.delete(keyspace, &key.to_be_bytes(), WriteOptions::default()).unwrap();
        }
        // No call writes, flushes or compacts from here on.
        settle(&tree);
        let live = left.len() * (VALUE_BYTES + size_of::<u32>());
        let space = held(&tree) as f64 / live as f64;
        println!("{space:.3} bytes for each that lives, where {max} are allowed");
        assert!(space <= max + 0.1, "{max}: {space}: {:?}", tree.stats().tree.expect("a tree").blobs);
        check_files(&machine, &tree, &format!("{max}"));
        for key in left {
            assert_eq!(get_in(session, keyspace, &key.to_be_bytes()), Some(value(*key)));
        }
        assert_eq!(get_in(session, keyspace, &gone[0].to_be_bytes()), None);
    }
}
