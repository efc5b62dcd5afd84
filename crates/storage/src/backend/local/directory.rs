//! The directory itself: making, opening and reading it, with errors that say what to do.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::backend::name::{COMBINER_FILE, LOCK_FILE};
use crate::{Error, ErrorKind, Result};

/// What a new file system puts into its root; a database may lie beside it.
const LOST_AND_FOUND: &str = "lost+found";

/// A directory that is made is for the process's user alone.
const DIRECTORY_MODE: u32 = 0o700;

/// The mode of a file that is made in `directory`: for the process's user alone. A directory that
/// lets in its group and no other user passes on what the group may do. The process's umask takes
/// away from that.
pub(super) fn file_mode(directory: &File) -> Mode {
    const OWNER: Mode = Mode::from_raw_mode(0o600);
    const GROUP: Mode = Mode::from_raw_mode(0o060);
    // Where the system does not answer, the file's creation will say why.
    let Ok(found) = rustix::fs::fstat(directory) else { return OWNER };
    let mode = Mode::from_raw_mode(found.st_mode);
    if mode.intersects(Mode::RWXO) { OWNER } else { OWNER | mode.intersection(GROUP) }
}

/// What the system said of a sync of the directory `path`.
pub(super) fn sync_error(path: &Path, said: io::Error) -> Error {
    let kind = match said.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        _ => ErrorKind::Unsynced,
    };
    Error { kind, ..error(path, "sync", said) }
}

/// What the system said while `action` was done to the directory `path`, with advice where there is
/// some.
pub(super) fn error(path: &Path, action: &str, error: io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::NotFound if action == "create" => "; name a directory that can be made",
        io::ErrorKind::NotFound => "; check the path, or make the database by opening it for writing",
        io::ErrorKind::NotADirectory => "; a database is a directory, name one",
        io::ErrorKind::PermissionDenied => "; run as the directory's owner or change its mode",
        io::ErrorKind::ReadOnlyFilesystem => "; the file system is read-only, open the database for reading",
        _ => "",
    };
    let refused = matches!(
        error.kind(),
        io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::AlreadyExists
    );
    let error = Error::io("", action, error);
    let kind = if refused { ErrorKind::Invalid } else { error.kind };
    // The advice goes before the system's words, which `Display` puts last.
    Error { kind, message: format!("{} directory {}{advice}", error.message, path.display()), ..error }
}

/// Opens the directory `path` for reading its entries and syncing it.
pub(super) fn open(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| error(path, "open", errno.into()))?;
    Ok(File::from(directory))
}

/// Makes the directory `path` and the missing ones above it, each durable in the one above.
pub(super) fn create_all(path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "", "the path of the directory is empty; name one"));
    }
    let mut missing: Vec<PathBuf> = Vec::new();
    for above in path.ancestors() {
        if above.as_os_str().is_empty() || above.exists() {
            break;
        }
        missing.push(above.to_owned());
    }
    for directory in missing.iter().rev() {
        match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
            // Another process was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            answer => answer.map_err(|io| error(directory, "create", io))?,
        }
        let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        open(above)?.sync_all().map_err(|io| error(above, "sync", io))?;
    }
    Ok(())
}

/// Names of all entries but `.` and `..`; names that are not UTF-8 are changed, and so match no
/// name that Firn gives.
pub(super) fn entries(directory: &File, path: &Path) -> Result<Vec<String>> {
    let failed = |errno: rustix::io::Errno| error(path, "list", errno.into());
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether anything lies in it but the file it is locked by, its combiner, and what a new file
/// system put there.
pub(super) fn has_entries(directory: &File, path: &Path) -> Result<bool> {
    Ok(entries(directory, path)?
        .iter()
        .any(|entry| ![LOST_AND_FOUND, LOCK_FILE, COMBINER_FILE].contains(&entry.as_str())))
}

/// The system's name of the machine's run; see [`Storage::boot_id`](crate::Storage::boot_id).
pub(super) fn boot_id() -> Option<u128> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok().filter(|id| *id != 0)
}
