//! Databases that older builds have written open, are read, and go on.
//!
//! `version_1/` and `version_2/` hold what the last build that wrote that format version left behind where [`history`] happened and
//! the process was killed then: tables, value segments that were sealed, collected and open, a log whose records refer to them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use firn_engine::{Compression, Engine, KeyspaceSettings, Ordered, WriteOptions};
use firn_format::FormatVersion;
use firn_format::table::FOOTER_BYTES;
use firn_storage::place::{Crash, Memory};
use firn_tree::{Finding, Tree, TreeSettings};

use crate::verify::report;
use crate::verify_sample::{Contents, Files, directory, read_files, scan_all};
use crate::world::{World, session, settle, tiny};

/// Values of more bytes lie beside the tree.
const SEPARATE_BYTES: u32 = 100;

fn world() -> World {
    World::new(TreeSettings { value_segment_bytes: 4 << 10, ..tiny() })
}

fn kept(version: FormatVersion) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/version_{}", version as u32))
}

fn value(key: u32, round: u32) -> Vec<u8> {
    let bytes = [20, 150, 700][key as usize % 3] + round as usize;
    (0..bytes).map(|at| b'a' + ((key + round) as usize + at / 9) as u8 % 26).collect()
}

/// Overwrites, deletes and merges in two keyspaces, one of them compressed, in a `round` of their own; says in `contents` what is
/// there then.
fn round(tree: &Tree, contents: &mut Contents, round: u32) {
    let mut session = session(tree);
    for name in ["plain", "packed"] {
        let keyspace = tree.keyspace(name).unwrap();
        let expected = contents.entry(name.to_owned()).or_default();
        for key in (0..24).filter(|key| (key + round) % 3 != 2 || round == 0) {
            let (name, value) = (format!("key-{key:02}").into_bytes(), value(key, round));
            if round > 0 && key % 8 == round {
                session.delete(keyspace, &name, WriteOptions::default()).unwrap();
                expected.remove(&name);
            } else if key % 12 == 1 {
                session.merge(keyspace, &name, &value, WriteOptions::default()).unwrap();
                expected.entry(name).or_default().extend(value);
            } else {
                session.put(keyspace, &name, &value, WriteOptions::default()).unwrap();
                expected.insert(name, value);
            }
        }
    }
}

/// A database from its first record to a kill, and what was in it by then.
fn history() -> (Files, Contents) {
    let world = world();
    let tree = world.open().unwrap();
    let mut contents = Contents::from([("default".to_owned(), Default::default())]);
    for (name, compression) in [("plain", Compression::None), ("packed", Compression::Lz4)] {
        let settings = KeyspaceSettings {
            compression,
            separate_bytes: Some(SEPARATE_BYTES),
            merge_operator: Some(firn_engine::conformance::APPEND.to_owned()),
            ..KeyspaceSettings::default()
        };
        tree.create_keyspace(name, settings).unwrap();
    }
    for at in 0..3 {
        round(&tree, &mut contents, at);
        for name in ["plain", "packed"] {
            tree.compact_range(tree.keyspace(name).unwrap(), b"", None).unwrap();
        }
        settle(&tree);
    }
    round(&tree, &mut contents, 3);
    tree.flush().unwrap();
    round(&tree, &mut contents, 4);
    assert!(tree.stats().values.collection_count > 0, "some are collected: {:?}", tree.stats().values);
    (read_files(&world.storage.crash(Crash::Kill)), contents)
}

/// The files that [`write_a_sample`] wrote.
fn read_sample(version: FormatVersion) -> Files {
    let read = |entry: fs::DirEntry| {
        let (name, mut content) = (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        if name.ends_with(".log") {
            content.resize(tiny().segment_bytes as usize, 0);
        }
        (name, content)
    };
    fs::read_dir(kept(version)).unwrap().map(|entry| read(entry.unwrap())).collect()
}

/// What is wrong with a database, but for what a crash leaves behind.
fn damage(storage: &Memory) -> Vec<Finding> {
    report(storage).damage().cloned().collect()
}

/// Which versions logs, tables and value segments have, by their extension.
fn versions(storage: &Memory) -> BTreeSet<(String, u32)> {
    let files = read_files(storage);
    let of_file = |(name, content): (&String, &Vec<u8>)| {
        let extension = name.rsplit_once('.')?.1;
        let at = if extension == "table" { content.len() - FOOTER_BYTES } else { 0 };
        let number = content[at + 8..at + 12].try_into().unwrap();
        Some((extension.to_owned(), u32::from_le_bytes(number)))
    };
    files.iter().filter_map(of_file).collect()
}

/// For whoever makes a new version of the format: with the last build that writes the present one.
#[test]
#[ignore = "writes a sample of the present version, which is done once"]
fn write_a_sample() {
    let path = kept(FormatVersion::CURRENT);
    fs::create_dir(&path).unwrap();
    for (name, content) in history().0 {
        // Behind its frames a log has zeros, as many as it has room.
        let is_log = name.ends_with(".log");
        let end = content.iter().rposition(|byte| !is_log || *byte != 0).map_or(0, |last| last + 1);
        fs::write(path.join(name), &content[..end]).unwrap();
    }
}

#[test]
fn a_database_of_version_1_is_read_and_goes_on() {
    goes_on(FormatVersion::V1);
}

#[test]
fn a_database_of_version_2_is_read_and_goes_on() {
    goes_on(FormatVersion::V2);
}

fn goes_on(older: FormatVersion) {
    let files = read_sample(older);
    let mut contents = history().1;
    let world = World { storage: directory(&files), ..world() };
    let first = older as u32;
    let of = |extension: &str, version| (extension.to_owned(), version);
    let all = |version| ["log", "table", "values"].map(|extension| of(extension, version));
    assert_eq!(versions(&world.storage), all(first).into());
    assert_eq!(damage(&world.storage), []);

    let tree = world.open().unwrap();
    assert_eq!(scan_all(&tree).unwrap(), contents, "as it was found");
    round(&tree, &mut contents, 5);
    assert_eq!(scan_all(&tree).unwrap(), contents, "records of both versions");
    tree.flush().unwrap();
    drop(tree);
    let both = versions(&world.storage);
    // Value segments are as in version 2.
    let written = [("table", FormatVersion::V3), ("values", FormatVersion::V2)];
    let either = written
        .into_iter()
        .flat_map(|(extension, now)| [first, now as u32].map(|of_it| of(extension, of_it)));
    assert!(both.is_superset(&either.collect()), "{both:?}");
    assert_eq!(damage(&world.storage), [], "files of both versions");

    let tree = world.open().unwrap();
    assert_eq!(scan_all(&tree).unwrap(), contents, "opened again");
    for at in 6..12 {
        round(&tree, &mut contents, at);
        for name in ["plain", "packed"] {
            tree.compact_range(tree.keyspace(name).unwrap(), b"", None).unwrap();
        }
        settle(&tree);
        assert_eq!(scan_all(&tree).unwrap(), contents, "round {at}");
    }
    tree.close().unwrap();
    assert_eq!(damage(&world.storage), [], "merged, collected and closed");
    assert_eq!(scan_all(&world.open().unwrap()).unwrap(), contents, "closed and opened");
}
