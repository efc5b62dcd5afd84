//! The redo log: what survives the process while the log's newest part is in memory alone.
//!
//! ```text
//!   change in memory ─► entry: the record as it is after it ─► write_combined ─► acknowledged
//!   checkpoint: all before it lies on the device ─► the next generation begins, older files go
//! ```
//! There are a few files at a time, so that threads seldom wait for one another. Entries of one key
//! may lie in several; which is newer they say themselves.

mod replay;

pub(crate) use replay::replay;

use std::sync::{Arc, OnceLock};

use firn_engine::{Error, Result};
use firn_format::file_name;
use firn_format::hybrid::redo::{REDO_HEADER_BYTES, RedoChange, RedoEntry, RedoHeader};
use firn_storage::{Storage, WriteFile};

use crate::error::from_storage;
use crate::sync::{Apart, AtomicU64, Mutex, Ordering, lock};

/// Files of a generation.
const FILES: usize = 4;

/// The redo logs of one engine that is open for writing.
#[derive(Debug)]
pub(crate) struct Redo {
    storage: Arc<dyn Storage>,
    database: u128,
    files: [Apart<Mutex<RedoFile>>; FILES],
    /// Files that the last turns replaced and that are not synced: no checkpoint has made them
    /// needless yet.
    replaced: Mutex<Vec<Arc<dyn WriteFile>>>,
    /// Held by the caller that syncs; others that wait for it find their own entries synced.
    syncing: Mutex<()>,
    /// Why nothing is appended any more: a sync has failed.
    failure: OnceLock<Error>,
    /// Bytes of entries since the last checkpoint.
    bytes: AtomicU64,
}

#[derive(Debug)]
struct RedoFile {
    generation: u64,
    file: Arc<dyn WriteFile>,
    /// Where the next entry goes.
    end: u64,
    entry: RedoEntry,
    /// Something was appended since the last sync.
    is_unsynced: bool,
}

/// The files of the next generation, made before an operation could wait for them.
pub(crate) struct NextGeneration([RedoFile; FILES]);

impl Redo {
    /// The redo logs of an opening, with the files of `generation`.
    pub(crate) fn new(storage: &Arc<dyn Storage>, database: u128, generation: u64) -> Result<Self> {
        let NextGeneration(files) = make(storage, database, generation)?;
        let files = files.map(|file| Apart(Mutex::new(file)));
        Ok(Self {
            storage: Arc::clone(storage),
            database,
            files,
            replaced: Mutex::new(Vec::new()),
            syncing: Mutex::new(()),
            failure: OnceLock::new(),
            bytes: AtomicU64::new(0),
        })
    }

    /// Appends an entry with what `fill` puts into it. When this returns it survives the process.
    /// Entries of one `writer` are in one file, in their order.
    ///
    /// # Errors
    /// Those of the storage: no part of the entry counts then.
    pub(crate) fn append(&self, writer: usize, fill: impl FnOnce(&mut RedoEntry)) -> Result<()> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        let mut file = lock(&self.files[writer % FILES].0);
        let RedoFile { generation, file: to, end, entry, is_unsynced } = &mut *file;
        entry.begin();
        fill(entry);
        let bytes = entry.finish(*generation, *end);
        to.write_combined(*end, bytes).map_err(from_storage)?;
        *end += bytes.len() as u64;
        *is_unsynced = true;
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Appends an entry with one change.
    #[inline]
    pub(crate) fn append_change(&self, writer: usize, change: &RedoChange<'_>) -> Result<()> {
        self.append(writer, |entry| entry.push(change))
    }

    /// Bytes of entries since the last checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Makes everything that was appended survive loss of power. Appending goes on meanwhile.
    ///
    /// # Errors
    /// `Closed` after a sync that failed, with its cause, for good.
    pub(crate) fn sync(&self) -> Result<()> {
        let _turn = lock(&self.syncing);
        let replaced = std::mem::take(&mut *lock(&self.replaced));
        for file in replaced {
            if let Err(error) = file.sync().map_err(from_storage) {
                return Err(self.failure.get_or_init(|| error).clone());
            }
        }
        for file in &self.files {
            let unsynced = {
                let mut file = lock(&file.0);
                std::mem::take(&mut file.is_unsynced).then(|| Arc::clone(&file.file))
            };
            let Some(unsynced) = unsynced else { continue };
            if let Err(error) = unsynced.sync().map_err(from_storage) {
                return Err(self.failure.get_or_init(|| error).clone());
            }
        }
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Makes the files of the generation after this one.
    pub(crate) fn prepare(&self) -> Result<NextGeneration> {
        let generation = lock(&self.files[0].0).generation + 1;
        make(&self.storage, self.database, generation)
    }

    /// Has all later entries go to `next`; answers its generation. Operations are stopped.
    pub(crate) fn turn(&self, next: NextGeneration) -> u64 {
        let mut generation = 0;
        for (file, next) in self.files.iter().zip(next.0) {
            generation = next.generation;
            let replaced = std::mem::replace(&mut *lock(&file.0), next);
            if replaced.is_unsynced {
                lock(&self.replaced).push(replaced.file);
            }
        }
        self.bytes.store(0, Ordering::Relaxed);
        generation
    }

    /// Removes the files of generations before `generation`.
    pub(crate) fn remove_before(&self, generation: u64) -> Result<()> {
        // The checkpoint has what they hold.
        lock(&self.replaced).clear();
        for (name, _) in self.storage.list().map_err(from_storage)? {
            if let Some(file_name::FileName::Redo { generation: found, .. }) = file_name::parse(&name)
                && found < generation
            {
                self.storage.remove(&name).map_err(from_storage)?;
            }
        }
        Ok(())
    }
}

fn make(storage: &Arc<dyn Storage>, database: u128, generation: u64) -> Result<NextGeneration> {
    let mut files = Vec::with_capacity(FILES);
    for index in 0..FILES as u64 {
        let file = storage.create(&file_name::redo(generation, index)).map_err(from_storage)?;
        let boot = storage.boot_id().unwrap_or_default();
        let header = RedoHeader { database, generation, index, boot };
        file.write_at(0, &header.encode()).map_err(from_storage)?;
        let end = REDO_HEADER_BYTES as u64;
        files.push(RedoFile { generation, file, end, entry: RedoEntry::default(), is_unsynced: true });
    }
    storage.sync_dir().map_err(from_storage)?;
    let files = files.try_into().map_err(|_| Error::bug("as many files as were made"))?;
    Ok(NextGeneration(files))
}
