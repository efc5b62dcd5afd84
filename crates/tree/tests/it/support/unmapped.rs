//! A backend that gives no file as memory, so that everything is read by calls.

use std::path::Path;
use std::sync::Arc;

use firn_storage::{FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

/// `inner` without mappings.
#[derive(Debug)]
pub(crate) struct Unmapped {
    pub(crate) inner: Arc<dyn Storage>,
}

impl Storage for Unmapped {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(UnmappedFile(self.inner.open_read(name)?)))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(UnmappedFile(self.inner.open_read_known(name, bytes)?)))
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

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[derive(Debug)]
struct UnmappedFile(Arc<dyn ReadFile>);

impl ReadFile for UnmappedFile {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, out)
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(None)
    }
}
