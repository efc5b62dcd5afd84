//! The directory a benchmark works in.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use firn_engine::{Error, ErrorKind, Result};

/// Those temporary ones that are there.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Times that one is removed in which something is still being made.
const REMOVALS_MAX: usize = 20;

/// Removes all temporary directories of this process, for a process that ends without dropping
/// them. What still works in them fails.
pub fn remove_temporary_directories() {
    let paths = std::mem::take(&mut *TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner));
    for path in paths {
        // What cannot be removed is left to whatever cleans the system's temporary directory.
        let mut removals = (0..REMOVALS_MAX).map(|_| std::fs::remove_dir_all(&path));
        removals.find(|_| !path.exists());
    }
}

/// A directory for databases; a temporary one is removed with everything in it when this is
/// dropped.
#[derive(Debug)]
pub struct BenchDir {
    path: PathBuf,
    temporary: bool,
}

impl BenchDir {
    /// `dir`, created if it is missing, or a new directory under the system's temporary one.
    ///
    /// # Errors
    /// `Invalid` if the directory cannot be created.
    pub fn new(dir: Option<&Path>) -> Result<Self> {
        let made = match dir {
            Some(dir) => Self { path: dir.to_owned(), temporary: false },
            None => Self { path: free_temporary_path(), temporary: true },
        };
        std::fs::create_dir_all(&made.path).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("cannot create directory {}", made.path.display()))
                .because(error)
        })?;
        if made.temporary {
            TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner).push(made.path.clone());
        }
        Ok(made)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes away when dropped.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.path).map_or(true, |mut entries| entries.next().is_none())
    }
}

impl Drop for BenchDir {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed is left to the cleanup of the temporary directory.
            let _ = std::fs::remove_dir_all(&self.path);
            TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.path);
        }
    }
}

fn free_temporary_path() -> PathBuf {
    let base = std::env::temp_dir();
    let process = std::process::id();
    (0u32..)
        .map(|number| base.join(format!("firn-bench-{process}-{number}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| base.join(format!("firn-bench-{process}")))
}
