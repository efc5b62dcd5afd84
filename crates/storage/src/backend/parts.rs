//! One file that several tables share, one after another: each is a part of it.
//!
//! ```text
//!   PartsWriter: create "a" ─► part 0..n ─► create "b" ─► part n..m ─► sync ─► close
//!   open_table "FILE@n+(m-n)" ─► FILE, of which only n..m is seen
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use firn_format::file_name::{self, Part};

use crate::backend::{UnfinishedUpload, check_range};
use crate::{Error, ErrorKind, FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

/// Opens the table `name` of `bytes` bytes: a file, or a part of one.
///
/// # Errors
/// As [`Storage::open_read_known`].
pub fn open_table(storage: &dyn Storage, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
    match file_name::part(name) {
        None => storage.open_read_known(name, bytes),
        Some(part) if part.bytes == bytes => storage.open_part(part.file, part.offset, bytes),
        Some(part) => Err(Error::wrong_length(name, bytes, part.bytes)),
    }
}

/// The bytes `offset..offset + bytes` of `whole`, which is called `file`.
pub(super) fn part_of(
    file: &str,
    whole: Arc<dyn ReadFile>,
    offset: u64,
    bytes: u64,
) -> Result<Arc<dyn ReadFile>> {
    let name = Part { file, offset, bytes }.to_string();
    match offset.checked_add(bytes) {
        Some(end) if end <= whole.len() => Ok(Arc::new(PartOfFile { name, whole, offset, bytes })),
        _ => {
            let message =
                format!("expected a table of {bytes} bytes here, but the file ends at {}", whole.len());
            Err(Error::corrupt(&name, 0, message))
        }
    }
}

/// A part of a file that is read; others read other parts of it.
#[derive(Debug)]
struct PartOfFile {
    name: String,
    whole: Arc<dyn ReadFile>,
    offset: u64,
    bytes: u64,
}

impl ReadFile for PartOfFile {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        check_range(&self.name, offset, out.len(), self.bytes)?;
        let read = self.whole.read_at(self.offset + offset, out);
        read.map_err(|error| Error { file: self.name.clone(), offset: Some(offset), ..error })
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        let offset = offset.min(self.bytes);
        self.whole.will_need(self.offset + offset, bytes.min(self.bytes - offset));
    }

    fn will_look_up(&self, offset: u64, bytes: u64) {
        let offset = offset.min(self.bytes);
        self.whole.will_look_up(self.offset + offset, bytes.min(self.bytes - offset));
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        let Some(whole) = self.whole.bytes()? else { return Ok(None) };
        let (Ok(start), Ok(bytes)) = (usize::try_from(self.offset), usize::try_from(self.bytes)) else {
            return Ok(None);
        };
        Ok(whole.part(start..start + bytes))
    }
}

/// Files of which parts are read: each is open once, for as long as a part of it is.
#[derive(Debug, Default)]
pub(super) struct SharedFiles {
    open: Mutex<BTreeMap<String, Weak<dyn ReadFile>>>,
}

impl SharedFiles {
    /// The file `name`, which `open` opens unless it is open.
    pub(super) fn open(
        &self,
        name: &str,
        open: impl FnOnce() -> Result<Arc<dyn ReadFile>>,
    ) -> Result<Arc<dyn ReadFile>> {
        let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(name).and_then(Weak::upgrade) {
            return Ok(file);
        }
        let file = open()?;
        files.retain(|_, file| file.strong_count() > 0);
        files.insert(name.to_owned(), Arc::downgrade(&file));
        Ok(file)
    }
}

/// A backend whose new files are parts of one file of another backend, in the order in which they
/// are created.
///
/// 1. One part is written at a time: it ends where it has been written to when the next is created.
/// 2. Nothing is synced before [`sync`](Self::sync), whatever a part or this backend is asked for.
/// 3. What is removed stays, as bytes that belong to no table.
/// 4. What is read is read of the other backend.
#[derive(Debug)]
pub struct PartsWriter<'s> {
    inner: &'s dyn Storage,
    name: String,
    file: Arc<dyn WriteFile>,
    written: Arc<Mutex<Written>>,
}

/// What was written, by the names that parts were created with: where each begins and ends; and
/// where the last one ends.
#[derive(Debug, Default)]
struct Written {
    parts: BTreeMap<String, (u64, u64)>,
    newest: String,
    end: u64,
}

impl<'s> PartsWriter<'s> {
    /// Creates the file `<stem>-000000.tables` of `storage`.
    ///
    /// # Errors
    /// What creating it says.
    pub fn create(storage: &'s dyn Storage, stem: &str) -> Result<Self> {
        let name = file_name::tables(stem, 0);
        let file = storage.create(&name)?;
        Ok(Self { inner: storage, name, file, written: Arc::default() })
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of all parts.
    pub fn len(&self) -> u64 {
        lock(&self.written).end
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the table that was created as `created`, which is whole.
    ///
    /// # Errors
    /// `NotFound` if there is no such part.
    pub fn part_name(&self, created: &str) -> Result<String> {
        let written = lock(&self.written);
        let Some((offset, end)) = written.parts.get(created) else {
            return Err(Error::new(ErrorKind::NotFound, created, "no such part was written"));
        };
        Ok(Part { file: &self.name, offset: *offset, bytes: end - offset }.to_string())
    }

    /// Blocks until the device has all of it. The name is durable after [`Storage::sync_dir`] of
    /// the backend that it lies in.
    ///
    /// # Errors
    /// What syncing says; the file's content is unknown then.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

fn lock(written: &Mutex<Written>) -> MutexGuard<'_, Written> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage for PartsWriter<'_> {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let mut written = lock(&self.written);
        let start = written.end;
        if written.parts.insert(name.to_owned(), (start, start)).is_some() {
            return Err(Error::new(ErrorKind::Exists, name, "the part was created before"));
        }
        name.clone_into(&mut written.newest);
        drop(written);
        let (file, written) = (Arc::clone(&self.file), Arc::clone(&self.written));
        Ok(Arc::new(PartBeingWritten { name: name.to_owned(), file, start, written }))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Err(only_created(name))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read(name)
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_read_known(name, bytes)
    }

    fn open_part(&self, name: &str, offset: u64, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.inner.open_part(name, offset, bytes)
    }

    fn publish(&self, name: &str, _bytes: &[u8]) -> Result<()> {
        Err(only_created(name))
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        Err(only_created(from))
    }

    fn remove(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        Err(only_created(&self.name))
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self, _exclusive: bool) -> Result<Box<dyn StorageLock>> {
        Err(only_created(&self.name))
    }

    fn link_into(&self, _names: &[String], _path: &Path) -> Result<Arc<dyn Storage>> {
        Err(only_created(&self.name))
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        Err(only_created(&self.name))
    }

    fn describe(&self) -> String {
        format!("{} in {}", self.name, self.inner.describe())
    }
}

fn only_created(name: &str) -> Error {
    Error::new(ErrorKind::Invalid, name, "parts of a file can be created here, and nothing else")
}

/// The device is asked to begin with so many bytes of a part at least.
const WRITE_BACK_BYTES_MIN: u64 = 256 << 10;

/// The newest part of a file; see [`PartsWriter`].
#[derive(Debug)]
struct PartBeingWritten {
    name: String,
    file: Arc<dyn WriteFile>,
    start: u64,
    written: Arc<Mutex<Written>>,
}

impl WriteFile for PartBeingWritten {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = self.start + offset;
        let mut written = lock(&self.written);
        if written.newest != self.name {
            return Err(Error::new(
                ErrorKind::Invalid,
                &self.name,
                "another part begins where this one ended",
            ));
        }
        self.file.write_at(at, bytes)?;
        written.end = written.end.max(at + bytes.len() as u64);
        let end = written.end;
        if let Some(part) = written.parts.get_mut(&self.name) {
            part.1 = end;
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_at(self.start + offset, out)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        // What is less waits for the sync: to ask for each of many small parts costs more than it
        // saves.
        if bytes < WRITE_BACK_BYTES_MIN {
            return Ok(());
        }
        self.file.write_back(self.start + offset, bytes)
    }

    fn allocate(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn set_len(&self, _bytes: u64) -> Result<()> {
        Err(only_created(&self.name))
    }
}
