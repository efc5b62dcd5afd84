//! Parts of a table that is being opened.

use std::borrow::Cow;

use firn_format::compression;
use firn_format::table::block::{self, Checked};
use firn_format::table::{FOOTER_BYTES, Footer, Handle};

use crate::file::tail::Tail;
use crate::{Error, ErrorKind, ReadFile, Result};

/// Fetches parts of a file that is being opened.
pub(super) struct Parts<'f> {
    name: &'f str,
    file: &'f dyn ReadFile,
    bytes: Option<&'f [u8]>,
    /// What was read of a file that is not mapped, if anything was.
    tail: Option<Tail>,
}

impl<'f> Parts<'f> {
    pub(super) fn new(
        name: &'f str,
        file: &'f dyn ReadFile,
        bytes: Option<&'f [u8]>,
        tail: Option<Tail>,
    ) -> Self {
        Self { name, file, bytes, tail }
    }

    /// What was read.
    pub(super) fn into_tail(self) -> Option<Tail> {
        self.tail
    }

    /// The footer, and where the first of what it names begins. Of a file that is not mapped its
    /// end is read.
    pub(super) fn footer(&mut self) -> Result<(Footer, u64)> {
        let Some(offset) = self.file.len().checked_sub(FOOTER_BYTES as u64) else {
            let message =
                format!("expected a table of at least {FOOTER_BYTES} bytes, found {}", self.file.len());
            return Err(Error::corrupt(self.name, 0, message));
        };
        if self.bytes.is_none() && self.tail.is_none() {
            self.tail = Some(Tail::read(self.file)?);
        }
        let bytes = self.fetch(Handle { offset, bytes: FOOTER_BYTES as u64 })?;
        let footer =
            Footer::decode(&bytes, self.file.len()).map_err(|error| corrupt(self.name, offset, &error))?;
        drop(bytes);
        let named = footer.handles().into_iter().filter(|(_, handle)| handle.bytes > 0);
        Ok((footer, named.map(|(_, handle)| handle.offset).min().unwrap_or(offset)))
    }

    /// What lies from `first` on is read too unless the file is mapped, all at once.
    pub(super) fn reach(&mut self, first: u64) -> Result<()> {
        self.tail.as_mut().map_or(Ok(()), |tail| tail.reach(self.file, first))
    }

    pub(super) fn fetch(&self, handle: Handle) -> Result<Cow<'_, [u8]>> {
        let past_end = || Error::corrupt(self.name, handle.offset, "expected a part inside the file");
        let bytes = usize::try_from(handle.bytes).map_err(|_| past_end())?;
        if let Some(all) = self.bytes {
            let start = usize::try_from(handle.offset).map_err(|_| past_end())?;
            return all
                .get(start..)
                .and_then(|rest| rest.get(..bytes))
                .map(Cow::Borrowed)
                .ok_or_else(past_end);
        }
        if let Some(found) = self.tail.as_ref().and_then(|tail| tail.get(handle.offset, bytes)) {
            return Ok(Cow::Borrowed(found));
        }
        let mut out = vec![0; bytes];
        self.file.read_at(handle.offset, &mut out)?;
        Ok(Cow::Owned(out))
    }

    pub(super) fn payload(&self, handle: Handle) -> Result<Cow<'_, [u8]>> {
        let wrap = |error| corrupt(self.name, handle.offset, &error);
        let (payload_bytes, mut block) = {
            let block = self.fetch(handle)?;
            match block::check(&block).map_err(wrap)? {
                Checked::Raw(payload) => (payload.len(), block),
                Checked::Compressed { codec, stored, raw_bytes } => {
                    let mut out = Vec::new();
                    compression::decompress(codec, stored, raw_bytes, &mut out).map_err(wrap)?;
                    (out.len(), Cow::Owned(out))
                }
            }
        };
        match &mut block {
            Cow::Borrowed(bytes) => *bytes = bytes.get(..payload_bytes).unwrap_or_default(),
            Cow::Owned(bytes) => bytes.truncate(payload_bytes),
        }
        Ok(block)
    }

    pub(super) fn filter(&self, handle: Handle) -> Result<LineAligned> {
        match handle.bytes {
            0 => Ok(LineAligned::default()),
            _ => Ok(LineAligned::copy_of(&self.payload(handle)?)),
        }
    }
}

/// Bytes that do not decode; `Invalid` if a newer release wrote them.
pub(super) fn corrupt(name: &str, offset: u64, error: &firn_format::Error) -> Error {
    let corrupt = Error::corrupt(name, offset + error.offset as u64, error.to_string());
    if error.is_newer { Error { kind: ErrorKind::Invalid, ..corrupt } } else { corrupt }
}

/// Bytes that begin on a cache line, so that a look into a filter touches one line.
#[derive(Debug, Default)]
pub(super) struct LineAligned {
    bytes: Vec<u8>,
    start: usize,
}

impl LineAligned {
    /// Heap bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn copy_of(bytes: &[u8]) -> Self {
        let mut all = vec![0; bytes.len() + 63];
        let start = all.as_ptr().align_offset(64).min(63);
        if let Some(to) = all.get_mut(start..start + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        all.truncate(start + bytes.len());
        Self { bytes: all, start }
    }

    #[inline]
    pub(super) fn get(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}
