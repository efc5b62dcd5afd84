//! Numbers in one to ten bytes, little end first.
//!
//! Seven bits a byte, the top bit says that another byte follows (LEB128). Each number has one
//! encoding: a last byte of zero after others, a tenth byte above 1, or an eleventh byte are
//! refused. Since: FormatVersion::V1.

use crate::error::{Error, Result};

/// Most bytes a number takes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `number` to `out`: 1 to [`VARINT_BYTES_MAX`] bytes.
#[inline]
pub fn encode(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Bytes that [`encode`] appends for `number`.
#[inline]
pub fn encoded_bytes(number: u64) -> usize {
    let bits = (64 - number.leading_zeros()).max(1) as usize;
    bits.div_ceil(7)
}

/// The number at the front of `bytes` and how many bytes it took; `None` if there is no well-formed
/// one.
///
/// For hot paths; [`decode`] says what was wrong.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u64::from(byte), 1)),
        _ => read_long(bytes),
    }
}

fn read_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        let tenth = index == VARINT_BYTES_MAX - 1;
        if tenth && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return (byte != 0 || index == 0).then_some((number, index + 1));
        }
    }
    None
}

/// The number at the front of `bytes` and how many bytes it took.
///
/// # Errors
/// `bytes` ends inside the number, it is longer than it need be, or it exceeds 64 bits.
pub fn decode(bytes: &[u8]) -> Result<(u64, usize)> {
    read(bytes).ok_or_else(|| {
        let head = bytes.get(..VARINT_BYTES_MAX.min(bytes.len())).unwrap_or_default();
        Error::new(0, "a number in 1 to 10 bytes, 7 bits each", format!("{head:02x?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_goes_there_and_back() {
        for shift in 0..64 {
            for number in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                encode(number, &mut out);
                assert_eq!(out.len(), encoded_bytes(number), "{number}");
                let bytes = out.len();
                out.push(0xff);
                assert_eq!(decode(&out), Ok((number, bytes)), "{number}");
            }
        }
    }

    #[test]
    fn malformed_is_refused() {
        for bad in [
            &[][..],
            &[0x80],
            &[0x80, 0x00],
            &[0xff; 9],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
        ] {
            assert!(decode(bad).is_err(), "{bad:02x?}");
        }
    }
}
