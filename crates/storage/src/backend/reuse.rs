//! Obsolete files, given on under new names.
//!
//! The pages of such a file are in memory and its blocks on the device are its own. To write over
//! them costs a fraction of what new ones cost (figures in decision 0004).

mod leaving;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_format::file_name::{self, FileName};

use leaving::Leaving;

use crate::backend::{CacheCounters, PAGE_BYTES, SharedPart, UnfinishedUpload};
use crate::{ErrorKind, ReadFile, Result, Storage, StorageLock, WriteFile};

/// Names of files with whatever they hold, for writers to write over.
#[derive(Debug, Default)]
pub struct RecycledFiles {
    files: Mutex<Vec<RecycledFile>>,
}

#[derive(Debug)]
struct RecycledFile {
    name: String,
    bytes: u64,
}

impl RecycledFiles {
    /// Keeps the file `name` of `bytes`, unless all recycled files would then have more than
    /// `bytes_max`; whether it does.
    ///
    /// The caller MUST have the only name of the file, and nothing may read it or have it mapped
    /// any more.
    pub fn keep(&self, name: &str, bytes: u64, bytes_max: u64) -> bool {
        let mut files = self.lock();
        let keeps = total(&files) + bytes <= bytes_max;
        if keeps {
            files.push(RecycledFile { name: name.to_owned(), bytes });
        }
        keeps
    }

    /// The largest recycled file, so that as little as can be has to be allocated behind it. It is
    /// called `name` from now on, with whatever it held: nothing of that is ever cut off. `None` if
    /// there is none.
    ///
    /// # Errors
    /// What `storage` says, `Exists` if the name is taken. A recycled file that has its name still
    /// is kept; a recycled file that cannot be opened is removed.
    pub fn give(&self, storage: &dyn Storage, name: &str) -> Result<Option<Arc<dyn WriteFile>>> {
        Ok(self.give_with_length(storage, name)?.map(|(file, _)| file))
    }

    /// The same, with its length.
    fn give_with_length(
        &self,
        storage: &dyn Storage,
        name: &str,
    ) -> Result<Option<(Arc<dyn WriteFile>, u64)>> {
        let Some(recycled) = self.take_largest() else { return Ok(None) };
        match rename(storage, &recycled.name, name) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Some((open(storage, name)?, recycled.bytes))),
            Err(error) => {
                self.lock().push(recycled);
                Err(error)
            }
        }
    }

    /// The name of the largest recycled file, which is the caller's from now on, for
    /// [`write_over`]; `None` if there is none.
    pub fn take_one(&self) -> Option<String> {
        self.take_largest().map(|recycled| recycled.name)
    }

    fn take_largest(&self) -> Option<RecycledFile> {
        let mut files = self.lock();
        let (at, _) = files.iter().enumerate().max_by_key(|(_, recycled)| recycled.bytes)?;
        Some(files.swap_remove(at))
    }

    /// All of them, to be removed.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock()).into_iter().map(|recycled| recycled.name).collect()
    }

    /// Their names.
    fn names(&self) -> Vec<String> {
        self.lock().iter().map(|recycled| recycled.name.clone()).collect()
    }

    /// Bytes of all of them together.
    pub fn bytes(&self) -> u64 {
        total(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RecycledFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file `recycled`, whose content is not needed: it is called `name` from now on, and is as
/// [`Reusing`] says of its files. `None` if there is no such file.
///
/// # Errors
/// What `storage` says, `Exists` if the name is taken. A recycled file that has its name still
/// stays; a recycled file that cannot be opened is removed.
pub fn write_over(storage: &dyn Storage, recycled: &str, name: &str) -> Result<Option<Arc<dyn WriteFile>>> {
    match rename(storage, recycled, name)? {
        true => open(storage, name).map(|inner| Some(overwritten(inner))),
        false => Ok(None),
    }
}

fn overwritten(inner: Arc<dyn WriteFile>) -> Arc<dyn WriteFile> {
    Arc::new(Overwritten { inner, bytes: AtomicU64::new(0), is_cut: AtomicBool::new(false) })
}

/// Whether there was such a recycled file: an attempt that failed may have renamed it.
fn rename(storage: &dyn Storage, recycled: &str, name: &str) -> Result<bool> {
    match storage.rename(recycled, name) {
        Ok(()) => Ok(true),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The recycled file that is called `name` by now.
fn open(storage: &dyn Storage, name: &str) -> Result<Arc<dyn WriteFile>> {
    let opened = storage.open_write(name);
    if opened.is_err() {
        // What cannot be removed now is left to the cleanup of the name's owner.
        let _removed = storage.remove(name);
    }
    opened
}

fn total(files: &[RecycledFile]) -> u64 {
    files.iter().map(|recycled| recycled.bytes).sum()
}

/// A backend that makes new files of recycled ones as long as there are any; else as the backend
/// that it is made of.
///
/// 1. The writer of a file that is created here is one thread, and leaves no gaps.
/// 2. A new file that was a recycled file has its length, and nothing of the old bytes, once it is
///    synced. Before that it may be longer, with old bytes behind the new ones, and after a crash
///    it holds any mixture. As with any file that was not synced, it may not be read then.
/// 3. What is written of such a file in whole pages needs nothing from the device. A part of a page
///    whose old bytes have left memory has to wait for them (the end of a table may).
/// 4. New files leave some of the disk [free](Self::leave): a write that would take it fails with
///    `Full`. What a recycled file has it keeps.
#[derive(Debug)]
pub struct Reusing {
    inner: Arc<dyn Storage>,
    tables: Arc<RecycledFiles>,
    values: Arc<RecycledFiles>,
    left_bytes: Arc<AtomicU64>,
}

impl Reusing {
    /// `inner`, with no recycled files yet.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, tables: Arc::default(), values: Arc::default(), left_bytes: Arc::default() }
    }

    /// The same backend with the same recycled files, whose new files leave what it is told itself;
    /// nothing yet.
    pub fn beside(&self) -> Self {
        let (tables, values) = (Arc::clone(&self.tables), Arc::clone(&self.values));
        Self { inner: Arc::clone(&self.inner), tables, values, left_bytes: Arc::default() }
    }

    /// From now on new files leave `bytes` of the disk free, also files that are being written. A
    /// backend that does not tell what is free is written to as long as it takes bytes. So is the
    /// shared part of a backend.
    pub fn leave(&self, bytes: u64) {
        self.left_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the disk that new files leave free.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes.load(Ordering::Relaxed)
    }

    /// The recycled files that new tables, and whatever else is created here, are made of.
    pub fn tables(&self) -> &RecycledFiles {
        &self.tables
    }

    /// The recycled files that new blob segments are made of.
    pub fn values(&self) -> &RecycledFiles {
        &self.values
    }

    /// Bytes of all recycled files.
    pub fn recycled_bytes(&self) -> u64 {
        self.tables.bytes() + self.values.bytes()
    }

    /// Names of all recycled files.
    pub fn recycled_names(&self) -> Vec<String> {
        let mut names = self.tables.names();
        names.append(&mut self.values.names());
        names
    }

    /// All recycled files, to be removed.
    pub fn take_recycled(&self) -> Vec<String> {
        let mut names = self.tables.take();
        names.append(&mut self.values.take());
        names
    }
}

impl Storage for Reusing {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let recycled = match file_name::parse(name) {
            Some(FileName::BlobSegment(_) | FileName::CollectedBlobs { .. }) => &self.values,
            _ => &self.tables,
        };
        let leaving = |inner, bytes| match self.inner.shared_part() {
            None => Leaving::of(self, name, inner, bytes),
            // What is free is that of the other part.
            Some(_) => inner,
        };
        Ok(match recycled.give_with_length(&*self.inner, name)? {
            None => leaving(self.inner.create(name)?, 0),
            Some((inner, bytes)) => overwritten(leaving(inner, bytes)),
        })
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read(name)
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read_known(name, bytes)
    }

    fn open_part(&self, name: &str, offset: u64, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_part(name, offset, bytes)
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

/// A file that is written over from its beginning.
#[derive(Debug)]
struct Overwritten {
    inner: Arc<dyn WriteFile>,
    /// First byte behind all that was written.
    bytes: AtomicU64,
    /// It has no old bytes behind the new ones.
    is_cut: AtomicBool,
}

impl Overwritten {
    /// Removes the old bytes behind the new ones.
    fn cut(&self) -> Result<()> {
        if !self.is_cut.load(Ordering::Acquire) {
            self.inner.set_len(self.bytes.load(Ordering::Acquire))?;
            self.is_cut.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl WriteFile for Overwritten {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bytes.fetch_max(offset + bytes.len() as u64, Ordering::AcqRel);
        self.inner.write_at(offset, bytes)
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bytes.fetch_max((offset + bytes.len() as u64).next_multiple_of(PAGE_BYTES), Ordering::AcqRel);
        self.inner.write_zeroing(offset, bytes)
    }

    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bytes.fetch_max(offset + bytes.len() as u64, Ordering::AcqRel);
        self.inner.write_combined(offset, bytes)
    }

    fn hand_over(&self) -> Result<()> {
        self.inner.hand_over()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, out)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.inner.will_need(offset, bytes);
    }

    fn sync(&self) -> Result<()> {
        self.cut()?;
        self.inner.sync()
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.write_back(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.cut()?;
        self.inner.set_len(bytes)
    }
}

#[cfg(test)]
mod tests;
