//! T1: a length that a reader refused and no writer did. What is written is read, at the far ends
//! of every length.
//!
//! Drawn are the length of keys, what they share, how well they compress, block size, codec and
//! length of values. Drawn too: values in the tree or separated, single writes or batches. Each
//! round goes through the log alone (a kill), tables (flushed, then compacted), `verify`, and the
//! manifest (closed and opened again). Neighbours: keys of 1 and of 65 535 bytes; keys that share
//! all but the last byte, or nothing; empty values and values of MiB. Range tombstones with such
//! bounds; keyspaces with names of 1 to 255 bytes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;

use firn_engine::conformance::{APPEND, PREFIX_4};
use firn_engine::{
    Batch, Compression, Engine, ErrorKind, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange,
    WriteOptions,
};
use firn_storage::backend::Crash;
use firn_tree::{Settings, Tree};

use crate::support::inspect::report;
use crate::support::world::{World, delete_range, rows, seed, session, settle, tiny};

const KEY_BYTES_MAX: usize = 65_535;

/// What the keys and values of a round are like.
#[derive(Clone, Debug)]
struct Shape {
    key_bytes: usize,
    /// Bytes at the front that all keys of a family have in common.
    shared_bytes: usize,
    /// Families begin with different bytes.
    families: u8,
    /// Whether what keys share is random, so that a codec makes nothing of it.
    is_random: bool,
    value_bytes: usize,
    block_bytes: u32,
    compression: Compression,
    separate_bytes: u32,
    /// Records of a batch; 1 = single writes.
    batch_count: usize,
    /// Writes before the kill, and again after it.
    count: usize,
}

/// Lengths of keys, of what they share and of values where an off-by-one shows; each is drawn with
/// every codec and block size.
const EXTREMES: [(usize, usize, usize); 9] = [
    (1, 0, 0),
    (1, 0, 5 << 20),
    (2, 1, 65_536),
    (255, 254, 1),
    (KEY_BYTES_MAX, KEY_BYTES_MAX - 1, 0),
    (KEY_BYTES_MAX, KEY_BYTES_MAX - 1, 3 << 20),
    (KEY_BYTES_MAX, 0, 0),
    (KEY_BYTES_MAX, 0, 4096),
    (3_000, 2_996, 5),
];

/// A length of `range`; each power of two is as likely as another.
fn length(rng: &mut fastrand::Rng, range: RangeInclusive<usize>) -> usize {
    let bits = usize::BITS - range.end().leading_zeros();
    let below = 1 << rng.u32(0..=bits);
    rng.usize(..below).clamp(*range.start(), *range.end())
}

impl Shape {
    /// A drawn one whose writes come to about `bytes`.
    fn draw(rng: &mut fastrand::Rng, bytes: usize) -> Self {
        let key_bytes = length(rng, 1..=KEY_BYTES_MAX);
        let shared_bytes = [0, key_bytes / 2, key_bytes.saturating_sub(4), key_bytes - 1][rng.usize(..4)];
        let value_bytes = length(rng, 0..=200_000);
        Self::of((key_bytes, shared_bytes, value_bytes), rng, bytes)
    }

    fn of(lengths: (usize, usize, usize), rng: &mut fastrand::Rng, bytes: usize) -> Self {
        let (key_bytes, shared_bytes, value_bytes) = lengths;
        Self {
            key_bytes,
            shared_bytes,
            families: rng.u8(1..5),
            is_random: rng.bool(),
            value_bytes,
            block_bytes: [256, 1024, 4096, 65_536, 1 << 20][rng.usize(..5)],
            compression: [Compression::None, Compression::Lz4, Compression::Zstd][rng.usize(..3)],
            separate_bytes: [64, 1000, u32::MAX][rng.usize(..3)],
            batch_count: [1, 1, 7][rng.usize(..3)],
            count: (bytes / (key_bytes + value_bytes)).clamp(3, bytes / 500),
        }
    }

    fn key(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let family = b'a' + rng.u8(..self.families);
        let mut key = vec![family; self.key_bytes];
        if self.is_random {
            // Of a seed, so that all keys of the family have it.
            fastrand::Rng::with_seed(u64::from(family)).fill(&mut key);
            key[0] = family;
        }
        // One key may begin another.
        let shortest = self.key_bytes.saturating_sub(3).max(self.shared_bytes + 1).min(self.key_bytes);
        key.truncate(rng.usize(shortest..=self.key_bytes));
        let tail = &mut key[self.shared_bytes..];
        let tail_bytes = tail.len().min(6);
        rng.fill(&mut tail[..tail_bytes]);
        key
    }

    fn value(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let bytes = self.value_bytes - rng.usize(..=self.value_bytes.min(9));
        let mut value = vec![rng.u8(..); bytes];
        if rng.bool() {
            rng.fill(&mut value);
        }
        value
    }
}

/// A database that is written to, and what it should hold.
struct Round {
    shape: Shape,
    rng: fastrand::Rng,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Round {
    fn write(&mut self, tree: &Tree, keyspace: KeyspaceId) {
        let mut writer = session(tree);
        let mut batch = Batch::new();
        for number in 1..=self.shape.count {
            let (key, value) = (self.shape.key(&mut self.rng), self.shape.value(&mut self.rng));
            batch.put(keyspace, &key, &value);
            if batch.len() == self.shape.batch_count || number == self.shape.count {
                writer.write(&batch, WriteOptions::default()).unwrap();
                batch.clear();
            }
            self.model.insert(key, value);
        }
        let mut bounds = [self.shape.key(&mut self.rng), self.shape.key(&mut self.rng)];
        bounds.sort();
        let [start, end] = bounds;
        // Something stays.
        if start < end && self.model.range(start.clone()..end.clone()).count() <= self.model.len() / 2 {
            delete_range(tree, keyspace, &start, &end).unwrap();
            self.model.retain(|key, _| *key < start || *key >= end);
        }
        if self.model.len() > 1 {
            let (key, _) = self.model.pop_first().unwrap();
            writer.delete(keyspace, &key, WriteOptions::default()).unwrap();
        }
    }

    /// Reads all of it in each way.
    fn check(&self, tree: &Tree, keyspace: KeyspaceId, step: &str) {
        println!("  {step}");
        let mut reader = session(tree);
        let upward = rows(&mut reader, ReadAt::Latest, keyspace, ScanRange::all());
        assert!(upward.iter().map(|(key, value)| (key, value)).eq(&self.model), "{step}: a scan upward");
        let downward = rows(&mut reader, ReadAt::Latest, keyspace, ScanRange::all().backward());
        assert!(downward.iter().rev().eq(&upward), "{step}: a scan downward");
        for (key, value) in &self.model {
            let what = format!("{step}: a key of {} bytes, a value of {}", key.len(), value.len());
            let found = reader.get(ReadAt::Latest, keyspace, key);
            let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(
                found.as_ref() == Some(value),
                "{what}: found {:?} bytes",
                found.map(|found| found.len())
            );
            let without_last = &key[..key.len() - 1];
            if !without_last.is_empty() && !self.model.contains_key(without_last) {
                let found = reader.get(ReadAt::Latest, keyspace, without_last).unwrap();
                assert!(found.is_none(), "{what}: the key without its last byte was never written");
            }
        }
    }
}

/// One shape through all that a store does. The last shape printed is the one that failed.
fn round(shape: Shape, rng: fastrand::Rng) {
    println!("{shape:?}");
    let settings = tiny().with_engine(|tree| {
        tree.block_bytes = shape.block_bytes;
        tree.blob_segment_bytes = 1 << 20;
    });
    let mut world = World::new(settings);
    let settings = KeyspaceSettings {
        compression: Some(shape.compression),
        separate_bytes: Some(shape.separate_bytes),
        ..KeyspaceSettings::default()
    };
    let mut round = Round { shape, rng, model: BTreeMap::new() };
    let tree = world.open().unwrap();
    let keyspace = tree.create_keyspace("far", settings).unwrap();
    round.write(&tree, keyspace);
    round.check(&tree, keyspace, "written");
    drop(tree);

    world = world.crash(Crash::Kill);
    let tree = world.open().unwrap();
    round.check(&tree, keyspace, "read from the log after a kill");
    tree.flush().unwrap();
    round.check(&tree, keyspace, "flushed");

    round.write(&tree, keyspace);
    tree.flush().unwrap();
    settle(&tree);
    tree.compact_range(keyspace, b"", None).unwrap();
    settle(&tree);
    round.check(&tree, keyspace, "compacted");
    tree.close().unwrap();
    drop(tree);

    let report = report(&world.storage);
    assert!(report.is_sound(), "verify: {:?}", report.findings);
    let tree = world.open().unwrap();
    round.check(&tree, keyspace, "opened again");
}

fn rounds(first: u64, count: u64, bytes: usize) {
    for seed in first..first + count {
        println!("FIRN_SEED={seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        round(Shape::draw(&mut rng, bytes), rng);
    }
}

fn extremes(first: u64, bytes: usize) {
    for (seed, lengths) in (first..).zip(EXTREMES) {
        println!("FIRN_SEED={first}, number {}", seed - first);
        let mut rng = fastrand::Rng::with_seed(seed);
        round(Shape::of(lengths, &mut rng, bytes), rng);
    }
}

/// Keyspaces with drawn names and settings, found again as they were made.
fn keyspaces(seed: u64, count: usize) {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let world = World::new(Settings { manifest_edits_max: [1, 7, 64][rng.usize(..3)], ..tiny() });
    let mut made = BTreeMap::new();
    let tree = world.open().unwrap();
    let before = tree.keyspaces();
    for number in 0..count {
        let bytes = [1, 2, 254, 255, rng.usize(1..=255)][number % 5];
        let name: String = std::iter::repeat_with(|| rng.char('!'..='~')).take(bytes).collect();
        let settings = KeyspaceSettings {
            compression: Some([Compression::None, Compression::Lz4, Compression::Zstd][rng.usize(..3)]),
            merge_operator: rng.bool().then(|| APPEND.to_owned()),
            prefix_extractor: rng.bool().then(|| PREFIX_4.to_owned()),
            separate_bytes: [None, Some(64), Some(u32::MAX)][rng.usize(..3)],
            ..KeyspaceSettings::default()
        };
        if let Entry::Vacant(entry) = made.entry(name) {
            let id = tree.create_keyspace(entry.key(), settings.clone()).unwrap();
            entry.insert((id, settings));
        }
    }
    drop(tree);
    let tree = world.crash(Crash::Kill).open().unwrap();
    assert_eq!(tree.keyspaces().len(), before.len() + made.len(), "FIRN_SEED={seed}");
    for (name, (id, settings)) in made {
        assert_eq!(tree.keyspace(&name), Some(id), "FIRN_SEED={seed}: {name}");
        let found = tree.create_keyspace(&name, settings.clone()).unwrap();
        assert_eq!(found, id, "FIRN_SEED={seed}: {name} with its settings");
        let compression = match settings.compression {
            Some(Compression::None) => Some(Compression::Zstd),
            _ => Some(Compression::None),
        };
        let other = tree.create_keyspace(&name, KeyspaceSettings { compression, ..settings });
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Conflict, "FIRN_SEED={seed}: {name} with others");
    }
}

#[test]
fn t1_what_is_written_is_read() {
    let first = seed(0);
    rounds(first, 40, 150_000);
    keyspaces(first, 20);
}

#[test]
fn t1_the_longest_and_the_shortest_are_read() {
    extremes(seed(0), 150_000);
}

#[test]
#[ignore = "long form: cargo x faults"]
fn t1_what_is_written_is_read_long() {
    let first = seed(1_000);
    rounds(first, 200, 150_000);
    rounds(first + 200, 20, 5_000_000);
    (first..first + 20).for_each(|seed| keyspaces(seed, 60));
    (first..first + 20).for_each(|seed| extremes(seed * 100, 400_000));
}
