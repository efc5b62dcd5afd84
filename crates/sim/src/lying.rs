//! A storage that lies, to see that lies are noticed.
//!
//! Whatever the engine, its promises cannot hold on such a storage; a harness that finds nothing
//! wrong is blind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::Result as EngineResult;
use firn_storage::backend::{CacheCounters, SharedPart, UnfinishedUpload};
use firn_storage::{Clock, ReadFile, Result, Storage, StorageLock, WriteFile};

use crate::world::{Knobs, Opened, World};

/// What is said to be done and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Syncs of files do nothing.
    Sync,
    /// Syncs of the directory do nothing.
    SyncDir,
    /// Every write of this number (counted from 1 since opening) does nothing.
    Write(u64),
}

/// An engine on a storage that lies.
#[derive(Debug)]
pub struct LyingWorld<W> {
    /// The engine.
    pub world: W,
    /// The lie.
    pub lie: Lie,
}

impl<W: World> World for LyingWorld<W> {
    fn name(&self) -> &'static str {
        "lying"
    }

    fn open(&self, storage: Arc<dyn Storage>, knobs: &Knobs, clock: Arc<dyn Clock>) -> EngineResult<Opened> {
        let lying = Lying { inner: storage, lie: self.lie, write_count: Arc::default() };
        self.world.open(Arc::new(lying), knobs, clock)
    }
}

#[derive(Debug)]
struct Lying {
    inner: Arc<dyn Storage>,
    lie: Lie,
    write_count: Arc<AtomicU64>,
}

impl Lying {
    fn file(&self, inner: Arc<dyn WriteFile>) -> Arc<dyn WriteFile> {
        Arc::new(LyingFile { inner, lie: self.lie, write_count: Arc::clone(&self.write_count) })
    }
}

impl Storage for Lying {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Ok(self.file(self.inner.create(name)?))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Ok(self.file(self.inner.open_write(name)?))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read(name)
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read_known(name, bytes)
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.inner.publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> Result<()> {
        if self.lie == Lie::SyncDir { Ok(()) } else { self.inner.sync_dir() }
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>> {
        self.inner.lock(exclusive)
    }

    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        self.inner.link_into(names, path)
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        self.inner.unfinished_uploads()
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        self.inner.abort_upload(upload)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn shared_part(&self) -> Option<&dyn SharedPart> {
        self.inner.shared_part()
    }

    fn cache_counters(&self) -> Option<CacheCounters> {
        self.inner.cache_counters()
    }
}

#[derive(Debug)]
struct LyingFile {
    inner: Arc<dyn WriteFile>,
    lie: Lie,
    write_count: Arc<AtomicU64>,
}

impl LyingFile {
    /// Whether the next write is the one that is only reported as done.
    fn lies(&self) -> bool {
        let number = self.write_count.fetch_add(1, Ordering::SeqCst) + 1;
        self.lie == Lie::Write(number)
    }
}

impl WriteFile for LyingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.lies() { Ok(()) } else { self.inner.write_at(offset, bytes) }
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.lies() { Ok(()) } else { self.inner.write_zeroing(offset, bytes) }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, out)
    }

    fn sync(&self) -> Result<()> {
        if self.lie == Lie::Sync { Ok(()) } else { self.inner.sync() }
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.write_back(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes)
    }
}
