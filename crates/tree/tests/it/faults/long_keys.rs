//! T1: tables of long keys that begin alike, compressed far below the bytes of their keys, were
//! written and could not be read.
//!
//! Neighbours: each codec; keys of several families, so that the whole table shares nothing; keys
//! of 3004 bytes rewritten by `compact_range` at the default settings. Keys as long as may be; all
//! of it read again after reopening.

use firn_engine::{Compression, Engine, KeyspaceSettings, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_tree::Settings;

use crate::support::world::{World, get_in, rows, session, tiny};

/// The `number`th key of `bytes` bytes, in one of `families` that share nothing.
fn key(number: u32, bytes: usize, families: u32) -> Vec<u8> {
    let mut key = vec![b'a' + (number % families) as u8; bytes];
    key[bytes - 4..].copy_from_slice(&(number / families).to_be_bytes());
    key
}

/// Writes `count` keys, rewrites them, and reads them before and after reopening.
fn write_and_read(count: u32, bytes: usize, families: u32, compression: Compression, settings: Settings) {
    let what = format!("{count} keys of {bytes} bytes, {families} families, {compression:?}");
    let world = World::new(settings);
    let mut tree = world.open().unwrap();
    let keyspace = tree.create_keyspace(
        "long",
        KeyspaceSettings { compression: Some(compression), ..KeyspaceSettings::default() },
    );
    let keyspace = keyspace.unwrap();
    let mut numbers: Vec<u32> = (0..count).collect();
    fastrand::Rng::with_seed(u64::from(count)).shuffle(&mut numbers);
    let mut writer = session(&tree);
    for number in numbers {
        writer.put(keyspace, &key(number, bytes, families), b"value", WriteOptions::default()).unwrap();
    }
    drop(writer);
    for round in 0..2 {
        tree.flush().unwrap_or_else(|error| panic!("{what}: {error}"));
        tree.compact_range(keyspace, b"", None).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut reader = session(&tree);
        let found = rows(&mut reader, ReadAt::Latest, keyspace, ScanRange::all());
        assert_eq!(found.len(), count as usize, "{what}, round {round}");
        for number in (0..count).step_by(97) {
            let value = get_in(&mut reader, keyspace, &key(number, bytes, families));
            assert_eq!(value.as_deref(), Some(&b"value"[..]), "{what}, round {round}, key {number}");
        }
        drop(reader);
        tree.close().unwrap();
        drop(tree);
        tree = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

fn settings() -> Settings {
    tiny().with_engine(|tree| {
        tree.buffer_bytes = 8 << 20;
        tree.table_bytes = 8 << 20;
    })
}

#[test]
fn t1_long_keys_compact() {
    for compression in [Compression::Zstd, Compression::Lz4, Compression::None] {
        write_and_read(1_500, 3_000, 1, compression, settings());
        write_and_read(1_500, 1_000, 3, compression, settings());
    }
}

#[test]
fn t1_keys_of_3004_bytes_are_rewritten_at_the_default_settings() {
    write_and_read(2_000, 3_004, 1, Compression::Zstd, Settings::default());
    write_and_read(50, 65_535, 2, Compression::Zstd, Settings::default());
}

#[test]
#[ignore = "long form: cargo x faults"]
fn t1_long_keys_compact_long() {
    for compression in [Compression::Zstd, Compression::Lz4] {
        let settings = Settings { memory_bytes: 64 << 20, ..Settings::default() };
        write_and_read(1_200_000, 1_000, 1, compression, settings);
    }
}
