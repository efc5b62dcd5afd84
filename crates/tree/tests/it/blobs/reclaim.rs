//! The room of separated values comes back after large range deletions, although the tables
//! that refer to them are small.

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Engine, KeyspaceId, KeyspaceSettings, ReadAt, ScanRange, WriteOptions};
use firn_storage::Storage;
use firn_tree::{Settings, Tree};

use crate::support::world::{self, World, delete_range, get_in, rows, settle, tiny};

const KEYS: u32 = 3000;
const VALUE_BYTES: usize = 8000;

fn world() -> World {
    World::new(
        Settings { space_amplification_max: 1.3, ..tiny() }
            .with_engine(|tree| tree.blob_segment_bytes = 1 << 20),
    )
}

/// A keyspace whose values all are separated, its tables at rest.
fn load(tree: &Tree, session: &mut OrderedBlocking) -> KeyspaceId {
    let settings = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("large", settings).unwrap();
    for key in 0..KEYS {
        let value = vec![key as u8; VALUE_BYTES];
        session.put(keyspace, &key.to_be_bytes(), &value, WriteOptions::default()).unwrap();
    }
    tree.flush().unwrap();
    settle(tree);
    let stats = tree.stats();
    // What they refer to is all that makes it worth while.
    assert!(stats.tree.as_ref().expect("a tree").table_bytes < tiny().engine.table_bytes / 4, "{stats:?}");
    assert!(
        stats.tree.as_ref().expect("a tree").blobs.segment_bytes > u64::from(KEYS) * VALUE_BYTES as u64,
        "{stats:?}"
    );
    keyspace
}

/// What `live` values take at most: what is allowed, a tenth, and two segments of the smallest
/// size.
fn most(live: u32) -> u64 {
    (f64::from(live) * VALUE_BYTES as f64 * (1.3 + 0.1)) as u64 + (2 << 20)
}

fn check(tree: &Tree, session: &mut OrderedBlocking, keyspace: KeyspaceId, live: &[std::ops::Range<u32>]) {
    let count = live.iter().map(ExactSizeIterator::len).sum::<usize>();
    let left = rows(session, ReadAt::Latest, keyspace, ScanRange::all());
    assert_eq!(left.len(), count);
    for key in live.iter().flat_map(Clone::clone) {
        assert_eq!(
            get_in(session, keyspace, &key.to_be_bytes()),
            Some(vec![key as u8; VALUE_BYTES]),
            "{key}"
        );
    }
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").blobs.segment_bytes < most(count as u32),
        "{count} live: {:?}",
        stats.tree.as_ref().expect("a tree").blobs
    );
}

#[test]
fn room_comes_back_by_itself_after_a_range_is_deleted() {
    // Some of these begin or end within the first or the last block of a table.
    for (from, to) in [(0_u32, KEYS), (0, 2700), (150, 2850), (300, KEYS), (1, KEYS), (3, KEYS - 2)] {
        let world = world();
        let tree = world.open().unwrap();
        let session = &mut world::session(&tree);
        let keyspace = load(&tree, session);
        delete_range(&tree, keyspace, &from.to_be_bytes(), &to.to_be_bytes()).unwrap();
        // No call flushes, compacts or writes.
        settle(&tree);
        check(&tree, session, keyspace, &[0..from, to..KEYS]);
        // Nothing holds what was rewritten; recycled files go where a caller waits in `wait_idle`.
        tree.wait_idle().unwrap();
        let files = world.storage.list().unwrap();
        let tables = files.iter().filter(|(name, _)| name.ends_with(".table")).count();
        assert_eq!(tables as u64, tree.stats().tree.expect("a tree").table_count);
        tree.close().unwrap();
        let tree = world.open().unwrap();
        settle(&tree);
        check(&tree, &mut world::session(&tree), keyspace, &[0..from, to..KEYS]);
    }
}

#[test]
fn room_comes_back_after_many_small_ranges_are_deleted() {
    let world = world();
    let tree = world.open().unwrap();
    let session = &mut world::session(&tree);
    let keyspace = load(&tree, session);
    let mut live = Vec::new();
    for from in (0..KEYS).step_by(300) {
        delete_range(&tree, keyspace, &from.to_be_bytes(), &(from + 270).to_be_bytes()).unwrap();
        live.push(from + 270..from + 300);
        settle(&tree);
        // They are looked at once a second.
        world.clock.advance(std::time::Duration::from_millis(200));
    }
    world.clock.advance(std::time::Duration::from_secs(2));
    settle(&tree);
    check(&tree, session, keyspace, &live);
}

#[test]
fn a_snapshot_keeps_its_values_and_no_longer_than_it_lives() {
    let world = world();
    let tree = world.open().unwrap();
    let session = &mut world::session(&tree);
    let keyspace = load(&tree, session);
    let snapshot = tree.snapshot().unwrap();
    let (from, to) = (100_u32.to_be_bytes(), 2900_u32.to_be_bytes());
    delete_range(&tree, keyspace, &from, &to).unwrap();
    settle(&tree);
    let before = tree.stats();
    assert!(
        before.tree.as_ref().expect("a tree").blobs.segment_bytes > u64::from(KEYS) * VALUE_BYTES as u64,
        "{:?}",
        before.tree.as_ref().expect("a tree").blobs
    );
    let seen = rows(session, ReadAt::Snapshot(&snapshot), keyspace, ScanRange::all());
    assert_eq!(seen.len(), KEYS as usize);
    drop((seen, snapshot));
    settle(&tree);
    check(&tree, session, keyspace, &[0..100, 2900..KEYS]);
    // What is done is done once.
    let after = tree.stats();
    for _ in 0..20 {
        world.clock.advance(std::time::Duration::from_secs(1));
        settle(&tree);
    }
    assert_eq!(
        tree.stats().tree.expect("a tree").compaction_count,
        after.tree.as_ref().expect("a tree").compaction_count
    );
}

#[test]
fn what_is_deleted_whole_twice_goes_twice() {
    let world = world();
    let tree = world.open().unwrap();
    let session = &mut world::session(&tree);
    let keyspace = load(&tree, session);
    for round in 0..3 {
        delete_range(&tree, keyspace, b"", &KEYS.to_be_bytes()).unwrap();
        for key in (0..KEYS).filter(|_| round < 2) {
            let value = vec![key as u8; VALUE_BYTES];
            session.put(keyspace, &key.to_be_bytes(), &value, WriteOptions::default()).unwrap();
        }
        world.clock.advance(std::time::Duration::from_secs(2));
        settle(&tree);
    }
    check(&tree, session, keyspace, &[]);
}
