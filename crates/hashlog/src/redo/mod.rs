//! The redo log: what survives the process while the log's newest part is in memory alone.
//!
//! ```text
//!   change in memory ─► entry: the record as it is after it ─► write_combined ─► acknowledged
//!   next generation's files, synced ─► edit: they are there ─► turn: an entry without changes ends
//!   the old files ─► all before it lies on the device ─► edit: older generations are needless
//! ```
//! There are a few files at a time, so that threads seldom wait for one another. Entries of one key
//! may lie in several; which is newer they say themselves. Those of one session lie in one file,
//! and after it in the file of the same index of the next generation.
//!
//! # Invariants
//! 1. A generation that the manifest says to be begun is there, all of its files.
//! 2. No entry lies in a file before the one of its index in the generation before was ended.
//! 3. An entry of a change that is made and could not be written is kept, and nothing is appended
//!    to any file before it is written.

mod file;
mod replay;

pub(crate) use replay::{Begun, Look, Recovered, find, replay};

use std::sync::{Arc, OnceLock};

use firn_engine::{Error, Result};
use firn_format::file_name;
use firn_format::hybrid::redo::{RedoChange, RedoEntry};
use firn_storage::Storage;

use self::file::RedoFile;
use crate::error::{from_storage, unsynced};
use crate::needless::remove_needless;
use crate::sync::{Apart, AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// Files of a generation.
pub(crate) const FILES: usize = 4;

/// The redo logs of one engine that is open for writing.
#[derive(Debug)]
pub(crate) struct Redo {
    storage: Arc<dyn Storage>,
    database: u128,
    files: [Apart<Mutex<RedoFile>>; FILES],
    /// The files of the generation after, once they are made.
    next: Mutex<Option<NextGeneration>>,
    /// Files that no entry is appended to any more and that are not synced: no checkpoint has made
    /// them needless yet.
    ended: Mutex<Vec<RedoFile>>,
    /// Held by the caller that syncs; others that wait for it find their own entries synced.
    syncing: Mutex<()>,
    /// Why nothing is appended any more: a sync has failed.
    failure: OnceLock<Error>,
    /// A change is made whose entry is not written.
    is_behind: AtomicBool,
    /// Bytes of entries since the last checkpoint.
    bytes: AtomicU64,
    /// As many of them lie before the last turn.
    turned_bytes: AtomicU64,
    /// Those of before, since the opening.
    bytes_before: AtomicU64,
}

/// The files of a generation, made before an operation could wait for them.
#[derive(Debug)]
pub(crate) struct NextGeneration([RedoFile; FILES]);

impl Redo {
    /// The redo logs of an opening, with the files of `next`. Those that were `recovered` are
    /// ended, and synced when all is.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        database: u128,
        next: NextGeneration,
        recovered: &[Recovered],
    ) -> Result<Self> {
        // The newest first: what is not believed must have gone for good before the file is ended
        // for which it is not. Otherwise another loss of power could leave that end alone.
        let ended = recovered.iter().rev().map(|log| RedoFile::end_recovered(&**storage, log));
        Ok(Self {
            storage: Arc::clone(storage),
            database,
            files: next.0.map(|file| Apart(Mutex::new(file))),
            next: Mutex::new(None),
            ended: Mutex::new(ended.collect::<Result<_>>()?),
            syncing: Mutex::new(()),
            failure: OnceLock::new(),
            is_behind: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            turned_bytes: AtomicU64::new(0),
            bytes_before: AtomicU64::new(0),
        })
    }

    /// Appends an entry with a change that is about to be made. When this returns it survives the
    /// process. Entries of one `writer` are in one file, in their order.
    ///
    /// # Errors
    /// Those of the storage: the change must not be made then.
    #[inline]
    pub(crate) fn append_change(&self, writer: usize, change: &RedoChange<'_>) -> Result<()> {
        self.catch_up()?;
        let mut file = lock(&self.files[writer % FILES].0);
        let bytes = file.append(|entry| entry.push(change))?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Appends an entry with what `fill` puts into it, changes that are made: as above.
    ///
    /// # Errors
    /// Those of the storage: the entry is kept then, and written later, or never after the process
    /// has died.
    pub(crate) fn append_made(&self, writer: usize, fill: impl FnOnce(&mut RedoEntry)) -> Result<()> {
        let mut file = lock(&self.files[writer % FILES].0);
        let (bytes, written) = file.append_surely(fill);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if written.is_err() {
            self.is_behind.store(true, Ordering::Release);
        }
        written
    }

    /// Writes the entries of changes that are made and were not written yet. Costs a load if there
    /// are none.
    ///
    /// # Errors
    /// `Closed` after a failed sync; those of the storage: no change should be made then.
    #[inline]
    pub(crate) fn catch_up(&self) -> Result<()> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        match self.is_behind.load(Ordering::Acquire) {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    #[cold]
    fn write_out(&self) -> Result<()> {
        // An entry that comes to be kept meanwhile says so again.
        self.is_behind.store(false, Ordering::Release);
        let written = self.files.iter().try_for_each(|file| lock(&file.0).write_out());
        if written.is_err() {
            self.is_behind.store(true, Ordering::Release);
        }
        written
    }

    /// Bytes of entries since the last checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of entries since the opening.
    pub(crate) fn bytes_total(&self) -> u64 {
        self.bytes_before.load(Ordering::Relaxed) + self.bytes()
    }

    /// Makes everything that was appended survive loss of power. Appending goes on meanwhile.
    ///
    /// # Errors
    /// `Closed` after a sync that failed, with its cause, for good. Before that what a full disk
    /// says, which may pass.
    pub(crate) fn sync(&self) -> Result<()> {
        let _turn = lock(&self.syncing);
        self.catch_up()?;
        // Earlier entries first.
        self.sync_ended()?;
        for file in &self.files {
            let to = {
                let mut file = lock(&file.0);
                file.hand_over()?;
                std::mem::take(&mut file.is_unsynced).then(|| Arc::clone(&file.to))
            };
            if let Some(to) = to {
                to.sync().map_err(|error| self.fail(error))?;
            }
        }
        // A turn amid this has put files there whose entries are older than it.
        self.sync_ended()?;
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    fn sync_ended(&self) -> Result<()> {
        loop {
            let Some(mut ended) = lock(&self.ended).pop() else { return Ok(()) };
            // Before it is synced, since a full disk is no end, and a failed sync is.
            if let Err(error) = ended.hand_over() {
                lock(&self.ended).push(ended);
                return Err(error);
            }
            ended.to.sync().map_err(|error| self.fail(error))?;
        }
    }

    fn fail(&self, error: firn_storage::Error) -> Error {
        self.failure.get_or_init(|| unsynced(error)).clone()
    }

    /// Makes the files of the generation after this one, unless they are made; answers which it is.
    pub(crate) fn prepare(&self) -> Result<u64> {
        self.catch_up()?;
        let generation = lock(&self.files[0].0).generation + 1;
        let mut next = lock(&self.next);
        if next.is_none() {
            *next = Some(NextGeneration::make(&self.storage, self.database, generation)?);
        }
        Ok(generation)
    }

    /// Has all later entries go to the generation that is prepared, and that the manifest says to
    /// be begun. Operations are stopped.
    ///
    /// # Errors
    /// Those of the storage: nothing has changed then.
    pub(crate) fn turn(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| lock(&file.0).end_entries())?;
        let next = lock(&self.next).take();
        let next = next.ok_or_else(|| Error::bug("redo logs that were not prepared"))?;
        // A sync finds each file in one place or the other.
        let mut ended = lock(&self.ended);
        for (file, next) in self.files.iter().zip(next.0) {
            ended.push(std::mem::replace(&mut *lock(&file.0), next));
        }
        drop(ended);
        self.turned_bytes.store(self.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// A checkpoint has what generations before `generation` hold: removes their files.
    pub(crate) fn remove_before(&self, generation: u64) -> Result<()> {
        lock(&self.ended).clear();
        let turned = self.turned_bytes.swap(0, Ordering::Relaxed);
        self.bytes_before.fetch_add(turned, Ordering::Relaxed);
        self.bytes.fetch_sub(turned, Ordering::Relaxed);
        let is_older = |name: &String| match file_name::parse(name) {
            Some(file_name::FileName::Redo { generation: found, .. }) => found < generation,
            _ => false,
        };
        let names = self.storage.list().map_err(from_storage)?.into_iter().map(|(name, _)| name);
        remove_needless(&*self.storage, names.filter(is_older))
    }
}

impl NextGeneration {
    /// Makes the files of `generation`, without entries. They survive loss of power, and count once
    /// the manifest says that they are begun.
    ///
    /// # Errors
    /// Those of the storage; what was made is made anew by the next try.
    pub(crate) fn make(storage: &Arc<dyn Storage>, database: u128, generation: u64) -> Result<Self> {
        let mut files = Vec::with_capacity(FILES);
        for index in 0..FILES as u64 {
            files.push(RedoFile::make(&**storage, database, generation, index)?);
        }
        storage.sync_dir().map_err(from_storage)?;
        let files = files.try_into().map_err(|_| Error::bug("as many files as were made"))?;
        Ok(Self(files))
    }
}
