//! A backend at which something happens before one of its operations.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firn_storage::backend::Memory;
use firn_storage::{ReadFile, Result, Storage, StorageLock, WriteFile};

type Event = Box<dyn FnOnce() + Send>;

/// A memory, and what happens before one of the operations on its files.
pub(crate) struct Interrupted {
    inner: Memory,
    left: AtomicU64,
    event: Mutex<Option<Event>>,
}

impl Interrupted {
    /// `event` happens before operation `at`, from 0.
    pub(crate) fn before(inner: &Memory, at: u64, event: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let event: Event = Box::new(event);
        Arc::new(Self { inner: inner.clone(), left: AtomicU64::new(at), event: Mutex::new(Some(event)) })
    }

    fn operation(&self) -> &Memory {
        let is_due = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_due).is_err() {
            let event = self.event.lock().expect("no panic").take();
            event.into_iter().for_each(|event| event());
        }
        &self.inner
    }
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupted")
    }
}

impl Storage for Interrupted {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.operation().create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        panic!("{name} is on shared storage and cannot be changed")
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.operation().open_read(name)
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.operation().publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        panic!("{from} is on shared storage and is not called {to}")
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.operation().remove(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.operation().list()
    }

    fn sync_dir(&self) -> Result<()> {
        self.operation().sync_dir()
    }

    fn lock(&self, _exclusive: bool) -> Result<Box<dyn StorageLock>> {
        panic!("shared storage is never locked")
    }

    fn link_into(&self, names: &[String], _path: &Path) -> Result<Arc<dyn Storage>> {
        panic!("{names:?} are on shared storage and cannot be linked")
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn describe(&self) -> String {
        "shared storage".to_owned()
    }
}
