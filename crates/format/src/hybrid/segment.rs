//! A file of the hybrid log: a header, then words.
//!
//! ```text
//! offset size  field         meaning
//!      0    8  magic         "FIRNHYB1"
//!      8    4  version       u32 LE, see `FormatVersion`
//!     12    4  checksum      u32 LE, crc32c over these 56 bytes with this field zero
//!     16   16  database      u128 LE, identity of the database
//!     32    8  base          u64 LE, address of the first word
//!     40    8  words         u64 LE, words of a whole segment
//!     48    8  generation    u64 LE, of the opening that began the segment
//!     56       zeros up to 4096
//!   4096       words, the lowest byte first: records and zeros (see `image`)
//! ```
//! The word of address `a` is at `4096 + 8 * (a - base)`.
//! Since: FormatVersion::V1. Golden: golden/hybrid-segment-v1-*.{bin,txt}.

use crate::bytes::Reader;
use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::version::FormatVersion;

/// What a segment of the hybrid log begins with.
pub const SEGMENT_MAGIC: [u8; 8] = *b"FIRNHYB1";

/// Bytes before the first word: a page, so that pages of the log are pages of the file.
pub const SEGMENT_HEADER_BYTES: usize = 4096;

/// Bytes of the header that say something.
const SIGNED_BYTES: usize = 56;

/// Which database a segment belongs to, and where in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Identity of the database that wrote it.
    pub database: u128,
    /// Address of the first word; a multiple of `words`.
    pub base: u64,
    /// Words of a whole segment.
    pub words: u64,
    /// Of the opening that began the segment.
    pub generation: u64,
}

impl SegmentHeader {
    /// The header's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.signed(0);
        let checksum = crc32c(&out);
        out = self.signed(checksum);
        out.resize(SEGMENT_HEADER_BYTES, 0);
        out
    }

    fn signed(&self, checksum: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&(FormatVersion::CURRENT as u32).to_le_bytes());
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&self.database.to_le_bytes());
        for field in [self.base, self.words, self.generation] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out
    }

    /// The header that `bytes` begin with.
    ///
    /// # Errors
    /// Names the first field that is wrong: too short, another kind of file, a newer format, a
    /// checksum that does not match, bytes that are not zero where they should be.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((header, zeros)) =
            bytes.get(..SEGMENT_HEADER_BYTES).and_then(|all| all.split_at_checked(SIGNED_BYTES))
        else {
            let expected = format!("a hybrid segment's header of {SEGMENT_HEADER_BYTES} bytes");
            return Err(Error::new(bytes.len(), expected, format!("{} bytes", bytes.len())));
        };
        let mut fields = Reader::new(header, 0);
        let magic = fields.take(SEGMENT_MAGIC.len())?;
        if magic != SEGMENT_MAGIC {
            return Err(Error::new(0, "the magic of a hybrid segment, FIRNHYB1", format!("{magic:02x?}")));
        }
        FormatVersion::of(fields.u32()?, 8)?;
        let found = fields.u32()?;
        let database = fields.u128()?;
        let header = Self { database, base: fields.u64()?, words: fields.u64()?, generation: fields.u64()? };
        let expected = crc32c(&header.signed(0));
        if found != expected {
            return Err(Error::new(12, format!("header checksum {expected:08x}"), format!("{found:08x}")));
        }
        if let Some(at) = zeros.iter().position(|byte| *byte != 0) {
            return Err(Error::new(SIGNED_BYTES + at, "zeros up to the first word", "another byte"));
        }
        Ok(header)
    }
}
