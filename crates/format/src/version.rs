//! Versions of the on-disk format.

use crate::error::{Error, Result};

/// A release of the on-disk format. Every file carries one in its header; numbers only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum FormatVersion {
    /// The first: frames, tables with two-level indexes, numbered manifest edits.
    V1 = 1,
}

impl FormatVersion {
    /// What this build writes, and the newest it reads.
    pub const CURRENT: Self = Self::V1;

    /// The version of a file whose header says `number` at `offset`.
    ///
    /// # Errors
    /// A number this build does not know; the message says which release reads it.
    pub fn from_u32(number: u32, offset: usize) -> Result<Self> {
        match number {
            1 => Ok(Self::V1),
            _ => Err(Error::newer(
                offset,
                format!("format version {} or older", Self::CURRENT as u32),
                format!("version {number} (written by a newer Firn: upgrade to read it)"),
            )),
        }
    }
}
