//! Files that tables of several keyspaces share: what holds each, and how much of it is dead.
//!
//! ```text
//!   a flush writes the file   ─► held by it      ─► each open table holds it too, and lives
//!   a table is retired        ─► its bytes are dead; it holds the file until its last reader goes
//!   most of the file is dead  ─► what lives is copied to another one (`background/repack.rs`)
//!   nothing holds the file    ─► it is removed, unless a holder that was not obsolete let go
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_format::file_name::Part;

/// Every file that tables are parts of, while any has a reader or is being written.
#[derive(Debug, Default)]
pub struct SharedFiles {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    files: BTreeMap<String, SharedFile>,
    /// Those of which less than half lives, and something does.
    sparse: BTreeSet<String>,
}

/// A file of which tables are parts.
#[derive(Debug, Default)]
struct SharedFile {
    /// Tables of it that are open, and one more while it is written.
    holders: usize,
    /// Its length; 0 = not known yet.
    bytes: u64,
    /// Of that, bytes of tables that are not retired.
    live_bytes: u64,
    /// Something let go of it that is not obsolete: the process ends, and the file stays.
    stays: bool,
}

impl SharedFile {
    fn is_sparse(&self) -> bool {
        self.live_bytes > 0 && self.live_bytes < self.bytes / 2
    }
}

/// What is to become of a file that lost a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// It has other holders, or it is to be found again.
    Stays,
    /// Nothing holds it, and nothing of it lives.
    Obsolete,
}

impl SharedFiles {
    /// The table `part` was opened.
    pub fn hold(&self, part: &Part<'_>) {
        let mut known = self.lock();
        let file = known.files.entry(part.file.to_owned()).or_default();
        file.holders += 1;
        file.live_bytes += part.bytes;
        known.note(part.file);
    }

    /// The file `name` is being written.
    pub fn hold_file(&self, name: &str) {
        self.lock().files.entry(name.to_owned()).or_default().holders += 1;
    }

    /// The file `name` has `bytes` bytes, if any table of it is known.
    pub fn set_length(&self, name: &str, bytes: u64) {
        let mut known = self.lock();
        if let Some(file) = known.files.get_mut(name) {
            file.bytes = bytes;
        }
        known.note(name);
    }

    /// No version from now on has the table `part`.
    pub fn retire(&self, part: &Part<'_>) {
        let mut known = self.lock();
        if let Some(file) = known.files.get_mut(part.file) {
            file.live_bytes = file.live_bytes.saturating_sub(part.bytes);
        }
        known.note(part.file);
    }

    /// One holder less of the file `name`, which is `obsolete` or not; `gone` is called if it is to
    /// be removed, before the file counts as held no more.
    pub fn let_go(&self, name: &str, obsolete: bool, gone: impl FnOnce()) -> LetGo {
        let mut known = self.lock();
        let Some(file) = known.files.get_mut(name) else { return LetGo::Stays };
        file.holders -= 1;
        file.stays |= !obsolete;
        if file.holders > 0 {
            return LetGo::Stays;
        }
        let stays = file.stays;
        if !stays {
            gone();
        }
        known.files.remove(name);
        known.sparse.remove(name);
        if stays { LetGo::Stays } else { LetGo::Obsolete }
    }

    /// Files of which less than half lives, the oldest first.
    pub fn sparse(&self) -> Vec<String> {
        self.lock().sparse.iter().cloned().collect()
    }

    /// The names of all.
    pub fn names(&self) -> Vec<String> {
        self.lock().files.keys().cloned().collect()
    }

    /// Bytes that belong to no live table.
    pub fn dead_bytes(&self) -> u64 {
        self.lock().files.values().map(|file| file.bytes.saturating_sub(file.live_bytes)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn note(&mut self, name: &str) {
        let is_sparse = self.files.get(name).is_some_and(SharedFile::is_sparse);
        match is_sparse {
            true if !self.sparse.contains(name) => drop(self.sparse.insert(name.to_owned())),
            true => {}
            false => drop(self.sparse.remove(name)),
        }
    }
}
