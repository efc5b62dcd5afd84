//! Descriptors of files that are read: so many are open at once, and the one unused for longest is
//! closed for another.
//!
//! ```text
//!   open_read ─► a slot, open ─► mapped: closed at once; its pages need none
//!                    ▲    │
//!      read again ───┘    └─► too many: the clock's hand passes over those that were used since, and closes the first that was not
//! ```
//! A file that is closed is opened again by its name, and is the same file or none. Its identity is
//! compared with that of the first opening.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, ErrorKind, Result};

/// Half of the files that this process may have open now.
pub(super) fn max_of_process() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX))
}

/// Files of one directory that are open for reading.
#[derive(Debug)]
pub(super) struct Descriptors {
    directory: Arc<File>,
    max: usize,
    ring: Mutex<Ring>,
}

/// Slots that are open, or were: slots that are found closed, or gone, leave it.
#[derive(Debug, Default)]
struct Ring {
    slots: Vec<Weak<Slot>>,
    hand: usize,
}

/// One file. Its descriptor is there while it is used, and perhaps afterwards.
#[derive(Debug)]
pub(super) struct Slot {
    name: String,
    identity: (u64, u64),
    file: RwLock<Option<Arc<File>>>,
    is_used: AtomicBool,
    descriptors: Arc<Descriptors>,
}

impl Descriptors {
    /// Of `directory`, `max` open at once, and one more for each thread that reads just then.
    pub(super) fn new(directory: Arc<File>, max: usize) -> Self {
        Self { directory, max: max.max(1), ring: Mutex::default() }
    }

    /// How many are open at once.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// The file `name` and what it is.
    pub(super) fn open(self: &Arc<Self>, name: &str) -> Result<(Arc<Slot>, Metadata)> {
        let file = self.open_file(name)?;
        let metadata = file.metadata().map_err(|error| Error::io(name, "look at", error))?;
        let slot = Arc::new(Slot {
            name: name.to_owned(),
            identity: identity(&metadata),
            file: RwLock::new(Some(Arc::new(file))),
            is_used: AtomicBool::new(true),
            descriptors: Arc::clone(self),
        });
        self.lock().slots.push(Arc::downgrade(&slot));
        Ok((slot, metadata))
    }

    fn open_file(&self, name: &str) -> Result<File> {
        self.close_down_to(self.max - 1);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = || rustix::fs::openat(&*self.directory, name, flags, Mode::empty());
        let opened = self.closing_others(open);
        let file = File::from(opened.map_err(|error| Error::io(name, "open", error.into()))?);
        // Reads jump about, and readers in file order ask for large pieces. Advice only.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        Ok(file)
    }

    /// What `open` does; where the process has no descriptor left, once more after the descriptors
    /// that are held here for later were closed.
    pub(super) fn closing_others<T>(
        &self,
        open: impl Fn() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) => {
                self.close_down_to(0);
                open()
            }
            opened => opened,
        }
    }

    /// Closes files until at most `most` are open, those first that were not used since the hand
    /// passed them.
    fn close_down_to(&self, most: usize) {
        let mut ring = self.lock();
        while ring.slots.len() > most {
            let at = if ring.hand < ring.slots.len() { ring.hand } else { 0 };
            let is_used = ring.slots[at].upgrade().is_some_and(|slot| {
                slot.is_open() && (slot.is_used.swap(false, Ordering::Relaxed) || !slot.close())
            });
            match is_used {
                true => ring.hand = at + 1,
                false => {
                    ring.slots.swap_remove(at);
                    ring.hand = at;
                }
            }
        }
    }

    /// `slot` is not open any more.
    fn forget(&self, slot: &Slot) {
        self.lock().slots.retain(|known| !std::ptr::eq(known.as_ptr(), slot));
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The file, open.
    ///
    /// # Errors
    /// `NotFound` if its name is another file's by now, or none's; what opening says.
    pub(super) fn file(self: &Arc<Self>) -> Result<Arc<File>> {
        if let Some(file) = self.if_open() {
            return Ok(file);
        }
        let file = Arc::new(self.descriptors.open_file(&self.name)?);
        let metadata = file.metadata().map_err(|error| Error::io(&self.name, "look at", error))?;
        if identity(&metadata) != self.identity {
            return Err(Error::new(
                ErrorKind::NotFound,
                &self.name,
                "the file was replaced after it was opened",
            ));
        }
        let mut held = self.file.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = &*held {
            return Ok(Arc::clone(other));
        }
        *held = Some(Arc::clone(&file));
        drop(held);
        self.is_used.store(true, Ordering::Relaxed);
        self.descriptors.lock().slots.push(Arc::downgrade(self));
        Ok(file)
    }

    /// The file, if it is open.
    pub(super) fn if_open(&self) -> Option<Arc<File>> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        // A hint for the hand; most reads find it set.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(file)
    }

    /// Closes it; the next use opens it again.
    pub(super) fn let_go(&self) {
        self.close();
        self.descriptors.forget(self);
    }

    fn is_open(&self) -> bool {
        self.file.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// A read that uses it now has it open until it is done.
    fn close(&self) -> bool {
        self.file.write().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
