//! Giving files their names: publications and renames, in one step or none, over no file that is
//! there.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Local, directory};
use crate::backend::name;
use crate::{Error, ErrorKind, Result, Storage};

/// How a file got a new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// In one step: it has that one alone.
    Renamed,
    /// It got the new one first, and what became of the old one then.
    Linked(rustix::io::Result<()>),
}

impl Local {
    /// Gives the file called `from` the name `to` unless there is one of that name.
    pub(super) fn give_name(&self, from: &str, to: &str) -> rustix::io::Result<Named> {
        let directory = &*self.directory;
        match rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            // File systems that lack it have hard links, which refuse a taken name as well.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                self.link_name(from, to)?;
                Ok(Named::Linked(rustix::fs::unlinkat(directory, from, AtFlags::empty())))
            }
            answer => answer.map(|()| Named::Renamed),
        }
    }

    /// Gives the file called `from` the name `to`, too.
    pub(super) fn link_name(&self, from: &str, to: &str) -> rustix::io::Result<()> {
        rustix::fs::linkat(&*self.directory, from, &*self.directory, to, AtFlags::empty())
    }

    /// What [`publish`](Storage::publish) does where `give` gives a file its name.
    pub(super) fn publish_by(
        &self,
        name: &str,
        bytes: &[u8],
        give: impl FnOnce(&Self, &str, &str) -> rustix::io::Result<Named>,
    ) -> Result<()> {
        name::check(name)?;
        let (file, temporary) = self.create_temporary(name)?;
        let named = write_synced(file, name, bytes).and_then(|()| {
            let error_of = |errno: Errno| {
                let error = Error::io(name, "publish", errno.into());
                match error.kind {
                    // The directory takes no names now, which is found before anything is done.
                    ErrorKind::Io if [Errno::PERM, Errno::ACCESS, Errno::ROFS].contains(&errno) => {
                        Error { kind: ErrorKind::Refused, ..error }
                    }
                    // A call that was broken off may have been done.
                    ErrorKind::Io | ErrorKind::Refused => Error { kind: ErrorKind::Undecided, ..error },
                    _ => error,
                }
            };
            // The new name is what counts, and is never taken back: a reader may have seen it by
            // now.
            self.names.count(|| give(self, &temporary, name)).map(drop).map_err(error_of)
        });
        if let Err(error) = named {
            // Best effort: what cannot be removed now is removed under the next exclusive lock.
            let _ = rustix::fs::unlinkat(&*self.directory, &temporary, AtFlags::empty());
            return Err(error);
        }
        // Whatever keeps it from being durable, it is there: that is no refusal.
        self.sync_dir().map_err(|error| Error { kind: ErrorKind::Unsynced, ..error })
    }

    /// What [`rename`](Storage::rename) does where `give` gives a file its name.
    pub(super) fn rename_by(
        &self,
        from: &str,
        to: &str,
        give: impl FnOnce(&Self, &str, &str) -> rustix::io::Result<Named>,
    ) -> Result<()> {
        name::check(from)?;
        name::check(to)?;
        let renamed = self.names.count(|| {
            give(self, from, to).and_then(|named| match named {
                Named::Renamed | Named::Linked(Ok(())) => Ok(()),
                Named::Linked(Err(error)) => {
                    // Another process has renamed it, and would have the same file; or its owner
                    // cannot be told.
                    let _ = rustix::fs::unlinkat(&*self.directory, to, AtFlags::empty());
                    Err(error)
                }
            })
        });
        renamed.map_err(|error| match error {
            Errno::EXIST => Error::io(to, &format!("rename {from} to it"), error.into()),
            _ => Error::io(from, &format!("rename it to {to}"), error.into()),
        })
    }

    /// A new file for the publication of `name`, and what it is called.
    pub(super) fn create_temporary(&self, name: &str) -> Result<(File, String)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = directory::file_mode(&self.directory);
        loop {
            let temporary = temporary_name(name);
            let open = || rustix::fs::openat(&*self.directory, &temporary, flags, mode);
            match self.descriptors.closing_others(open) {
                Ok(file) => return Ok((File::from(file), temporary)),
                // A leftover of a process that had this one's number, which must not be removed
                // here.
                Err(Errno::EXIST) => {}
                Err(error) => {
                    return Err(Error::io(name, "create", error.into()).or_rather(ErrorKind::Refused));
                }
            }
        }
    }
}

/// A name that no other publication of this process has.
pub(super) fn temporary_name(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".{name}.{}.{count}.tmp", std::process::id())
}

/// Fills the new `file`, which is to be published as `name`.
fn write_synced(mut file: File, name: &str, bytes: &[u8]) -> Result<()> {
    io::Write::write_all(&mut file, bytes)
        .map_err(|error| Error::io(name, "write", error).or_rather(ErrorKind::Refused))?;
    file.sync_all().map_err(|error| Error::sync(name, "sync", error))
}
