//! Machines that share a backend, each with a disk of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::conformance::semantics;
use firn_engine::{Durability, KEYSPACE_DEFAULT, ReadAt, ScanRange, WriteOptions};
use firn_format::file_name::{self, FileName};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Divided, Memory};
use firn_tree::{Settings, Tree, TreeOptions, VerifyOptions, VerifyReport, verify};

use crate::support::world::{World, rows, session, tiny};

pub(crate) const SHARED: WriteOptions =
    WriteOptions { durability: Some(Durability::Shared), expires_at_ms: 0 };
pub(crate) const HERE: WriteOptions =
    WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A machine with its own disk, and what all machines share.
pub(crate) struct Machine {
    pub(crate) world: World,
    pub(crate) local: Memory,
    pub(crate) shared: Memory,
    pub(crate) home: u128,
}

impl Machine {
    pub(crate) fn new(settings: Settings, shared: &Memory, home: u128) -> Self {
        Self { world: World::new(settings), local: Memory::new(), shared: shared.clone(), home }
    }

    /// Its backend, over the disk `local`.
    pub(crate) fn backend_on(&self, local: &Memory, shared: &Memory) -> Arc<dyn Storage> {
        let (local, shared) = (Arc::new(local.clone()), Arc::new(shared.clone()));
        Arc::new(Divided::open(local, shared, self.home).unwrap())
    }

    pub(crate) fn options(&self) -> TreeOptions {
        TreeOptions { storage: self.backend_on(&self.local, &self.shared), ..self.world.options() }
    }

    pub(crate) fn open(&self) -> Arc<Tree> {
        Tree::open(self.options()).unwrap()
    }

    pub(crate) fn take_over(&self) -> firn_engine::Result<Arc<Tree>> {
        Tree::open(TreeOptions { take_over: true, ..self.options() })
    }

    pub(crate) fn verify(&self) -> VerifyReport {
        let storage = self.backend_on(&self.local, &self.shared);
        verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap()
    }

    pub(crate) fn check_files(&self, what: &str) {
        let report = self.verify();
        assert!(report.is_sound(), "{what}: {:?}", report.findings);
    }
}

pub(crate) fn names(backend: &Memory) -> Vec<FileName> {
    backend.list().unwrap().iter().filter_map(|(name, _)| file_name::parse(name)).collect()
}

pub(crate) fn settings() -> Settings {
    Settings { manifest_edits_max: 6, ..tiny() }.with_engine(|tree| tree.blob_segment_bytes = 32 << 10)
}

/// What all machines share once the machine that has `opened` is lost. What it would write as it
/// closes is never written.
pub(crate) fn lost(shared: &Memory, opened: impl Sized) -> Memory {
    let left = shared.crash(Crash::Kill);
    drop(opened);
    left
}

/// `machine` where all share `shared`.
pub(crate) fn on(machine: &Machine, shared: &Memory) -> Machine {
    let Machine { world, local, home, .. } = machine;
    Machine { world: world.clone(), local: local.clone(), shared: shared.clone(), home: *home }
}

/// Numbers of the log objects that are there, by their generations.
pub(crate) fn objects(shared: &Memory) -> BTreeMap<u64, Vec<u64>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for name in names(shared) {
        if let FileName::LogObject { generation, number } = name {
            found.entry(generation).or_default().push(number);
        }
    }
    found
}

pub(crate) fn all(tree: &Tree) -> Model {
    rows(&mut session(tree), ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()).into_iter().collect()
}
