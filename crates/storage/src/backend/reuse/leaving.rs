//! New files that leave some of the disk free.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Reusing;
use crate::{Error, ErrorKind, Result, Storage, WriteFile};

/// A new file that fails with `Full` before it takes what is to stay free.
#[derive(Debug)]
pub(super) struct Leaving {
    inner: Arc<dyn WriteFile>,
    name: String,
    backend: Arc<dyn Storage>,
    left_bytes: Arc<AtomicU64>,
    /// The file may grow to here before the backend is asked again.
    allowed_bytes: AtomicU64,
}

/// The backend is asked again when a file has taken this share of what may be taken, so that
/// several files written at once leave enough.
const SHARE: u64 = 16;

/// Bytes after which it is asked again at the latest, and at the earliest.
const ASK_BYTES_MAX: u64 = 8 << 20;
const ASK_BYTES_MIN: u64 = 64 << 10;

impl Leaving {
    /// `inner`, a file of `backend` that has `bytes` of the disk already.
    pub(super) fn of(
        backend: &Reusing,
        name: &str,
        inner: Arc<dyn WriteFile>,
        bytes: u64,
    ) -> Arc<dyn WriteFile> {
        Arc::new(Self {
            inner,
            name: name.to_owned(),
            backend: Arc::clone(&backend.inner),
            left_bytes: Arc::clone(&backend.left_bytes),
            allowed_bytes: AtomicU64::new(bytes),
        })
    }

    /// `Full` where the file must not grow to `end`.
    fn may_grow(&self, end: u64) -> Result<()> {
        let allowed = self.allowed_bytes.load(Ordering::Relaxed);
        if end <= allowed {
            return Ok(());
        }
        // A backend that cannot be asked tells when it is written to.
        let Ok(Some(free)) = self.backend.free_bytes() else { return Ok(()) };
        let left = self.left_bytes.load(Ordering::Relaxed);
        let wanted = end - allowed;
        if free < left.saturating_add(wanted) {
            let message = format!(
                "the disk is full ({free} bytes are free, of which {left} are kept): free some space, or raise the quota"
            );
            return Err(Error::new(ErrorKind::Full, &self.name, message));
        }
        let more = ((free - left) / SHARE).clamp(ASK_BYTES_MIN, ASK_BYTES_MAX);
        self.allowed_bytes.fetch_max(end + more, Ordering::Relaxed);
        Ok(())
    }
}

impl WriteFile for Leaving {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.may_grow(offset + bytes.len() as u64)?;
        self.inner.write_at(offset, bytes)
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.may_grow(offset + bytes.len() as u64)?;
        self.inner.write_zeroing(offset, bytes)
    }

    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.may_grow(offset + bytes.len() as u64)?;
        self.inner.write_combined(offset, bytes)
    }

    fn hand_over(&self) -> Result<()> {
        self.inner.hand_over()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, out)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.inner.will_need(offset, bytes);
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.write_back(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.may_grow(bytes)?;
        self.inner.allocate(bytes)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes)
    }
}
