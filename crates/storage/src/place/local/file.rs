//! Files of the local file system.

use std::fs::File;
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::Errno;

use crate::place::mapped::{self, Mapping};
use crate::place::zeros_after;
use crate::{Error, FileBytes, ReadFile, Result, WriteFile};

/// A file being written.
#[derive(Debug)]
pub(super) struct LocalWriteFile {
    file: File,
    name: String,
    /// The first failure of a sync, which is every later sync's answer too.
    sync_failure: OnceLock<Error>,
}

impl LocalWriteFile {
    pub(super) fn new(file: File, name: &str) -> Self {
        Self { file, name: name.to_owned(), sync_failure: OnceLock::new() }
    }
}

impl WriteFile for LocalWriteFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|error| Error { offset: Some(offset), ..Error::io(&self.name, "write", error) })
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let zeros = zeros_after(offset + bytes.len() as u64);
        let parts = [IoSlice::new(bytes), IoSlice::new(zeros)];
        let written = loop {
            match rustix::io::pwritev(&self.file, &parts, offset) {
                Err(Errno::INTR) => {}
                written => break written,
            }
        };
        let written = written.map_err(|errno| Error {
            offset: Some(offset),
            ..Error::io(&self.name, "write", errno.into())
        })?;
        // What is missing of the bytes is written without zeros; what is missing of these was not promised.
        match bytes.get(written..) {
            None | Some([]) => Ok(()),
            Some(rest) => self.write_at(offset + written as u64, rest),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_exact(&self.file, &self.name, offset, out, "the file ends before what was written to it")
    }

    /// `fdatasync`. A failure is final: after one the system may drop the unwritten pages and say yes to the
    /// next call, so every later call on this handle fails with the first cause and asks the system no more.
    fn sync(&self) -> Result<()> {
        if let Some(failure) = self.sync_failure.get() {
            return Err(failure.clone());
        }
        self.file.sync_data().map_err(|error| {
            let error = Error::io(&self.name, "sync (its content is now unknown)", error);
            self.sync_failure.get_or_init(|| error).clone()
        })
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            // To the system a length of zero would mean "to the end".
            return Ok(());
        }
        mapped::begin_write_back(&self.file, offset, bytes)
            .map_err(|error| Error { offset: Some(offset), ..Error::io(&self.name, "write back", error) })
    }

    /// `fallocate` that keeps the length: blocks are set aside, the file does not look longer, and bytes beyond
    /// its length are not readable. File systems that cannot do it do nothing.
    fn allocate(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io(&self.name, "allocate space for", errno.into())),
            }
        }
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|error| Error::io(&self.name, "set the length of", error))
    }
}

/// Bytes that the system is asked for ahead at once.
const ASK_BYTES: usize = 128 << 10;

/// A file being read.
#[derive(Debug)]
pub(super) struct LocalReadFile {
    file: File,
    name: String,
    len: u64,
    maps: bool,
    mapping: OnceLock<Arc<Mapping>>,
}

impl LocalReadFile {
    pub(super) fn new(file: File, name: &str, maps: bool) -> Result<Self> {
        let len = file.metadata().map_err(|error| Error::io(name, "look at", error))?.len();
        Ok(Self { file, name: name.to_owned(), len, maps, mapping: OnceLock::new() })
    }
}

impl ReadFile for LocalReadFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        super::super::check_range(&self.name, offset, out.len(), self.len)?;
        read_exact(&self.file, &self.name, offset, out, "the file was cut after it was opened")
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.len);
        // Of more at once the system may forget the rest.
        for piece in (offset..end).step_by(ASK_BYTES) {
            // A length of zero would mean "to the end".
            if let Some(bytes) = NonZeroU64::new((end - piece).min(ASK_BYTES as u64)) {
                let _ = rustix::fs::fadvise(&self.file, piece, Some(bytes), Advice::WillNeed);
            }
        }
    }

    /// Maps the file once; every answer shares that mapping.
    fn bytes(&self) -> Result<Option<FileBytes>> {
        if !self.maps {
            return Ok(None);
        }
        if self.len == 0 {
            return Ok(Some(FileBytes::new(Arc::new([]))));
        }
        let Ok(len) = usize::try_from(self.len) else { return Ok(None) };
        if self.mapping.get().is_none() {
            let mapping =
                Mapping::of(&self.file, len).map_err(|error| Error::io(&self.name, "map", error))?;
            // Of two threads that map at once, the slower one's mapping is dropped here.
            let _ = self.mapping.set(Arc::new(mapping));
        }
        Ok(self.mapping.get().map(|mapping| FileBytes::mapped(mapping.clone())))
    }
}

/// Fills `out` from `offset`; where the file ends before, that is corruption, and `why`.
fn read_exact(file: &File, name: &str, offset: u64, out: &mut [u8], why: &str) -> Result<()> {
    file.read_exact_at(out, offset).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt(name, offset, why),
        _ => Error { offset: Some(offset), ..Error::io(name, "read", error) },
    })
}
