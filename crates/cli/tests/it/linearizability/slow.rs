//! A directory whose tables are never in memory and answer late.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_storage::backend::FileBytes;
use firn_storage::{ReadFile, Result, Storage, StorageLock, WriteFile};

/// The longest that a read takes, in microseconds: each takes some other time, so that they
/// overtake each other.
const READ_US_MAX: u64 = 3_000;

/// What `inner` holds, read slowly and nowhere mapped.
#[derive(Debug)]
pub(super) struct Slow<S> {
    inner: S,
}

impl<S> Slow<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: Storage> Storage for Slow<S> {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(SlowFile { inner: self.inner.open_read(name)? }))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(SlowFile { inner: self.inner.open_read_known(name, bytes)? }))
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
        self.inner.sync_dir()
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

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[derive(Debug)]
struct SlowFile {
    inner: Arc<dyn ReadFile>,
}

impl ReadFile for SlowFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        std::thread::sleep(Duration::from_micros(fastrand::u64(..READ_US_MAX)));
        self.inner.read_at(offset, out)
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(None)
    }
}
