//! A damaged file is left as it is, and reported; everything else goes on.

use std::sync::Arc;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered, ReadAt, WriteOptions};
use firn_storage::Storage;
use firn_tree::Tree;

use crate::support::scene::{KEY, KEYS, Scene, text};
use crate::support::world::{self, World, delete_range, get, put, tiny};

/// Flips a byte of the first file with this ending in which `bytes` are found; its name.
fn damage(world: &World, ending: &str, bytes: &[u8]) -> String {
    let files = world.storage.list().unwrap();
    let found = files.iter().filter(|(name, _)| name.ends_with(ending)).find_map(|(name, length)| {
        let mut content = vec![0; *length as usize];
        world.storage.open_read(name).unwrap().read_at(0, &mut content).unwrap();
        let at = content.windows(bytes.len()).position(|window| window == bytes)?;
        Some((name.clone(), at, content[at]))
    });
    let (name, at, byte) = found.unwrap();
    world.storage.open_write(&name).unwrap().write_at(at as u64, &[!byte]).unwrap();
    name
}

/// Works until nothing is left to do; what could not be done.
fn settle_with_errors(tree: &Tree) -> Vec<firn_engine::Error> {
    let mut errors = Vec::new();
    loop {
        match tree.step() {
            Ok(true) => {}
            Ok(false) => return errors,
            Err(error) => errors.push(error),
        }
        assert!(errors.len() < 100, "tried for ever: {}", errors[0]);
    }
}

#[test]
fn a_blob_segment_that_is_damaged_is_not_collected_and_all_others_are() {
    let mut scene = Scene::new();
    scene.litter(1);
    scene.tree.close().unwrap();
    let name = damage(&scene.machine, ".blobs", &text(KEY, 0)[..2000]);
    scene.machine.settings.space_amplification_max = 1.05;
    let tree = scene.machine.open().unwrap();
    let mut session = world::session(&tree);
    let errors = settle_with_errors(&tree);
    let messages = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(messages.len() == 1 && messages[0].contains(&name), "once, by name: {messages:?}");
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").blobs.gc_count > 0,
        "the others are collected: {:?}",
        stats.tree.as_ref().expect("a tree").blobs
    );
    assert_eq!((stats.damaged_file_count, &stats.write_failure), (1, &None));
    let damage = stats.damage.unwrap();
    assert!(damage.contains(&name) && damage.contains("firn verify"), "{damage}");
    let error = tree.wait_idle().unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&name), "{error}");

    // Reads, writes and GCs go on.
    scene.tree = Arc::clone(&tree);
    scene.session = world::session(&tree);
    let error = session.get(ReadAt::Latest, scene.keyspace, &KEY.to_be_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let before = tree.stats().tree.expect("a tree").blobs.gc_count;
    for round in 2..6 {
        scene.litter(round);
        assert!(settle_with_errors(&tree).is_empty());
    }
    assert!(tree.stats().tree.expect("a tree").blobs.gc_count > before);
    for key in (0..KEYS).filter(|key| *key != KEY) {
        assert_eq!(scene.get(key), scene.model.get(&key).cloned(), "key {key}");
    }

    // Once nothing of the file lives it is gone, and so is the report of its damage.
    scene.put(KEY, &text(KEY, 9));
    scene.put_some(7);
    scene.put_some(8);
    scene.compact();
    assert!(settle_with_errors(&tree).is_empty());
    let stats = tree.stats();
    assert_eq!((stats.damaged_file_count, stats.damage), (0, None));
    assert!(!scene.machine.storage.list().unwrap().iter().any(|(file, _)| *file == name));
    tree.wait_idle().unwrap();
    scene.check("after all");
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:08}").into_bytes()
}

fn value(number: u32, round: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(number) << 8 | u64::from(round));
    (0..400).map(|_| random.u8(..)).collect()
}

fn load(session: &mut OrderedBlocking, round: u32) {
    for number in 0..20_000 {
        put(session, &key(number), &value(number, round));
    }
}

#[test]
fn a_table_that_is_damaged_is_not_compacted_and_all_others_are() {
    const DAMAGED: u32 = 7000;
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut session = world::session(&tree);
    load(&mut session, 0);
    tree.flush().unwrap();
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    assert!(tree.stats().tree.expect("a tree").table_count > 6);
    drop(session);
    tree.close().unwrap();
    drop(tree);
    let name = damage(&world, ".table", &value(DAMAGED, 0));

    let tree = world.open().unwrap();
    let mut session = world::session(&tree);
    let before = tree.stats().tree.expect("a tree").compaction_count;
    let mut messages = Vec::new();
    for round in 1..5 {
        load(&mut session, round);
        tree.flush().unwrap();
        messages.extend(settle_with_errors(&tree).iter().map(ToString::to_string));
    }
    assert!(messages.len() == 1 && messages[0].contains(&name), "once, by name: {messages:?}");
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").compaction_count > before + 2,
        "{} compactions",
        stats.tree.as_ref().expect("a tree").compaction_count - before
    );
    assert_eq!((stats.damaged_file_count, &stats.write_failure), (1, &None));
    assert!(stats.damage.unwrap().contains(&name));
    // Newer values are read although the table is there still.
    for number in (0..20_000).step_by(7) {
        assert_eq!(get(&mut session, &key(number)), Some(value(number, 4)), "key {number}");
    }
    assert!(world.storage.list().unwrap().iter().any(|(file, _)| *file == name));
    // A call that asks for the file gets an error, and nothing ends by that.
    let error = tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&name), "{error}");
    session.put(KEYSPACE_DEFAULT, b"and", b"on", WriteOptions::default()).unwrap();
    tree.close().unwrap();
    drop((session, tree));
    // The next opening tries again.
    let tree = world.open().unwrap();
    assert_eq!((tree.stats().damaged_file_count, tree.stats().damage), (0, None));
    assert_eq!(get(&mut world::session(&tree), b"and"), Some(b"on".to_vec()));
    assert_eq!(tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap_err().kind(), ErrorKind::Corrupt);
    // A range that is deleted takes it along, unread.
    delete_range(&tree, KEYSPACE_DEFAULT, &key(0), &key(20_000)).unwrap();
    tree.flush().unwrap();
    settle_with_errors(&tree);
    assert!(!world.storage.list().unwrap().iter().any(|(file, _)| *file == name));
    tree.wait_idle().unwrap();
}
