//! A backend that all machines reach, of which a test sees each operation before it is done.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use firn_storage::backend::{Memory, Operation, UnfinishedUpload};
use firn_storage::{ReadFile, Result, Storage, StorageLock, WriteFile};

/// Called with each operation that is asked for, and its file.
type Watch = Box<dyn Fn(Operation, &str) + Send + Sync>;

/// As `inner`, after a call of `before`.
pub(crate) struct Watched {
    inner: Memory,
    before: Watch,
    /// How many of the next lists are old ones, and what those say.
    old: Mutex<(u32, Vec<(String, u64)>)>,
}

impl Watched {
    pub(crate) fn new(inner: &Memory, before: impl Fn(Operation, &str) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), before: Box::new(before), old: Mutex::default() })
    }

    /// A backend at which `event` happens before operation number `at`.
    pub(crate) fn interrupted(inner: &Memory, at: u32, event: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let (operations, event) = (AtomicU32::new(0), Mutex::new(Some(event)));
        Self::new(inner, move |_, _| {
            if operations.fetch_add(1, Ordering::SeqCst) == at {
                let event = event.lock().unwrap().take();
                event.into_iter().for_each(|event| event());
            }
        })
    }

    /// A backend whose first `count` lists are `list`.
    pub(crate) fn with_old_lists(inner: &Memory, count: u32, list: Vec<(String, u64)>) -> Arc<Self> {
        let old = Mutex::new((count, list));
        Arc::new(Self { inner: inner.clone(), before: Box::new(|_, _| {}), old })
    }

    fn after(&self, on: Operation, file: &str) -> &Memory {
        (self.before)(on, file);
        &self.inner
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Storage for Watched {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.after(Operation::Create, name).create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.after(Operation::OpenWrite, name).open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.after(Operation::OpenRead, name).open_read(name)
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.after(Operation::OpenRead, name).open_read_known(name, bytes)
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.after(Operation::Publish, name).publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.after(Operation::Rename, from).rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.after(Operation::Remove, name).remove(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let backend = self.after(Operation::List, "");
        let (count, list) = &mut *self.old.lock().unwrap();
        if *count == 0 {
            return backend.list();
        }
        *count -= 1;
        Ok(list.clone())
    }

    fn sync_dir(&self) -> Result<()> {
        self.after(Operation::SyncDir, "").sync_dir()
    }

    fn lock(&self, _exclusive: bool) -> Result<Box<dyn StorageLock>> {
        panic!("a shared backend is never locked");
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
        self.after(Operation::ListUploads, "").unfinished_uploads()
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        self.after(Operation::AbortUpload, &upload.name).abort_upload(upload)
    }

    fn describe(&self) -> String {
        "a shared backend".to_owned()
    }
}
