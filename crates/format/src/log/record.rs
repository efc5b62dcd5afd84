//! One record in a frame.
//!
//! ```text
//! offset size  field          meaning
//!      0    4  value_bytes    u32 LE, length of the value
//!      4    2  key_bytes      u16 LE, length of the key
//!      6    1  kind           see `Kind`; frozen
//!      7    1  flags          bit 0 = an expiry follows; a reader rejects any other bit
//!      8    4  keyspace       u32 LE
//!     12    4  reserved       zero
//!     16    8  expiry         u64 LE, milliseconds since the Unix epoch, not 0; only with flag bit 0
//!      …    k  key
//!      …    v  value
//!      …       zero padding to a multiple of 8
//! ```
//! Records are not checksummed one by one: their frame is. Since: FormatVersion::V1.

use crate::blob::Reference;
use crate::error::{Error, Result};
use crate::key::Kind;

/// Bytes before the expiry or the key.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Longest key a record can hold.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Longest value a record can hold.
pub const VALUE_BYTES_MAX: usize = u32::MAX as usize;

/// The one flag there is.
const FLAG_EXPIRY: u8 = 1;

/// A record, borrowed from the segment it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The keyspace it belongs to.
    pub keyspace: u32,
    /// What it is.
    pub kind: Kind,
    /// Milliseconds since the Unix epoch from which it counts as deleted; 0 = never.
    pub expires_at_ms: u64,
    /// The key, or the first key of a range.
    pub key: &'a [u8],
    /// Value, operand, or excluded end of a range.
    pub value: &'a [u8],
}

/// Bytes that a record takes in a frame, padding included; a multiple of 8.
#[inline]
pub const fn record_bytes(key_bytes: usize, value_bytes: usize, has_expiry: bool) -> usize {
    let expiry_bytes = if has_expiry { 8 } else { 0 };
    (RECORD_HEADER_BYTES + expiry_bytes + key_bytes + value_bytes).next_multiple_of(8)
}

/// Bytes of the record whose header is at the front of `bytes`, padding included; `None` if that is
/// too short.
///
/// Trusts the header: for bytes whose frame has passed its checksum.
#[inline]
pub fn record_span(bytes: &[u8]) -> Option<usize> {
    let word = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    let key_bytes = usize::from((word >> 32) as u16);
    let has_expiry = (word >> 56) as u8 & FLAG_EXPIRY != 0;
    Some(record_bytes(key_bytes, word as u32 as usize, has_expiry))
}

impl<'a> Record<'a> {
    /// The record at the front of `bytes`, which may go on behind it; `None` if it reaches past
    /// them.
    ///
    /// For bytes whose frame was written by this process or has passed its checksum. Lengths are
    /// checked; fields that a writer never gets wrong are not. No allocation, one pass over 16
    /// bytes.
    #[inline]
    pub fn at(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (header, rest) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let header = u128::from_le_bytes(*header);
        let (expires_at_ms, rest) = if (header >> 56) as u8 & FLAG_EXPIRY == 0 {
            (0, rest)
        } else {
            let (expiry, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_le_bytes(*expiry), rest)
        };
        let (key, rest) = rest.split_at_checked(usize::from((header >> 32) as u16))?;
        Some(Record {
            keyspace: (header >> 64) as u32,
            kind: Kind::from_u8((header >> 48) as u8)?,
            expires_at_ms,
            key,
            value: rest.get(..header as u32 as usize)?,
        })
    }

    /// The record at the front of `bytes`, which may go on behind it, with every field checked.
    ///
    /// # Errors
    /// Too short, an unknown kind or flag, a kind reserved for a newer release, a reserved field or
    /// padding that is not zero, an expiry of zero, a reference that is none.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>> {
        let Some(&[.., kind, flags, _, _, _, _, r0, r1, r2, r3]) = bytes.first_chunk::<RECORD_HEADER_BYTES>()
        else {
            return Err(too_short(RECORD_HEADER_BYTES, bytes.len()));
        };
        if flags & !FLAG_EXPIRY != 0 {
            return Err(Error::new(7, "no flag but 1 (expiry)", format!("{flags:#04x}")));
        }
        if [r0, r1, r2, r3] != [0; 4] {
            return Err(Error::new(12, "a reserved field of zero", format!("{:02x?}", [r0, r1, r2, r3])));
        }
        check_kind(kind)?;
        let span = record_span(bytes).unwrap_or(usize::MAX);
        if span > bytes.len() {
            return Err(too_short(span, bytes.len()));
        }
        let Some(record) = Record::at(bytes) else {
            return Err(too_short(span, bytes.len()));
        };
        if flags & FLAG_EXPIRY != 0 && record.expires_at_ms == 0 {
            return Err(Error::new(16, "an expiry other than 0", "0"));
        }
        let end = record.unpadded_bytes();
        let padding = bytes.get(end..span).unwrap_or_default();
        if padding.iter().any(|&byte| byte != 0) {
            return Err(Error::new(end, "padding of zeros", format!("{padding:02x?}")));
        }
        if record.kind == Kind::PutReference {
            Reference::decode(record.value).map_err(|error| error.based(end - record.value.len()))?;
        }
        Ok(record)
    }

    /// Bytes that this record takes in a frame; a multiple of 8.
    #[inline]
    pub fn bytes(&self) -> usize {
        record_bytes(self.key.len(), self.value.len(), self.expires_at_ms != 0)
    }

    fn unpadded_bytes(&self) -> usize {
        let expiry_bytes = if self.expires_at_ms == 0 { 0 } else { 8 };
        RECORD_HEADER_BYTES + expiry_bytes + self.key.len() + self.value.len()
    }

    /// Writes the record at the front of `out` and returns its bytes, [`bytes`](Self::bytes),
    /// padding included.
    ///
    /// `None`, with `out` in any state, if it does not fit, or if key or value is longer than a
    /// record can hold.
    #[inline]
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let key_bytes = u16::try_from(self.key.len()).ok()?;
        let value_bytes = u32::try_from(self.value.len()).ok()?;
        let span = self.bytes();
        let out = out.get_mut(..span)?;
        // Before the rest, so that what of it is not padding is overwritten.
        *out.last_chunk_mut::<8>()? = [0; 8];
        let has_expiry = self.expires_at_ms != 0;
        let (header, mut rest) = out.split_first_chunk_mut::<RECORD_HEADER_BYTES>()?;
        let word = u64::from(value_bytes)
            | u64::from(key_bytes) << 32
            | (self.kind as u64) << 48
            | u64::from(has_expiry) << 56;
        *header = (u128::from(word) | u128::from(self.keyspace) << 64).to_le_bytes();
        if has_expiry {
            let expiry;
            (expiry, rest) = rest.split_first_chunk_mut::<8>()?;
            *expiry = self.expires_at_ms.to_le_bytes();
        }
        let (key, rest) = rest.split_at_mut_checked(self.key.len())?;
        key.copy_from_slice(self.key);
        rest.get_mut(..self.value.len())?.copy_from_slice(self.value);
        Some(span)
    }
}

/// Whether this release knows what a record of kind number `kind` means.
fn check_kind(kind: u8) -> Result<()> {
    let expected = "a kind of record (1 to 5)";
    match Kind::from_u8(kind) {
        Some(Kind::Put | Kind::Delete | Kind::Merge | Kind::DeleteRange | Kind::PutReference) => Ok(()),
        Some(Kind::Purge) => {
            Err(Error::new(6, expected, format!("kind {kind} (written by a newer Firn: upgrade to read it)")))
        }
        None => Err(Error::new(6, expected, format!("{kind}"))),
    }
}

fn too_short(expected: usize, found: usize) -> Error {
    Error::new(found, format!("a record of {expected} bytes"), format!("{found} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Record<'_> =
        Record { keyspace: 7, kind: Kind::Put, expires_at_ms: 0, key: b"key", value: b"value" };

    fn encoded(record: Record<'_>) -> Vec<u8> {
        let mut out = vec![0xee; record.bytes()];
        assert_eq!(record.encode(&mut out), Some(out.len()));
        out
    }

    #[test]
    fn there_and_back_for_all_lengths_around_the_padding() {
        let text = [0xaa; 40];
        for (key_bytes, value_bytes, expires_at_ms) in
            (0..20).flat_map(|k| (0..20).flat_map(move |v| [0, 9].map(|e| (k, v, e))))
        {
            let record =
                Record { key: &text[..key_bytes], value: &text[..value_bytes], expires_at_ms, ..RECORD };
            let mut bytes = encoded(record);
            assert_eq!(bytes.len() % 8, 0);
            assert_eq!(record_span(&bytes), Some(bytes.len()));
            assert_eq!(Record::decode(&bytes), Ok(record));
            for cut in 0..record.unpadded_bytes() {
                assert_eq!(Record::at(&bytes[..cut]), None, "cut at {cut}");
                assert!(Record::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            bytes.extend_from_slice(&[0xff; 8]);
            assert_eq!(Record::at(&bytes), Some(record));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let long = vec![1; KEY_BYTES_MAX + 1];
        let mut out = vec![0; 2 * KEY_BYTES_MAX];
        assert_eq!(Record { key: &long, ..RECORD }.encode(&mut out), None);
        assert!(Record { key: &long[1..], ..RECORD }.encode(&mut out).is_some());
        assert_eq!(RECORD.encode(&mut out[..RECORD.bytes() - 1]), None);
    }

    #[test]
    fn wrong_fields_are_refused_at_their_offset() {
        for (offset, byte) in [(6, 0), (6, 6), (6, 9), (7, 2), (7, 0x80)] {
            let mut bytes = encoded(RECORD);
            bytes[offset] = byte;
            assert_eq!(Record::decode(&bytes).unwrap_err().offset, offset, "{byte}");
        }
        for offset in 12..16 {
            let mut bytes = encoded(RECORD);
            bytes[offset] = 1;
            assert_eq!(Record::decode(&bytes).unwrap_err().offset, 12);
        }
        let mut bytes = encoded(Record { value: b"v", ..RECORD });
        *bytes.last_mut().unwrap() = 1;
        let error = Record::decode(&bytes).unwrap_err();
        assert_eq!((error.offset, error.expected.as_str()), (20, "padding of zeros"));
        let bytes = encoded(Record { kind: Kind::PutReference, value: &[0; 23], ..RECORD });
        assert_eq!(Record::decode(&bytes).unwrap_err().offset, 42, "a reference has a byte more");
        let mut bytes = encoded(Record { expires_at_ms: 1, ..RECORD });
        bytes[16] = 0;
        assert_eq!(Record::decode(&bytes).unwrap_err().offset, 16);
    }
}
