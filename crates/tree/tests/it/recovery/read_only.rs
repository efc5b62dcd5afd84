//! Opening for reading: beside other readers, never beside a writer, and without a trace.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::{
    Batch, Change, Engine, Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, Ordered, ReadAt,
    WriteOptions,
};
use firn_storage::{Spawn, ThreadSpawn};
use firn_tree::{Background, Tree, TreeOptions, VerifyOptions, verify};

use crate::support::on_disk::{OnDisk, everything_in, local};
use crate::support::sample::{Files, NOW_MS, SMALL, options_on, sample, scan_all};
use crate::support::world::delete_range;

fn for_reading(path: &Path) -> TreeOptions {
    TreeOptions { read_only: true, ..options_on(local(path), NOW_MS) }
}

#[test]
fn readers_stand_beside_one_another_and_see_everything() {
    let (files, contents) = sample(SMALL);
    let path = OnDisk::with("read_only-beside", &files);
    let before = everything_in(&path);
    let first = Tree::open(for_reading(&path)).unwrap();
    let spawn = Arc::new(ThreadSpawn::new());
    let background = Background::Threads(Arc::clone(&spawn) as Arc<dyn Spawn>);
    let second = Tree::open(TreeOptions { background, ..for_reading(&path) }).unwrap();
    let report =
        verify(VerifyOptions { storage: local(&path), semantics: Default::default() }, &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(scan_all(&first).unwrap(), contents);
    assert_eq!(scan_all(&second).unwrap(), contents);
    let mut session = Blocking::new(second.ordered_session());
    for (key, value) in &contents["default"] {
        assert_eq!(session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).unwrap().as_ref(), Some(value));
    }
    assert!(second.stats().log_bytes > 0, "records that are in no table are read from the log");
    second.close().unwrap();
    assert_eq!(spawn.join_all(), Vec::<String>::new());
    first.close().unwrap();
    assert_eq!(everything_in(&path), before, "something was changed on disk");
}

#[test]
fn readers_and_a_writer_exclude_one_another() {
    let (files, _) = sample(SMALL);
    let path = OnDisk::with("read_only-excludes", &files);
    let reader = Tree::open(for_reading(&path)).unwrap();
    let before = everything_in(&path);
    let error = Tree::open(options_on(local(&path), NOW_MS)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("close it there first"), "{error}");
    assert_eq!(everything_in(&path), before, "the refused writer changed something");
    drop(reader);
    let writer = Tree::open(options_on(local(&path), NOW_MS)).unwrap();
    let error = Tree::open(for_reading(&path)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    writer.close().unwrap();
    Tree::open(for_reading(&path)).unwrap();
}

#[test]
fn every_kind_of_write_is_refused_and_says_why() {
    let (files, contents) = sample(SMALL);
    let path = OnDisk::with("read_only-refuses", &files);
    let before = everything_in(&path);
    let tree = Tree::open(for_reading(&path)).unwrap();
    let mut session = Blocking::new(tree.ordered_session());
    let (o, id) = (WriteOptions::default(), KEYSPACE_DEFAULT);
    let sums = tree.keyspace("sums").unwrap();
    let mut batch = Batch::new();
    batch.put(id, b"a", b"b");
    let copy = path.with_file_name("read_only-refuses-copy");
    let refusals: Vec<(&str, Error)> = vec![
        ("put", session.put(id, b"a", b"b", o).unwrap_err()),
        ("delete", session.delete(id, b"a", o).unwrap_err()),
        ("merge", session.merge(sums, b"a", b"b", o).unwrap_err()),
        ("write", session.write(&batch, o).unwrap_err()),
        ("update", session.update(id, b"a", o, |_| (Change::Delete, ())).unwrap_err()),
        ("delete_range", delete_range(&tree, id, b"a", b"b").unwrap_err()),
        ("compact_range", tree.compact_range(id, b"a", None).unwrap_err()),
        ("create_keyspace", tree.create_keyspace("new", KeyspaceSettings::default()).unwrap_err()),
        ("drop_keyspace", tree.drop_keyspace(sums).unwrap_err()),
        ("flush", tree.flush().unwrap_err()),
        ("sync", tree.sync().unwrap_err()),
        ("copy", tree.copy_to(&copy).unwrap_err()),
    ];
    for (what, error) in refusals {
        assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error}");
        assert!(error.message().contains("reading only"), "{what}: {error}");
    }
    assert!(!copy.exists());
    tree.wait_idle().unwrap();
    assert_eq!(scan_all(&tree).unwrap(), contents);
    tree.close().unwrap();
    assert_eq!(everything_in(&path), before, "something was changed on disk");
}

/// Settings under which a writer would freeze, flush and compact at once.
#[test]
fn a_reader_leaves_all_background_work_undone() {
    let (files, contents) = sample(SMALL);
    let eager = |mut options: TreeOptions| {
        options.settings.engine.level0_runs_max = 2;
        options.settings.space_amplification_max = 1.05;
        options
    };
    let path = OnDisk::with("read_only-idle", &files);
    let before = everything_in(&path);
    for background in
        [Background::Manual, Background::Threads(Arc::new(ThreadSpawn::new()) as Arc<dyn Spawn>)]
    {
        let tree = Tree::open(TreeOptions { background, ..eager(for_reading(&path)) }).unwrap();
        assert!(!tree.step().unwrap(), "a unit of work was done");
        tree.wait_idle().unwrap();
        assert_eq!(scan_all(&tree).unwrap(), contents);
        let stats = tree.stats();
        assert_eq!(
            (
                stats.tree.as_ref().expect("a tree").compaction_count,
                stats.tree.as_ref().expect("a tree").flush_count,
                stats.manifest_write_bytes_total
            ),
            (0, 0, 0)
        );
        tree.close().unwrap();
        assert_eq!(everything_in(&path), before, "something was changed on disk");
    }
    // There is work to do: a writer with the same settings does it.
    let tree = Tree::open(eager(options_on(local(&path), NOW_MS))).unwrap();
    assert!(tree.step().unwrap());
    tree.wait_idle().unwrap();
    assert!(tree.stats().tree.expect("a tree").compaction_count > 0, "{:?}", tree.stats());
}

#[test]
fn what_a_crash_left_is_read_and_left_where_it_is() {
    let (mut files, contents) = sample(SMALL);
    // Not closed: the last edit is missing. A torn frame, a job's output and an unfinished
    // publication lie about.
    let last_edit = files.keys().rfind(|name| name.starts_with("manifest-")).unwrap().clone();
    files.remove(&last_edit);
    let log = files.keys().rfind(|name| name.ends_with(".log")).unwrap().clone();
    let whole = files[&log].len();
    files.get_mut(&log).unwrap().extend_from_slice(&[0xab; 100]);
    let table =
        files.iter().find(|(name, _)| name.ends_with(".table")).map(|(_, content)| content.clone()).unwrap();
    files.insert("lost-000001.table".to_owned(), table);
    let path = OnDisk::with("read_only-crash", &files);
    std::fs::write(path.join(".manifest-0000000000000099.1.1.tmp"), b"half").unwrap();
    let before = everything_in(&path);
    let tree = Tree::open(for_reading(&path)).unwrap();
    assert_eq!(scan_all(&tree).unwrap(), contents);
    tree.close().unwrap();
    drop(tree);
    // Without its last frame (the batch of the last round) the log is a prefix.
    std::fs::write(path.join(&log), &files[&log][..whole - 8]).unwrap();
    let tree = Tree::open(for_reading(&path)).unwrap();
    let read = scan_all(&tree).unwrap();
    let last = b"key00003";
    for keyspace in ["default", "packed"] {
        assert_ne!(read[keyspace].get(&last[..]), contents[keyspace].get(&last[..]), "half a batch");
    }
    assert_eq!(read["sums"], contents["sums"]);
    drop(tree);
    std::fs::write(path.join(&log), &files[&log]).unwrap();
    let without_times = |all: BTreeMap<String, (Vec<u8>, std::time::SystemTime)>| -> Files {
        all.into_iter().map(|(name, (content, _))| (name, content)).collect()
    };
    assert_eq!(without_times(everything_in(&path)), without_times(before), "something was changed on disk");
}

#[test]
fn a_directory_without_a_database_is_refused_and_stays_empty() {
    let path = OnDisk::fresh("read_only-nothing");
    std::fs::write(path.join("LOCK"), b"").unwrap();
    let error = Tree::open(for_reading(&path)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.message().contains("holds no database"), "{error}");
    assert_eq!(everything_in(&path).len(), 1);
}
