//! What stands in the tree in place of a value.
//!
//! Short, 8 to 23 bytes:
//!
//! ```text
//! varint  segment      number of the blob segment it was written to
//! varint  ordinal      which value of that segment
//! varint  place        offset of its record there / 8
//! varint  value_bytes  length of the value
//! u32 LE  checksum     lower half of the xxh3 of the record's head, which has the checksums of its chunks
//! ```
//!
//! Fixed, 24 bytes, where the short form has no fewer:
//!
//! ```text
//! offset size  field        meaning
//!      0    4  segment      u32 LE
//!      4    4  ordinal      u32 LE
//!      8    4  place        u32 LE
//!     12    4  value_bytes  u32 LE
//!     16    4  checksum     u32 LE, as above
//!     20    4  unused       zero
//! ```
//! The value of a log record or table entry of kind `PutReference`. 24 bytes are the fixed form,
//! fewer the short one. Since: FormatVersion::V1.

use std::fmt;
use std::ops::Deref;

use crate::error::{Error, Result};
use crate::varint;

/// Most bytes of a reference.
pub const REFERENCE_BYTES_MAX: usize = 24;

/// Fewest bytes of a reference.
const REFERENCE_BYTES_MIN: usize = 8;

/// The number of a blob segment: given once, never again.
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
    /// The blob segment it was written to.
    pub segment: SegmentNumber,
    /// Which value of that segment, from 0.
    pub ordinal: u32,
    /// Offset of its record in that segment; a multiple of 8 below 2^35. Holds only while the
    /// segment is there.
    pub offset: u64,
    /// Length of the value.
    pub value_bytes: u32,
    /// Of its record's head (see
    /// [`BlobRecord::reference_checksum`](super::BlobRecord::reference_checksum)).
    pub checksum: u32,
}

/// A reference's bytes, on the stack. Empty by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceBytes {
    bytes: [u8; REFERENCE_BYTES_MAX],
    len: u8,
}

impl Deref for ReferenceBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl Reference {
    /// The reference's bytes, in the shorter of the two forms that are written.
    #[inline]
    pub fn encode(&self) -> ReferenceBytes {
        let fields = [self.segment.0, self.ordinal, (self.offset >> 3) as u32, self.value_bytes];
        let short = fields.map(|field| varint::encoded_bytes(field.into())).into_iter().sum::<usize>() + 4;
        if short < REFERENCE_BYTES_MAX { self.encode_short(fields) } else { self.encode_fixed(fields) }
    }

    #[inline]
    fn encode_short(&self, fields: [u32; 4]) -> ReferenceBytes {
        let mut out = ReferenceBytes::default();
        let mut put = |byte: u8| {
            if let Some(to) = out.bytes.get_mut(usize::from(out.len)) {
                *to = byte;
                out.len += 1;
            }
        };
        for mut field in fields {
            while field >= 0x80 {
                put(field as u8 | 0x80);
                field >>= 7;
            }
            put(field as u8);
        }
        self.checksum.to_le_bytes().into_iter().for_each(put);
        out
    }

    #[cold]
    fn encode_fixed(&self, fields: [u32; 4]) -> ReferenceBytes {
        let mut bytes = [0; REFERENCE_BYTES_MAX];
        let [segment, ordinal, place, value_bytes] = fields;
        let from =
            [segment, ordinal, place, value_bytes, self.checksum].into_iter().flat_map(u32::to_le_bytes);
        bytes.iter_mut().zip(from).for_each(|(to, from)| *to = from);
        ReferenceBytes { bytes, len: REFERENCE_BYTES_MAX as u8 }
    }

    /// The reference whose bytes are exactly `bytes`.
    ///
    /// # Errors
    /// Neither form: too few or too many bytes, a number that takes more bytes than it need or than
    /// 32 bits, the fixed form where the short one has room.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let decoded = match bytes.len() {
            REFERENCE_BYTES_MAX => Self::decode_fixed(bytes),
            _ => Self::decode_short(bytes),
        };
        decoded.ok_or_else(|| {
            let at = bytes.len().min(REFERENCE_BYTES_MAX);
            let expected =
                format!("a reference of {REFERENCE_BYTES_MIN} to {REFERENCE_BYTES_MAX} bytes, four numbers and a checksum");
            Error::new(at, expected, format!("{} bytes, {:02x?}", bytes.len(), bytes.get(..at).unwrap_or_default()))
        })
    }

    #[inline]
    fn decode_short(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut number = || {
            let (number, taken) = varint::read(rest)?;
            rest = rest.get(taken..)?;
            u32::try_from(number).ok()
        };
        let (segment, ordinal, place, value_bytes) = (number()?, number()?, number()?, number()?);
        let (checksum, more) = rest.split_first_chunk()?;
        let checksum = u32::from_le_bytes(*checksum);
        let is_short = bytes.len() < REFERENCE_BYTES_MAX && more.is_empty();
        let offset = u64::from(place) << 3;
        is_short.then_some(Self { segment: SegmentNumber(segment), ordinal, offset, value_bytes, checksum })
    }

    fn decode_fixed(bytes: &[u8]) -> Option<Self> {
        let word =
            |index: usize| bytes.as_chunks::<4>().0.get(index).map_or(0, |word| u32::from_le_bytes(*word));
        let short =
            [0, 1, 2, 3].map(|index| varint::encoded_bytes(word(index).into())).into_iter().sum::<usize>()
                + 4;
        let is_fixed = short >= REFERENCE_BYTES_MAX && word(5) == 0;
        is_fixed.then_some(Self {
            segment: SegmentNumber(word(0)),
            ordinal: word(1),
            offset: u64::from(word(2)) << 3,
            value_bytes: word(3),
            checksum: word(4),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, ordinal, offset, value_bytes, checksum } = self;
        write!(
            f,
            "value {ordinal} of segment {segment}, {value_bytes} bytes, at {offset}, checksum {checksum:08x}"
        )
    }
}

#[cfg(test)]
mod tests;
