//! Ranges of files that lie far away, kept in a directory of this machine.
//!
//! ```text
//!   small read ─► block here? ─► piece of the file, checksum ─► bytes
//!                      └ no: one request, however many ask ─► bytes, and the block takes a slot
//!   large read, or what was asked for ahead ─► the store
//! ```
//! Point reads, scans and values go through it: what they ask for again is here. Jobs read
//! everything once, ahead or in large pieces, and so do openings. That goes past, so that it drives
//! nothing out.
//!
//! # Invariants
//! 1. Files never change, so a block is right for as long as its file has its name. What is removed
//!    here is forgotten here. A file that another machine removes may be read from here until its
//!    blocks go, as what it was.
//! 2. Only files of known length are kept, and of them nothing that was asked for ahead and is read
//!    as it was asked for. So edits of the manifest are read (`read_whole`): whether one is there
//!    is always asked of the store.
//! 3. No byte is given out with a wrong checksum. Checksums are in memory; that is why the cache
//!    begins empty.
//! 4. Whatever happens to the directory, a read ends as it would without the cache.

mod ranges; // blocks that are here or on their way
mod read; // one file
mod slots; // which block lies where

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{CacheCounters, Local, LocalOptions, SharedPart, UnfinishedUpload};
use crate::{Error, ReadFile, Result, Storage, StorageLock, WriteFile};

use self::ranges::{BLOCK_BYTES, Ranges};
use self::read::CachedReadFile;

/// A backend that keeps parts of its files in a directory of this machine, if they are opened with
/// [`Storage::open_read_known`].
///
/// Everything else goes to the backend as it is. MUST be the only way by which this process removes
/// files of the backend.
#[derive(Debug)]
pub struct Cached {
    inner: Arc<dyn Storage>,
    ranges: Arc<Ranges>,
    failure: Option<Error>,
}

impl Cached {
    /// `inner`, of which up to `bytes` bytes are kept in `directory`, which no other process uses.
    /// Its file `ranges.cache` is removed first, and when the last file of the backend is closed.
    /// About a thousandth of `bytes` is taken in memory.
    ///
    /// Where the directory cannot be used, or `bytes` is less than a block of 256 KiB, nothing is
    /// kept, and [`failure`](Self::failure) says why.
    pub fn new(inner: Arc<dyn Storage>, directory: Arc<dyn Storage>, bytes: u64) -> Self {
        let (ranges, failure) = Ranges::open(directory, bytes);
        Self { inner, ranges: Arc::new(ranges), failure }
    }

    /// As [`new`](Self::new) with the directory `path`, which is made, or was made for this.
    pub fn in_directory(inner: Arc<dyn Storage>, path: &Path, bytes: u64) -> Self {
        match Local::open(path, LocalOptions { create: true }) {
            Ok(directory) => Self::new(inner, Arc::new(directory), bytes),
            Err(error) => Self { inner, ranges: Arc::new(Ranges::without_directory()), failure: Some(error) },
        }
    }

    /// Why nothing is kept, if so.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// What it has done so far.
    pub fn counters(&self) -> CacheCounters {
        let (held, evictions) = self.ranges.held();
        // Each counter for itself: together they may be of different moments.
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.ranges.counts;
        CacheCounters {
            hits: get(&counts.hits),
            misses: get(&counts.misses),
            fetched_bytes: get(&counts.fetched_bytes),
            passed_bytes: get(&counts.passed_bytes),
            held_bytes: held * BLOCK_BYTES,
            evictions,
            failures: get(&counts.failures),
        }
    }
}

impl Storage for Cached {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read(name)
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        let inner = self.inner.open_read_known(name, bytes)?;
        let Some(file) = self.ranges.file(name, bytes) else { return Ok(inner) };
        let (ranges, asked) = (Arc::clone(&self.ranges), Default::default());
        Ok(Arc::new(CachedReadFile { inner, ranges, file, asked }))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.inner.publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = self.inner.rename(from, to);
        self.ranges.forget(from);
        self.ranges.forget(to);
        renamed
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.ranges.forget(name);
        let removed = self.inner.remove(name);
        // A thread that opened it meanwhile has it no longer than the store.
        self.ranges.forget(name);
        removed
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
        Some(self.counters())
    }
}

#[cfg(test)]
mod tests;
