//! A directory in memory, whose machine can be stopped at any operation.

mod content;
mod crash;
mod world;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::old_bytes::OldBytes;
use crate::backend::{PAGE_BYTES, UnfinishedUpload, check_range, name, zeros_after};
use crate::{Error, ErrorKind, FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

use self::content::Content;
use self::crash::NamesLeft;
use self::world::{Cut, Inode, State, World};

pub use self::crash::Crash;

/// A directory in memory that knows what a crash would leave of it.
///
/// A clone is another handle of the same directory. Operations that change something are numbered
/// from 0 across all directories of the machine. Create, write, sync, `set_len`, rename, remove,
/// `sync_dir` count one each. A publication counts two (the file gets its name; the directory is
/// synced), and so does `link_into`. Operations that fail because of their arguments count none.
/// Nor do opening, reading, listing, locking, `write_back`, `allocate` and what is done with
/// uploads. [`cut_at`](Self::cut_at) stops the machine before a numbered operation, and
/// [`crash`](Self::crash) gives what is found afterwards.
///
/// # The crash model
/// *Kill*: everything begun is there. *Power loss*, for each thing independently:
/// 1. a 4 KiB page of a file is as of any moment since the last completed sync of that file. There
///    the last write to it may have reached any subset of its 512-byte sectors;
/// 2. a file's length is as of any moment since that sync, so never shorter than synced unless it
///    was cut since. Bytes inside that length that no page brings are zeros;
/// 3. the names of a directory are as of some moment since its last sync. Operations are there in
///    the order they were begun, as journalling file systems keep them. So a name may appear before
///    it was promised, and a removal may have happened before it was. Only `sync_dir` and `publish`
///    (which syncs the directory, and with it all that was done to it before) rule that out.
///
/// What is chosen depends on the seed and the operations alone. After power loss everything that is
/// left counts as synced; after a kill the history stays, since power may be lost next.
///
/// What was not synced is held about twice, until it is. [`ReadFile::bytes`] copies a file once
/// after each change of it; all callers share that copy, also across crashes.
#[derive(Clone, Debug)]
pub struct Memory {
    world: Arc<World>,
    path: PathBuf,
}

impl Memory {
    /// An empty directory on a machine of its own.
    pub fn new() -> Self {
        Self { world: Arc::new(World::default()), path: PathBuf::new() }
    }

    /// The same directory as found after `crash`: a machine of its own, unlocked, its operations
    /// numbered anew, never cut. This one stays as it is, cut or not. Costs a few words for each 4
    /// KiB; pages are shared.
    pub fn crash(&self, crash: Crash) -> Self {
        let world = crash::restart(&self.world, crash, NamesLeft::First);
        Self { world: Arc::new(world), path: self.path.clone() }
    }

    /// As [`crash`](Self::crash) by a loss of power, on a file system that promises less. Of what
    /// was done to the names of a directory since its last sync, each operation is there or not,
    /// for itself.
    ///
    /// So a published file may be there without a file that was created before it, unless the
    /// directory was synced between.
    pub fn crash_without_order(&self, seed: u64) -> Self {
        let world = crash::restart(&self.world, Crash::PowerLoss { seed }, NamesLeft::Any);
        Self { world: Arc::new(world), path: self.path.clone() }
    }

    /// How many operations that change something were done on this machine: the number of the next
    /// one.
    pub fn operations(&self) -> u64 {
        self.world.state_even_if_gone().operations
    }

    /// Stops the machine before operation `operation`: from it on every call, reads included, fails
    /// with `Io`, "the machine is gone". Bytes held as memory stay readable.
    pub fn cut_at(&self, operation: u64) {
        self.cut_write_at(operation, 0);
    }

    /// Like [`cut_at`](Self::cut_at), but if that operation is a write, its first `bytes` bytes are
    /// done before.
    pub fn cut_write_at(&self, operation: u64, bytes: usize) {
        self.world.state_even_if_gone().cut = Some(Cut { operation, write_bytes: bytes });
    }

    /// What was about to be done when the machine went, for people; none while it is there.
    pub fn cut_operation(&self) -> Option<String> {
        self.world.state_even_if_gone().cut_operation.clone()
    }

    /// From now on what is done is written down, for [`journal`](Self::journal).
    pub fn keep_journal(&self) {
        self.world.state_even_if_gone().journal.get_or_insert_default();
    }

    /// What was done, for people, in order: of an unused machine whose journal is kept, operation
    /// by operation.
    pub fn journal(&self) -> Vec<String> {
        self.world.state_even_if_gone().journal.clone().unwrap_or_default()
    }

    /// The directory that [`link_into`](Storage::link_into) made at `path` on this machine.
    pub fn directory(&self, path: &Path) -> Option<Self> {
        let known = self.world.state_even_if_gone().directories.contains_key(path);
        known.then(|| Self { world: self.world.clone(), path: path.to_owned() })
    }

    /// Leaves an unfinished upload of a file `name` here, as a writer does that is killed while it
    /// sends the parts.
    pub fn leave_upload(&self, name: &str, id: &str) {
        let upload = UnfinishedUpload { name: name.to_owned(), id: id.to_owned() };
        self.world.state_even_if_gone().directory(&self.path).uploads.insert(upload);
    }

    fn existing(&self, state: &mut State, name: &str) -> Result<Arc<Inode>> {
        name::check(name)?;
        let inode = state.directory(&self.path).names.get(name).cloned();
        inode.ok_or_else(|| Error::new(ErrorKind::NotFound, name, "there is no such file"))
    }

    fn check_new(&self, state: &mut State, name: &str) -> Result<()> {
        name::check(name)?;
        match state.directory(&self.path).names.contains_key(name) {
            true => Err(Error::new(ErrorKind::Exists, name, "there is a file of that name already")),
            false => Ok(()),
        }
    }

    fn write_handle(&self, inode: Arc<Inode>, name: &str) -> Arc<dyn WriteFile> {
        let bytes = inode.content.read().unwrap_or_else(PoisonError::into_inner).len();
        let old = Mutex::new(OldBytes::new(bytes));
        Arc::new(MemoryWriteFile { world: self.world.clone(), inode, name: name.to_owned(), old })
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Storage for Memory {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let mut state = self.world.state()?;
        self.check_new(&mut state, name)?;
        self.world.begin(&mut state, || format!("create {name}"))?;
        let inode = state.new_inode(Content::default());
        state.directory(&self.path).change(vec![(name.to_owned(), Some(inode.clone()))]);
        Ok(self.write_handle(inode, name))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let mut state = self.world.state()?;
        let inode = self.existing(&mut state, name)?;
        Ok(self.write_handle(inode, name))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let mut state = self.world.state()?;
        let inode = self.existing(&mut state, name)?;
        let len = inode.content.read().unwrap_or_else(PoisonError::into_inner).len();
        Ok(Arc::new(MemoryReadFile { world: self.world.clone(), inode, name: name.to_owned(), len }))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut state = self.world.state()?;
        self.check_new(&mut state, name)?;
        self.world.begin(&mut state, || format!("publish {name}"))?;
        let mut content = Content::default();
        content.write(0, bytes);
        content.sync();
        let inode = state.new_inode(content);
        state.directory(&self.path).change(vec![(name.to_owned(), Some(inode))]);
        self.world.begin(&mut state, || format!("sync the directory to publish {name}"))?;
        state.directory(&self.path).sync();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.world.state()?;
        let inode = self.existing(&mut state, from)?;
        self.check_new(&mut state, to)?;
        self.world.begin(&mut state, || format!("rename {from} to {to}"))?;
        let change = vec![(from.to_owned(), None), (to.to_owned(), Some(inode))];
        state.directory(&self.path).change(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.world.state()?;
        self.existing(&mut state, name)?;
        self.world.begin(&mut state, || format!("remove {name}"))?;
        state.directory(&self.path).change(vec![(name.to_owned(), None)]);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let mut state = self.world.state()?;
        let names = &state.directory(&self.path).names;
        let len = |inode: &Inode| inode.content.read().unwrap_or_else(PoisonError::into_inner).len();
        Ok(names.iter().map(|(name, inode)| (name.clone(), len(inode))).collect())
    }

    fn sync_dir(&self) -> Result<()> {
        let mut state = self.world.state()?;
        self.world.begin(&mut state, || "sync the directory".to_owned())?;
        state.directory(&self.path).sync();
        Ok(())
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>> {
        let mut state = self.world.state()?;
        let directory = state.directory(&self.path);
        if directory.writer || (exclusive && directory.readers > 0) {
            let message = format!("{} is locked: another handle has the database open", self.describe());
            return Err(Error::new(ErrorKind::Locked, "", message));
        }
        match exclusive {
            true => directory.writer = true,
            false => directory.readers += 1,
        }
        Ok(Box::new(MemoryLock { memory: self.clone(), exclusive }))
    }

    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        if path.as_os_str().is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "", "the path of the directory is empty; name one"));
        }
        let mut state = self.world.state()?;
        let mut change = Vec::new();
        for name in names {
            change.push((name.clone(), Some(self.existing(&mut state, name)?)));
        }
        if !state.directory(path).names.is_empty() {
            let message = format!("directory {} is not empty; name an empty or new one", path.display());
            return Err(Error::new(ErrorKind::Invalid, "", message));
        }
        self.world.begin(&mut state, || format!("link files into {}", path.display()))?;
        for (_, inode) in &change {
            if let Some(inode) = inode {
                inode.content.write().unwrap_or_else(PoisonError::into_inner).sync();
            }
        }
        state.directory(path).change(change);
        self.world.begin(&mut state, || format!("sync directory {}", path.display()))?;
        state.directory(path).sync();
        Ok(Arc::new(Self { world: self.world.clone(), path: path.to_owned() }))
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.world.check_here().map(|()| None)
    }

    fn boot_id(&self) -> Option<u128> {
        Some(self.world.state_even_if_gone().boot_id + 1)
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        Ok(self.world.state()?.directory(&self.path).uploads.iter().cloned().collect())
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        let mut state = self.world.state()?;
        match state.directory(&self.path).uploads.remove(upload) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NotFound, &upload.name, "there is no such upload")),
        }
    }

    fn describe(&self) -> String {
        match self.path.as_os_str().is_empty() {
            true => "memory".to_owned(),
            false => format!("memory:{}", self.path.display()),
        }
    }
}

#[derive(Debug)]
struct MemoryLock {
    memory: Memory,
    exclusive: bool,
}

impl StorageLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut state = self.memory.world.state_even_if_gone();
        let directory = state.directory(&self.memory.path);
        match self.exclusive {
            true => directory.writer = false,
            false => directory.readers -= 1,
        }
    }
}

#[derive(Debug)]
struct MemoryWriteFile {
    world: Arc<World>,
    inode: Arc<Inode>,
    name: String,
    old: Mutex<OldBytes>,
}

impl MemoryWriteFile {
    fn lock_old(&self) -> MutexGuard<'_, OldBytes> {
        self.old.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, offset: u64, bytes: &[u8], zeros: &[u8]) -> Result<()> {
        check_end(&self.name, offset, bytes.len())?;
        let mut state = self.world.state()?;
        let what = || format!("write {} bytes to {} at {offset}", bytes.len(), self.name);
        let done = self.world.begin_write(&mut state, bytes.len(), what)?;
        let mut content = self.inode.content.write().unwrap_or_else(PoisonError::into_inner);
        content.write(offset, &bytes[..done.unwrap_or(bytes.len())]);
        if done.is_none() {
            content.write(offset + bytes.len() as u64, zeros);
        }
        drop(content);
        self.world.check_here()
    }
}

impl WriteFile for MemoryWriteFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.lock_old().reach(offset.saturating_add(bytes.len() as u64));
        self.write(offset, bytes, &[])
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_end(&self.name, offset, bytes.len() + PAGE_BYTES as usize)?;
        let end = offset + bytes.len() as u64;
        self.lock_old().reach(end);
        self.write(offset, bytes, zeros_after(end))
    }

    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_end(&self.name, offset, bytes.len())?;
        let end = offset + bytes.len() as u64;
        // Held across the write: a write behind it comes after its zeros.
        let mut old = self.lock_old();
        old.reach(end);
        let zeros = old.zeros_behind(end);
        self.write(offset, bytes, zeros)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.world.check_here()?;
        let content = self.inode.content.read().unwrap_or_else(PoisonError::into_inner);
        check_range(&self.name, offset, out.len(), content.len())?;
        content.read(offset, out);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.world.state()?;
        self.world.begin(&mut state, || format!("sync {}", self.name))?;
        self.inode.content.write().unwrap_or_else(PoisonError::into_inner).sync();
        Ok(())
    }

    fn write_back(&self, _offset: u64, _bytes: u64) -> Result<()> {
        self.world.check_here()
    }

    fn allocate(&self, _bytes: u64) -> Result<()> {
        self.world.check_here()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        check_end(&self.name, bytes, 0)?;
        let mut state = self.world.state()?;
        self.world.begin(&mut state, || format!("set the length of {} to {bytes}", self.name))?;
        self.inode.content.write().unwrap_or_else(PoisonError::into_inner).set_len(bytes);
        self.lock_old().cut(bytes);
        Ok(())
    }
}

/// `Invalid` where a file would end beyond what memory can address.
fn check_end(name: &str, offset: u64, bytes: usize) -> Result<()> {
    let end = offset.checked_add(bytes as u64).and_then(|end| isize::try_from(end).ok());
    match end {
        Some(_) => Ok(()),
        None => Err(Error::new(ErrorKind::Invalid, name, "the file would be too long for memory")),
    }
}

#[derive(Debug)]
struct MemoryReadFile {
    world: Arc<World>,
    inode: Arc<Inode>,
    name: String,
    len: u64,
}

impl ReadFile for MemoryReadFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.world.check_here()?;
        let content = self.inode.content.read().unwrap_or_else(PoisonError::into_inner);
        check_range(&self.name, offset, out.len(), self.len.min(content.len()))?;
        content.read(offset, out);
        Ok(())
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        self.world.check_here()?;
        let mut content = self.inode.content.write().unwrap_or_else(PoisonError::into_inner);
        let len = self.len.min(content.len());
        // Lengths were checked to fit when the file was made so long.
        let whole = content.whole(usize::try_from(len).unwrap_or(0));
        Ok(Some(FileBytes::new(whole)))
    }
}
