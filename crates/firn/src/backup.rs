//! Backups: copies that are there whole or not at all.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use firn_engine::{DatabaseCopy, Error, ErrorKind, Result};

use crate::PointDb;

impl PointDb {
    /// As [`copy_to`](Self::copy_to), but `path`, which must be missing, appears only once it
    /// is whole and survives loss of power. Until then the backup lies beside it under a name that
    /// begins with a dot.
    ///
    /// ```no_run
    /// # fn main() -> firn::Result<()> {
    /// let db = firn::Db::open("cities")?;
    /// db.backup("backups/cities-2026-11-30")?; // while reads and writes go on
    /// let copy = firn::Db::builder("backups/cities-2026-11-30").read_only(true).open()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`copy_to`](Self::copy_to); `Retry` with what the system says of the folder.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<DatabaseCopy> {
        let path = path.as_ref();
        let failed = |what: &str, error: &io::Error| {
            Error::new(ErrorKind::Retry, format!("cannot {what} for the backup {}: {error}", path.display()))
        };
        if path.symlink_metadata().is_ok() {
            return Err(Error::invalid(format!("{} exists: name a backup that does not", path.display())));
        }
        let Some((folder, partial)) = partial_of(path) else {
            return Err(Error::invalid(format!("{} does not end with a name", path.display())));
        };
        // As all that the store makes: for the process's user alone.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| failed("make a folder", &error))?;
        // What is left of one that was cut off.
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(|error| failed("clean up", &error))?;
        }
        let made = self.copy_to(&partial).and_then(|copy| {
            File::open(&partial).and_then(|made| made.sync_all()).map_err(|error| failed("sync", &error))?;
            fs::rename(&partial, path).map_err(|error| failed("rename", &error))?;
            File::open(&folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| failed("sync", &error))?;
            Ok(DatabaseCopy { path: path.to_owned(), ..copy })
        });
        if made.is_err() {
            // The next one of this name tries again.
            let _ = fs::remove_dir_all(&partial);
        }
        made
    }
}

/// The folder that `path` will be in, and where it lies until it is whole.
fn partial_of(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(".partial");
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let partial = folder.join(name);
    Some((folder, partial))
}
