//! A backend that records which parts of files with values were asked for ahead, and which were
//! read, in that order.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use firn_storage::{FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

/// What happened to a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Asked(String, Range<u64>),
    Read(String, Range<u64>),
}

type Events = Arc<Mutex<Vec<Event>>>;

/// `inner`, whose files with values are mapped, but never in memory, or are not mapped.
#[derive(Debug)]
pub(crate) struct Asking {
    inner: Arc<dyn Storage>,
    is_mapped: bool,
    events: Events,
}

impl Asking {
    pub(crate) fn new(inner: Arc<dyn Storage>, is_mapped: bool) -> Self {
        Self { inner, is_mapped, events: Events::default() }
    }

    /// What happened since the last call.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    fn watched(&self, name: &str, inner: Arc<dyn ReadFile>) -> Arc<dyn ReadFile> {
        if !name.ends_with(".blobs") {
            return inner;
        }
        let (is_mapped, events) = (self.is_mapped, Arc::clone(&self.events));
        Arc::new(AskingFile { inner, name: name.to_owned(), is_mapped, events })
    }
}

impl Storage for Asking {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(self.watched(name, self.inner.open_read(name)?))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        Ok(self.watched(name, self.inner.open_read_known(name, bytes)?))
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
struct AskingFile {
    inner: Arc<dyn ReadFile>,
    name: String,
    is_mapped: bool,
    events: Events,
}

impl AskingFile {
    fn note(&self, event: impl FnOnce(String, Range<u64>) -> Event, offset: u64, bytes: u64) {
        self.events.lock().unwrap().push(event(self.name.clone(), offset..offset + bytes));
    }
}

impl ReadFile for AskingFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.note(Event::Read, offset, out.len() as u64);
        self.inner.read_at(offset, out)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.note(Event::Asked, offset, bytes);
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        let bytes = self.inner.bytes()?.filter(|_| self.is_mapped);
        Ok(bytes.map(|bytes| FileBytes::never_resident(Arc::new(bytes.to_vec()))))
    }
}
