//! Versions of the on-disk format.

use crate::error::{Error, Result};

/// A release of the on-disk format. Every file carries one in its header; numbers only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum FormatVersion {
    /// The first: frames, tables with two-level indexes, numbered manifest edits.
    V1 = 1,
    /// What refers to values beside the tree is shorter: references, trailers of table entries, heads of values; and tables say the
    /// least length of a value that they refer to. In log segments, tables and value segments; other files are as in V1 and say so.
    V2 = 2,
    /// References have half of the checksum. In log segments and tables; other files are as in the version before.
    V3 = 3,
}

impl FormatVersion {
    /// The newest that this build reads, and what it writes where that version changed something.
    pub const CURRENT: Self = Self::V3;

    /// The version of a file whose header says `number` at `offset`, where `self` is the newest of such files.
    ///
    /// # Errors
    /// A number this build does not know, or one that such files never had; the message says which release reads it.
    pub fn or_older(self, number: u32, offset: usize) -> Result<Self> {
        match number {
            1 => Ok(Self::V1),
            2 if self >= Self::V2 => Ok(Self::V2),
            3 if self >= Self::V3 => Ok(Self::V3),
            _ => Err(Error::newer(
                offset,
                format!("format version {} or older", self as u32),
                format!("version {number} (written by a newer Firn: upgrade to read it)"),
            )),
        }
    }
}
