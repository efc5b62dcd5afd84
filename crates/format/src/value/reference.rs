//! What stands in the tree in place of a value.
//!
//! Short, 12 to 23 bytes; since FormatVersion::V2:
//!
//! ```text
//! varint  segment      number of the value segment it was written to
//! varint  ordinal      which value of that segment
//! varint  place        offset of its record there / 8
//! varint  value_bytes  length of the value
//! u64 LE  checksum     xxh3 of the record's head, which has the checksums of its chunks
//! ```
//!
//! Fixed, 24 bytes, where the short form has no fewer; since FormatVersion::V1, which had no other:
//!
//! ```text
//! offset size  field        meaning
//!      0    4  segment      u32 LE
//!      4    4  ordinal      u32 LE
//!      8    4  place        u32 LE
//!     12    4  value_bytes  u32 LE
//!     16    8  checksum     u64 LE
//! ```
//! The value of a log record or table entry of kind `PutReference`; its length tells the form.

use std::fmt;
use std::ops::Deref;

use crate::error::{Error, Result};
use crate::varint;

/// Most bytes of a reference.
pub const REFERENCE_BYTES_MAX: usize = 24;

/// Fewest bytes of a reference.
const REFERENCE_BYTES_MIN: usize = 12;

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
    /// The reference's bytes, in the shorter of the two forms.
    #[inline]
    pub fn encode(&self) -> ReferenceBytes {
        let fields = [self.segment.0, self.ordinal, (self.offset >> 3) as u32, self.value_bytes];
        let short = fields.map(|field| varint::encoded_bytes(field.into())).into_iter().sum::<usize>() + 8;
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
        let from = fields.into_iter().flat_map(u32::to_le_bytes).chain(self.checksum.to_le_bytes());
        bytes.iter_mut().zip(from).for_each(|(to, from)| *to = from);
        ReferenceBytes { bytes, len: REFERENCE_BYTES_MAX as u8 }
    }

    /// The reference whose bytes are exactly `bytes`, in either form.
    ///
    /// # Errors
    /// Neither form: too few or too many bytes, a number that takes more bytes than it need or than 32 bits.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() == REFERENCE_BYTES_MAX {
            return Ok(Self::decode_fixed(bytes));
        }
        Self::decode_short(bytes).ok_or_else(|| {
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
        let checksum = u64::from_le_bytes(rest.try_into().ok()?);
        let is_short = bytes.len() < REFERENCE_BYTES_MAX;
        let offset = u64::from(place) << 3;
        is_short.then_some(Self { segment: SegmentNumber(segment), ordinal, offset, value_bytes, checksum })
    }

    fn decode_fixed(bytes: &[u8]) -> Self {
        let word =
            |index: usize| bytes.as_chunks::<4>().0.get(index).map_or(0, |word| u32::from_le_bytes(*word));
        Self {
            segment: SegmentNumber(word(0)),
            ordinal: word(1),
            offset: u64::from(word(2)) << 3,
            value_bytes: word(3),
            checksum: u64::from(word(5)) << 32 | u64::from(word(4)),
        }
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

    const SHORT: Reference = Reference {
        segment: SegmentNumber(700),
        ordinal: 127,
        offset: 8 << 20,
        value_bytes: 4097,
        checksum: 0x0123_4567_89ab_cdef,
    };

    #[test]
    fn there_and_back_in_every_length() {
        let mut lengths = Vec::new();
        for shift in 0..32 {
            for number in [1u32 << shift, (1 << shift) - 1, u32::MAX >> shift] {
                for ordinal in [0, number, u32::MAX] {
                    let offset = u64::from(number) << 3;
                    let reference = Reference {
                        segment: SegmentNumber(number),
                        ordinal,
                        offset,
                        value_bytes: number,
                        ..SHORT
                    };
                    let bytes = reference.encode();
                    assert_eq!(Reference::decode(&bytes), Ok(reference), "{reference}");
                    lengths.push(bytes.len());
                }
            }
        }
        lengths.sort_unstable();
        lengths.dedup();
        assert_eq!((lengths.first(), lengths.last()), (Some(&12), Some(&24)));
        assert_eq!(SHORT.encode().len(), 2 + 1 + 3 + 2 + 8);
    }

    #[test]
    fn what_is_in_the_fixed_form_is_read_though_it_could_be_short() {
        let fields = [SHORT.segment.0, SHORT.ordinal, 1 << 20, SHORT.value_bytes];
        let bytes = SHORT.encode_fixed(fields);
        assert_eq!((bytes.len(), Reference::decode(&bytes)), (24, Ok(SHORT)));
    }

    #[test]
    fn what_is_neither_form_is_refused() {
        let short = SHORT.encode();
        for cut in 0..short.len() {
            assert!(Reference::decode(&short[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Reference::decode(&[&short[..], &[0]].concat()).is_err(), "a byte more");
        let fixed = SHORT.encode_fixed([1; 4]);
        assert_eq!(Reference::decode(&fixed[..23]).map_err(|error| error.offset), Err(23));
        assert!(Reference::decode(&[&fixed[..], &[0]].concat()).is_err(), "25 bytes");
        let checksum = [0xee; 8];
        let long = [&[0x87, 0x00, 1, 1, 1], &checksum[..]].concat();
        assert!(Reference::decode(&long).is_err(), "7 in two bytes");
        let large = [&[0xff, 0xff, 0xff, 0xff, 0x1f, 1, 1, 1], &checksum[..]].concat();
        assert!(Reference::decode(&large).is_err(), "33 bits");
        // In 25 bytes, as if the short form went on.
        let too_long = [&[0xff, 0xff, 0xff, 0xff, 0x0f].repeat(3)[..], &[0x80, 1], &checksum].concat();
        assert_eq!(too_long.len(), 25);
        assert!(Reference::decode(&too_long).is_err());
    }
}
