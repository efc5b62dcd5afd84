//! Separated values: what is read back, and which files are left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Engine, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Operation};
use firn_tree::{Background, Settings};

use crate::support::unmapped::Unmapped;
use crate::support::world::{self, DISK, Hook, World, get_in, rows, settle, tiny};

/// Values from here on are separated.
const SEPARATE_BYTES: usize = 100;

fn settings() -> Settings {
    tiny().with_engine(|tree| tree.blob_segment_bytes = 256 << 10)
}

fn separated() -> KeyspaceSettings {
    KeyspaceSettings { separate_bytes: Some(SEPARATE_BYTES as u32), ..KeyspaceSettings::default() }
}

fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let bytes = match random.u32(0..10) {
        0..4 => random.usize(0..SEPARATE_BYTES),
        4..9 => random.usize(SEPARATE_BYTES..5000),
        _ => random.usize(5000..100_000),
    };
    let byte = random.u8(..);
    (0..bytes).map(|at| byte.wrapping_add(at as u8)).collect()
}

fn blob_files(world: &World) -> Vec<String> {
    let files = world.storage.list().unwrap();
    files.into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".blobs")).collect()
}

fn compare(
    session: &mut OrderedBlocking,
    keyspace: KeyspaceId,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    what: &str,
) {
    for (key, value) in model {
        let found = get_in(session, keyspace, key);
        assert_eq!(found.as_ref(), Some(value), "{what}: {}", key.escape_ascii());
    }
    let found: Vec<(Vec<u8>, Vec<u8>)> = rows(session, ReadAt::Latest, keyspace, ScanRange::all());
    assert_eq!(found.len(), model.len(), "{what}");
    assert!(found.iter().zip(model).all(|(found, (key, value))| (&found.0, &found.1) == (key, value)));
}

#[test]
fn values_of_all_sizes_survive_flushes_compactions_and_reopening() {
    for seed in 0..4 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let machine = World::new(settings());
        let mut tree = machine.open().unwrap();
        let keyspace = tree.create_keyspace("large", separated()).unwrap();
        let mut model = BTreeMap::new();
        for round in 0..12 {
            let what = format!("seed {seed}, round {round}");
            let mut session = world::session(&tree);
            for _ in 0..200 {
                let key = format!("key-{}", random.u32(0..300)).into_bytes();
                if random.u32(0..5) == 0 {
                    session.delete(keyspace, &key, WriteOptions::default()).unwrap();
                    model.remove(&key);
                } else {
                    let value = value(random);
                    session.put(keyspace, &key, &value, WriteOptions::default()).unwrap();
                    model.insert(key, value);
                }
            }
            match random.u32(0..5) {
                0 => tree.flush().unwrap(),
                1 => settle(&tree),
                2 => tree.compact_range(keyspace, b"", None).unwrap(),
                _ => {}
            }
            compare(&mut session, keyspace, &model, &what);
            if random.u32(0..3) == 0 {
                drop(session);
                tree.close().unwrap();
                tree = machine.open().unwrap();
                compare(&mut world::session(&tree), keyspace, &model, &format!("{what}, reopened"));
            }
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_what_was_synced_loss_of_power() {
    for seed in 0..6 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut machine = World::new(settings());
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let keyspace = {
            let tree = machine.open().unwrap();
            let keyspace = tree.create_keyspace("large", separated()).unwrap();
            tree.close().unwrap();
            keyspace
        };
        for round in 0..8 {
            let what = format!("seed {seed}, round {round}");
            let tree = machine.open().unwrap();
            let session = &mut world::session(&tree);
            compare(session, keyspace, &model, &what);
            let is_kill = random.bool();
            let options = if is_kill { WriteOptions::default() } else { DISK };
            for _ in 0..100 {
                let key = format!("key-{}", random.u32(0..200)).into_bytes();
                let value = value(random);
                session.put(keyspace, &key, &value, options).unwrap();
                model.insert(key, value);
                if random.u32(0..40) == 0 {
                    settle(&tree);
                }
            }
            let crash = if is_kill { Crash::Kill } else { Crash::PowerLoss { seed: random.u64(..) } };
            machine = machine.crash(crash);
        }
    }
}

#[test]
fn segments_without_a_live_value_go() {
    let machine = World::new(settings());
    let tree = machine.open().unwrap();
    let keyspace = tree.create_keyspace("large", separated()).unwrap();
    let session = &mut world::session(&tree);
    let text = vec![7; 4000];
    for round in 0..3 {
        for key in 0..500_u32 {
            session.put(keyspace, &key.to_be_bytes(), &text, WriteOptions::default()).unwrap();
        }
        tree.compact_range(keyspace, b"", None).unwrap();
        settle(&tree);
        // What is live, half a segment on either side, and the segment that is written to.
        let files = blob_files(&machine).len();
        assert!((8..=11).contains(&files), "round {round}: {files} files of {} values", 500);
    }
    for key in 0..500_u32 {
        session.delete(keyspace, &key.to_be_bytes(), WriteOptions::default()).unwrap();
    }
    tree.compact_range(keyspace, b"", None).unwrap();
    settle(&tree);
    let files = blob_files(&machine);
    assert!(files.len() <= 1, "{files:?}");
    assert_eq!(session.get(ReadAt::Latest, keyspace, &7_u32.to_be_bytes()).unwrap(), None);
}

#[test]
fn values_are_found_wherever_gcs_put_them() {
    for seed in 0..6 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let machine = World::new(Settings { space_amplification_max: 1.1, ..settings() });
        let mut tree = machine.open().unwrap();
        let keyspace = tree.create_keyspace("large", separated()).unwrap();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let (mut gcs, mut frozen) = (0, None);
        for round in 0..60 {
            let what = format!("seed {seed}, round {round}");
            let mut session = world::session(&tree);
            // The lower keys more often, so that segments hold values of all ages.
            for _ in 0..random.u32(20..80) {
                let key = format!("key-{}", random.u32(0..300).min(random.u32(0..300))).into_bytes();
                if random.u32(0..8) == 0 {
                    session.delete(keyspace, &key, WriteOptions::default()).unwrap();
                    model.remove(&key);
                } else {
                    let value = value(random);
                    session.put(keyspace, &key, &value, WriteOptions::default()).unwrap();
                    model.insert(key, value);
                }
            }
            match random.u32(0..6) {
                0 => tree.compact_range(keyspace, b"", None).unwrap(),
                1 => tree.flush().unwrap(),
                2 => frozen = Some((tree.snapshot().unwrap(), model.clone())),
                3 => frozen = None,
                _ => {}
            }
            settle(&tree);
            compare(&mut session, keyspace, &model, &what);
            if let Some((snapshot, then)) = &frozen {
                for (key, value) in then {
                    let found = session.get(ReadAt::Snapshot(snapshot), keyspace, key).unwrap();
                    assert_eq!(found.as_ref(), Some(value), "{what}: as it was");
                }
            }
            if random.u32(0..12) == 0 {
                frozen = None;
                gcs += tree.stats().tree.expect("a tree").blobs.gc_count;
                drop(session);
                tree.close().unwrap();
                tree = machine.open().unwrap();
                compare(&mut world::session(&tree), keyspace, &model, &format!("{what}, reopened"));
            }
        }
        drop(frozen);
        tree.compact_range(keyspace, b"", None).unwrap();
        settle(&tree);
        // Files are kept for new segments until a caller waits in `wait_idle`.
        tree.wait_idle().unwrap();
        let stats = tree.stats().tree.expect("a tree").blobs;
        gcs += stats.gc_count;
        assert!(gcs > 20, "seed {seed}: {gcs} GCs, {stats:?}");
        let live: usize = model.values().map(Vec::len).filter(|bytes| *bytes >= SEPARATE_BYTES).sum();
        let most = live as f64 * 1.15 + 3.0 * settings().engine.blob_segment_bytes as f64;
        assert!((stats.segment_bytes as f64) < most, "seed {seed}: {live} bytes live, {stats:?}");
        let files = blob_files(&machine).len() as u64;
        assert_eq!(files, stats.segment_count, "seed {seed}");
    }
}

#[test]
fn room_comes_back_by_itself_after_most_is_deleted() {
    let machine = World::new(settings());
    let tree = machine.open().unwrap();
    let keyspace = tree.create_keyspace("large", separated()).unwrap();
    let session = &mut world::session(&tree);
    let text = vec![7; 300];
    for key in 0..20_000_u32 {
        session.put(keyspace, &key.to_be_bytes(), &text, WriteOptions::default()).unwrap();
    }
    tree.flush().unwrap();
    settle(&tree);
    let full = tree.stats().tree.expect("a tree").blobs;
    assert_eq!((full.dead_bytes, full.gc_count), (0, 0));
    for key in (0..20_000_u32).filter(|key| key % 10 != 0) {
        session.delete(keyspace, &key.to_be_bytes(), WriteOptions::default()).unwrap();
    }
    // No call flushes, compacts or writes.
    settle(&tree);
    let left = tree.stats().tree.expect("a tree").blobs;
    assert!(left.segment_bytes < full.segment_bytes / 5, "{full:?}, then {left:?}");
    assert_eq!(get_in(session, keyspace, &70_u32.to_be_bytes()), Some(text));
}

#[test]
fn a_dropped_keyspace_leaves_no_values() {
    for is_flushed in [false, true] {
        let machine = World::new(settings());
        let tree = machine.open().unwrap();
        let [stays, goes] = ["stays", "goes"].map(|name| tree.create_keyspace(name, separated()).unwrap());
        let session = &mut world::session(&tree);
        let text = vec![7; 4000];
        for key in 0..500_u32 {
            for keyspace in [stays, goes] {
                session.put(keyspace, &key.to_be_bytes(), &text, WriteOptions::default()).unwrap();
            }
        }
        if is_flushed {
            tree.flush().unwrap();
        }
        settle(&tree);
        tree.drop_keyspace(goes).unwrap();
        // So that what was not sealed is.
        tree.flush().unwrap();
        settle(&tree);
        assert_eq!(get_in(session, stays, &7_u32.to_be_bytes()), Some(text.clone()));
        tree.drop_keyspace(stays).unwrap();
        tree.flush().unwrap();
        tree.wait_idle().unwrap();
        let files = blob_files(&machine);
        assert!(files.len() <= 1, "flushed {is_flushed}: {files:?}");
    }
}

#[test]
fn a_copy_has_the_values() {
    let machine = World::new(settings());
    let tree = machine.open().unwrap();
    let keyspace = tree.create_keyspace("large", separated()).unwrap();
    let session = &mut world::session(&tree);
    let value = |key: u32, round: u8| vec![key as u8 ^ round; 3000];
    let mut put_all = |round| {
        for key in 0..300_u32 {
            let options = WriteOptions::default();
            session.put(keyspace, &key.to_be_bytes(), &value(key, round), options).unwrap();
        }
    };
    put_all(1);
    tree.flush().unwrap();
    put_all(2);
    tree.copy_to("copy".as_ref()).unwrap();
    put_all(3);
    tree.compact_range(keyspace, b"", None).unwrap();
    let copy = World { storage: machine.storage.directory("copy".as_ref()).unwrap(), ..machine.clone() };
    for (world, round) in [(&machine, 3), (&copy, 2)] {
        let tree = if round == 3 { std::sync::Arc::clone(&tree) } else { world.open().unwrap() };
        let session = &mut world::session(&tree);
        for key in 0..300_u32 {
            assert_eq!(get_in(session, keyspace, &key.to_be_bytes()), Some(value(key, round)), "{round}");
        }
    }
}

#[test]
fn a_keyspace_that_is_dropped_as_a_compaction_begins_is_compacted_no_more() {
    let machine = World::new(settings());
    let hook = Arc::<Hook>::default();
    let backend = hook.before(&machine.storage, Operation::Read, "*.table");
    let backend = Unmapped { inner: Arc::new(backend) };
    let tree = machine.open_on(Arc::new(backend), Background::Manual);
    let keyspace = tree.create_keyspace("goes", separated()).unwrap();
    let session = &mut world::session(&tree);
    for round in 0..2_u8 {
        for key in 0..100_u32 {
            session.put(keyspace, &key.to_be_bytes(), &[round; 4000], WriteOptions::default()).unwrap();
        }
        tree.flush().unwrap();
    }
    let (dropped, dropping) = (Arc::<AtomicBool>::default(), Arc::downgrade(&tree));
    let is_dropped = Arc::clone(&dropped);
    hook.set(move || {
        if !is_dropped.swap(true, Ordering::Relaxed) {
            dropping.upgrade().unwrap().drop_keyspace(keyspace).unwrap();
        }
    });
    settle(&tree);
    assert!(dropped.load(Ordering::Relaxed), "no table was read");
    // Nothing has failed by that.
    world::put(session, b"key", b"value");
    tree.wait_idle().unwrap();
    assert!(blob_files(&machine).len() <= 1);
}

#[test]
fn values_that_are_collected_while_their_keyspace_is_dropped_go_with_it() {
    let machine = World::new(settings());
    let hook = Arc::<Hook>::default();
    let backend = Unmapped { inner: Arc::new(hook.before(&machine.storage, Operation::Read, "*.table")) };
    let tree = machine.open_on(Arc::new(backend), Background::Manual);
    let [first, second] = ["first", "second"].map(|name| tree.create_keyspace(name, separated()).unwrap());
    let session = &mut world::session(&tree);
    let mut put = |keyspace, key: u32| {
        session.put(keyspace, &key.to_be_bytes(), &[7; 4000], WriteOptions::default()).unwrap();
    };
    put(second, 1000);
    // A table, which is read when its keyspace is dropped.
    tree.flush().unwrap();
    for key in 0..300 {
        put(first, key);
        put(second, key);
    }
    settle(&tree);
    // Half of what is in each segment is dead from now on, and is collected when the table is read.
    tree.drop_keyspace(first).unwrap();
    let collecting = Arc::downgrade(&tree);
    hook.set(move || {
        let tree = collecting.upgrade().unwrap();
        while tree.stats().tree.expect("a tree").blobs.gc_count == 0 && tree.step().unwrap() {}
    });
    tree.drop_keyspace(second).unwrap();
    hook.set(|| ());
    assert!(tree.stats().tree.expect("a tree").blobs.gc_count > 0, "nothing was collected meanwhile");
    tree.flush().unwrap();
    tree.wait_idle().unwrap();
    let files = blob_files(&machine);
    assert!(files.len() <= 1, "{files:?}");
}
