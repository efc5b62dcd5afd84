//! A directory that a command makes: under a name of its own until it is whole.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::ending::{Ending, Failure, Result};

/// How such names end.
const ENDING: &str = ".copying";

/// A directory beside `target`, which gets that name once it is whole. No other process has it.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) path: PathBuf,
    target: PathBuf,
    /// Holds its lock.
    _directory: File,
}

impl Partial {
    /// Begins the directory `target`, which must be missing or empty. What an attempt that was
    /// interrupted left is removed.
    ///
    /// # Errors
    /// `target` holds something; another process makes it; what the system says.
    pub(crate) fn begin(target: &Path) -> Result<Self> {
        check_target(target)?;
        let path = path_of(target)?;
        // As all that the store makes: for the process's user alone.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| Failure::file("make", &path, &error))?;
        let directory = File::open(&path).map_err(|error| Failure::file("open", &path, &error))?;
        match directory.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = format!("another process is copying to {}", target.display());
                return Err(Failure::new(Ending::InUse, what));
            }
            Err(TryLockError::Error(error)) => return Err(Failure::file("lock", &path, &error)),
        }
        for entry in fs::read_dir(&path).map_err(|error| Failure::file("list", &path, &error))? {
            let left = entry.map_err(|error| Failure::file("list", &path, &error))?.path();
            fs::remove_file(&left).map_err(|error| Failure::file("remove", &left, &error))?;
        }
        Ok(Self { path, target: target.to_owned(), _directory: directory })
    }

    /// Gives it its name, durably.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish(self) -> Result<()> {
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::rename(&self.path, &self.target).map_err(|error| Failure::file("make", &self.target, &error))?;
        let synced = File::open(folder).and_then(|it| it.sync_all());
        synced.map_err(|error| Failure::file("sync", folder, &error))
    }

    /// Removes it.
    pub(crate) fn abandon(self) {
        // The next attempt cleans up as well.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Refuses a directory that holds something.
pub(crate) fn check_target(dir: &Path) -> Result<()> {
    match fs::read_dir(dir).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => {
            let what = format!("{} is not empty: name an empty or new directory", dir.display());
            Err(Failure::new(Ending::Failed, what))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::file("list", dir, &error)),
    }
}

/// Where what will be `target` lies until it is whole.
fn path_of(target: &Path) -> Result<PathBuf> {
    let Some(name) = target.file_name() else {
        return Err(Failure::new(Ending::Usage, format!("{} does not end with a name", target.display())));
    };
    let mut path = OsString::from(".");
    path.push(name);
    path.push(ENDING);
    Ok(target.with_file_name(path))
}

/// Refuses `dir` where a copy was to become it, or is it, and was interrupted.
pub(crate) fn check_whole(dir: &Path) -> Result<()> {
    let is_partial = dir.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.starts_with('.') && name.ends_with(ENDING)
    });
    let left = path_of(dir).ok().filter(|path| !dir.exists() && path.exists());
    let what = match left {
        _ if is_partial => {
            "is a part of a database that `firn copy` was to make: it was interrupted or still runs"
        }
        Some(_) => "is not whole: `firn copy` to it was interrupted or still runs",
        None => return Ok(()),
    };
    let remedy = "copy again, which begins anew";
    Err(Failure::new(Ending::Failed, format!("{} {what}; {remedy}", dir.display())))
}
