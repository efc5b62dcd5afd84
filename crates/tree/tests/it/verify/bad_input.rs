//! Calls that cannot succeed are refused with a kind and a message a person can act on; nothing
//! changes on disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use firn_engine::blocking::{Blocking, OrderedBlocking};
use firn_engine::{
    Batch, Change, Engine, Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered, ReadAt,
    ScanRange, Semantics, WriteOptions,
};
use firn_format::FormatVersion;
use firn_format::checksum::{crc32c, xxh3, xxh3_of_two};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions, Memory};
use firn_tree::{Settings, Tree, TreeOptions, VerifyOptions, verify};

use crate::support::on_disk::{OnDisk, everything_in, local};
use crate::support::sample::{NOW_MS, SMALL, options, options_on, read_files, sample, scan_all};
use crate::support::world::delete_range;

#[track_caller]
fn assert_refused(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

/// A version that is not there yet.
const NEWER: u8 = FormatVersion::CURRENT as u8 + 1;

/// Gives a file the next version, its checksum made to fit; where the version stands.
fn make_newer(name: &str, content: &mut [u8]) -> usize {
    if name.ends_with(".table") {
        let footer = content.len() - 128;
        content[footer + 8] = NEWER;
        let checksum = xxh3(&content[footer..footer + 120]);
        content[footer + 120..].copy_from_slice(&checksum.to_le_bytes());
        return footer + 8;
    }
    content[8] = NEWER;
    if name.ends_with(".log") {
        content[12..16].fill(0);
        let checksum = crc32c(&content[..64]);
        content[12..16].copy_from_slice(&checksum.to_le_bytes());
    } else {
        let checksum = xxh3_of_two(&content[..40], &content[48..]);
        content[40..48].copy_from_slice(&checksum.to_le_bytes());
    }
    8
}

#[test]
fn a_newer_format_is_refused_whatever_file_has_it() {
    let (files, _) = sample(SMALL);
    for name in files.keys() {
        let mut newer = files.clone();
        let version_at = make_newer(name, newer.get_mut(name).unwrap());
        let path = OnDisk::with("bad_input-newer", &newer);
        let before = everything_in(&path);
        for read_only in [true, false] {
            let error =
                Tree::open(TreeOptions { read_only, ..options_on(local(&path), NOW_MS) }).unwrap_err();
            assert_refused(
                &error,
                ErrorKind::Invalid,
                &[name, &format!("version {NEWER}"), "newer Firn", "upgrade"],
            );
            assert_eq!(error.location().unwrap().offset, Some(version_at as u64), "{error}");
        }
        let options = VerifyOptions { storage: local(&path), semantics: Semantics::new() };
        let error = verify(options, &mut |_| {}).unwrap_err();
        assert_refused(&error, ErrorKind::Invalid, &[name, "newer Firn", "upgrade"]);
        assert_eq!(everything_in(&path), before, "{name}: something was changed on disk");
    }
}

#[test]
fn a_second_opener_is_refused_in_this_process_and_in_another() {
    let (files, contents) = sample(SMALL);
    let path = OnDisk::with("bad_input-second", &files);
    let tree = Tree::open(options_on(local(&path), NOW_MS)).unwrap();
    let before = everything_in(&path);
    for read_only in [true, false] {
        let error = Tree::open(TreeOptions { read_only, ..options_on(local(&path), NOW_MS) }).unwrap_err();
        assert_refused(
            &error,
            ErrorKind::Conflict,
            &[path.to_str().unwrap(), "another handle in this process", "close it there first"],
        );
    }
    let said = open_elsewhere(&path);
    assert!(said.contains("Conflict") && said.contains("close it there first"), "{said}");
    assert_eq!(everything_in(&path), before, "something was changed on disk");
    assert_eq!(scan_all(&tree).unwrap(), contents);
    tree.close().unwrap();
    drop(tree);
    let said = open_elsewhere(&path);
    assert!(said.contains("opened"), "{said}");
}

/// Tells the other process what to open.
const DIRECTORY: &str = "FIRN_TEST_DIRECTORY";

/// Runs [`opens_the_second_directory`] in a process of its own; what it said.
fn open_elsewhere(path: &Path) -> String {
    let test = "verify::bad_input::opens_the_second_directory";
    let arguments = ["--exact", test, "--ignored", "--nocapture", "--test-threads=1"];
    let output =
        Command::new(std::env::current_exe().unwrap()).args(arguments).env(DIRECTORY, path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "the other process of a_second_opener_is_refused_in_this_process_and_in_another"]
fn opens_the_second_directory() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    match Tree::open(options_on(local(Path::new(&path)), NOW_MS)) {
        Ok(_) => println!("opened"),
        Err(error) => println!("{error:?}"),
    }
}

/// A database in memory with one key, and a session of it.
fn open_small(settings: Settings) -> (Memory, Arc<Tree>, OrderedBlocking) {
    let storage = Memory::new();
    let tree = Tree::open(TreeOptions { settings, ..options(&storage, NOW_MS) }).unwrap();
    let mut session = Blocking::new(tree.ordered_session());
    session.put(KEYSPACE_DEFAULT, b"key", b"value", WriteOptions::default()).unwrap();
    (storage, tree, session)
}

fn small_settings() -> Settings {
    Settings { value_bytes_max: 64 << 20, key_bytes_max: 1000, ..Settings::default() }.with_engine(|tree| {
        tree.log_segment_bytes = 4 << 20;
        tree.buffer_bytes = 4 << 20;
        tree.buffer_bytes_max = 8 << 20;
        tree.log_bytes_max = 8 << 20;
    })
}

#[test]
fn an_unknown_keyspace_is_refused_by_every_call() {
    let (storage, tree, mut session) = open_small(small_settings());
    let before = read_files(&storage);
    let (o, id) = (WriteOptions::default(), KeyspaceId(99));
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, b"other", b"1").put(id, b"a", b"2");
    let refusals: Vec<Error> = vec![
        session.get(ReadAt::Latest, id, b"a").unwrap_err(),
        session.multi_get(ReadAt::Latest, id, &[b"a"]).unwrap_err(),
        session.scan(ReadAt::Latest, id, ScanRange::all()).map(|_| ()).unwrap_err(),
        session.put(id, b"a", b"b", o).unwrap_err(),
        session.delete(id, b"a", o).unwrap_err(),
        session.merge(id, b"a", b"b", o).unwrap_err(),
        session.update(id, b"a", o, |_| (Change::Delete, ())).unwrap_err(),
        session.write(&batch, o).unwrap_err(),
        delete_range(&tree, id, b"a", b"b").unwrap_err(),
        tree.drop_keyspace(id).unwrap_err(),
    ];
    for error in refusals {
        assert_refused(&error, ErrorKind::Invalid, &["no keyspace with id 99"]);
    }
    assert_eq!(session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"other").unwrap(), None, "half a batch");
    assert_eq!(read_files(&storage), before, "something was written");
    assert_refused(
        &tree.compact_range(id, b"a", None).unwrap_err(),
        ErrorKind::Invalid,
        &["no keyspace with id 99"],
    );
}

#[test]
fn what_is_too_long_is_refused_and_names_the_limit() {
    let (storage, tree, mut session) = open_small(small_settings());
    let before = read_files(&storage);
    let (o, id) = (WriteOptions::default(), KEYSPACE_DEFAULT);
    let (key, value) = (vec![b'k'; 1001], vec![b'v'; (64 << 20) + 1]);
    let key_words = ["1001 bytes", "key_bytes_max = 1000"];
    for error in [
        session.put(id, &key, b"", o).unwrap_err(),
        session.delete(id, &key, o).unwrap_err(),
        session.update(id, &key, o, |_| (Change::Delete, ())).unwrap_err(),
        delete_range(&tree, id, b"a", &key).unwrap_err(),
    ] {
        assert_refused(&error, ErrorKind::Invalid, &key_words);
    }
    let value_words = ["67108865 bytes", "value_bytes_max = 67108864"];
    assert_refused(&session.put(id, b"a", &value, o).unwrap_err(), ErrorKind::Invalid, &value_words);
    let long = value.clone();
    let error = session.update(id, b"a", o, move |_| (Change::Put(long.clone()), ())).unwrap_err();
    assert_refused(&error, ErrorKind::Invalid, &value_words);
    assert_eq!(read_files(&storage), before, "something was written");
    session.put(id, &key[..1000], b"fits", o).unwrap();
}

#[test]
fn a_batch_larger_than_the_whole_buffer_is_written() {
    let (storage, tree, mut session) = open_small(small_settings());
    let value = vec![b'v'; 20 << 20];
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, b"large1", &value).put(KEYSPACE_DEFAULT, b"large2", &value);
    session.write(&batch, WriteOptions::default()).unwrap();
    session.write(&batch, WriteOptions::default()).unwrap();
    let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"large2").unwrap();
    assert!(found.as_ref() == Some(&value));
    tree.close().unwrap();
    drop(tree);
    let tree = Tree::open(TreeOptions { settings: small_settings(), ..options(&storage, NOW_MS) }).unwrap();
    let found =
        Blocking::new(tree.ordered_session()).get(ReadAt::Latest, KEYSPACE_DEFAULT, b"large1").unwrap();
    assert!(found.as_ref() == Some(&value));
}

/// No keyspace's memtable is ever full, but together they fill the buffer.
#[test]
fn a_buffer_smaller_than_its_memtables_keeps_taking_writes() {
    let settings = small_settings().with_engine(|tree| {
        tree.memtable_bytes = 1 << 30;
        tree.log_bytes_max = 1 << 30;
    });
    let (_storage, tree, mut session) = open_small(settings);
    let mut ids = vec![KEYSPACE_DEFAULT];
    for name in ["second", "third"] {
        ids.push(tree.create_keyspace(name, KeyspaceSettings::default()).unwrap());
    }
    let value = vec![b'v'; 64 << 10];
    for index in 0..600_u32 {
        let id = ids[index as usize % ids.len()];
        session.put(id, &index.to_be_bytes(), &value, WriteOptions::default()).unwrap();
    }
    assert!(tree.stats().tree.expect("a tree").buffer_bytes <= (8 << 20) + (5 << 20), "{:?}", tree.stats());
    for index in 0..600_u32 {
        let id = ids[index as usize % ids.len()];
        let found = session.get(ReadAt::Latest, id, &index.to_be_bytes()).unwrap();
        assert!(found.as_ref() == Some(&value), "{index}");
    }
}

#[test]
fn batches_and_operations_without_sense_are_refused() {
    let (storage, tree, mut session) = open_small(small_settings());
    let before = read_files(&storage);
    let (o, id) = (WriteOptions::default(), KEYSPACE_DEFAULT);
    assert_refused(&session.write(&Batch::new(), o).unwrap_err(), ErrorKind::Invalid, &["batch is empty"]);
    assert_refused(
        &session.merge(id, b"a", b"1", o).unwrap_err(),
        ErrorKind::Invalid,
        &["default", "no merge operator"],
    );
    for (start, end) in [(&b"b"[..], &b"a"[..]), (b"b", b"b")] {
        assert_refused(
            &delete_range(&tree, id, start, end).unwrap_err(),
            ErrorKind::Invalid,
            &["end after it starts"],
        );
    }
    let plain = KeyspaceSettings::default();
    let packed = KeyspaceSettings { compression: Some(firn_engine::Compression::Zstd), ..plain.clone() };
    let unknown = KeyspaceSettings { merge_operator: Some("no such".to_owned()), ..plain.clone() };
    let long = "k".repeat(256);
    assert_refused(
        &tree.create_keyspace("", plain.clone()).unwrap_err(),
        ErrorKind::Invalid,
        &["1 to 255 bytes"],
    );
    assert_refused(
        &tree.create_keyspace(&long, plain).unwrap_err(),
        ErrorKind::Invalid,
        &["1 to 255 bytes", "256"],
    );
    assert_refused(
        &tree.create_keyspace("new", unknown).unwrap_err(),
        ErrorKind::Invalid,
        &["\"no such\"", "register"],
    );
    assert_refused(
        &tree.create_keyspace("default", packed).unwrap_err(),
        ErrorKind::Conflict,
        &["other settings"],
    );
    assert_refused(&tree.drop_keyspace(id).unwrap_err(), ErrorKind::Invalid, &["default keyspace"]);
    assert_eq!(read_files(&storage), before, "something was written");
    assert_eq!(tree.keyspaces().len(), 1);
}

#[test]
fn an_operator_that_is_not_registered_is_named_before_anything_changes() {
    let (files, _) = sample(SMALL);
    let path = OnDisk::with("bad_input-operator", &files);
    let before = everything_in(&path);
    for read_only in [true, false] {
        let with = TreeOptions { semantics: Semantics::new(), read_only, ..options_on(local(&path), NOW_MS) };
        let error = Tree::open(with).unwrap_err();
        assert_refused(&error, ErrorKind::Invalid, &["\"sums\"", "merge operator \"append\"", "register"]);
    }
    assert_eq!(everything_in(&path), before, "something was changed on disk");
}

#[test]
fn settings_out_of_range_are_named_before_anything_changes() {
    type Set = fn(&mut Settings);
    let wrong: Vec<(&str, Set)> = vec![
        ("log_segment_bytes", |s| s.engine.log_segment_bytes = (4 << 20) + 8),
        ("log_segment_bytes", |s| s.engine.log_segment_bytes = 0),
        ("memtable_bytes", |s| s.engine.memtable_bytes = 0),
        ("memory_bytes", |s| s.memory_bytes = (1 << 20) - 1),
        ("buffer_bytes_max", |s| {
            (s.engine.buffer_bytes, s.engine.buffer_bytes_max) = (0, s.engine.log_segment_bytes);
        }),
        ("buffer_bytes", |s| s.engine.buffer_bytes = s.engine.buffer_bytes_max + 1),
        ("log_bytes_max", |s| s.engine.log_bytes_max = 0),
        ("merge_fan_in", |s| s.engine.merge_fan_in = 1),
        ("block_bytes", |s| s.engine.block_bytes = 1),
        ("table_bytes", |s| s.engine.table_bytes = 1),
        ("filter_bits_per_key", |s| s.engine.filter_bits_per_key = 65),
        ("level0_runs_max", |s| s.engine.level0_runs_max = 1),
        ("local_bytes_per_second", |s| s.local_bytes_per_second = 0),
        ("reexecuted_share", |s| s.reexecuted_share = 1.5),
        ("reexecuted_share", |s| s.reexecuted_share = f64::NAN),
        ("idle_threads", |s| s.idle_threads = 257),
        ("background_threads", |s| s.background_threads = 0),
        ("read_threads", |s| s.read_threads = 0),
        ("key_bytes_max", |s| s.key_bytes_max = 65_536),
        ("value_bytes_max", |s| s.value_bytes_max = u64::MAX),
        ("manifest_edits_max", |s| s.manifest_edits_max = 0),
    ];
    for (name, set) in wrong {
        let storage = Memory::new();
        let mut settings = Settings::default();
        set(&mut settings);
        let error = Tree::open(TreeOptions { settings, ..options(&storage, NOW_MS) }).unwrap_err();
        assert_refused(&error, ErrorKind::Invalid, &[&format!("setting `{name} ="), "must be"]);
        assert_eq!(storage.list().unwrap(), []);
    }
}

#[test]
fn what_is_no_database_is_refused_and_left_alone() {
    let path = OnDisk::fresh("bad_input-stranger");
    std::fs::write(path.join("thesis.txt"), b"all of it").unwrap();
    let before = everything_in(&path);
    for create in [true, false] {
        let error =
            Local::open(&*path, LocalOptions { create }).map_err(firn_tree::storage_error).unwrap_err();
        assert_refused(&error, ErrorKind::Invalid, &[path.to_str().unwrap(), "not a database"]);
    }
    assert_eq!(everything_in(&path), before);
    let file = path.join("thesis.txt");
    let error =
        Local::open(&file, LocalOptions { create: true }).map_err(firn_tree::storage_error).unwrap_err();
    assert_refused(&error, ErrorKind::Invalid, &[file.to_str().unwrap()]);
    let missing = path.join("missing");
    let error =
        Local::open(&missing, LocalOptions { create: false }).map_err(firn_tree::storage_error).unwrap_err();
    assert_refused(&error, ErrorKind::Invalid, &[missing.to_str().unwrap()]);
    assert_eq!(everything_in(&path), before);
}

#[test]
fn a_missing_database_is_not_made_unless_asked_for() {
    let storage = Memory::new();
    for read_only in [true, false] {
        let with = TreeOptions { create: read_only, read_only, ..options(&storage, NOW_MS) };
        assert_refused(&Tree::open(with).unwrap_err(), ErrorKind::Invalid, &["holds no database", "create"]);
    }
    assert_eq!(storage.list().unwrap(), []);
}

/// Segments and tables without the manifest that names them are not taken for an empty directory.
#[test]
fn a_database_without_a_manifest_is_not_made_anew() {
    let (mut files, _) = sample(SMALL);
    files.retain(|name, _| !name.starts_with("manifest-"));
    let path = OnDisk::with("bad_input-headless", &files);
    let before = everything_in(&path);
    for read_only in [true, false] {
        let error = Tree::open(TreeOptions { read_only, ..options_on(local(&path), NOW_MS) }).unwrap_err();
        assert_refused(&error, ErrorKind::Corrupt, &["manifest-0000000000000001", "is missing"]);
    }
    assert_eq!(everything_in(&path), before, "something was changed on disk");
}

#[test]
fn a_segment_of_another_database_is_refused() {
    let (mut files, _) = sample(SMALL);
    let other = {
        let storage = Memory::new();
        let tree = Tree::open(TreeOptions { seed: 8, ..options(&storage, NOW_MS) }).unwrap();
        tree.close().unwrap();
        read_files(&storage)
    };
    let strangers: BTreeMap<_, _> = other.into_iter().filter(|(name, _)| name.ends_with(".log")).collect();
    assert_eq!(strangers.len(), 1);
    files.extend(strangers);
    let path = OnDisk::with("bad_input-mixed", &files);
    let before = everything_in(&path);
    let error = Tree::open(options_on(local(&path), NOW_MS)).unwrap_err();
    assert_refused(&error, ErrorKind::Corrupt, &[".log at offset 16", "another database"]);
    assert_eq!(everything_in(&path), before, "something was changed on disk");
}
