//! What the manifest knows about blob segments.
//!
//! ```text
//! segment   number number, file text, bytes number, ordinals number, value_bytes number, checksum u64, sealed_at number
//! relocation  holder number, offset number, bytes number
//! ```
//! Since: FormatVersion::V1.

use crate::blob::SegmentNumber;
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::key::Position;
use crate::manifest::change::{file, position, put_file};
use crate::varint;

/// What the manifest knows about a sealed blob segment without opening it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobSegmentMeta {
    /// Its number.
    pub number: SegmentNumber,
    /// Name of its file.
    pub file: String,
    /// Length of the file.
    pub bytes: u64,
    /// How many values it began with, including those that were given up.
    pub ordinals: u32,
    /// Lengths of all its values together.
    pub value_bytes: u64,
    /// Checksum of its footer, which has that of the ordinal table.
    pub checksum: u64,
    /// Every record that refers to one of its values was written below this log position.
    pub sealed_at: Position,
}

/// Where a relocation lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelocationTarget {
    /// The blob segment whose file holds it.
    pub holder: SegmentNumber,
    /// Offset in that file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl BlobSegmentMeta {
    /// Appends the description's bytes to `out`: the body of an `AddBlobSegment` change, and part
    /// of jobs' specs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::encode(self.number.0.into(), out);
        put_file(&self.file, out);
        varint::encode(self.bytes, out);
        varint::encode(self.ordinals.into(), out);
        varint::encode(self.value_bytes, out);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        varint::encode(self.sealed_at.0, out);
    }

    /// Takes a description off the front of `fields`.
    ///
    /// # Errors
    /// A field is malformed.
    pub fn decode(fields: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            number: segment_number(fields)?,
            file: file(fields)?,
            bytes: fields.number()?,
            ordinals: fields.number32()?,
            value_bytes: fields.number()?,
            checksum: fields.u64()?,
            sealed_at: position(fields)?,
        })
    }
}

impl RelocationTarget {
    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::encode(self.holder.0.into(), out);
        varint::encode(self.offset, out);
        varint::encode(self.bytes, out);
    }

    /// Takes a place off the front of `fields`.
    ///
    /// # Errors
    /// A field is malformed, or the place reaches beyond every file.
    pub fn decode(fields: &mut Reader<'_>) -> Result<Self> {
        let holder = segment_number(fields)?;
        let at = fields.offset();
        let (offset, bytes) = (fields.number()?, fields.number()?);
        match offset.checked_add(bytes) {
            Some(_) => Ok(Self { holder, offset, bytes }),
            None => Err(Error::new(at, "a place in a file", format!("{bytes} bytes at {offset}"))),
        }
    }
}

/// The number of a blob segment.
pub(super) fn segment_number(fields: &mut Reader<'_>) -> Result<SegmentNumber> {
    fields.number32().map(SegmentNumber)
}
