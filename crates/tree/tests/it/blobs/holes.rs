//! Known mistakes of stores with separated values, one test each. A GC that writes
//! references back reads obsolete values and loses newer ones. What is dead is forgotten with the
//! process; damage is copied under a fresh checksum.

use firn_engine::{Engine, Ordered, ReadAt, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::Crash;

use crate::support::scene::{KEY, KEYS, Scene, text};
use crate::support::world::{self, delete_range, get_in, settle};

#[test]
fn a_gc_that_does_not_know_of_a_newer_value_hides_nothing() {
    let mut scene = Scene::new();
    // Newer than what is collected, and in no compaction yet: in the memtable, then in level 0.
    for is_flushed in [false, true] {
        let what = format!("flushed {is_flushed}");
        scene.put_some(2 + u8::from(is_flushed));
        scene.tree.flush().unwrap();
        let newer = text(KEY, 90 + u8::from(is_flushed));
        if is_flushed {
            scene.put(KEY, &newer);
            scene.tree.flush().unwrap();
        }
        // Compacted but for the one key, whose old value is collected.
        let (below, above) = (KEY.to_be_bytes(), (KEY + 1).to_be_bytes());
        scene.tree.compact_range(scene.keyspace, b"", Some(&below)).unwrap();
        scene.tree.compact_range(scene.keyspace, &above, None).unwrap();
        match is_flushed {
            true => scene.collect(),
            false => scene.collect_after(|scene| scene.put(KEY, &newer)),
        }
        scene.check(&what);
        scene.compact();
        scene.check(&format!("{what}, compacted"));
    }
}

#[test]
fn a_gc_of_a_gc_loses_no_update_between_them() {
    let mut scene = Scene::new();
    for round in 1..6 {
        scene.litter(round);
        // The value of KEY is collected each time, with an update that no compaction has seen in
        // every other round.
        if round % 2 == 0 {
            scene.put(KEY, &text(KEY, 100 + round));
        }
        scene.collect();
        scene.check(&format!("round {round}"));
    }
    scene.compact();
    scene.check("compacted");
    scene.tree.close().unwrap();
    scene.check_files();
}

#[test]
fn values_of_both_kinds_take_turns_and_the_newest_counts() {
    let mut scene = Scene::new();
    for round in 1..7_u8 {
        let (small, large) = (vec![round; 10], text(KEY, 100 + round));
        let (first, last) = if round % 2 == 0 { (&small, &large) } else { (&large, &small) };
        // Beside values that die, so that its segment is collected where it is large.
        scene.put(KEY, first);
        scene.litter(2 * round);
        scene.litter(2 * round + 1);
        scene.collect_after(|scene| scene.put(KEY, last));
        scene.check(&format!("round {round}"));
        if round % 3 == 0 {
            scene.compact();
            scene.check(&format!("round {round}, compacted"));
        }
    }
}

#[test]
fn what_is_deleted_stays_so_and_what_snapshots_see_stays() {
    let mut scene = Scene::new();
    let delete_range = |scene: &mut Scene| {
        let [start, end] = [KEY, KEY + 1].map(u32::to_be_bytes);
        delete_range(&scene.tree, scene.keyspace, &start, &end).unwrap();
    };
    for (is_range, round) in [(false, 1), (true, 3)] {
        scene.litter(round);
        match is_range {
            true => delete_range(&mut scene),
            false => scene.delete(KEY),
        }
        scene.model.remove(&KEY);
        scene.collect();
        scene.check(&format!("range {is_range}"));
        scene.compact();
        scene.litter(round + 1);
        scene.collect();
        scene.check(&format!("range {is_range}, compacted"));
        scene.put(KEY, &text(KEY, 0));
    }
    // Operands on a value that is collected under them.
    scene.session.merge(scene.keyspace, &KEY.to_be_bytes(), b"more", WriteOptions::default()).unwrap();
    scene.model.insert(KEY, [&text(KEY, 0)[..], b"more"].concat());
    scene.litter(5);
    scene.collect();
    scene.check("merged");
    // A snapshot lives as long as its process does: this GC happens while it is held.
    scene.litter(6);
    scene.reopen(1.05);
    let (snapshot, then) = (scene.tree.snapshot().unwrap(), scene.model.clone());
    scene.delete(KEY);
    scene.litter(7);
    settle(&scene.tree);
    assert!(scene.tree.stats().tree.expect("a tree").blobs.gc_count > 0);
    for (key, value) in &then {
        assert_eq!(scene.get_at(&snapshot, *key).as_ref(), Some(value), "as it was: key {key}");
    }
    scene.check("with a snapshot");
    drop(snapshot);
    scene.compact();
    settle(&scene.tree);
    scene.check("without");
}

#[test]
fn what_is_dead_is_known_after_a_restart() {
    for crash in [None, Some(Crash::Kill), Some(Crash::PowerLoss { seed: 5 })] {
        let mut scene = Scene::new();
        scene.litter(1);
        scene.tree.sync().unwrap();
        let dead = scene.tree.stats().tree.expect("a tree").blobs.dead_bytes;
        assert!(dead > 50_000, "{dead} bytes");
        match crash {
            None => scene.reopen(100.0),
            Some(crash) => {
                let machine = scene.machine.crash(crash);
                let tree = machine.open().unwrap();
                let session = world::session(&tree);
                scene = Scene { machine, tree, session, ..scene };
            }
        }
        assert_eq!(scene.tree.stats().tree.expect("a tree").blobs.dead_bytes, dead, "{crash:?}");
        scene.collect();
        scene.check(&format!("{crash:?}"));
        let stats = scene.tree.stats().tree.expect("a tree").blobs;
        assert!(stats.segment_bytes < u64::from(KEYS) * 3200, "{crash:?}: {stats:?}");
    }
}

#[test]
fn a_damaged_value_is_not_copied_under_a_new_checksum() {
    let mut scene = Scene::new();
    scene.litter(1);
    scene.tree.close().unwrap();
    // The value that lives of the segment that is to be collected.
    let files = scene.machine.storage.list().unwrap();
    let damaged = files.iter().filter(|(name, _)| name.ends_with(".blobs")).find_map(|(name, bytes)| {
        let file = scene.machine.storage.open_read(name).unwrap();
        let mut found = vec![0; *bytes as usize];
        file.read_at(0, &mut found).unwrap();
        let at = found.windows(2000).position(|window| window == &text(KEY, 0)[..2000])?;
        Some((name.clone(), at as u64))
    });
    let (name, at) = damaged.unwrap();
    scene.machine.storage.open_write(&name).unwrap().write_at(at + 1000, &[0xff]).unwrap();
    scene.machine.settings.space_amplification_max = 1.05;
    let tree = scene.machine.open().unwrap();
    while tree.step().unwrap_or(false) {}
    let mut session = world::session(&tree);
    let error = session.get(ReadAt::Latest, scene.keyspace, &KEY.to_be_bytes()).unwrap_err();
    assert_eq!(error.kind(), firn_engine::ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&name), "still where it was damaged: {error}");
    for (key, value) in scene.model.iter().filter(|(key, _)| **key != KEY) {
        let found = get_in(&mut session, scene.keyspace, &key.to_be_bytes());
        assert_eq!(found.as_ref(), Some(value), "key {key}");
    }
}

#[test]
fn what_dies_before_any_table_refers_to_it_is_collected_too() {
    let mut scene = Scene::new();
    // Each value is overwritten in the buffer: no table ever refers to most of them.
    for round in 0..40 {
        for key in 0..KEYS {
            scene.put(key, &text(key, round));
        }
    }
    scene.compact();
    scene.reopen(1.05);
    settle(&scene.tree);
    let stats = scene.tree.stats().tree.expect("a tree").blobs;
    let most = f64::from(KEYS) * 3100.0 * 1.1 + 2.0 * 65536.0;
    assert!((stats.segment_bytes as f64) < most, "{stats:?}");
    scene.check("settled");
}

/// Runs that refer to few values are merged before they are flushed; what the merge drops, no table
/// has ever referred to.
#[test]
fn what_a_merge_in_the_buffer_drops_is_dead() {
    let mut scene = Scene::new();
    for round in 0..2_u8 {
        scene.put(KEY, &text(KEY, 40 + round));
        // Enough new keys with values in the tree for the memtable to be frozen.
        for filler in 0..400_u16 {
            let [high, low] = filler.to_be_bytes();
            // All before KEY, which is therefore no key of the sample that estimates how much a run
            // overwrites.
            let key = [0, 0, 0, 0, high, low, round];
            scene.session.put(scene.keyspace, &key, &[round; 900], WriteOptions::default()).unwrap();
        }
        settle(&scene.tree);
    }
    let stats = scene.tree.stats();
    assert_eq!(
        (
            stats.tree.as_ref().expect("a tree").merge_count,
            stats.keyspaces[1].tree.as_ref().expect("a tree").runs.len()
        ),
        (1, 1),
        "{stats:?}"
    );
    assert!(
        stats.tree.as_ref().expect("a tree").blobs.unreclaimed_bytes >= 3000,
        "the merge dropped one: {stats:?}"
    );
    // The segment ends, so that what is dead in it counts.
    for key in KEYS..KEYS + 30 {
        scene.put(key, &text(key, 1));
    }
    scene.compact();
    let stats = scene.tree.stats().tree.expect("a tree").blobs;
    assert!(stats.dead_bytes > 6000, "two values of one key: {stats:?}");
    scene.check("compacted");
    scene.tree.close().unwrap();
    scene.check_files();
}

#[test]
fn lengths_have_no_limit_but_the_engine_s() {
    let mut scene = Scene::with_segments(16 << 20);
    let key = |at: u32, bytes: usize| [&at.to_be_bytes()[..], &vec![b'k'; bytes]].concat();
    let lengths = [(1, 3 << 20), (60, 8 << 10), (64, 9 << 10), (65, 1 << 20), (60_000, (1 << 20) + 1)];
    let value = |at: u32, bytes: usize| (0..bytes).map(|i| (i as u32 ^ at) as u8).collect::<Vec<u8>>();
    // The first of each dies beside the second, in whichever segment that is.
    for (at, (key_bytes, bytes)) in (1000..).zip(lengths) {
        for other in [1, 0] {
            let (key, value) = (key(at, key_bytes), value(at + other, bytes));
            scene.session.put(scene.keyspace, &key, &value, WriteOptions::default()).unwrap();
        }
    }
    scene.litter(1);
    scene.collect();
    let stats = scene.tree.stats().tree.expect("a tree").blobs;
    assert!(stats.dead_bytes < 100 << 10, "all of them were collected: {stats:?}");
    for (at, (key_bytes, bytes)) in (1000..).zip(lengths) {
        let found = get_in(&mut scene.session, scene.keyspace, &key(at, key_bytes));
        assert!(found == Some(value(at, bytes)), "a key of {key_bytes} bytes, a value of {bytes}");
    }
    scene.check("collected");
}

#[test]
fn a_gc_writes_nothing_to_the_log_and_is_counted() {
    let mut scene = Scene::new();
    scene.litter(1);
    scene.reopen(1.05);
    let before = scene.tree.stats();
    settle(&scene.tree);
    let after = scene.tree.stats();
    let values = after.tree.as_ref().expect("a tree").blobs;
    assert!(values.gc_count > 0 && values.gc_read_bytes_total > 0, "{values:?}");
    assert_eq!(after.log_write_bytes_total, before.log_write_bytes_total);
    let device = after.device_write_bytes_total() - before.device_write_bytes_total();
    assert!(device >= values.gc_write_bytes_total, "{device} bytes of {values:?}");
}
