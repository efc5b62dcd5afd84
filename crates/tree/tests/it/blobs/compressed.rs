//! Separated values in keyspaces that compress.

use std::collections::BTreeMap;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    Compression, Engine, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange, WriteOptions,
};
use firn_storage::backend::Crash;
use firn_tree::Settings;

use crate::support::world::{self, DISK, World, get_in, rows, settle, tiny};

const PUT: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn settings() -> Settings {
    Settings { space_amplification_max: 1.1, ..tiny() }
        .with_engine(|tree| tree.blob_segment_bytes = 256 << 10)
}

fn keyspace(compression: Compression, separate_bytes: Option<u32>) -> KeyspaceSettings {
    KeyspaceSettings { compression: Some(compression), separate_bytes, ..KeyspaceSettings::default() }
}

/// Some shrink, some do not, some do in parts.
fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let bytes = match random.u32(0..40) {
        0 => (1 << 20) + random.usize(0..3 << 20),
        1..10 => random.usize(20_000..100_000),
        _ => random.usize(50..10_000),
    };
    let noise = random.u32(0..4) == 0;
    let byte = random.u8(..);
    let mut value: Vec<u8> = match noise {
        true => std::iter::repeat_with(|| random.u8(..)).take(bytes).collect(),
        false => (0..bytes).map(|at| byte.wrapping_add((at / 7) as u8)).collect(),
    };
    if random.u32(0..8) == 0 {
        let from = random.usize(0..bytes);
        value[from..].iter_mut().for_each(|byte| *byte ^= random.u8(..));
    }
    value
}

fn compare(session: &mut OrderedBlocking, keyspace: KeyspaceId, model: &Model, what: &str) {
    for (key, value) in model {
        assert!(get_in(session, keyspace, key).as_ref() == Some(value), "{what}: {}", key.escape_ascii());
    }
    let found = rows(session, ReadAt::Latest, keyspace, ScanRange::all());
    assert!(found.into_iter().eq(model.clone()), "{what}");
}

#[test]
fn compressed_values_survive_gcs_kills_and_loss_of_power() {
    for (seed, compression) in [(0, Compression::Lz4), (1, Compression::Zstd), (2, Compression::Zstd)] {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut machine = World::new(settings());
        let mut model = Model::new();
        let mut gcs = 0;
        for round in 0..8 {
            let what = format!("seed {seed}, round {round}");
            let tree = machine.open().unwrap();
            let id = tree.create_keyspace("packed", keyspace(compression, Some(100))).unwrap();
            let session = &mut world::session(&tree);
            compare(session, id, &model, &what);
            let is_kill = random.bool();
            for _ in 0..60 {
                let key = format!("key-{}", random.u32(0..60)).into_bytes();
                let value = value(random);
                session.put(id, &key, &value, if is_kill { PUT } else { DISK }).unwrap();
                model.insert(key, value);
                match random.u32(0..30) {
                    0 => settle(&tree),
                    1 => tree.compact_range(id, b"", None).unwrap(),
                    _ => {}
                }
            }
            compare(session, id, &model, &what);
            gcs += tree.stats().tree.expect("a tree").blobs.gc_count;
            let crash = if is_kill { Crash::Kill } else { Crash::PowerLoss { seed: random.u64(..) } };
            machine = machine.crash(crash);
        }
        assert!(gcs > 0, "seed {seed}");
    }
}

/// Bytes of blob segments with `compression`, where values are separated from the beginning,
/// or leave it later.
fn beside(compression: Compression, later: bool) -> u64 {
    let machine = World::new(settings());
    let tree = machine.open().unwrap();
    let settings = keyspace(compression, Some(if later { u32::MAX } else { 100 }));
    let id = tree.create_keyspace("packed", settings).unwrap();
    let session = &mut world::session(&tree);
    let model: Model = (0..200_u32)
        .map(|key| (key.to_be_bytes().to_vec(), format!("value {key} ").into_bytes().repeat(500)))
        .collect();
    for (key, value) in &model {
        session.put(id, key, value, PUT).unwrap();
    }
    tree.flush().unwrap();
    tree.set_separate_bytes(id, Some(100)).unwrap();
    tree.compact_range(id, b"", None).unwrap();
    settle(&tree);
    compare(session, id, &model, "after a compaction");
    let stats = tree.stats().tree.expect("a tree").blobs;
    stats.segment_bytes - stats.dead_bytes
}

#[test]
fn values_take_less_wherever_they_are_written() {
    for later in [false, true] {
        let plain = beside(Compression::None, later);
        assert!(plain > 200 * 4000, "{plain}");
        for compression in [Compression::Lz4, Compression::Zstd] {
            let packed = beside(compression, later);
            assert!(packed < plain / 10, "{compression:?}, later: {later}: {packed} of {plain} bytes");
        }
    }
}
