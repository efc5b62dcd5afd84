//! One writer, or any number of readers: `flock` on the file `LOCK`.
//!
//! The system drops such a lock when the last descriptor of it closes, thus also when the process
//! dies. Two handles in one process open the file twice, and so exclude one another as two
//! processes do.

use std::fs::File;
use std::path::Path;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::backend::name::LOCK_FILE;
use crate::{Error, ErrorKind, Result, StorageLock};

use super::directory;

mod holder; // which process it is

/// A held directory.
#[derive(Debug)]
pub(super) struct LocalLock {
    file: File,
}

impl Drop for LocalLock {
    /// Unlocks, and does not leave it to the closing of the descriptor. A child process that is
    /// just being started holds a copy until it runs its program, and would keep the directory
    /// locked for that long.
    fn drop(&mut self) {
        // Closing unlocks as well, a moment later.
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock);
    }
}

impl StorageLock for LocalLock {}

/// Makes the directory a database's; no error if it is one already.
pub(super) fn make_lock_file(directory: &File, path: &Path) -> Result<()> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    rustix::fs::openat(directory, LOCK_FILE, flags, directory::file_mode(directory))
        .map(drop)
        .map_err(|errno| directory::error(path, "create the file LOCK in", errno.into()))
}

/// Takes the lock or fails at once. A shared lock needs only the right to read, and changes nothing
/// on disk.
pub(super) fn acquire(directory: &File, path: &Path, exclusive: bool) -> Result<LocalLock> {
    loop {
        let access = if exclusive { OFlags::RDWR } else { OFlags::RDONLY };
        let file = rustix::fs::openat(directory, LOCK_FILE, access | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| directory::error(path, "open the file LOCK in", errno.into()))?;
        let operation = match exclusive {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&file, operation) {
            Ok(()) => {}
            Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) => return Err(held(directory, path, exclusive)),
            Err(errno) => return Err(directory::error(path, "lock", errno.into())),
        }
        // Had the file been replaced between opening and locking, no other process would look at
        // this lock.
        let file = File::from(file);
        if is_current(directory, &file, path)? {
            return Ok(LocalLock { file });
        }
    }
}

fn is_current(directory: &File, file: &File, path: &Path) -> Result<bool> {
    let failed = |errno: Errno| directory::error(path, "look at the file LOCK in", errno.into());
    let held = rustix::fs::fstat(file).map_err(failed)?;
    let named = rustix::fs::statat(directory, LOCK_FILE, AtFlags::empty()).map_err(failed)?;
    Ok((held.st_dev, held.st_ino) == (named.st_dev, named.st_ino))
}

fn held(directory: &File, path: &Path, exclusive: bool) -> Error {
    let use_of = if exclusive { "" } else { " for writing" };
    let holder =
        holder::of(directory).unwrap_or_else(|| "another process (or another handle in this one)".to_owned());
    let advice = match holder.as_str() {
        holder::THIS_PROCESS => " (clones, keyspaces and transactions count; `close` closes all)",
        _ => "",
    };
    let message = format!(
        "directory {} is locked: {holder} has the database open{use_of}; close it there first{advice}",
        path.display()
    );
    Error::new(ErrorKind::Locked, "", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_handles_count() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory::open(root.path()).unwrap();
        make_lock_file(&directory, root.path()).unwrap();
        let _lock = acquire(&directory, root.path(), true).unwrap();
        let message = acquire(&directory, root.path(), true).unwrap_err().to_string();
        assert!(message.contains("keyspaces and transactions count; `close` closes all"), "{message}");
    }

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory::open(root.path()).unwrap();
        make_lock_file(&directory, root.path()).unwrap();
        let lock = acquire(&directory, root.path(), true).unwrap();
        // As a child process holds one between its birth and its program.
        let _copy = lock.file.try_clone().unwrap();
        assert_eq!(acquire(&directory, root.path(), true).unwrap_err().kind, ErrorKind::Locked);
        drop(lock);
        acquire(&directory, root.path(), true).unwrap();
    }
}
