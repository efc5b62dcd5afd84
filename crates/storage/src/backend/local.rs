//! A directory of the local file system.

mod descriptors; // of files that are read
mod directory;
mod file;
mod left;
mod link;
mod lock;
mod names;
mod open_file;
mod publication; // and renames
mod combiner;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod faults; // that real use found
mod waiting;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use crate::backend::earlier::refuse_earlier_build;
use crate::backend::name::{self, COMBINER_FILE, LOCK_FILE};
use crate::backend::parts::{SharedFiles, part_of};
use crate::{Error, ErrorKind, ReadFile, Result, Storage, StorageLock, WriteFile};

use self::combiner::Combiner;
use self::descriptors::Descriptors;
use self::file::{LocalReadFile, LocalWriteFile};
use self::left::Left;
use self::lock::LocalLock;
use self::names::NameChanges;
use self::open_file::OpenFile;

/// Numbers, as the system tells them, of file systems that one machine has for itself: ext2 to
/// ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, overlays.
const OWN_FILE_SYSTEMS: [u64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630];

/// How a directory is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// Make the directory, and the ones above it, if it is missing, and make it a database's if it
    /// is empty. Without it opening changes nothing on disk.
    pub create: bool,
}

/// A directory of the local file system that belongs to one database.
///
/// It is held as an open directory, so renaming it, or changing the process's own directory, does
/// no harm. A directory is a database's if it has a file `LOCK`. That file stays empty, and MUST
/// not be removed while the database is open: a second process would then make and lock another.
///
/// Always holds:
/// 1. Only regular files whose names [`Storage`] allows are listed; what else lies there is left
///    alone.
/// 2. A name beginning with a dot and ending in `.tmp` is an unfinished publication; the next
///    exclusive [`lock`](Storage::lock) removes it.
/// 3. What it creates is for the process's user alone: directories have mode 0700, files 0600. A
///    directory that lets in its group and no other user (0750, 0770) passes that on to the files
///    in it.
#[derive(Debug)]
pub struct Local {
    directory: Arc<File>,
    descriptors: Arc<Descriptors>,
    path: PathBuf,
    maps: bool,
    combining: Mutex<Combining>,
    names: NameChanges,
    /// Files of which parts are read.
    shared: SharedFiles,
}

/// What becomes of bytes that wait on their way into files.
#[derive(Clone, Debug, Default)]
enum Combining {
    /// Nothing is known of any: the directory was not locked.
    #[default]
    Unknown,
    /// The directory is locked for writing, or was.
    Ours(Arc<Combiner>),
    /// The directory is locked for reading: a process that died left these.
    Left(Arc<Left>),
}

impl Local {
    /// The database directory `path`, not yet locked.
    ///
    /// # Errors
    /// `NotFound` if it is missing (and not to be created). `Invalid` if it is no directory, not a
    /// database's, may not be read, or was written by a build before the first release. The message
    /// says what to do.
    pub fn open(path: impl AsRef<Path>, options: LocalOptions) -> Result<Self> {
        let path = path.as_ref();
        if options.create {
            directory::create_all(path)?;
        }
        let local = Self::of(Arc::new(directory::open(path)?), path, true, descriptors::max_of_process());
        if local.is_database()? {
            refuse_earlier_build(&local.describe(), local.entries()?)?;
            return Ok(local);
        }
        if !options.create {
            return Err(local.refused(
                "is not a database (it has no file LOCK); check the path, or make the database by opening it for writing",
            ));
        }
        if directory::has_entries(&local.directory, path)? {
            return Err(local.refused(
                "holds other files and is not a database (it has no file LOCK); name an empty or new directory",
            ));
        }
        lock::make_lock_file(&local.directory, path)?;
        Ok(local)
    }

    fn of(directory: Arc<File>, path: &Path, maps: bool, open_files_max: usize) -> Self {
        let descriptors = Arc::new(Descriptors::new(Arc::clone(&directory), open_files_max));
        let (path, combining, names) = (path.to_owned(), Mutex::default(), NameChanges::default());
        Self { directory, descriptors, path, maps, combining, names, shared: SharedFiles::default() }
    }

    /// The same with at most `max` files open for reading at once, and one more for each thread
    /// that is reading. Without it the limit is half of what this process might have open when the
    /// directory was opened. Mapped files need none. Files that are being written come on top: log
    /// segments, and outputs of jobs.
    #[must_use]
    pub fn with_open_files_max(self, max: usize) -> Self {
        Self { descriptors: Arc::new(Descriptors::new(Arc::clone(&self.directory), max)), ..self }
    }

    /// The same without mappings: every byte is read, at the cost of a copy. For a process that
    /// does not hold the directory's lock and is given files that others may overwrite.
    #[must_use]
    pub fn without_mappings(self) -> Self {
        Self { maps: false, ..self }
    }

    /// Whether it lies on a file system of this machine, which no other machine changes; only file
    /// systems known to be such count.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_on_this_machine(&self) -> Result<bool> {
        let answer = rustix::fs::fstatfs(&*self.directory);
        let answer = answer
            .map_err(|error| directory::error(&self.path, "ask for the file system of", error.into()))?;
        Ok(OWN_FILE_SYSTEMS.contains(&(answer.f_type as u64 & 0xffff_ffff)))
    }

    /// Where it is, as it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_database(&self) -> Result<bool> {
        match rustix::fs::statat(&*self.directory, LOCK_FILE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(directory::error(&self.path, "look into", error.into())),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::new(ErrorKind::Invalid, "", format!("directory {} {why}", self.path.display()))
    }

    fn open_file(&self, name: &str, flags: OFlags, action: &str) -> Result<File> {
        name::check(name)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = directory::file_mode(&self.directory);
        let open = || rustix::fs::openat(&*self.directory, name, flags, mode);
        let opened = self.descriptors.closing_others(open);
        opened.map(File::from).map_err(|error| Error::io(name, action, error.into()))
    }

    /// Every entry's name, in the directory's own order.
    fn entries(&self) -> Result<Vec<String>> {
        directory::entries(&self.directory, &self.path)
    }

    fn combining(&self) -> Combining {
        self.combining.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_combining(&self, combining: Combining) {
        *self.combining.lock().unwrap_or_else(PoisonError::into_inner) = combining;
    }

    /// Where small writes wait, if this handle has the directory locked for writing.
    fn combiner(&self) -> Option<Arc<Combiner>> {
        match self.combining() {
            Combining::Ours(combiner) => Some(combiner),
            Combining::Unknown | Combining::Left(_) => None,
        }
    }

    /// Files of which bytes may wait.
    fn open_files(&self) -> Vec<Arc<OpenFile>> {
        self.combiner().map(|combiner| combiner.files()).unwrap_or_default()
    }

    /// Those called one of `names`.
    fn open_files_called(&self, names: &[impl AsRef<str>]) -> Vec<Arc<OpenFile>> {
        let mut files = self.open_files();
        files.retain(|file| names.iter().any(|name| name.as_ref() == file.name));
        files
    }

    /// How long the file `name`, of which `found` bytes are there, is with the bytes that wait.
    fn whole_len(&self, name: &str, found: u64) -> u64 {
        let waiting = match self.combining() {
            Combining::Ours(_) => self.open_files_called(&[name]).iter().map(|file| file.waiting_end()).max(),
            Combining::Left(left) => left.end_of(name),
            Combining::Unknown => None,
        };
        found.max(waiting.unwrap_or(0))
    }

    fn remove_temporaries(&self) -> Result<()> {
        for entry in self.entries()? {
            if entry.starts_with('.') && entry.ends_with(".tmp") {
                rustix::fs::unlinkat(&*self.directory, &entry, AtFlags::empty())
                    .map_err(|error| Error::io(&entry, "remove the leftover", error.into()))?;
            }
        }
        Ok(())
    }
}

/// The directory, held for writing.
#[derive(Debug)]
struct WriterLock {
    combiner: Arc<Combiner>,
    /// Let go of when nothing waits any more.
    _lock: LocalLock,
}

impl StorageLock for WriterLock {}

impl Drop for WriterLock {
    fn drop(&mut self) {
        self.combiner.close();
    }
}

impl Storage for Local {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.names.count(|| self.open_file(name, flags, "create"))?;
        Ok(Arc::new(LocalWriteFile::new(OpenFile::new(file, name, 0, self.combiner()))))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let file = self.open_file(name, OFlags::RDWR, "open")?;
        let bytes = file.metadata().map_err(|error| Error::io(name, "look at", error))?.len();
        Ok(Arc::new(LocalWriteFile::new(OpenFile::new(file, name, bytes, self.combiner()))))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.open_files_called(&[name]).iter().try_for_each(|file| file.settle())?;
        name::check(name)?;
        let found = LocalReadFile::open(&self.descriptors, name, self.maps)?;
        if let Combining::Left(left) = self.combining()
            && let Some(completed) = left.complete(name, &found)?
        {
            return Ok(completed);
        }
        Ok(Arc::new(found))
    }

    fn open_part(&self, name: &str, offset: u64, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        let whole = self.shared.open(name, || self.open_read(name))?;
        part_of(name, whole, offset, bytes)
    }

    /// Writes and syncs a temporary, renames it where no file may be replaced, and syncs the
    /// directory.
    ///
    /// A failed sync is `Unsynced`. Of other failures of the device, one of the renaming is
    /// `Undecided`, an earlier one `Refused`. So is a directory that takes no new names (`EPERM`,
    /// `EACCES`, `EROFS`). If only the last step fails (`Unsynced`), the file has its name but may
    /// lose it at power loss. `NotFound` if the directory was removed. A temporary that cannot be
    /// removed after a failure stays for the next exclusive [`lock`](Storage::lock).
    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.publish_by(name, bytes, Self::give_name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.open_files_called(&[from]).iter().try_for_each(|file| file.leave_combiner_for_good())?;
        self.rename_by(from, to, Self::give_name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        name::check(name)?;
        self.open_files_called(&[name]).iter().for_each(|file| file.forget_combiner());
        self.names
            .count(|| rustix::fs::unlinkat(&*self.directory, name, AtFlags::empty()))
            .map_err(|error| Error::io(name, "remove", error.into()))
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in self.entries()? {
            if !name::is_allowed(&entry) {
                continue;
            }
            let stat = match rustix::fs::statat(&*self.directory, &entry, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Removed since the directory was read.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(Error::io(entry, "look at", error.into())),
            };
            if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
                let bytes = self.whole_len(&entry, u64::try_from(stat.st_size).unwrap_or(0));
                files.push((entry, bytes));
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    fn sync_dir(&self) -> Result<()> {
        self.names
            .sync(|| self.directory.sync_all())
            .map_err(|error| directory::sync_error(&self.path, error))
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>> {
        let lock = lock::acquire(&self.directory, &self.path, exclusive)?;
        let left = Left::read(&self.directory)?;
        if !exclusive {
            self.set_combining(Combining::Left(Arc::new(left)));
            return Ok(Box::new(lock));
        }
        // What the directory's last writer did with names after this handle's last sync counts as
        // well.
        self.names.count(|| self.remove_temporaries())?;
        left.restore(&self.directory)?;
        let combiner = Arc::new(Combiner::new(&self.directory));
        self.set_combining(Combining::Ours(Arc::clone(&combiner)));
        Ok(Box::new(WriterLock { combiner, _lock: lock }))
    }

    /// Hard links; copies where `path` is on another file system or that file system has none.
    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        names.iter().try_for_each(|name| name::check(name))?;
        self.open_files_called(names).iter().try_for_each(|file| file.settle())?;
        if let Combining::Left(left) = self.combining()
            && let Some(name) = names.iter().find(|name| left.end_of(name).is_some())
        {
            let advice = "a process that was killed left bytes of it in the combiner; open the database for writing once";
            return Err(Error::new(ErrorKind::Invalid, name, advice));
        }
        directory::create_all(path)?;
        let directory = Arc::new(directory::open(path)?);
        let target = Self::of(directory, path, self.maps, self.descriptors.max());
        if directory::has_entries(&target.directory, path)? {
            return Err(target.refused("is not empty; name an empty or new directory"));
        }
        // Files may have been linked into it before and removed again; no other process is to have
        // it open.
        let _held = match lock::acquire(&target.directory, path, true) {
            Err(error) if error.kind == ErrorKind::NotFound => None,
            held => Some(held?),
        };
        // What an earlier life of it left there belongs to files that are gone.
        let _missing = rustix::fs::unlinkat(&*target.directory, COMBINER_FILE, AtFlags::empty());
        let mut done = Vec::new();
        let linked = names.iter().try_for_each(|name| {
            done.push(name.as_str());
            self.link_one(name, &target)
        });
        let linked = linked.and_then(|()| {
            done.push(LOCK_FILE);
            lock::make_lock_file(&target.directory, path)?;
            target.sync_dir()
        });
        match linked {
            Ok(()) => Ok(Arc::new(target)),
            Err(error) => {
                for name in done {
                    // Best effort: the first error is the one worth reporting.
                    let _ = rustix::fs::unlinkat(&*target.directory, name, AtFlags::empty());
                }
                Err(error)
            }
        }
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        let stat = rustix::fs::fstatvfs(&*self.directory)
            .map_err(|error| directory::error(&self.path, "ask for the free space of", error.into()))?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    fn boot_id(&self) -> Option<u128> {
        directory::boot_id()
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}
