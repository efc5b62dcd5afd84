//! References that are obsolete once what hides them is flushed: their values are dead, and go
//! before any compaction meets the two records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::{Engine, KeyspaceSettings, WriteOptions};
use firn_format::blob::SegmentNumber;
use firn_format::file_name::manifest_edit;
use firn_format::manifest::{Change, ManifestEdit};
use firn_format::table::ReferenceSet;
use firn_storage::backend::Operation;
use firn_tree::{Background, Settings};

use crate::support::inspect::report;
use crate::support::sample::{Files, directory, read_files};
use crate::support::scene::{KEY, KEYS, Scene, text};
use crate::support::world::{Hook, World, get_in, session, settle, tiny};

/// Bytes that a value of the scene takes with its record, at least.
const VALUE_BYTES: u64 = 3000;

fn dead_bytes(scene: &Scene) -> u64 {
    scene.tree.stats().tree.expect("a tree").blobs.dead_bytes
}

/// Brings what the buffer has to level 0, and compacts nothing.
fn flush(scene: &Scene) {
    let before = scene.tree.stats().tree.expect("a tree").compaction_count;
    scene.tree.flush().unwrap();
    assert_eq!(scene.tree.stats().tree.expect("a tree").compaction_count, before);
}

#[test]
fn what_a_flush_hides_is_dead_and_can_be_collected_while_tables_refer_to_it() {
    let mut scene = Scene::new();
    assert_eq!(dead_bytes(&scene), 0);
    scene.put_some(1);
    scene.delete(KEY);
    scene.put(0, b"in the tree");
    flush(&scene);
    let dead = dead_bytes(&scene);
    let gone = u64::from(KEYS) * 2 / 3;
    assert!((gone * VALUE_BYTES..(gone + 2) * (VALUE_BYTES + 100)).contains(&dead), "{dead}");
    scene.check("flushed");
    assert_eq!(scene.tree.stats().tree.expect("a tree").blobs.obsolete_count, gone);
    scene.reopen(100.0);
    assert_eq!(dead_bytes(&scene), dead, "it is known after a restart");
    assert_eq!(scene.tree.stats().tree.expect("a tree").blobs.obsolete_count, gone);
    // Over what was obsolete already, too.
    scene.put_some(2);
    flush(&scene);
    let stats = scene.tree.stats().tree.expect("a tree").blobs;
    let lives = u64::from(KEYS) * (VALUE_BYTES + 100);
    assert!(stats.segment_bytes - stats.dead_bytes < lives, "{stats:?}");
    scene.collect();
    scene.check("collected");
    scene.tree.close().unwrap();
    scene.check_files();
    scene.reopen(100.0);
    scene.compact();
    scene.check("compacted");
    scene.litter(3);
    scene.collect();
    scene.check("collected again");
    scene.tree.close().unwrap();
    scene.check_files();
}

#[test]
fn all_of_a_segment_may_be_obsolete() {
    let mut scene = Scene::new();
    let before = scene.tree.stats().tree.expect("a tree").blobs.segment_bytes;
    for round in 1..4 {
        for key in 0..KEYS {
            scene.put(key, &text(key, round));
        }
        flush(&scene);
        // Whole segments go without a copy, though tables still refer to what they had.
        let stats = scene.tree.stats().tree.expect("a tree").blobs;
        assert_eq!(stats.gc_count, 0);
        assert!(stats.segment_bytes < before * 3 / 2, "round {round}: {before} before, {stats:?}");
        settle(&scene.tree);
        scene.check(&format!("round {round}"));
    }
    scene.tree.close().unwrap();
    scene.check_files();
    scene.reopen(100.0);
    // And there is none whose whereabouts this could ask for.
    scene.compact();
    scene.check("compacted");
    scene.tree.close().unwrap();
    scene.check_files();
}

#[test]
fn what_a_snapshot_sees_is_not_obsolete() {
    let mut scene = Scene::new();
    scene.reopen(1.05);
    let (snapshot, then) = (scene.tree.snapshot().unwrap(), scene.model.clone());
    scene.put_some(1);
    scene.tree.flush().unwrap();
    assert_eq!(dead_bytes(&scene), 0);
    scene.put_some(2);
    scene.tree.flush().unwrap();
    assert!(dead_bytes(&scene) > 0, "nobody sees what was between");
    settle(&scene.tree);
    for (key, value) in &then {
        assert_eq!(scene.get_at(&snapshot, *key).as_ref(), Some(value), "as it was: key {key}");
    }
    scene.check("beside the snapshot");
    drop(snapshot);
    scene.compact();
    settle(&scene.tree);
    scene.check("without it");
    scene.tree.close().unwrap();
    scene.check_files();
}

#[test]
fn what_operands_need_is_not_obsolete() {
    let mut scene = Scene::new();
    let merge = |scene: &mut Scene, text: &[u8]| {
        scene.session.merge(scene.keyspace, &KEY.to_be_bytes(), text, WriteOptions::default()).unwrap();
        scene.model.get_mut(&KEY).unwrap().extend_from_slice(text);
    };
    merge(&mut scene, b"more");
    flush(&scene);
    assert_eq!(dead_bytes(&scene), 0, "an operand hides nothing");
    scene.check("an operand");
    // Of operands and their base nothing is taken for obsolete, though they are hidden: a
    // compaction finds that.
    scene.put(KEY, &text(KEY, 1));
    merge(&mut scene, b"and more");
    flush(&scene);
    assert_eq!(dead_bytes(&scene), 0);
    scene.check("another base");
    scene.compact();
    assert!(dead_bytes(&scene) >= VALUE_BYTES);
    scene.litter(1);
    scene.collect();
    scene.check("collected");
    scene.tree.close().unwrap();
    scene.check_files();
}

#[test]
fn a_dropped_keyspace_takes_what_is_obsolete_with_it() {
    let mut scene = Scene::new();
    scene.put_some(1);
    flush(&scene);
    assert!(dead_bytes(&scene) > 0);
    scene.tree.drop_keyspace(scene.keyspace).unwrap();
    scene.tree.flush().unwrap();
    settle(&scene.tree);
    assert_eq!(scene.tree.stats().tree.expect("a tree").blobs.segment_bytes, 0);
    scene.reopen(100.0);
    scene.tree.close().unwrap();
    scene.check_files();
}

#[test]
fn a_copy_knows_what_is_obsolete() {
    let mut scene = Scene::new();
    scene.put_some(1);
    flush(&scene);
    let dead = dead_bytes(&scene);
    scene.tree.copy_to("copy".as_ref()).unwrap();
    let storage = scene.machine.storage.directory("copy".as_ref()).unwrap();
    let machine = World { storage, ..scene.machine.clone() };
    let tree = machine.open().unwrap();
    let session = session(&tree);
    let mut copy = Scene { machine, tree, session, ..scene };
    assert_eq!(dead_bytes(&copy), dead);
    copy.check("the copy");
    copy.collect();
    copy.check("the copy, collected");
    copy.tree.close().unwrap();
    copy.check_files();
}

#[test]
fn what_dies_while_a_flush_is_written_does_not_die_again() {
    let settings =
        Settings { space_amplification_max: 100.0, ..tiny() }.with_engine(|tree| tree.level0_runs_max = 2);
    let machine = World::new(settings);
    let hook = Arc::<Hook>::default();
    let backend = hook.before(&machine.storage, Operation::Sync, "*.table");
    let tree = machine.open_on(Arc::new(backend), Background::Manual);
    let separated = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("large", separated).unwrap();
    let session = &mut session(&tree);
    let mut round = |round: u8| {
        for key in 0..KEYS {
            session.put(keyspace, &key.to_be_bytes(), &text(key, round), WriteOptions::default()).unwrap();
        }
        tree.flush().unwrap();
    };
    (0..4).for_each(&mut round);
    // Compactions bring values into the tree from now on: what the next flush finds to be newly
    // obsolete dies by one, before its own edit.
    tree.set_separate_bytes(keyspace, Some(100_000)).unwrap();
    let (gone, compacting) = (Arc::<AtomicBool>::default(), Arc::downgrade(&tree));
    let are_gone = Arc::clone(&gone);
    hook.set(move || {
        let tree = compacting.upgrade().unwrap();
        while !are_gone.load(Ordering::Relaxed) && tree.step().unwrap() {
            are_gone.store(tree.stats().tree.expect("a tree").blobs.segment_count == 0, Ordering::Relaxed);
        }
    });
    round(4);
    hook.set(|| ());
    assert!(gone.load(Ordering::Relaxed), "nothing has died meanwhile");
    settle(&tree);
    for key in 0..KEYS {
        assert_eq!(get_in(session, keyspace, &key.to_be_bytes()), Some(text(key, 4)));
    }
    tree.close().unwrap();
    assert_eq!(report(&machine.storage).damage().count(), 0);
}

/// What `verify` says once `change` was committed on top of a closed database: damage, each with
/// its file.
fn damage_with(files: &Files, change: Change) -> Vec<String> {
    let mut files = files.clone();
    let last = files.iter().rev().find(|(name, _)| name.starts_with("manifest-")).unwrap().1;
    let last = ManifestEdit::decode(last).unwrap();
    let edit =
        ManifestEdit { number: last.number + 1, base: false, epoch: last.epoch, changes: vec![change] };
    files.insert(manifest_edit(edit.number), edit.encode());
    report(&directory(&files)).damage().map(ToString::to_string).collect()
}

#[test]
fn what_is_said_to_be_obsolete_and_is_not_is_found() {
    let mut scene = Scene::new();
    scene.put_some(1);
    flush(&scene);
    scene.tree.close().unwrap();
    let files = read_files(&scene.machine.storage);
    assert!(report(&directory(&files)).is_sound());
    let changes = files.iter().filter(|(name, _)| name.starts_with("manifest-"));
    let changes = changes.flat_map(|(_, content)| ManifestEdit::decode(content).unwrap().changes);
    let (mut obsolete, mut segments) = (ReferenceSet::default(), Vec::new());
    for change in changes {
        match change {
            Change::AddObsolete { references, .. } => drop(obsolete.add_all(&references)),
            Change::AddBlobSegment { segment } => segments.push(segment),
            _ => {}
        }
    }
    let keyspace = scene.keyspace.0;
    let one = |segment, ordinal| {
        let mut references = ReferenceSet::default();
        references.insert(segment, ordinal);
        references
    };
    let (first, ordinals) = obsolete.segments().next().unwrap();
    // No reader follows it, and the manifest says that one may.
    let back = one(first, ordinals.iter().next().unwrap());
    let found = damage_with(&files, Change::RemoveObsolete { keyspace, references: back });
    assert!(found.iter().any(|it| it.contains("no references to dead values, found 1")), "{found:?}");
    // A value that is the newest of its key.
    let alive = segments.iter().find(|it| it.number == first).unwrap();
    let alive = (0..alive.ordinals).find(|ordinal| !obsolete.contains(first, *ordinal)).unwrap();
    let found = damage_with(&files, Change::AddObsolete { keyspace, references: one(first, alive) });
    for words in
        ["to be dead, since the reference is obsolete", "newer than the one whose reference is obsolete"]
    {
        assert!(found.iter().any(|it| it.contains(words)), "{words}: {found:?}");
    }
    // A reference that is in no table.
    let references = one(SegmentNumber(4_000), 1);
    let found = damage_with(&files, Change::AddObsolete { keyspace, references });
    assert!(found.iter().any(|it| it.contains("in its tables, found 1 in none")), "{found:?}");
    // References that are obsolete already.
    let again = damage_with(&files, Change::AddObsolete { keyspace, references: obsolete });
    assert!(again.iter().any(|it| it.contains("become obsolete twice")), "{again:?}");
}
