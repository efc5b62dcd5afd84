//! Where the files of an ingestion come to lie, what they cost, and what is left of one that is not
//! finished.

use std::path::Path;
use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered, ReadAt, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_tree::{Background, Settings, Tree, TreeOptions};

use super::{Model, all, compare, ingest, key, keyspaces, levels, value};
use crate::support::in_time::in_time;
use crate::support::scene::assert_sound;
use crate::support::world::{Hook, World, put, session, settle, tiny};

#[test]
fn records_are_written_once_to_the_last_level_of_an_empty_range() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut models = [Model::new(), Model::new()];
    for (keyspace, model) in keyspaces(&tree).into_iter().zip(&mut models) {
        ingest(&tree, keyspace, 0..20_000, 1, model).unwrap();
        let placed = levels(&tree, keyspace);
        assert_eq!(placed.len(), 7, "{placed:?}");
        assert!(placed[..6].iter().all(|tables| *tables == 0) && placed[6] >= 1, "{placed:?}");
    }
    assert!(levels(&tree, KEYSPACE_DEFAULT)[6] > 3, "tables are cut");
    settle(&tree);
    let stats = tree.stats();
    let figures = stats.tree.clone().unwrap();
    assert_eq!((figures.ingest_count, figures.flush_count, figures.compaction_count), (2, 0, 0), "{stats:?}");
    let user = stats.user_write_bytes_total;
    assert!(user > 10 << 20 && figures.ingest_write_bytes_total < user + user / 10, "{stats:?}");
    assert!(stats.log_write_bytes_total < 1000, "{stats:?}");
    for (keyspace, model) in keyspaces(&tree).into_iter().zip(&models) {
        compare(&tree, keyspace, model, "ingested");
    }
    tree.close().unwrap();
    assert_sound(&world);
    let tree = world.open().unwrap();
    for (keyspace, model) in keyspaces(&tree).into_iter().zip(&models) {
        compare(&tree, keyspace, model, "reopened");
    }
}

#[test]
fn tables_lie_above_what_they_overlap_and_nowhere_else() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let [_, keyspace] = keyspaces(&tree);
    let mut model = Model::new();
    ingest(&tree, keyspace, 0..1000, 1, &mut model).unwrap();
    // Over the last level; then over that; beside both; and then over something in level 0.
    ingest(&tree, keyspace, 500..600, 2, &mut model).unwrap();
    assert_eq!(levels(&tree, keyspace)[5..], [1, 1]);
    ingest(&tree, keyspace, 550..650, 3, &mut model).unwrap();
    assert_eq!(levels(&tree, keyspace)[4..], [1, 1, 1]);
    ingest(&tree, keyspace, 2000..2100, 4, &mut model).unwrap();
    assert_eq!(levels(&tree, keyspace)[4..], [1, 1, 2]);
    let mut writer = session(&tree);
    writer.put(keyspace, &key(560), b"flushed first", WriteOptions::default()).unwrap();
    model.insert(key(560), b"flushed first".to_vec());
    compare(&tree, keyspace, &model, "over one another");
    ingest(&tree, keyspace, 540..580, 5, &mut model).unwrap();
    assert_eq!(levels(&tree, keyspace)[0], 2, "{:?}", levels(&tree, keyspace));
    // A range delete counts as what it hides.
    writer.delete_range(keyspace, &key(2010), &key(2020), WriteOptions::default()).unwrap();
    (2010..2020).for_each(|number| drop(model.remove(&key(number))));
    ingest(&tree, keyspace, 2015..2016, 6, &mut model).unwrap();
    for what in ["over level 0", "settled", "compacted", "reopened"] {
        compare(&tree, keyspace, &model, what);
        assert_sound(&world.crash(Crash::Kill));
        match what {
            "over level 0" => settle(&tree),
            "settled" => tree.compact_range(keyspace, b"", None).unwrap(),
            _ => {}
        }
    }
    drop(writer);
    tree.close().unwrap();
    assert_sound(&world);
    compare(&world.open().unwrap(), keyspace, &model, "reopened");
}

#[test]
fn what_is_ingested_is_compacted_with_what_came_before_and_after() {
    // Several rounds of compactions of tables with one sequence, with many, and of both.
    let world = World::new(small());
    let tree = world.open().unwrap();
    let [_, keyspace] = keyspaces(&tree);
    let mut model = Model::new();
    let mut writer = session(&tree);
    let mut snapshots = Vec::new();
    for round in 1..8_u8 {
        let first = u32::from(round) * 90;
        ingest(&tree, keyspace, (first..first + 700).step_by(usize::from(round)), round, &mut model).unwrap();
        snapshots.push((tree.snapshot().unwrap(), model.clone()));
        for number in (0..1500).step_by(usize::from(round) + 2) {
            let value = value(number, 100 + round);
            writer.put(keyspace, &key(number), &value, WriteOptions::default()).unwrap();
            model.insert(key(number), value);
        }
        if round % 2 == 0 {
            tree.flush().unwrap();
            settle(&tree);
        }
        if round == 5 {
            tree.compact_range(keyspace, b"", None).unwrap();
            assert_sound(&world.crash(Crash::Kill));
        }
    }
    for step in 0..2 {
        compare(&tree, keyspace, &model, "at the end");
        for (index, (snapshot, then)) in snapshots.iter().enumerate() {
            let found = all(&tree, ReadAt::Snapshot(snapshot), keyspace);
            assert!(found == *then, "snapshot {index}, step {step}");
        }
        tree.compact_range(keyspace, b"", None).unwrap();
    }
    snapshots.clear();
    drop(writer);
    tree.compact_range(keyspace, b"", None).unwrap();
    compare(&tree, keyspace, &model, "without snapshots");
    tree.close().unwrap();
    assert_sound(&world);
}

/// With many files.
fn small() -> Settings {
    tiny().with_engine(|tree| (tree.table_bytes, tree.blob_segment_bytes) = (64 << 10, 64 << 10))
}

#[test]
fn one_that_is_dropped_or_fails_leaves_no_file() {
    let world = World::new(small());
    let faulty = Arc::new(Faulty::new(Arc::new(world.storage.clone())));
    let tree = world.open_on(Arc::clone(&faulty) as Arc<dyn Storage>, Background::Manual);
    let [_, keyspace] = keyspaces(&tree);
    let mut model = Model::new();
    ingest(&tree, keyspace, 0..10, 1, &mut model).unwrap();
    let files = || world.storage_names(".table").len() + world.storage_names(".blobs").len();
    let before = files();
    let mut ingestion = tree.ingest(keyspace).unwrap();
    (0..20_000).for_each(|number| ingestion.put(&key(number), &value(number, 2), 0).unwrap());
    assert!(files() > before + 2, "nothing was written yet");
    drop(ingestion);
    assert_eq!(files(), before);
    // The disk is full for a table, for a blob segment, for the edit.
    for (on, file) in
        [(Operation::Write, "*.table"), (Operation::Sync, "*.blobs"), (Operation::Publish, "manifest-*")]
    {
        let (file, when) = (file.to_owned(), When::Always { after: 0 });
        faulty.inject(Fault { on, file, when, effect: Effect::Fail(firn_storage::ErrorKind::Full) });
        let mut ingestion = tree.ingest(keyspace).unwrap();
        let failed = (0..20_000).find_map(|number| ingestion.put(&key(number), &value(number, 2), 0).err());
        if let Some(error) = &failed {
            // It can only be dropped.
            let again = ingestion.put(&key(30_000), b"", 0).unwrap_err();
            assert_eq!(again.to_string(), error.to_string());
        }
        let error = ingestion.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry, "{on:?}: {error}");
        faulty.clear_faults();
        assert_eq!(files(), before, "{on:?}");
        compare(&tree, keyspace, &model, "after a full disk");
    }
    ingest(&tree, keyspace, 5..20, 3, &mut model).unwrap();
    compare(&tree, keyspace, &model, "afterwards");
    tree.close().unwrap();
    assert_sound(&world);
}

#[test]
fn where_others_write_among_the_keys_each_time_it_is_refused() {
    in_time("an ingestion among others' keys", || {
        let (world, hook) = (World::new(tiny()), Arc::new(Hook::default()));
        let storage = hook.before(&world.storage, Operation::SyncDir, "");
        let tree = world.open_on(Arc::new(storage), Background::Manual);
        let mut other = session(&tree);
        // Before each moment at which the keys could come.
        hook.set(move || _ = put(&mut other, b"m", b"others"));
        let mut ingestion = tree.ingest(KEYSPACE_DEFAULT).unwrap();
        ingestion.put(b"a", b"1", 0).unwrap();
        ingestion.put(b"z", b"1", 0).unwrap();
        let error = ingestion.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("batches"), "{error}");
        // While they rest it goes well.
        hook.set(|| ());
        let mut ingestion = tree.ingest(KEYSPACE_DEFAULT).unwrap();
        ingestion.put(b"n", b"1", 0).unwrap();
        ingestion.finish().unwrap();
        let found = all(&tree, ReadAt::Latest, KEYSPACE_DEFAULT);
        assert_eq!(found, Model::from([(b"m".to_vec(), b"others".to_vec()), (b"n".to_vec(), b"1".to_vec())]));
    });
}

#[test]
fn a_copy_has_what_was_ingested_and_all_that_was_written_before() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut model = Model::new();
    let mut writer = session(&tree);
    put(&mut writer, &key(5000), b"in the log");
    model.insert(key(5000), b"in the log".to_vec());
    ingest(&tree, KEYSPACE_DEFAULT, 0..100, 1, &mut model).unwrap();
    let copy = tree.copy_to(Path::new("/copy")).unwrap();
    put(&mut writer, &key(6000), b"later");
    let storage = Arc::new(world.storage.directory(&copy.path).unwrap()) as Arc<dyn Storage>;
    let copied = Tree::open(TreeOptions { storage, ..world.options() }).unwrap();
    compare(&copied, KEYSPACE_DEFAULT, &model, "the copy");
    // What is written there is newer.
    ingest(&copied, KEYSPACE_DEFAULT, 0..1, 2, &mut model).unwrap();
    let mut writer = session(&copied);
    put(&mut writer, &key(1), b"newest");
    model.insert(key(1), b"newest".to_vec());
    compare(&copied, KEYSPACE_DEFAULT, &model, "the copy, written to");
}
