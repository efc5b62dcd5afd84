//! Descriptors of files that are read: so many are open at once, and the one that was not used for longest is closed for another.
//!
//! ```text
//!   open_read ─► a slot, open ─► mapped: closed at once; its pages need none
//!                    ▲    │
//!      read again ───┘    └─► too many: the clock's hand passes over those that were used since, and closes the first that was not
//! ```
//! A file that is closed is opened again by its name, and is the same file or none: what it was when it was opened first is compared.

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

/// Slots that are open, or were: those that are found closed, or gone, leave it.
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
        // Reads jump about, and whoever reads in order asks for large pieces. Advice only.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        Ok(file)
    }

    /// What `open` does; where the process has no descriptor left, once more after those that are held here for later were closed.
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

    /// Closes files until at most `most` are open, those first that were not used since the hand passed them.
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

    /// Whoever reads it now has it open until that is done.
    fn close(&self) -> bool {
        self.file.write().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// T6: too few file descriptors. Neighbours: many files at once, one that was removed, one that was replaced under its name.
#[cfg(test)]
mod faults {
    use std::path::Path;
    use std::sync::Arc;

    use crate::place::{Local, LocalOptions};
    use crate::{ErrorKind, ReadFile, Storage};

    /// Descriptors of this process that lead to files of `directory` called `*.table`.
    fn open_tables(directory: &Path) -> usize {
        let held = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = held.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let is_one = |target: &std::path::PathBuf| {
            target.starts_with(directory) && target.extension().is_some_and(|ending| ending == "table")
        };
        targets.filter(is_one).count()
    }

    /// A directory with `count` files, each of which holds its number; mapped or not, `max` of them open at once.
    fn place(count: u32, max: usize, maps: bool) -> (tempfile::TempDir, Local) {
        let directory = tempfile::tempdir().unwrap();
        let local = Local::open(directory.path(), LocalOptions { create: true }).unwrap();
        let local = if maps { local } else { local.without_mappings() };
        for number in 0..count {
            let name = format!("{number}.table");
            std::fs::write(directory.path().join(name), number.to_le_bytes()).unwrap();
        }
        (directory, local.with_open_files_max(max))
    }

    fn number_of(file: &Arc<dyn ReadFile>) -> u32 {
        let mut bytes = [0; 4];
        file.read_at(0, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn open_all(local: &Local, count: u32) -> Vec<Arc<dyn ReadFile>> {
        (0..count).map(|number| local.open_read(&format!("{number}.table")).unwrap()).collect()
    }

    #[test]
    fn t6_a_thousand_files_are_read_with_few_descriptors() {
        let (directory, local) = place(1000, 16, false);
        let files = open_all(&local, 1000);
        assert!(open_tables(directory.path()) <= 16, "{}", open_tables(directory.path()));
        for number in (0..1000).rev().chain(0..1000) {
            assert_eq!(number_of(&files[number as usize]), number);
        }
        assert!(open_tables(directory.path()) <= 16, "{}", open_tables(directory.path()));
        drop(files);
        assert_eq!(open_tables(directory.path()), 0);
    }

    #[test]
    fn t6_mapped_files_keep_no_descriptor() {
        let (directory, local) = place(1000, 16, true);
        let files = open_all(&local, 1000);
        let mapped: Vec<_> = files.iter().map(|file| file.bytes().unwrap().unwrap()).collect();
        assert_eq!(open_tables(directory.path()), 0);
        for (number, (bytes, file)) in (0..).zip(mapped.iter().zip(&files)) {
            assert_eq!((&bytes[..], number_of(file)), (&u32::to_le_bytes(number)[..], number));
        }
        assert!(open_tables(directory.path()) <= 16, "{}", open_tables(directory.path()));
    }

    #[test]
    fn t6_files_that_are_in_use_stay_open() {
        let (directory, local) = place(20, 8, false);
        let files = open_all(&local, 20);
        for number in 4..20 {
            for wanted in [0, 1, 2, number] {
                assert_eq!(number_of(&files[wanted]), wanted as u32);
            }
        }
        assert!(open_tables(directory.path()) <= 8);
    }

    #[test]
    fn t6_a_file_is_the_same_or_none_once_it_is_opened_again() {
        let (_directory, local) = place(3, 1, false);
        let files = open_all(&local, 3);
        local.remove("0.table").unwrap();
        local.remove("1.table").unwrap();
        local.rename("2.table", "1.table").unwrap();
        for gone in &files[..2] {
            let error = gone.read_at(0, &mut [0; 4]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        }
        // One that is mapped outlives its name, as the mapping does.
        let (_directory, local) = place(1, 1, true);
        let file = &open_all(&local, 1)[0];
        file.bytes().unwrap().unwrap();
        local.remove("0.table").unwrap();
        assert_eq!(number_of(file), 0);
    }

    #[test]
    fn t6_threads_share_few_descriptors() {
        let (directory, local) = place(200, 4, false);
        let files = open_all(&local, 200);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let files = &files;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for _ in 0..2000 {
                        let number = random.u32(0..200);
                        assert_eq!(number_of(&files[number as usize]), number);
                    }
                });
            }
        });
        assert!(open_tables(directory.path()) <= 4 + 4, "{}", open_tables(directory.path()));
    }
}
