//! Files that nothing refers to any more, and what has holders still.

mod parts; // files that several tables share

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::parts::{LetGo, SharedFiles};
use crate::file::blob::BlobSegment;
use crate::file::table::TableReader;

/// Files whose last holder is gone, and the memory of what has holders still.
///
/// An engine owns one; tables, segments and background work share it by `Arc`. All of it is for any
/// number of threads. Its locks are held for moments and none while another is taken, but the one
/// of shared files, under which a file is handed to [`remove_later`](Self::remove_later).
///
/// 1. *A file is handed over once, by its last holder* (`Drop` of what holds it), and only if it
///    was retired: a process that ends leaves files that live.
/// 2. *A file that is used again has no reader*: one that was mapped is handed over with its
///    reader, and kept only if that had no other holder ([`LastReader::lets_go`]).
/// 3. *What could not be removed is not lost*: it is tried again with the next ones
///    ([`retry_later`](Self::retry_later)).
#[derive(Debug, Default)]
pub struct ObsoleteFiles {
    names: Mutex<Obsolete>,
    /// Names of tables and sealed blob segments that have holders; `None` where orphan GC does not
    /// ask for them.
    held: Option<Mutex<BTreeSet<String>>>,
    /// Files that several tables share.
    pub shared: SharedFiles,
    live_bytes: AtomicU64,
    retired_blobs: Retired,
}

/// Files that no version from now on knows, and that have holders.
#[derive(Debug, Default)]
struct Retired {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// What [`ObsoleteFiles`] hold.
#[derive(Debug, Default)]
pub struct Obsolete {
    /// To be removed.
    pub removable: Vec<String>,
    /// Log segments whose files new segments may have.
    pub recyclable_segments: Vec<String>,
    /// Tables and blob segments whose files new ones may have once no reader has them.
    pub recyclable_files: Vec<RecyclableFile>,
    /// To be removed, and they could not be: they come along with what is removable next.
    retry_later: Vec<String>,
}

/// A table or a blob segment whose file a new one of its kind may have.
#[derive(Debug)]
pub struct RecyclableFile {
    /// As named in its directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// What read it.
    pub reader: LastReader,
}

/// The file is mapped as long as this has a holder.
#[derive(Debug)]
pub enum LastReader {
    /// Of a table.
    Table(Arc<TableReader>),
    /// Of a blob segment.
    Values(Arc<BlobSegment>),
}

impl LastReader {
    /// Lets go of it; whether it had no other holder.
    pub fn lets_go(self) -> bool {
        match self {
            Self::Table(reader) => Arc::into_inner(reader).is_some(),
            Self::Values(segment) => Arc::into_inner(segment).is_some(),
        }
    }
}

impl ObsoleteFiles {
    /// An empty one, that is asked for the names of what has holders if `tracks_held`.
    pub fn new(tracks_held: bool) -> Self {
        Self { held: tracks_held.then(Mutex::default), ..Self::default() }
    }

    /// The file `name` of a table or a sealed blob segment has a holder from now on.
    pub fn hold(&self, name: &str) {
        if let Some(held) = &self.held {
            held.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
    }

    /// The file `name` has no holder any more, nor will have; what waits for its removal is told
    /// before.
    pub fn let_go(&self, name: &str) {
        if let Some(held) = &self.held {
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
    }

    /// Files that have holders, and those that wait for their removal; `None` where that is not
    /// kept.
    pub fn held(&self) -> Option<BTreeSet<String>> {
        let mut held = self.held.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.extend(self.shared.names());
        let dead = self.lock();
        held.extend(dead.removable.iter().chain(&dead.retry_later).cloned());
        held.extend(dead.recyclable_files.iter().map(|file| file.name.clone()));
        Some(held)
    }

    /// The file `name` is to be removed.
    pub fn remove_later(&self, name: String) {
        self.lock().removable.push(name);
    }

    /// These could not be removed: they are tried again with what is removable next, or once that
    /// is [asked](Self::retry_now) for.
    pub fn retry_later(&self, names: impl IntoIterator<Item = String>) {
        self.lock().retry_later.extend(names);
    }

    /// What could not be removed is tried again now.
    pub fn retry_now(&self) {
        let mut dead = self.lock();
        let Obsolete { removable, retry_later, .. } = &mut *dead;
        removable.append(retry_later);
    }

    /// The file `name` of a log segment is a new segment's, or is to be removed.
    pub fn recycle_segment(&self, name: String) {
        self.lock().recyclable_segments.push(name);
    }

    /// What is recyclable is to be removed instead.
    pub fn remove_recyclable(&self) {
        let mut dead = self.lock();
        let Obsolete { removable, recyclable_segments, recyclable_files, .. } = &mut *dead;
        removable.append(recyclable_segments);
        removable.extend(recyclable_files.drain(..).map(|file| file.name));
    }

    /// `file` is another file's of its kind once no reader has it, or is to be removed.
    pub fn recycle_file(&self, file: RecyclableFile) {
        self.lock().recyclable_files.push(file);
    }

    /// Memory of segments' arenas and of tables' indexes and filters, whatever holds them.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// `bytes` more are held.
    pub fn count(&self, bytes: u64) {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// `bytes` that were counted are let go.
    pub fn discount(&self, bytes: u64) {
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A blob segment of `bytes` bytes is gone, except for its holders.
    pub fn retire_blobs(&self, bytes: u64) {
        self.retired_blobs.count.fetch_add(1, Ordering::Relaxed);
        self.retired_blobs.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A blob segment that was gone except for its holders has none any more.
    pub fn let_values_go(&self, bytes: u64) {
        self.retired_blobs.count.fetch_sub(1, Ordering::Relaxed);
        self.retired_blobs.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many blob segments are gone except for their holders, and their bytes.
    pub fn retired_blobs(&self) -> (u64, u64) {
        let Retired { count, bytes } = &self.retired_blobs;
        (count.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// Whether there is nothing to be done.
    pub fn is_empty(&self) -> bool {
        let dead = self.lock();
        dead.removable.is_empty() && dead.recyclable_segments.is_empty() && dead.recyclable_files.is_empty()
    }

    /// Everything that is to be removed or used again, from now on the caller's concern.
    pub fn take(&self) -> Obsolete {
        let mut dead = std::mem::take(&mut *self.lock());
        dead.removable.append(&mut dead.retry_later);
        dead
    }

    fn lock(&self) -> MutexGuard<'_, Obsolete> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
