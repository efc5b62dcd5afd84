//! A backend that records which reads of the log and the cold log were asked for before they were
//! made.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use firn_storage::{FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

/// Reads since the last look, and how many of them had been asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) all: usize,
    pub(crate) asked: usize,
    /// Of what was asked for, how many were not read yet, at most.
    pub(crate) under_way: usize,
}

#[derive(Default)]
struct Watch {
    reads: Reads,
    /// File and offset of what was asked for, and not read yet.
    asked: Vec<(String, u64)>,
    /// What is done as this thread asks for something.
    amid: Option<(ThreadId, Box<dyn FnOnce() + Send>)>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.reads.fmt(f)
    }
}

/// `inner`, watched.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    inner: Arc<dyn Storage>,
    watch: Arc<Mutex<Watch>>,
}

impl Asking {
    pub(crate) fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, watch: Arc::default() }
    }

    /// What was read since the last call.
    pub(crate) fn take(&self) -> Reads {
        std::mem::take(&mut *self.watch.lock().expect("no test panicked")).reads
    }

    /// Has `amid` done when this thread asks for something the next time, and before it reads that.
    pub(crate) fn do_amid(&self, amid: impl FnOnce() + Send + 'static) {
        let thread = std::thread::current().id();
        self.watch.lock().expect("no test panicked").amid = Some((thread, Box::new(amid)));
    }

    fn of<T: ?Sized>(&self, name: &str, inner: Arc<T>) -> Watched<T> {
        Watched { inner, name: name.to_owned(), watch: Arc::clone(&self.watch) }
    }
}

impl Storage for Asking {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Ok(Arc::new(self.of(name, self.inner.create(name)?)))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Ok(Arc::new(self.of(name, self.inner.open_write(name)?)))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(self.of(name, self.inner.open_read(name)?)))
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
struct Watched<T: ?Sized> {
    inner: Arc<T>,
    name: String,
    watch: Arc<Mutex<Watch>>,
}

impl<T: ?Sized> Watched<T> {
    fn is_log(&self) -> bool {
        [".hybrid", ".cold", ".coldrun"].iter().any(|kind| self.name.ends_with(kind))
    }

    fn note(&self, is_asking: bool, offset: u64) {
        if !self.is_log() {
            return;
        }
        let mut watch = self.watch.lock().expect("no test panicked");
        let place = (self.name.clone(), offset);
        if is_asking {
            watch.asked.push(place);
            watch.reads.under_way = watch.reads.under_way.max(watch.asked.len());
            let amid = watch.amid.take_if(|(thread, _)| *thread == std::thread::current().id());
            drop(watch);
            if let Some((_, amid)) = amid {
                amid();
            }
            return;
        }
        watch.reads.all += 1;
        if let Some(index) = watch.asked.iter().position(|asked| *asked == place) {
            watch.asked.swap_remove(index);
            watch.reads.asked += 1;
        }
    }
}

impl WriteFile for Watched<dyn WriteFile> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.note(false, offset);
        self.inner.read_at(offset, out)
    }

    fn will_need(&self, offset: u64, _bytes: u64) {
        self.note(true, offset);
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.write_back(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes)
    }
}

impl ReadFile for Watched<dyn ReadFile> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.note(false, offset);
        self.inner.read_at(offset, out)
    }

    fn will_need(&self, offset: u64, _bytes: u64) {
        self.note(true, offset);
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        self.inner.bytes()
    }
}
