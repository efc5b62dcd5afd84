//! One manifest edit: the file.
//!
//! ```text
//! offset size  field     meaning
//!      0    8  magic     "FIRNMAN1"
//!      8    4  version   u32 LE, see `FormatVersion`
//!     12    4  flags     u32 LE, bit 0 = base: restates the whole state; a reader rejects any other bit
//!     16    8  number    u64 LE, one more than the edit before
//!     24    8  epoch     u64 LE, grows with each opening for writing
//!     32    8  bytes     u64 LE, bytes of changes
//!     40    8  checksum  u64 LE, xxh3 of the changes, seeded with the xxh3 of bytes 0..40
//!     48       changes, one after another (see `change`), up to the end of the file
//! ```
//! Since: FormatVersion::V1. Golden: golden/manifest-edit-v1-*.{bin,txt}.

use crate::bytes::Reader;
use crate::checksum;
use crate::error::{Error, Result};
use crate::manifest::change::Change;
use crate::version::FormatVersion;

/// What a manifest edit begins with.
pub const EDIT_MAGIC: [u8; 8] = *b"FIRNMAN1";

/// Bytes before the first change.
pub const EDIT_HEADER_BYTES: usize = 48;

/// Bytes of the header that its checksum covers.
const SIGNED_BYTES: usize = EDIT_HEADER_BYTES - 8;

/// The one flag there is.
const FLAG_BASE: u32 = 1;

/// Changes that take effect together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEdit {
    /// One more than the edit before.
    pub number: u64,
    /// Whether it restates the whole state, so that edits before it no longer matter.
    pub base: bool,
    /// Grows with each opening for writing.
    pub epoch: u64,
    /// In the order in which they apply.
    pub changes: Vec<Change>,
}

/// The file of an edit, put together change by change: a large edit is never in memory as changes.
#[derive(Debug, Default)]
pub struct EditEncoder {
    changes: Vec<u8>,
}

impl EditEncoder {
    /// Adds the next change.
    pub fn push(&mut self, change: &Change) {
        change.encode(&mut self.changes);
    }

    /// The bytes of the file; the fields are those of [`ManifestEdit`].
    pub fn finish(self, number: u64, base: bool, epoch: u64) -> Vec<u8> {
        let changes = self.changes;
        let mut out = Vec::with_capacity(EDIT_HEADER_BYTES + changes.len());
        out.extend_from_slice(&EDIT_MAGIC);
        out.extend_from_slice(&(FormatVersion::CURRENT as u32).to_le_bytes());
        out.extend_from_slice(&(if base { FLAG_BASE } else { 0 }).to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&epoch.to_le_bytes());
        out.extend_from_slice(&(changes.len() as u64).to_le_bytes());
        debug_assert_eq!(out.len(), SIGNED_BYTES);
        let checksum = checksum::xxh3_of_two(&out, &changes);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&changes);
        out
    }
}

/// The fields of an edit's header after its checksum has matched.
pub(crate) struct EditHeader {
    pub(crate) number: u64,
    pub(crate) base: bool,
    pub(crate) epoch: u64,
}

impl ManifestEdit {
    /// The bytes of the edit's file.
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        self.changes.iter().for_each(|change| encoder.push(change));
        encoder.finish(self.number, self.base, self.epoch)
    }

    /// The edit that is all of `bytes`. Allocates in proportion to `bytes`.
    ///
    /// # Errors
    /// Another kind of file, a newer format, a length or checksum that does not match, a change
    /// that is malformed or that only a newer release knows.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let EditHeader { number, base, epoch } = Self::decode_header(bytes)?;
        let mut reader = Reader::new(bytes.get(EDIT_HEADER_BYTES..).unwrap_or_default(), EDIT_HEADER_BYTES);
        let mut changes = Vec::new();
        while !reader.is_empty() {
            changes.push(Change::decode(&mut reader)?);
        }
        Ok(Self { number, base, epoch, changes })
    }

    /// Checks everything but the changes' own form.
    pub(crate) fn decode_header(bytes: &[u8]) -> Result<EditHeader> {
        let Some((header, changes)) = bytes.split_at_checked(EDIT_HEADER_BYTES) else {
            let expected = format!("a manifest edit's header of {EDIT_HEADER_BYTES} bytes");
            return Err(Error::new(bytes.len(), expected, format!("{} bytes", bytes.len())));
        };
        let mut reader = Reader::new(header, 0);
        let magic = reader.take(EDIT_MAGIC.len())?;
        if magic != EDIT_MAGIC {
            return Err(Error::new(0, "the magic of a manifest edit, FIRNMAN1", format!("{magic:02x?}")));
        }
        FormatVersion::of(reader.u32()?, 8)?;
        let flags = reader.u32()?;
        let (number, epoch) = (reader.u64()?, reader.u64()?);
        let (length, found) = (reader.u64()?, reader.u64()?);
        if length != changes.len() as u64 {
            let found = format!("{} bytes", changes.len());
            return Err(Error::new(32, format!("{length} bytes of changes"), found));
        }
        let expected = checksum::xxh3_of_two(header.get(..SIGNED_BYTES).unwrap_or_default(), changes);
        if expected != found {
            return Err(Error::new(40, format!("edit checksum {expected:016x}"), format!("{found:016x}")));
        }
        if flags & !FLAG_BASE != 0 {
            return Err(Error::new(12, "no flag but 1 (base)", format!("{flags:#x}")));
        }
        Ok(EditHeader { number, base: flags & FLAG_BASE != 0, epoch })
    }
}
