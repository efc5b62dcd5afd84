//! The contract's suite on the ordered engine, in memory and on files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn_engine::conformance::{self, Harness, OpenWith};
use firn_engine::{Engine, Error, Result};
use firn_sim::world::{Knobs, TreeWorld, World};
use firn_storage::backend::{Local, LocalOptions, Memory};
use firn_storage::{Clock, ManualClock, Storage};

enum Backend {
    Memory(Memory),
    Files(tempfile::TempDir),
}

struct TreeHarness {
    backend: Backend,
    has_threads: bool,
    clock: Arc<ManualClock>,
}

impl TreeHarness {
    fn make(is_on_files: bool, has_threads: bool) -> Box<dyn Harness> {
        let backend = match is_on_files {
            true => Backend::Files(folder()),
            false => Backend::Memory(Memory::new()),
        };
        Box::new(Self { backend, has_threads, clock: Arc::new(ManualClock::new(1_000_000)) })
    }

    fn tree(&self, storage: Arc<dyn Storage>, with: OpenWith) -> Result<Arc<dyn Engine>> {
        let plain = Knobs { has_threads: self.has_threads, durability: with.durability, ..Knobs::draw(0) };
        let knobs = match with.tiny {
            true => Knobs { memtable_bytes: 16 << 10, buffer_bytes: 64 << 10, block_bytes: 512, ..plain },
            false => {
                Knobs { memtable_bytes: 32 << 20, buffer_bytes: 32 << 20, table_bytes: 8 << 20, ..plain }
            }
        };
        Ok(TreeWorld.open(storage, &knobs, self.clock.clone())?.engine)
    }
}

/// A new folder; in memory where the system has such a file system, for the suite syncs some ten
/// thousand times.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

fn local(path: &Path) -> Result<Arc<dyn Storage>> {
    let storage = Local::open(path, LocalOptions { create: true });
    Ok(Arc::new(storage.map_err(|error| Error::invalid(error.to_string()))?))
}

impl Harness for TreeHarness {
    fn open(&mut self, with: OpenWith) -> Result<Arc<dyn Engine>> {
        match &self.backend {
            Backend::Memory(memory) => self.tree(Arc::new(memory.clone()), with),
            Backend::Files(folder) => self.tree(local(&folder.path().join("db"))?, with),
        }
    }

    fn copy_path(&self, name: &str) -> PathBuf {
        match &self.backend {
            Backend::Memory(_) => PathBuf::from(name),
            Backend::Files(folder) => folder.path().join(name),
        }
    }

    fn open_copy(&mut self, path: &Path) -> Result<Arc<dyn Engine>> {
        match &self.backend {
            Backend::Memory(memory) => {
                let memory = memory.directory(path).ok_or_else(|| Error::invalid("no copy there"))?;
                self.tree(Arc::new(memory), OpenWith::default())
            }
            Backend::Files(_) => self.tree(local(path)?, OpenWith::default()),
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn advance_ms(&mut self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }
}

#[test]
fn the_tree_keeps_the_contract_in_memory() {
    conformance::check(&|| TreeHarness::make(false, true));
}

#[test]
fn the_tree_keeps_the_contract_without_threads() {
    conformance::check(&|| TreeHarness::make(false, false));
}

#[test]
fn the_tree_keeps_the_contract_on_files() {
    conformance::check(&|| TreeHarness::make(true, true));
}
