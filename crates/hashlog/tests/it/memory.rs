//! What is in memory stays within `memory_bytes`, whatever takes it.

use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::settings::MIB;
use firn_engine::{Batch, Engine, KEYSPACE_DEFAULT, ReadAt, Session, Stats, WriteOptions};
use firn_hashlog::{HashLog, Settings};
use firn_storage::SystemClock;
use firn_storage::backend::Memory;

use crate::support::open;

const MEMORY_BYTES: u64 = 24 * MIB;

struct Scene {
    database: Arc<HashLog>,
    session: Blocking<dyn Session>,
    most: u64,
}

impl Scene {
    fn new() -> Self {
        Self::with(Settings::for_memory(MEMORY_BYTES))
    }

    fn with(settings: Settings) -> Self {
        Self::opened(settings, true)
    }

    fn opened(settings: Settings, has_threads: bool) -> Self {
        let clock = Arc::new(SystemClock::new());
        let database = open(Arc::new(Memory::new()), clock, has_threads, settings).expect("open");
        let session = Blocking::new(database.session());
        Self { database, session, most: 0 }
    }

    fn put(&mut self, key: u64, value_bytes: usize) {
        let value = vec![key as u8; value_bytes];
        let put = self.session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value, WriteOptions::default());
        put.expect("put");
        self.look(key);
    }

    fn get(&mut self, key: u64) {
        let found = self.session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
        assert_eq!(found.map(|value| value[0]), Some(key as u8), "key {key}");
        self.look(key);
    }

    fn look(&mut self, number: u64) {
        if number.is_multiple_of(256) {
            self.most = self.most.max(self.database.stats().memory_bytes);
        }
    }

    /// What is there once nothing is to be done.
    fn at_rest(&self) -> Stats {
        self.database.flush().expect("flush");
        self.database.wait_idle().expect("idle");
        self.database.stats()
    }
}

/// Many short records fill the index, then the log's share shrinks, and copies take what is left of
/// it; at no time is more in memory than was allowed, but for some pages on their way out.
#[test]
fn index_log_and_copies_share_memory() {
    const KEYS: u64 = 300_000;
    let mut scene = Scene::new();
    (0..KEYS / 8).for_each(|key| scene.put(key, 100));
    let few = scene.at_rest();
    (KEYS / 8..KEYS).for_each(|key| scene.put(key, 100));
    let many = scene.at_rest();
    for _ in 0..2 {
        (0..KEYS).step_by(2).for_each(|key| scene.get(key));
    }
    let read = scene.at_rest();
    let [few_hash, many_hash, read_hash] =
        [&few, &many, &read].map(|stats| stats.hash.as_ref().expect("of it"));
    assert!(many_hash.index_bytes > 4 * few_hash.index_bytes, "{many:?}");
    assert!(many_hash.resident_bytes > MEMORY_BYTES / 5 * 3, "the log has what nothing else takes: {many:?}");
    assert!(read_hash.cache_bytes > 2 * MIB, "{read:?}");
    assert!(read_hash.resident_bytes + MIB < many_hash.resident_bytes, "the log made room: {read:?}");
    for stats in [few, many, read] {
        assert!(stats.memory_bytes <= MEMORY_BYTES, "{stats:?}");
    }
    assert!(scene.most <= MEMORY_BYTES / 5 * 6, "{} bytes at once", scene.most);
}

/// Long records need little index: the log has nearly all of memory.
#[test]
fn the_log_has_what_the_index_does_not_take() {
    let mut scene = Scene::new();
    (0..30_000).for_each(|key| scene.put(key, 1000));
    let stats = scene.at_rest();
    let hash = stats.hash.as_ref().expect("of it");
    assert!(hash.resident_bytes > MEMORY_BYTES / 10 * 7, "{stats:?}");
    assert!(stats.memory_bytes <= MEMORY_BYTES && scene.most <= MEMORY_BYTES / 5 * 6, "{}", scene.most);
}

/// Keys beyond those that the index has room for: each waits for the compaction of older ones.
#[test]
fn writers_that_wait_for_compaction_are_counted() {
    let settings = Settings::for_memory(MEMORY_BYTES);
    let mut scene = Scene::with(settings.with_engine(|hash| hash.index_bytes_max = 4 * MIB));
    assert_eq!(scene.database.stats().stop_us_total, 0);
    (0..600_000).for_each(|key| scene.put(key, 8));
    let stats = scene.at_rest();
    assert!(stats.stop_us_total > 0, "{stats:?}");
    assert!(
        stats.stop_wall_us_total.abs_diff(stats.stop_us_total) <= 1 + stats.stop_us_total / 2,
        "{stats:?}"
    );
}

/// Copies have taken pages of the log since it was last looked at, when a batch asks for more of it
/// at once than is kept free.
#[test]
fn a_batch_has_room_where_copies_took_some() {
    for read_count in [0, 10_000, 20_000, 40_000, 80_000] {
        let mut scene = Scene::opened(Settings::for_memory(64 * MIB), false);
        (0..600_000).for_each(|key| scene.put(key, 100));
        (0..read_count).for_each(|key| scene.get(key));
        let mut batch = Batch::new();
        for key in 0..7_000u64 {
            batch.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &[key as u8; 1000]);
        }
        scene.session.write(&batch, WriteOptions::default()).expect("a batch of 7 MB");
        (0..7_000).for_each(|key| scene.get(key));
    }
}
