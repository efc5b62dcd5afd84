//! T8: `compression` in the database's settings, and keyspaces that do not say. Neighbours: the
//! default keyspace; a keyspace that says `none`; separated values; other settings at the
//! next opening.

use std::sync::Arc;

use firn_engine::{Compression, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered};
use firn_engine::{ReadAt, WriteOptions};
use firn_tree::{Settings, Tree};

use crate::support::world::{World, get_in, session, settle, tiny};

const KEYS: u32 = 400;
const VALUE_BYTES: usize = 2000;

fn packing(compression: Compression) -> World {
    World::new(Settings { compression, ..tiny() })
}

fn settings_with(compression: Compression) -> KeyspaceSettings {
    KeyspaceSettings { compression: Some(compression), ..KeyspaceSettings::default() }
}

fn value(number: u32) -> Vec<u8> {
    number.to_string().into_bytes().into_iter().cycle().take(VALUE_BYTES).collect()
}

/// Writes all keys of the keyspace and brings them to the last level; bytes of its tables.
fn fill(tree: &Arc<Tree>, keyspace: KeyspaceId) -> u64 {
    let mut session = session(tree);
    for number in 0..KEYS {
        let key = number.to_be_bytes();
        session.put(keyspace, &key, &value(number), WriteOptions::default()).unwrap();
    }
    tree.flush().unwrap();
    tree.compact_range(keyspace, b"", None).unwrap();
    settle(tree);
    for number in (0..KEYS).step_by(37) {
        assert_eq!(get_in(&mut session, keyspace, &number.to_be_bytes()), Some(value(number)));
    }
    let stats = tree.stats();
    let of_it = stats.keyspaces.iter().find(|stats| stats.keyspace() == keyspace).unwrap();
    of_it.tree.as_ref().expect("a tree").levels.iter().map(|(_, bytes)| bytes).sum()
}

/// How the keyspace is compressed, by the statistics.
fn compression_of(tree: &Tree, keyspace: KeyspaceId) -> Compression {
    let stats = tree.stats();
    stats.keyspaces.iter().find(|stats| stats.keyspace() == keyspace).unwrap().compression
}

const WHOLE: u64 = KEYS as u64 * VALUE_BYTES as u64;

#[test]
fn t8_keyspaces_that_do_not_say_are_compressed_as_the_database() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        let tree = packing(compression).open().unwrap();
        let silent = tree.create_keyspace("silent", KeyspaceSettings::default()).unwrap();
        let plain = tree.create_keyspace("plain", settings_with(Compression::None)).unwrap();
        for keyspace in [KEYSPACE_DEFAULT, silent] {
            assert_eq!(compression_of(&tree, keyspace), compression);
            let bytes = fill(&tree, keyspace);
            assert!(bytes < WHOLE / 10, "{keyspace}, {compression:?}: {bytes} bytes");
        }
        assert_eq!(compression_of(&tree, plain), Compression::None);
        let bytes = fill(&tree, plain);
        assert!(bytes > WHOLE, "what says none has none: {bytes} bytes");
    }
}

#[test]
fn t8_separated_values_are_compressed_as_the_database() {
    let sizes = [Compression::None, Compression::Zstd].map(|compression| {
        let world =
            World::new(Settings { compression, ..tiny() }.with_engine(|tree| tree.separate_bytes = 1000));
        let tree = world.open().unwrap();
        let silent = tree.create_keyspace("silent", KeyspaceSettings::default()).unwrap();
        fill(&tree, silent);
        tree.stats().tree.expect("a tree").blobs.segment_bytes
    });
    assert!(sizes[1] < sizes[0] / 10, "{sizes:?}");
}

/// What is not said is kept so: the next opening may say otherwise, and what is written from then
/// on follows.
#[test]
fn t8_what_is_not_said_follows_the_settings_of_each_opening() {
    let mut world = packing(Compression::None);
    let tree = world.open().unwrap();
    let silent = tree.create_keyspace("silent", KeyspaceSettings::default()).unwrap();
    let lz4 = tree.create_keyspace("lz4", settings_with(Compression::Lz4)).unwrap();
    assert!(fill(&tree, silent) > WHOLE);
    tree.close().unwrap();
    drop(tree);

    world.settings.compression = Compression::Zstd;
    let tree = world.open().unwrap();
    assert_eq!(compression_of(&tree, silent), Compression::Zstd);
    assert_eq!(compression_of(&tree, lz4), Compression::Lz4, "what is said stays");
    let old = session(&tree).get(ReadAt::Latest, silent, &7_u32.to_be_bytes()).unwrap();
    assert_eq!(old, Some(value(7)), "from a table of before");
    let bytes = fill(&tree, silent);
    assert!(bytes < WHOLE / 10, "{bytes} bytes");
    // A caller that does not say takes the keyspace as it is; one that says otherwise is refused.
    assert_eq!(tree.create_keyspace("lz4", KeyspaceSettings::default()).unwrap(), lz4);
    for (name, compression) in [("lz4", Compression::Zstd), ("silent", Compression::Zstd)] {
        let error = tree.create_keyspace(name, settings_with(compression)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    tree.close().unwrap();
}
