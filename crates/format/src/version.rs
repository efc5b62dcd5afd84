//! Versions of the on-disk format.

use crate::error::{Error, Result};

/// A release of the on-disk format. Every file carries one in its header; numbers only grow.
///
/// There is one. Before the first release a format is changed in place; after it, what changes
/// takes the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum FormatVersion {
    /// The first.
    V1 = 1,
}

impl FormatVersion {
    /// What this build reads and writes.
    pub const CURRENT: Self = Self::V1;

    /// The version of a file whose header says `number` at `offset`.
    ///
    /// # Errors
    /// A number this build does not know; the message says which release reads it.
    pub fn of(number: u32, offset: usize) -> Result<Self> {
        match number {
            1 => Ok(Self::V1),
            _ => Err(Error::newer(
                offset,
                format!("format version {}", Self::CURRENT as u32),
                format!("version {number} (written by a newer Firn: upgrade to read it)"),
            )),
        }
    }
}
