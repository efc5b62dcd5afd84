//! Statistics of separated values: accounts that add up.

use std::sync::Arc;

use firn_engine::{
    BatchLimit, BlobStats, Change, Compression, Engine, Ordered, Outcome, ReadAt, ScanBatch, ScanRange,
    WriteOptions,
};
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};
use firn_storage::{ErrorKind, Storage};
use firn_tree::{Background, Tree};

use crate::blobs::streamed::{beside, put_from};
use crate::support::scene::{KEY, KEYS, Scene, text};
use crate::support::world::{self, DISK, World, get_in, rows, settle, tiny};

/// Bytes of each of the scene's values.
const VALUE_BYTES: u64 = 3000;

fn stats(tree: &Tree) -> BlobStats {
    tree.stats().tree.expect("a tree").blobs
}

#[test]
fn values_that_come_are_counted_and_so_are_the_syncs_that_takes() {
    let machine = World::new(tiny().with_engine(|tree| tree.blob_segment_bytes = 64 << 10));
    let faulty = Faulty::new(Arc::new(machine.storage.clone()));
    let tree = machine.open_on(Arc::new(faulty.clone()), Background::Manual);
    let keyspace = tree.create_keyspace("large", beside(Compression::None)).unwrap();
    let mut session = world::session(&tree);
    let done = || faulty.counters().of_extension(Operation::Sync, "blobs").operations;
    let counts = || (stats(&tree).write_count, stats(&tree).sync_count);
    assert_eq!(counts(), (0, 0));
    for key in 0..KEYS {
        let options = if key % 8 == 0 { DISK } else { WriteOptions::default() };
        session.put(keyspace, &key.to_be_bytes(), &text(key, 0), options).unwrap();
        session.put(keyspace, &(KEYS + key).to_be_bytes(), b"in the tree", options).unwrap();
    }
    assert_eq!(counts(), (KEYS.into(), done()));
    assert!(done() >= u64::from(KEYS) / 8, "{} syncs", done());
    tree.sync().unwrap();
    let synced = counts();
    tree.sync().unwrap();
    assert_eq!((counts(), synced.1), (synced, done()), "there was nothing to sync");
    // A value that comes in pieces is synced before anything refers to it.
    let long = vec![7; 5 << 20];
    put_from(&tree, keyspace, b"long", &long, WriteOptions::default()).unwrap();
    assert_eq!(counts(), (u64::from(KEYS) + 1, synced.1 + 1));
    // Segments that are not sealed yet are synced as they are sealed.
    tree.flush().unwrap();
    settle(&tree);
    let sealed = counts();
    assert_eq!(sealed, (u64::from(KEYS) + 1, done()));
    assert!(sealed.1 >= synced.1 + 1 + stats(&tree).by_dead.iter().sum::<u64>(), "{:?}", stats(&tree));
}

#[test]
fn reads_of_separated_values_are_counted_and_no_others() {
    let mut scene = Scene::new();
    scene.put(KEY, b"in the tree");
    let read = |scene: &Scene| (stats(&scene.tree).read_count, stats(&scene.tree).read_bytes_total);
    assert_eq!(read(&scene), (0, 0));
    let mut session = world::session(&scene.tree);
    for key in 0..KEY {
        assert!(get_in(&mut session, scene.keyspace, &key.to_be_bytes()).is_some());
    }
    assert_eq!(read(&scene), (KEY.into(), u64::from(KEY) * VALUE_BYTES), "told after 61 reads");
    assert_eq!(KEY, 61);
    assert_eq!(
        get_in(&mut session, scene.keyspace, &KEY.to_be_bytes()).as_deref(),
        Some(&b"in the tree"[..])
    );
    assert_eq!(get_in(&mut session, scene.keyspace, b"none"), None);
    let (key, mut part) = ((KEY + 1).to_be_bytes(), Vec::new());
    assert!(session.get_range_into(ReadAt::Latest, scene.keyspace, &key, 100..350, &mut part).unwrap());
    let both = [&0_u32.to_be_bytes()[..], &key[..]];
    session.multi_get(ReadAt::Latest, scene.keyspace, &both).unwrap();
    drop(session);
    let count = u64::from(KEY) + 3;
    let bytes = u64::from(KEY) * VALUE_BYTES + 250 + 2 * VALUE_BYTES;
    assert_eq!(read(&scene), (count, bytes), "a part counts as what it is, and the session's end tells all");
    let all = rows(&mut scene.session, ReadAt::Latest, scene.keyspace, ScanRange::all()).len() as u64;
    let (count, bytes) = (count + all - 1, bytes + (all - 1) * VALUE_BYTES);
    assert_eq!((all, read(&scene)), (KEYS.into(), (count, bytes)));
    // What an operator or an update makes of one.
    scene.session.merge(scene.keyspace, &key, b"more", WriteOptions::default()).unwrap();
    let keep = |value: Option<&[u8]>| (Change::Keep, value.map(<[u8]>::len));
    let found = scene.session.update(scene.keyspace, &key, WriteOptions::default(), keep).unwrap();
    assert_eq!((found, read(&scene)), (Some(3004), (count + 1, bytes + VALUE_BYTES)));
}

#[test]
fn gcs_copy_or_leave_behind_each_value_of_their_segments() {
    let mut scene = Scene::new();
    scene.litter(1);
    let dead = u64::from(KEYS) - u64::from(KEYS) / 3 - u64::from(KEY % 3 != 2);
    scene.reopen(100.0);
    let before = stats(&scene.tree);
    let record_bytes = before.dead_bytes / dead;
    assert!((VALUE_BYTES..VALUE_BYTES + 50).contains(&record_bytes), "{before:?}");
    assert_eq!(before.by_dead.iter().sum::<u64>(), before.segment_count, "{before:?}");
    assert!(before.by_dead[0] > 0 && before.by_dead[1..].iter().sum::<u64>() > 0, "{before:?}");
    assert_eq!((before.survivor_count, before.dropped_count, before.retired_count), (0, 0, 0));
    scene.reopen(1.05);
    settle(&scene.tree);
    let after = stats(&scene.tree);
    assert!(after.gc_count > 0 && after.survivor_count > 0, "{after:?}");
    assert_eq!(after.survivor_bytes_total, after.survivor_count * VALUE_BYTES, "{after:?}");
    assert_eq!(after.dropped_bytes_total, after.dropped_count * VALUE_BYTES, "{after:?}");
    assert_eq!(before.dead_bytes - after.dead_bytes, after.dropped_count * record_bytes, "{after:?}");
    let values = after.survivor_count + after.dropped_count;
    assert!(after.gc_read_bytes_total >= values * record_bytes, "{after:?}");
    assert!(after.gc_write_bytes_total >= after.survivor_count * record_bytes, "{after:?}");
    assert_eq!(after.by_dead.iter().sum::<u64>(), after.segment_count, "{after:?}");
    let gone = before.segment_count + after.gc_count - after.segment_count;
    assert_eq!((after.gc_segment_count, after.wholly_dead_count), (gone, 0), "{after:?}");
    assert!(gone > after.gc_count, "{after:?}");
    assert_eq!((after.retired_count, after.retired_bytes, after.gc_failure_count), (0, 0, 0));
}

#[test]
fn segments_without_a_live_value_go_uncollected_and_are_counted() {
    let mut scene = Scene::new();
    let first = stats(&scene.tree);
    assert_eq!((first.wholly_dead_count, first.wholly_dead_bytes_total), (0, 0));
    for key in 0..KEYS {
        scene.put(key, &text(key, 1));
    }
    scene.compact();
    let second = stats(&scene.tree);
    let gone = (second.wholly_dead_count, second.wholly_dead_bytes_total);
    assert_eq!(gone, (first.segment_count, first.segment_bytes), "{first:?}, then {second:?}");
    scene.tree.drop_keyspace(scene.keyspace).unwrap();
    let none = stats(&scene.tree);
    assert_eq!(none.wholly_dead_count, first.segment_count + second.segment_count, "{none:?}");
    assert_eq!(none.wholly_dead_bytes_total, first.segment_bytes + second.segment_bytes, "{none:?}");
    assert_eq!((none.segment_count, none.gc_count, none.gc_segment_count), (0, 0, 0));
}

#[test]
fn files_of_collected_segments_are_told_as_long_as_a_reader_has_them() {
    let mut scene = Scene::new();
    scene.litter(1);
    scene.reopen(1.05);
    let bytes = stats(&scene.tree).segment_bytes;
    let mut session = scene.tree.ordered_session();
    session.set_inline(true);
    let mut scan = session.scan(ReadAt::Latest, scene.keyspace, ScanRange::all()).unwrap();
    settle(&scene.tree);
    let held = stats(&scene.tree);
    assert!(held.gc_count > 0 && held.retired_count > 0, "{held:?}");
    assert!(held.retired_bytes <= held.gc_read_bytes_total && held.retired_bytes < bytes, "{held:?}");
    let listed = |scene: &Scene| {
        let files = scene.machine.storage.list().unwrap();
        let values = files.iter().filter(|(name, _)| name.ends_with(".blobs"));
        values.map(|(_, bytes)| bytes).sum::<u64>()
    };
    assert!(listed(&scene) >= held.segment_bytes + held.retired_bytes, "{held:?}");
    let mut batch = ScanBatch::new();
    assert!(matches!(scan.next_batch(BatchLimit::default(), &mut batch), Ok(Outcome::Done(()))));
    assert_eq!(batch.len(), KEYS as usize, "it reads them");
    drop(scan);
    settle(&scene.tree);
    let free = stats(&scene.tree);
    assert_eq!((free.retired_count, free.retired_bytes), (0, 0), "{free:?}");
}

#[test]
fn gcs_that_fail_are_counted() {
    let mut scene = Scene::new();
    scene.litter(1);
    scene.machine.settings.space_amplification_max = 1.05;
    scene.tree.close().unwrap();
    let faulty = Faulty::new(Arc::new(scene.machine.storage.clone()));
    scene.tree = scene.machine.open_on(Arc::new(faulty.clone()), Background::Manual);
    faulty.inject(Fault {
        on: Operation::Create,
        file: "*.blobs".to_owned(),
        when: When::Always { after: 0 },
        effect: Effect::Fail(ErrorKind::Full),
    });
    while scene.tree.step().unwrap_or(true) && stats(&scene.tree).gc_failure_count == 0 {}
    let failed = stats(&scene.tree);
    assert_eq!((failed.gc_failure_count, failed.gc_count), (1, 0), "{failed:?}");
    assert_eq!((failed.survivor_count, failed.dropped_count), (0, 0), "{failed:?}");
    faulty.clear_faults();
    // Whatever frees space has it tried again.
    scene.tree.flush().unwrap();
    scene.session = world::session(&scene.tree);
    scene.put(KEY, &text(KEY, 9));
    scene.compact();
    settle(&scene.tree);
    let done = stats(&scene.tree);
    assert!(done.gc_count > 0 && done.gc_failure_count >= 1, "{done:?}");
    scene.check("collected");
}
