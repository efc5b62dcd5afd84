//! A backend as it would be without one of its files.

use std::path::Path;
use std::sync::Arc;

use firn_storage::{Error, ErrorKind, ReadFile, Result, Storage, StorageLock, WriteFile};

/// A read-only view: calls that would change the backend are refused.
#[derive(Debug)]
pub(super) struct Hiding {
    inner: Arc<dyn Storage>,
    hidden: String,
}

impl Hiding {
    pub(super) fn new(inner: Arc<dyn Storage>, hidden: &str) -> Self {
        Self { inner, hidden: hidden.to_owned() }
    }

    fn refused<T>(name: &str) -> Result<T> {
        Err(Error::new(ErrorKind::Invalid, name, "this view of the directory is for reading"))
    }
}

impl Storage for Hiding {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Self::refused(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Self::refused(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        match name == self.hidden {
            true => Err(Error::new(ErrorKind::NotFound, name, "it is looked at as if it were not there")),
            false => self.inner.open_read(name),
        }
    }

    fn publish(&self, name: &str, _bytes: &[u8]) -> Result<()> {
        Self::refused(name)
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        Self::refused(from)
    }

    fn remove(&self, name: &str) -> Result<()> {
        Self::refused(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let mut files = self.inner.list()?;
        files.retain(|(name, _)| *name != self.hidden);
        Ok(files)
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    /// The lock that the repair holds covers its view.
    fn lock(&self, _exclusive: bool) -> Result<Box<dyn StorageLock>> {
        Ok(Box::new(Held))
    }

    fn link_into(&self, _names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        Self::refused(&path.display().to_string())
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

/// Nothing of its own: see [`Hiding::lock`](Storage::lock).
#[derive(Debug)]
struct Held;

impl StorageLock for Held {}
