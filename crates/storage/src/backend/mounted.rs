//! A directory that several machines mount, whose file server may be away for a moment.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::backend::{CacheCounters, SharedPart, UnfinishedUpload};
use crate::{Error, ErrorKind, FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

/// A backend of which failures may pass, as those of an object store do. What is `Io` elsewhere is
/// [`Refused`](ErrorKind::Refused), and background work tries again.
///
/// 1. A failed sync, of a file, of the directory or amid a publication, is what it is elsewhere.
///    What the device has is unknown, and the sync is not repeated.
/// 2. A file of which a write has failed is never synced: the system may have told so of bytes that
///    it took before.
#[derive(Debug)]
pub struct Mounted {
    inner: Arc<dyn Storage>,
}

impl Mounted {
    /// `inner`, which others reach over a network, or may.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner }
    }
}

/// What failed before anything was synced, and may not fail later.
fn may_pass(error: Error) -> Error {
    error.or_rather(ErrorKind::Refused)
}

fn writing(inner: Arc<dyn WriteFile>) -> Arc<dyn WriteFile> {
    Arc::new(MountedWriteFile { inner, failure: OnceLock::new() })
}

fn reading(inner: Arc<dyn ReadFile>) -> Arc<dyn ReadFile> {
    Arc::new(MountedReadFile { inner })
}

impl Storage for Mounted {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.create(name).map(writing).map_err(may_pass)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.open_write(name).map(writing).map_err(may_pass)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read(name).map(reading).map_err(may_pass)
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read_known(name, bytes).map(reading).map_err(may_pass)
    }

    fn open_part(&self, name: &str, offset: u64, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_part(name, offset, bytes).map(reading).map_err(may_pass)
    }

    /// Of what fails amid a publication only the backend inside knows whether it was a sync.
    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.inner.publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to).map_err(may_pass)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name).map_err(may_pass)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.inner.list().map_err(may_pass)
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
        self.inner.free_bytes().map_err(may_pass)
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        self.inner.unfinished_uploads().map_err(may_pass)
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        self.inner.abort_upload(upload).map_err(may_pass)
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
struct MountedWriteFile {
    inner: Arc<dyn WriteFile>,
    /// The first failure of a write, which is the answer of every sync.
    failure: OnceLock<Error>,
}

impl MountedWriteFile {
    /// What a write has said.
    fn noted(&self, written: Result<()>) -> Result<()> {
        written.map_err(may_pass).inspect_err(|error| {
            self.failure.get_or_init(|| error.clone());
        })
    }
}

impl WriteFile for MountedWriteFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.noted(self.inner.write_at(offset, bytes))
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.noted(self.inner.write_zeroing(offset, bytes))
    }

    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.noted(self.inner.write_combined(offset, bytes))
    }

    fn hand_over(&self) -> Result<()> {
        self.noted(self.inner.hand_over())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, out).map_err(may_pass)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.inner.will_need(offset, bytes);
    }

    fn sync(&self) -> Result<()> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            None => self.inner.sync(),
        }
    }

    /// A failure may be the device's, of bytes that were taken: as a failed sync.
    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.write_back(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes).map_err(may_pass)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.noted(self.inner.set_len(bytes))
    }
}

#[derive(Debug)]
struct MountedReadFile {
    inner: Arc<dyn ReadFile>,
}

impl ReadFile for MountedReadFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, out).map_err(may_pass)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.inner.will_need(offset, bytes);
    }

    fn will_look_up(&self, offset: u64, bytes: u64) {
        self.inner.will_look_up(offset, bytes);
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        self.inner.bytes().map_err(may_pass)
    }
}

#[cfg(test)]
mod tests;
