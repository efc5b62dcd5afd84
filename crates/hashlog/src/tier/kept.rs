//! Files that are here and there: the newest stay here, within a number of bytes.

use std::collections::VecDeque;
use std::sync::PoisonError;

use firn_engine::Result;
use firn_format::file_name;
use firn_format::hybrid::{Extent, LogKind};

use super::Tier;
use crate::device::Device;
use crate::needless::remove_needless;

/// A local file that lies where other machines reach it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptFile {
    /// A sealed segment, as this extent.
    Segment(Extent),
    /// A value.
    Value(u64),
}

/// Those that there are, oldest first, and some that have gone since.
#[derive(Debug, Default)]
pub(super) struct Kept {
    files: VecDeque<(KeptFile, u64)>,
    bytes: u64,
}

impl Tier {
    /// Notes a file that is here and there.
    pub(crate) fn keep(&self, file: KeptFile, bytes: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.files.push_back((file, bytes));
        kept.bytes += bytes;
    }

    /// Removes the oldest of these files here, as long as they take too much; from then on they are
    /// read there.
    ///
    /// # Errors
    /// Those of opening and removing them: they are tried again by the next call, or stay.
    pub(crate) fn evict(&self, hybrid: &Device, cold: &Device) -> Result<()> {
        while let Some((file, bytes)) = self.oldest() {
            if let Err(error) = self.evict_file(file, hybrid, cold) {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.files.push_front((file, bytes));
                kept.bytes += bytes;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The next one that is to go.
    fn oldest(&self) -> Option<(KeptFile, u64)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes <= self.local_bytes_max {
            return None;
        }
        let oldest = kept.files.pop_front()?;
        kept.bytes -= oldest.1;
        Some(oldest)
    }

    fn evict_file(&self, file: KeptFile, hybrid: &Device, cold: &Device) -> Result<()> {
        match file {
            KeptFile::Segment(extent) => {
                let device = if extent.log == LogKind::Hybrid { hybrid } else { cold };
                device.move_away(extent.from, || self.open_extent(extent))
            }
            KeptFile::Value(number) => {
                remove_needless(&*self.parts.local, std::iter::once(file_name::value(number)))
            }
        }
    }
}
