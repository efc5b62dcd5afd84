//! The first bytes of a log segment.
//!
//! ```text
//! offset size  field          meaning
//!      0    8  magic          "FIRNLOG1"
//!      8    4  version        u32 LE, see `FormatVersion`
//!     12    4  checksum       u32 LE, crc32c over the 64 bytes with this field zero
//!     16   16  database       u128 LE, identity of the database
//!     32    8  base           u64 LE, log position of byte 0; a multiple of 4 MiB
//!     40    8  previous_end   u64 LE, log position one past the last frame of the segment before; at most base
//!     48    8  generation     u64 LE, generation of the log, part of each frame's salt
//!     56    8  capacity       u64 LE, bytes of the segment, this header included; a multiple of 8
//!     64       frames, one after another (see `frame`); the first zero word ends them
//! ```
//! Byte `o` of the file has log position `base + o`.
//! Since: FormatVersion::V1. Golden: golden/log-segment-v1-*.{bin,txt}.

use crate::checksum;
use crate::error::{Error, Result};
use crate::key::{GRANULE_BYTES, POSITION_END, Position};
use crate::version::FormatVersion;

/// What a log segment begins with.
pub const SEGMENT_MAGIC: [u8; 8] = *b"FIRNLOG1";

/// Bytes before the first frame.
pub const SEGMENT_HEADER_BYTES: usize = 64;

/// Which database a log segment belongs to and where in the log it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Format of the segment.
    pub version: FormatVersion,
    /// Identity of the database that wrote it.
    pub database: u128,
    /// Log position of the segment's byte 0; a multiple of [`GRANULE_BYTES`].
    pub base: Position,
    /// One past the last frame of the segment before; equal to `base` where there is none.
    pub previous_end: Position,
    /// Generation of the log when the segment was begun.
    pub generation: u64,
    /// Bytes of the segment, header included; a multiple of 8.
    pub capacity: u64,
}

impl SegmentHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let unsigned = self.encode_with(0);
        self.encode_with(checksum::crc32c(&unsigned))
    }

    fn encode_with(&self, checksum: u32) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut words = [0u8; SEGMENT_HEADER_BYTES];
        let fields: [&[u8]; 8] = [
            &SEGMENT_MAGIC,
            &(self.version as u32).to_le_bytes(),
            &checksum.to_le_bytes(),
            &self.database.to_le_bytes(),
            &self.base.0.to_le_bytes(),
            &self.previous_end.0.to_le_bytes(),
            &self.generation.to_le_bytes(),
            &self.capacity.to_le_bytes(),
        ];
        for (to, from) in words.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        words
    }

    /// The header at the front of `bytes`, which may go on behind it.
    ///
    /// # Errors
    /// Names the first field that is wrong: too short, another kind of file, a newer format, a
    /// checksum that does not match, numbers that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((header, _)) = bytes.split_first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err(Error::new(
                bytes.len(),
                format!("a log segment's header of {SEGMENT_HEADER_BYTES} bytes"),
                format!("{} bytes", bytes.len()),
            ));
        };
        let (words, _) = header.as_chunks::<8>();
        let &[magic, version_checksum, database_low, database_high, base, previous_end, generation, capacity] =
            words
        else {
            return Err(Error::new(0, "8 words", "fewer"));
        };
        if magic != SEGMENT_MAGIC {
            return Err(Error::new(0, "the magic of a log segment, FIRNLOG1", format!("{magic:02x?}")));
        }
        let version_checksum = u64::from_le_bytes(version_checksum);
        let version = FormatVersion::of(version_checksum as u32, 8)?;
        let found = (version_checksum >> 32) as u32;
        let database = u128::from(u64::from_le_bytes(database_high)) << 64
            | u128::from(u64::from_le_bytes(database_low));
        let header = Self {
            version,
            database,
            base: Position(u64::from_le_bytes(base)),
            previous_end: Position(u64::from_le_bytes(previous_end)),
            generation: u64::from_le_bytes(generation),
            capacity: u64::from_le_bytes(capacity),
        };
        let expected = checksum::crc32c(&header.encode_with(0));
        if expected != found {
            return Err(Error::new(12, format!("header checksum {expected:08x}"), format!("{found:08x}")));
        }
        header.validate()?;
        Ok(header)
    }

    /// Whether the numbers can be: a database never writes ones that cannot.
    fn validate(&self) -> Result<()> {
        if !self.base.0.is_multiple_of(GRANULE_BYTES) || self.base >= POSITION_END {
            return Err(Error::new(32, "a base that begins a granule of 4 MiB", format!("{}", self.base)));
        }
        if self.previous_end > self.base {
            return Err(Error::new(
                40,
                format!("an end of the segment before at or below {}", self.base),
                format!("{}", self.previous_end),
            ));
        }
        let room = POSITION_END.0 - self.base.0;
        let fits = (SEGMENT_HEADER_BYTES as u64..=room).contains(&self.capacity);
        if !fits || !self.capacity.is_multiple_of(8) {
            return Err(Error::new(56, "a capacity that is a multiple of 8", format!("{}", self.capacity)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            version: FormatVersion::V1,
            database: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
            base: Position(3 * GRANULE_BYTES),
            previous_end: Position(2 * GRANULE_BYTES + 4096),
            generation: 5,
            capacity: 64 << 20,
        }
    }

    #[test]
    fn there_and_back() {
        let mut bytes = header().encode().to_vec();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header()));
        bytes.extend_from_slice(&[1; 100]);
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header()));
        assert_eq!(SegmentHeader::decode(&bytes[..63]).unwrap_err().offset, 63);
    }

    #[test]
    fn impossible_numbers_are_refused_at_their_field() {
        let wrong = [
            (32, SegmentHeader { base: Position(4096), previous_end: Position(0), ..header() }),
            (40, SegmentHeader { previous_end: Position(3 * GRANULE_BYTES + 8), ..header() }),
            (56, SegmentHeader { capacity: 0, ..header() }),
            (56, SegmentHeader { capacity: 4100, ..header() }),
            (56, SegmentHeader { capacity: u64::MAX - 7, ..header() }),
        ];
        for (offset, header) in wrong {
            assert_eq!(SegmentHeader::decode(&header.encode()).unwrap_err().offset, offset, "{header:?}");
        }
    }

    #[test]
    fn a_newer_version_says_so() {
        let mut bytes = header().encode();
        bytes[8] = 9;
        let error = SegmentHeader::decode(&bytes).unwrap_err();
        assert_eq!(error.offset, 8);
        assert!(error.found.contains("newer"), "{error}");
    }
}
