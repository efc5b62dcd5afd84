//! P1, P3: of 8 000 values of 100 KB that were deleted one by one 823 MB stayed on disk for good.
//! Of 100 000 of 4 KB, separated, 470 MB did.
//!
//! Neighbours: 1 KB and 1 MB; overwriting with nothing; expiry; most deleted instead of all; large
//! ones among many small. A database that is reopened in between; deletes while other sessions
//! write.

use std::path::Path;
use std::sync::Arc;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, WriteOptions};
use firn_storage::Clock;
use firn_tree::{Settings, Tree};

use super::log::{disk_bytes, open_at, rest};
use crate::support::world::{World, get_in, session, settle};

const MIB: u64 = 1 << 20;

/// What a database at rest may take beside 1.3 times what lives: a segment of the log, of 4 MiB
/// here, and 8 MiB.
const FREE: u64 = 12 * MIB;

/// The default settings with a quarter of the default memory, so that little data is enough.
fn settings() -> Settings {
    Settings { memory_bytes: 128 << 20, ..Settings::default() }.with_engine(|tree| {
        tree.memtable_bytes = 8 << 20;
        tree.log_segment_bytes = 4 << 20;
        tree.buffer_bytes = 32 << 20;
        tree.buffer_bytes_max = 64 << 20;
        tree.log_bytes_max = 128 << 20;
    })
}

/// How a value goes.
type Remove = fn(&mut OrderedBlocking, KeyspaceId, &[u8]);

fn delete(session: &mut OrderedBlocking, keyspace: KeyspaceId, key: &[u8]) {
    session.delete(keyspace, key, WriteOptions::default()).unwrap();
}

fn empty(session: &mut OrderedBlocking, keyspace: KeyspaceId, key: &[u8]) {
    session.put(keyspace, key, b"", WriteOptions::default()).unwrap();
}

fn key(number: u32) -> Vec<u8> {
    // In no order of time.
    format!("{:08x}:{number}", number.wrapping_mul(0x9e37_79b1)).into_bytes()
}

/// A value of `bytes` that no compression shortens.
fn value(number: u32, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number.into());
    let word: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(997).collect();
    word.iter().copied().cycle().take(bytes).collect()
}

fn fill(tree: &Tree, keyspace: KeyspaceId, count: u32, bytes: usize) {
    let mut writer = session(tree);
    for number in 0..count {
        writer.put(keyspace, &key(number), &value(number, bytes), WriteOptions::default()).unwrap();
    }
}

/// Removes all but one of `kept_of` and rests for a minute: bytes on disk that are more than may
/// be, and what lives.
#[track_caller]
fn assert_given_back(
    (world, path, tree): (&World, &Path, &Arc<Tree>),
    keyspace: KeyspaceId,
    (count, bytes, kept_of): (u32, usize, u32),
    remove: Remove,
) {
    let mut writer = session(tree);
    (0..count)
        .filter(|number| number % kept_of != 1)
        .for_each(|number| remove(&mut writer, keyspace, &key(number)));
    rest(world, tree, 60);
    assert_small(path, tree, (count / kept_of) as u64 * bytes as u64);
    let kept = (0..count).find(|number| number % kept_of == 1);
    if let Some(kept) = kept {
        assert_eq!(get_in(&mut writer, keyspace, &key(kept)), Some(value(kept, bytes)));
    }
}

#[track_caller]
fn assert_small(path: &Path, tree: &Tree, live: u64) {
    let (disk, most) = (disk_bytes(path), live * 13 / 10 + FREE);
    assert!(disk <= most, "{disk} bytes of disk for {live}, {most} are allowed: {:?}", tree.stats());
}

/// The same in a new database.
#[track_caller]
fn assert_all_given_back(count: u32, bytes: usize, kept_of: u32, remove: Remove) {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(settings());
    let tree = open_at(&world, dir.path());
    fill(&tree, KEYSPACE_DEFAULT, count, bytes);
    rest(&world, &tree, 5);
    assert_given_back((&world, dir.path(), &tree), KEYSPACE_DEFAULT, (count, bytes, kept_of), remove);
}

/// No number leaves this one over.
const NONE: u32 = u32::MAX;

#[test]
fn p1_deleted_values_are_given_back_whatever_their_size() {
    for (count, bytes) in [(16_000, 1 << 10), (160, 100 << 10), (20, 1 << 20)] {
        assert_all_given_back(count, bytes, NONE, delete);
    }
}

/// Values that expire, beside some that stay, in a database that is `reopened` or not.
fn assert_expired_are_given_back(count: u32, bytes: usize, is_reopened: bool, settings: Settings) {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(settings);
    let mut tree = open_at(&world, dir.path());
    let expires_at_ms = world.clock.unix_ms() + 30_000;
    let mut writer = session(&tree);
    for number in 0..count {
        let options = WriteOptions {
            expires_at_ms: if number % 8 == 1 { 0 } else { expires_at_ms + u64::from(number) },
            ..WriteOptions::default()
        };
        writer.put(KEYSPACE_DEFAULT, &key(number), &value(number, bytes), options).unwrap();
    }
    drop(writer);
    if is_reopened {
        tree.close().unwrap();
        drop(tree);
        tree = open_at(&world, dir.path());
    }
    rest(&world, &tree, 20);
    let before = disk_bytes(dir.path());
    assert!(before > u64::from(count) * bytes as u64, "{before} bytes of disk: what is to expire is there");
    rest(&world, &tree, 80);
    assert_small(dir.path(), &tree, u64::from(count / 8) * bytes as u64);
    assert_eq!(get_in(&mut session(&tree), KEYSPACE_DEFAULT, &key(1)), Some(value(1, bytes)));
}

/// Nothing meets them, so that nothing deletes them.
#[test]
fn p1_expired_values_are_given_back_whatever_their_size() {
    for (count, bytes) in [(32_000, 1 << 10), (400, 100 << 10), (50, 1 << 20)] {
        assert_expired_are_given_back(count, bytes, count == 400, settings());
    }
}

#[test]
fn p3_expired_separated_values_are_given_back() {
    for is_reopened in [false, true] {
        let settings = settings().with_engine(|tree| tree.separate_bytes = 1 << 10);
        assert_expired_are_given_back(9_000, 4 << 10, is_reopened, settings);
    }
}

#[test]
fn p1_of_many_deleted_values_few_stay() {
    assert_all_given_back(400, 100 << 10, 8, delete);
}

#[test]
fn p1_values_that_nothing_overwrote_are_given_back() {
    assert_all_given_back(160, 100 << 10, NONE, empty);
}

#[test]
fn p1_large_values_among_small_ones_are_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(settings());
    let tree = open_at(&world, dir.path());
    let mut writer = session(&tree);
    for number in 0..10_000_u32 {
        let small = format!("{:08x} small", number.wrapping_mul(0x9e37_79b1));
        writer.put(KEYSPACE_DEFAULT, small.as_bytes(), b"small", WriteOptions::default()).unwrap();
    }
    fill(&tree, KEYSPACE_DEFAULT, 160, 100 << 10);
    rest(&world, &tree, 5);
    assert_given_back((&world, dir.path(), &tree), KEYSPACE_DEFAULT, (160, 100 << 10, NONE), delete);
}

#[test]
fn p1_what_is_hidden_is_known_after_reopening() {
    for is_flushed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let world = World::new(settings());
        let mut tree = open_at(&world, dir.path());
        fill(&tree, KEYSPACE_DEFAULT, 160, 100 << 10);
        tree.flush().unwrap();
        settle(&tree);
        let mut writer = session(&tree);
        (0..160).for_each(|number| delete(&mut writer, KEYSPACE_DEFAULT, &key(number)));
        if is_flushed {
            // Tombstones in tables, and nothing compacted.
            tree.flush().unwrap();
        }
        drop(writer);
        tree.close().unwrap();
        drop(tree);
        tree = open_at(&world, dir.path());
        rest(&world, &tree, 60);
        assert_small(dir.path(), &tree, 0);
    }
}

#[test]
fn p1_deleted_values_are_given_back_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(settings());
    let tree = open_at(&world, dir.path());
    let other = tree.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    fill(&tree, KEYSPACE_DEFAULT, 300, 100 << 10);
    tree.flush().unwrap();
    settle(&tree);
    let mut writer = session(&tree);
    (0..300).for_each(|number| delete(&mut writer, KEYSPACE_DEFAULT, &key(number)));
    for second in 0..60_u32 {
        writer.put(other, &second.to_be_bytes(), b"little", WriteOptions::default()).unwrap();
        rest(&world, &tree, 1);
    }
    // Nothing was at rest: what the buffer hides may be a segment, and a segment of the log more.
    let disk = disk_bytes(dir.path());
    assert!(disk <= FREE + 8 * MIB, "{disk} bytes of disk for nothing: {:?}", tree.stats());
}

#[test]
fn p3_separated_values_are_given_back() {
    for remove in [delete as Remove, empty] {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings().with_engine(|tree| tree.separate_bytes = 1 << 10);
        let world = World::new(settings);
        let tree = open_at(&world, dir.path());
        fill(&tree, KEYSPACE_DEFAULT, 4_000, 4 << 10);
        rest(&world, &tree, 5);
        assert_given_back((&world, dir.path(), &tree), KEYSPACE_DEFAULT, (4_000, 4 << 10, NONE), remove);
    }
}

/// A flush under a snapshot writes what is deleted with its tombstone.
#[test]
fn p3_what_a_snapshot_kept_is_given_back() {
    for (bytes, separate_bytes) in [(4 << 10, 1 << 10), (4 << 10, u32::MAX)] {
        let dir = tempfile::tempdir().unwrap();
        let world = World::new(settings().with_engine(|tree| tree.separate_bytes = separate_bytes));
        let tree = open_at(&world, dir.path());
        fill(&tree, KEYSPACE_DEFAULT, 9_000, bytes);
        let snapshot = tree.snapshot().unwrap();
        let mut writer = session(&tree);
        let gone = (0..9_000).filter(|number| number % 9 != 1);
        gone.for_each(|number| delete(&mut writer, KEYSPACE_DEFAULT, &key(number)));
        rest(&world, &tree, 20);
        let before = disk_bytes(dir.path());
        assert!(before > 9_000 * bytes as u64, "{before} bytes of disk: the snapshot keeps them");
        drop(snapshot);
        rest(&world, &tree, 60);
        assert_small(dir.path(), &tree, 1_000 * bytes as u64);
        assert_eq!(get_in(&mut writer, KEYSPACE_DEFAULT, &key(1)), Some(value(1, bytes)));
    }
}

#[test]
fn p3_of_separated_values_that_never_left_the_buffer_nothing_stays() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(settings().with_engine(|tree| tree.separate_bytes = 1 << 10));
    let tree = open_at(&world, dir.path());
    fill(&tree, KEYSPACE_DEFAULT, 4_000, 4 << 10);
    assert_given_back((&world, dir.path(), &tree), KEYSPACE_DEFAULT, (4_000, 4 << 10, NONE), delete);
}

#[test]
fn p3_of_separated_values_a_part_stays() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(settings().with_engine(|tree| tree.separate_bytes = 1 << 10));
    let tree = open_at(&world, dir.path());
    fill(&tree, KEYSPACE_DEFAULT, 9_000, 4 << 10);
    rest(&world, &tree, 5);
    assert_given_back((&world, dir.path(), &tree), KEYSPACE_DEFAULT, (9_000, 4 << 10, 8), delete);
}
