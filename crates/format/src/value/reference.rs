//! What stands in the tree in place of a value.
//!
//! ```text
//! offset size  field        meaning
//!      0    4  segment      u32 LE, number of the value segment it was written to
//!      4    4  ordinal      u32 LE, which value of that segment
//!      8    4  place        u32 LE, offset of its record there / 8
//!     12    4  value_bytes  u32 LE, length of the value
//!     16    8  checksum     u64 LE, xxh3 of the record's head, which has the checksums of its chunks
//! ```
//! The value of a log record or table entry of kind `PutReference`. Since: FormatVersion::V1.

use std::fmt;

use crate::error::{Error, Result};

/// Bytes of a reference.
pub const REFERENCE_BYTES: usize = 24;

/// The number of a value segment: given once, never again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u32);

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names a value for ever, and says where it was when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The value segment it was written to.
    pub segment: SegmentNumber,
    /// Which value of that segment, from 0.
    pub ordinal: u32,
    /// Offset of its record in that segment; a multiple of 8 below 2^35. Holds only while the segment is there.
    pub offset: u64,
    /// Length of the value.
    pub value_bytes: u32,
    /// Of its record's head (see [`ValueRecord::checksum`](super::ValueRecord::checksum)).
    pub checksum: u64,
}

impl Reference {
    /// The reference's bytes.
    #[inline]
    pub fn encode(&self) -> [u8; REFERENCE_BYTES] {
        let words = [
            u64::from(self.segment.0) | u64::from(self.ordinal) << 32,
            u64::from((self.offset >> 3) as u32) | u64::from(self.value_bytes) << 32,
            self.checksum,
        ];
        let mut out = [0; REFERENCE_BYTES];
        for (to, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        out
    }

    /// The reference whose bytes are exactly `bytes`.
    ///
    /// # Errors
    /// Not [`REFERENCE_BYTES`] of them.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let ([name, place, checksum], []) = bytes.as_chunks::<8>() else {
            let (at, expected) = (bytes.len().min(REFERENCE_BYTES), "a reference of 24 bytes");
            return Err(Error::new(at, expected, format!("{} bytes", bytes.len())));
        };
        let (name, place) = (u64::from_le_bytes(*name), u64::from_le_bytes(*place));
        Ok(Self {
            segment: SegmentNumber(name as u32),
            ordinal: (name >> 32) as u32,
            offset: u64::from(place as u32) << 3,
            value_bytes: (place >> 32) as u32,
            checksum: u64::from_le_bytes(*checksum),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, ordinal, offset, value_bytes, checksum } = self;
        write!(
            f,
            "value {ordinal} of segment {segment}, {value_bytes} bytes, at {offset}, checksum {checksum:016x}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let reference = Reference {
            segment: SegmentNumber(7),
            ordinal: u32::MAX,
            offset: 8 * u64::from(u32::MAX),
            value_bytes: 4097,
            checksum: 0x0123_4567_89ab_cdef,
        };
        let bytes = reference.encode();
        assert_eq!(Reference::decode(&bytes), Ok(reference));
        assert_eq!(Reference::decode(&bytes[..23]).map_err(|error| error.offset), Err(23));
        assert!(Reference::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}
