//! Files of the local file system.

use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::Errno;

use crate::backend::mapped::{self, Mapping};
use crate::{Error, ErrorKind, FileBytes, ReadFile, Result, WriteFile};

use super::descriptors::{Descriptors, Slot};
use super::open_file::{OpenFile, read_exact};

/// A file being written.
#[derive(Debug)]
pub(super) struct LocalWriteFile {
    shared: Arc<OpenFile>,
    /// The first failure of a sync, which is every later sync's answer too.
    sync_failure: OnceLock<Error>,
}

impl LocalWriteFile {
    pub(super) fn new(shared: Arc<OpenFile>) -> Self {
        Self { shared, sync_failure: OnceLock::new() }
    }
}

impl Drop for LocalWriteFile {
    fn drop(&mut self) {
        // What cannot be written stays in the slot, which no other file gets: the next exclusive
        // lock finds it.
        let _ = self.shared.leave_combiner();
    }
}

impl WriteFile for LocalWriteFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.shared.write_past(offset, bytes)
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.shared.write_zeroing(offset, bytes)
    }

    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.shared.write_combined(offset, bytes)
    }

    fn hand_over(&self) -> Result<()> {
        self.shared.leave_combiner()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.shared.read(offset, out)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        // A length of zero would mean "to the end".
        if let Some(bytes) = NonZeroU64::new(bytes) {
            let _ = rustix::fs::fadvise(&self.shared.file, offset, Some(bytes), Advice::WillNeed);
        }
    }

    /// `fdatasync`. A failure is final: after it the system may drop the unwritten pages and say
    /// yes to the next call. So every later call on this handle fails with the first cause and asks
    /// the system no more.
    fn sync(&self) -> Result<()> {
        let file = &*self.shared;
        if let Some(failure) = self.sync_failure.get() {
            return Err(failure.clone());
        }
        file.settle()?;
        file.file.sync_data().map_err(|error| {
            let error = Error::sync(&file.name, "sync (its content is now unknown)", error);
            self.sync_failure.get_or_init(|| error).clone()
        })
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            // To the system a length of zero would mean "to the end".
            return Ok(());
        }
        let file = &*self.shared;
        file.settle()?;
        // What the device says of bytes that it was given before may be told here, and then never
        // again.
        mapped::begin_write_back(&file.file, offset, bytes)
            .map_err(|error| Error { offset: Some(offset), ..Error::sync(&file.name, "write back", error) })
    }

    /// `fallocate` that keeps the length: blocks are set aside, the file does not look longer, and
    /// bytes beyond its length are not readable. File systems that cannot do it do nothing.
    fn allocate(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        loop {
            match rustix::fs::fallocate(&self.shared.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io(&self.shared.name, "allocate space for", errno.into())),
            }
        }
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.shared.set_len(bytes)
    }
}

/// Bytes that the system is asked for ahead at once.
const ASK_BYTES: usize = 128 << 10;

/// A file being read.
#[derive(Debug)]
pub(super) struct LocalReadFile {
    slot: Arc<Slot>,
    name: String,
    len: u64,
    maps: bool,
    mapping: OnceLock<Arc<Mapping>>,
}

impl LocalReadFile {
    /// The file `name` of a directory whose open files `descriptors` are.
    pub(super) fn open(descriptors: &Arc<Descriptors>, name: &str, maps: bool) -> Result<Self> {
        let (slot, metadata) = descriptors.open(name)?;
        Ok(Self { slot, name: name.to_owned(), len: metadata.len(), maps, mapping: OnceLock::new() })
    }
}

impl ReadFile for LocalReadFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        super::super::check_range(&self.name, offset, out.len(), self.len)?;
        match (self.slot.file(), self.mapping.get()) {
            (Ok(file), _) => {
                read_exact(&file, &self.name, offset, out, "the file was cut after it was opened")
            }
            // Its name is gone, and what it holds is not.
            (Err(error), Some(mapping)) if error.kind == ErrorKind::NotFound => {
                out.copy_from_slice(&(**mapping).as_ref()[offset as usize..][..out.len()]);
                Ok(())
            }
            (Err(error), _) => Err(error),
        }
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.len);
        let file = match (self.slot.if_open(), self.mapping.get()) {
            (Some(file), _) => file,
            (None, Some(mapping)) => {
                let _ = mapping.will_need(offset.min(end) as usize..end as usize);
                return;
            }
            (None, None) => match self.slot.file() {
                Ok(file) => file,
                // The read itself reports the error.
                Err(_) => return,
            },
        };
        // Of more at once the system may forget the rest.
        for piece in (offset..end).step_by(ASK_BYTES) {
            // A length of zero would mean "to the end".
            if let Some(bytes) = NonZeroU64::new((end - piece).min(ASK_BYTES as u64)) {
                let _ = rustix::fs::fadvise(&file, piece, Some(bytes), Advice::WillNeed);
            }
        }
    }

    /// Maps the file once; every answer shares that mapping. It is closed then: a mapping needs no
    /// descriptor.
    fn bytes(&self) -> Result<Option<FileBytes>> {
        if !self.maps {
            return Ok(None);
        }
        if self.len == 0 {
            return Ok(Some(FileBytes::new(Arc::new([]))));
        }
        let Ok(len) = usize::try_from(self.len) else { return Ok(None) };
        if self.mapping.get().is_none() {
            let file = self.slot.file()?;
            let mapping = Mapping::of(&file, len).map_err(|error| Error::io(&self.name, "map", error))?;
            // Of two threads that map at once, the slower one's mapping is dropped here.
            let _ = self.mapping.set(Arc::new(mapping));
            self.slot.let_go();
        }
        Ok(self.mapping.get().map(|mapping| FileBytes::mapped(mapping.clone())))
    }
}
