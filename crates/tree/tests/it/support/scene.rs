//! A database of separated values whose GCs begin when a test wants them.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::conformance::{APPEND, semantics};
use firn_engine::{Engine, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange, Snapshot, WriteOptions};
use firn_jobs::Executor;
use firn_storage::Storage;
use firn_tree::{Settings, Tree, TreeOptions, VerifyOptions, verify};

use crate::support::world::{self, World, get_in, rows, settle, tiny};

/// Keys there are.
pub(crate) const KEYS: u32 = 120;
/// The key that it is about.
pub(crate) const KEY: u32 = 61;

/// A database whose GCs begin when a test wants them.
pub(crate) struct Scene {
    pub(crate) machine: World,
    pub(crate) tree: Arc<Tree>,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) session: OrderedBlocking,
    /// What every key should have.
    pub(crate) model: BTreeMap<u32, Vec<u8>>,
    /// The executor of jobs from the next opening on.
    pub(crate) executor: Option<Arc<dyn Executor>>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with_segments(64 << 10)
    }

    pub(crate) fn with_segments(blob_segment_bytes: u64) -> Self {
        let lazy = Settings { space_amplification_max: 100.0, ..tiny() }
            .with_engine(|tree| tree.blob_segment_bytes = blob_segment_bytes);
        let machine = World::new(lazy);
        let tree = machine.open().unwrap();
        let settings = KeyspaceSettings {
            separate_bytes: Some(1000),
            merge_operator: Some(APPEND.to_owned()),
            ..KeyspaceSettings::default()
        };
        let keyspace = tree.create_keyspace("large", settings).unwrap();
        let session = world::session(&tree);
        let model = BTreeMap::new();
        let mut scene = Self { machine, tree, keyspace, session, model, executor: None };
        for key in 0..KEYS {
            scene.put(key, &text(key, 0));
        }
        scene.compact();
        scene
    }

    pub(crate) fn put(&mut self, key: u32, value: &[u8]) {
        self.session.put(self.keyspace, &key.to_be_bytes(), value, WriteOptions::default()).unwrap();
        self.model.insert(key, value.to_vec());
    }

    pub(crate) fn delete(&mut self, key: u32) {
        self.session.delete(self.keyspace, &key.to_be_bytes(), WriteOptions::default()).unwrap();
        self.model.remove(&key);
    }

    pub(crate) fn get(&mut self, key: u32) -> Option<Vec<u8>> {
        get_in(&mut self.session, self.keyspace, &key.to_be_bytes())
    }

    pub(crate) fn get_at(&mut self, snapshot: &Snapshot, key: u32) -> Option<Vec<u8>> {
        self.session.get(ReadAt::Snapshot(snapshot), self.keyspace, &key.to_be_bytes()).unwrap()
    }

    /// Everything in one sorted run, and what newer records hide is known to be dead.
    pub(crate) fn compact(&mut self) {
        self.tree.flush().unwrap();
        self.tree.compact_range(self.keyspace, b"", None).unwrap();
    }

    /// Two of three keys, never [`KEY`], get other values: some of each segment die.
    pub(crate) fn put_some(&mut self, round: u8) {
        for key in (0..KEYS).filter(|key| *key != KEY && (key + u32::from(round)) % 3 != 0) {
            self.put(key, &text(key, round));
        }
    }

    /// The same, and what was there is known to be dead.
    pub(crate) fn litter(&mut self, round: u8) {
        self.put_some(round);
        self.compact();
    }

    /// Some keys, the lower ones more often, get other values, so that some values survive
    /// GC after GC.
    pub(crate) fn wear(&mut self, round: u8, random: &mut fastrand::Rng) {
        for _ in 0..KEYS / 2 {
            let key = random.u32(0..KEYS).min(random.u32(0..KEYS));
            self.put(key, &text(key, round));
        }
        self.compact();
    }

    pub(crate) fn reopen(&mut self, space_amplification_max: f64) {
        self.machine.settings.space_amplification_max = space_amplification_max;
        self.tree.close().unwrap();
        let options = TreeOptions { executor: self.executor.clone(), ..self.machine.options() };
        self.tree = Tree::open(options).unwrap();
        self.session = world::session(&self.tree);
    }

    /// Collects whatever has anything dead in it, and nothing else: what the buffer has stays
    /// there.
    pub(crate) fn collect(&mut self) {
        self.collect_after(|_| ());
    }

    /// The same after `act`, which happens in the process that collects. What it writes is in no
    /// table, and no flush has found what it overwrites.
    pub(crate) fn collect_after(&mut self, act: impl FnOnce(&mut Self)) {
        self.reopen(1.05);
        act(self);
        settle(&self.tree);
        let stats = self.tree.stats().tree.expect("a tree").blobs;
        assert!(stats.gc_count > 0, "{stats:?}");
        self.reopen(100.0);
    }

    /// Every key has what it should have, by reads and by a scan.
    pub(crate) fn check(&mut self, what: &str) {
        for key in 0..KEYS {
            assert_eq!(self.get(key), self.model.get(&key).cloned(), "{what}: key {key}");
        }
        let all = rows(&mut self.session, ReadAt::Latest, self.keyspace, ScanRange::all());
        let expected = self.model.iter().map(|(key, value)| (key.to_be_bytes().to_vec(), value.clone()));
        assert!(all.into_iter().filter(|(key, _)| key.len() == 4).eq(expected), "{what}: a scan");
    }

    /// The files are sound: each value is referred to once, or dead.
    pub(crate) fn check_files(&self) {
        assert_sound(&self.machine);
    }
}

pub(crate) fn assert_sound(machine: &World) {
    let storage = Arc::new(machine.storage.clone()) as Arc<dyn Storage>;
    let report = verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

pub(crate) fn text(key: u32, round: u8) -> Vec<u8> {
    vec![key as u8 ^ round.wrapping_mul(17); 3000]
}
