//! The contract's suite on the hashed engine, in memory and on files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn_engine::conformance::{self, Harness, OpenWith};
use firn_engine::{Engine, Error, Result};
use firn_storage::backend::{Local, LocalOptions, Memory};
use firn_storage::{Clock, ManualClock, Storage};

use crate::support::engine;

enum Backend {
    Memory(Memory),
    Files(tempfile::TempDir),
}

struct HashHarness {
    backend: Backend,
    has_threads: bool,
    clock: Arc<ManualClock>,
}

impl HashHarness {
    fn make(is_on_files: bool, has_threads: bool) -> Box<dyn Harness> {
        let backend = match is_on_files {
            true => Backend::Files(folder()),
            false => Backend::Memory(Memory::new()),
        };
        Box::new(Self { backend, has_threads, clock: Arc::new(ManualClock::new(1_000_000)) })
    }

    fn engine(&self, storage: Arc<dyn Storage>, with: OpenWith) -> Result<Arc<dyn Engine>> {
        engine(storage, self.clock.clone(), self.has_threads, with.durability, with.tiny)
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

impl Harness for HashHarness {
    fn open(&mut self, with: OpenWith) -> Result<Arc<dyn Engine>> {
        match &self.backend {
            Backend::Memory(memory) => self.engine(Arc::new(memory.clone()), with),
            Backend::Files(folder) => self.engine(local(&folder.path().join("db"))?, with),
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
                self.engine(Arc::new(memory), OpenWith::default())
            }
            Backend::Files(_) => self.engine(local(path)?, OpenWith::default()),
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
fn the_hashed_engine_keeps_the_contract_in_memory() {
    conformance::check(&|| HashHarness::make(false, true));
}

#[test]
fn the_hashed_engine_keeps_the_contract_without_threads() {
    conformance::check(&|| HashHarness::make(false, false));
}

#[test]
fn the_hashed_engine_keeps_the_contract_on_files() {
    conformance::check(&|| HashHarness::make(true, true));
}
