//! The space of large range deletions comes back by itself.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Batch, Engine, KEYSPACE_DEFAULT, KeyspaceSettings, ReadAt, ScanRange, WriteOptions};
use firn_storage::backend::Crash;
use firn_storage::{Clock, Storage, SystemClock};
use firn_tree::{Settings, Tree};

use crate::support::world::{World, delete_range, get, put, rows, session, settle, tiny};

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Writes records of 1 KiB into tables and lets what there is to do be done.
fn load(tree: &Tree, session: &mut OrderedBlocking, numbers: std::ops::Range<u32>) {
    for number in numbers {
        put(session, &key(number), &[7; 1000]);
    }
    tree.flush().unwrap();
    settle(tree);
}

fn table_bytes(world: &World) -> u64 {
    let files = world.storage.list().unwrap();
    files.iter().filter(|(name, _)| name.ends_with(".table")).map(|(_, bytes)| bytes).sum()
}

fn delete(tree: &Tree, from: u32, to: u32) {
    delete_range(tree, KEYSPACE_DEFAULT, &key(from), &key(to)).unwrap();
}

#[test]
fn a_database_at_rest_gives_the_space_of_a_deleted_range_back() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    load(&tree, &mut session, 0..20_000);
    assert!(table_bytes(&world) > 20_000_000);
    let before = tree.stats();
    delete(&tree, 100, 20_000);
    put(&mut session, &key(5000), b"again");
    settle(&tree);
    let after = tree.stats();
    assert!(table_bytes(&world) < 3_000_000, "{} bytes of tables left", table_bytes(&world));
    assert_eq!(
        after.tree.as_ref().expect("a tree").flush_count,
        before.tree.as_ref().expect("a tree").flush_count + 1
    );
    assert_eq!(
        after.tree.as_ref().expect("a tree").compaction_read_bytes_total,
        before.tree.as_ref().expect("a tree").compaction_read_bytes_total,
        "nothing is read"
    );
    let left = rows(&mut session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all());
    assert_eq!(left.len(), 101);
    assert_eq!(get(&mut session, &key(5000)), Some(b"again".to_vec()));
    drop((session, tree));
    let tree = world.open().unwrap();
    let left =
        rows(&mut crate::support::world::session(&tree), ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all());
    assert_eq!(left.len(), 101);
}

#[test]
fn nothing_is_left_of_a_keyspace_that_is_deleted_whole() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    load(&tree, &mut session, 0..10_000);
    delete(&tree, 0, 20_000);
    settle(&tree);
    assert_eq!(
        (tree.stats().tree.expect("a tree").table_count, table_bytes(&world)),
        (0, 0),
        "the tombstone has gone too"
    );
    assert_eq!(rows(&mut session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()), []);
    load(&tree, &mut session, 0..100);
    assert_eq!(rows(&mut session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()).len(), 100);
}

#[test]
fn a_snapshot_keeps_what_it_sees_and_no_longer_than_it_lives() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    load(&tree, &mut session, 0..10_000);
    let snapshot = tree.snapshot().unwrap();
    delete(&tree, 0, 20_000);
    settle(&tree);
    tree.flush().unwrap();
    settle(&tree);
    assert!(table_bytes(&world) > 10_000_000);
    let seen = rows(&mut session, ReadAt::Snapshot(&snapshot), KEYSPACE_DEFAULT, ScanRange::all());
    assert_eq!((seen.len(), get(&mut session, &key(77))), (10_000, None));
    drop(snapshot);
    settle(&tree);
    assert_eq!(table_bytes(&world), 0);
}

#[test]
fn small_range_deletions_make_no_small_tables() {
    let world = World::new(Settings { manifest_edits_max: 1000, ..tiny() });
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    load(&tree, &mut session, 0..20_000);
    let before = tree.stats();
    for number in 0..500 {
        // Each a few records, every tenth the same range again, none next to another.
        let from = number % 450 * 40;
        delete(&tree, from, from + 20);
        world.clock.advance(Duration::from_millis(100));
        settle(&tree);
    }
    let after = tree.stats();
    assert_eq!(
        after.tree.as_ref().expect("a tree").flush_count,
        before.tree.as_ref().expect("a tree").flush_count
    );
    assert_eq!(
        after.tree.as_ref().expect("a tree").table_count,
        before.tree.as_ref().expect("a tree").table_count
    );
    // Side by side small ranges hide as much as a large one.
    for number in 0..500 {
        delete(&tree, number * 40, number * 40 + 40);
        world.clock.advance(Duration::from_millis(100));
        settle(&tree);
    }
    let flushes =
        tree.stats().tree.expect("a tree").flush_count - before.tree.as_ref().expect("a tree").flush_count;
    assert!((1..=40).contains(&flushes), "{flushes} flushes for 20 MB");
    assert!(table_bytes(&world) < 2_000_000, "{}", table_bytes(&world));
    assert_eq!(rows(&mut session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()), []);
}

#[test]
fn a_deletion_that_a_crash_left_in_the_log_gives_its_space_back_after_the_opening() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut first = session(&tree);
    load(&tree, &mut first, 0..10_000);
    delete(&tree, 0, 20_000);
    put(&mut first, &key(3), b"new");
    tree.sync().unwrap();
    let world = world.crash(Crash::PowerLoss { seed: 1 });
    drop((first, tree));
    assert!(table_bytes(&world) > 10_000_000);
    let tree = world.open().unwrap();
    settle(&tree);
    assert!(table_bytes(&world) < 100_000, "{}", table_bytes(&world));
    assert_eq!(get(&mut session(&tree), &key(3)), Some(b"new".to_vec()));
    assert_eq!(get(&mut session(&tree), &key(4)), None);
}

#[test]
fn other_keyspaces_are_left_alone() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let other = tree.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    let mut session = session(&tree);
    for number in 0..10_000 {
        let mut batch = Batch::new();
        batch.put(KEYSPACE_DEFAULT, &key(number), &[1; 500]);
        batch.put(other, &key(number), &[2; 500]);
        session.write(&batch, WriteOptions::default()).unwrap();
    }
    tree.flush().unwrap();
    settle(&tree);
    let before = table_bytes(&world);
    session.put(other, b"x", b"y", WriteOptions::default()).unwrap();
    delete(&tree, 0, 20_000);
    settle(&tree);
    let left = table_bytes(&world);
    assert!(left < before * 6 / 10, "{left} of {before}");
    let kept = rows(&mut session, ReadAt::Latest, other, ScanRange::all());
    assert_eq!(kept.len(), 10_001);
    let records = |tree: &Tree| {
        tree.stats()
            .keyspaces
            .iter()
            .map(|one| one.tree.as_ref().expect("a tree").memtable_records)
            .sum::<u64>()
    };
    assert_eq!(records(&tree), 1, "its memtable was not frozen");
}

#[test]
fn background_threads_do_it_soon() {
    let world = World::new(tiny());
    let storage = Arc::new(world.storage.clone()) as Arc<dyn Storage>;
    let clock = SystemClock::new();
    let tree = world.open_timed(storage);
    let mut session = session(&tree);
    for number in 0..20_000 {
        put(&mut session, &key(number), &[7; 1000]);
    }
    tree.flush().unwrap();
    delete(&tree, 0, 30_000);
    for _ in 0..600 {
        if table_bytes(&world) == 0 {
            return;
        }
        clock.sleep(Duration::from_millis(100));
    }
    panic!("{} bytes of tables are left after a minute: {:?}", table_bytes(&world), tree.stats());
}
