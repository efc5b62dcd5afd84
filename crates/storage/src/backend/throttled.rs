//! A backend that is asked no more often than a throttle allows.

use std::path::Path;
use std::sync::Arc;

use crate::backend::{CacheCounters, RequestClass, SharedPart, Throttle, UnfinishedUpload};
use crate::{FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

/// Any backend behind a [`Throttle`]: each call waits for its turn and counts as one request.
///
/// For backends that send about one request for a call. A backend that sends several, or none,
/// takes the throttle as a component and counts by itself, as object stores do.
///
/// | calls | class | bytes |
/// |---|---|---|
/// | opening for reading, `read_at` of either kind of file | read | those read |
/// | creating, opening for writing, publishing, renaming, linking, writing, `set_len`, `sync` | write | those written |
/// | lists of files and of uploads | list | |
/// | removing a file, aborting an upload | remove | |
///
/// 1. Other calls pass at once. Advice is one of them: bytes that are asked for ahead count when
///    they are read.
/// 2. No file is given out as memory: reads of memory cannot be counted.
#[derive(Debug)]
pub struct Throttled {
    inner: Arc<dyn Storage>,
    throttle: Arc<Throttle>,
}

impl Throttled {
    /// `inner` behind `throttle`, which other backends may share.
    pub fn new(inner: Arc<dyn Storage>, throttle: Arc<Throttle>) -> Self {
        Self { inner, throttle }
    }

    fn writing(&self, inner: Arc<dyn WriteFile>) -> Arc<dyn WriteFile> {
        Arc::new(ThrottledWriteFile { inner, throttle: Arc::clone(&self.throttle) })
    }

    fn reading(&self, inner: Arc<dyn ReadFile>) -> Arc<dyn ReadFile> {
        Arc::new(ThrottledReadFile { inner, throttle: Arc::clone(&self.throttle) })
    }
}

impl Storage for Throttled {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.throttle.pass(RequestClass::Write, 0);
        self.inner.create(name).map(|file| self.writing(file))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.throttle.pass(RequestClass::Write, 0);
        self.inner.open_write(name).map(|file| self.writing(file))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.throttle.pass(RequestClass::Read, 0);
        self.inner.open_read(name).map(|file| self.reading(file))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.throttle.pass(RequestClass::Read, 0);
        self.inner.open_read_known(name, bytes).map(|file| self.reading(file))
    }

    fn open_part(&self, name: &str, offset: u64, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.throttle.pass(RequestClass::Read, 0);
        self.inner.open_part(name, offset, bytes).map(|file| self.reading(file))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.throttle.pass(RequestClass::Write, bytes.len() as u64);
        self.inner.publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.throttle.pass(RequestClass::Write, 0);
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.throttle.pass(RequestClass::Remove, 0);
        self.inner.remove(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.throttle.pass(RequestClass::List, 0);
        self.inner.list()
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>> {
        self.inner.lock(exclusive)
    }

    /// The directory that comes back is behind the same throttle.
    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        self.throttle.pass(RequestClass::Write, 0);
        let linked = self.inner.link_into(names, path)?;
        Ok(Arc::new(Self::new(linked, Arc::clone(&self.throttle))))
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        self.throttle.pass(RequestClass::List, 0);
        self.inner.unfinished_uploads()
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        self.throttle.pass(RequestClass::Remove, 0);
        self.inner.abort_upload(upload)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    /// The shared part of a divided backend, which passes the throttle by: throttle its parts.
    fn shared_part(&self) -> Option<&dyn SharedPart> {
        self.inner.shared_part()
    }

    fn cache_counters(&self) -> Option<CacheCounters> {
        self.inner.cache_counters()
    }
}

#[derive(Debug)]
struct ThrottledWriteFile {
    inner: Arc<dyn WriteFile>,
    throttle: Arc<Throttle>,
}

impl WriteFile for ThrottledWriteFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.throttle.pass(RequestClass::Write, bytes.len() as u64);
        self.inner.write_at(offset, bytes)
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.throttle.pass(RequestClass::Write, bytes.len() as u64);
        self.inner.write_zeroing(offset, bytes)
    }

    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.throttle.pass(RequestClass::Write, bytes.len() as u64);
        self.inner.write_combined(offset, bytes)
    }

    fn hand_over(&self) -> Result<()> {
        self.inner.hand_over()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.throttle.pass(RequestClass::Read, out.len() as u64);
        self.inner.read_at(offset, out)
    }

    fn sync(&self) -> Result<()> {
        self.throttle.pass(RequestClass::Write, 0);
        self.inner.sync()
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.write_back(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.throttle.pass(RequestClass::Write, 0);
        self.inner.set_len(bytes)
    }
}

#[derive(Debug)]
struct ThrottledReadFile {
    inner: Arc<dyn ReadFile>,
    throttle: Arc<Throttle>,
}

impl ReadFile for ThrottledReadFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.throttle.pass(RequestClass::Read, out.len() as u64);
        self.inner.read_at(offset, out)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.inner.will_need(offset, bytes);
    }

    fn will_look_up(&self, offset: u64, bytes: u64) {
        self.inner.will_look_up(offset, bytes);
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
