//! Changes of a hashed engine's cold log.

use super::change::address;
use crate::bytes::Reader;
use crate::error::Result;
use crate::varint;

/// A change of a cold log, or of the runs of its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColdChange {
    /// It lies on the device up to an address.
    Cut {
        /// One past the last word that counts.
        address: u64,
    },
    /// It begins here: what lies before is not needed any more.
    Begin {
        /// The oldest word.
        address: u64,
    },
    /// A run is there.
    Run {
        /// It is newer than those with lower numbers.
        number: u64,
        /// Records before this address are in runs.
        spilled: u64,
    },
    /// A run is in another one now, or was dead.
    DropRun {
        /// Its number.
        number: u64,
    },
}

impl ColdChange {
    /// The number that stands for this kind of change.
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Cut { .. } => 104,
            Self::Begin { .. } => 105,
            Self::Run { .. } => 106,
            Self::DropRun { .. } => 107,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Cut { address } | Self::Begin { address } => varint::encode(*address, out),
            Self::Run { number, spilled } => {
                varint::encode(*number, out);
                varint::encode(*spilled, out);
            }
            Self::DropRun { number } => varint::encode(*number, out),
        }
    }

    /// The change of a tag from 104 to 107.
    pub(super) fn decode(tag: u8, fields: &mut Reader<'_>) -> Result<Self> {
        Ok(match tag {
            104 => Self::Cut { address: address(fields)? },
            105 => Self::Begin { address: address(fields)? },
            106 => Self::Run { number: fields.number()?, spilled: address(fields)? },
            _ => Self::DropRun { number: fields.number()? },
        })
    }
}
