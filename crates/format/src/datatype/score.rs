//! Scores of sorted sets, so stored that bytes order as numbers do.
//!
//! ```text
//! 8 bytes, u64 BE, made of the bits of an IEEE 754 double:
//!   sign bit clear   the bits with the sign bit set
//!   sign bit set     all bits inverted
//!
//!   -inf      00 0f ff ff ff ff ff ff
//!   -1        40 0f ff ff ff ff ff ff
//!   0         80 00 00 00 00 00 00 00
//!   1         bf f0 00 00 00 00 00 00
//!   +inf      ff f0 00 00 00 00 00 00
//! ```
//! Zero has one encoding: -0 is stored as 0, because both are one place in the order of a sorted
//! set. A -0 that was stored reads as 0. Bytes of -0 and of anything that is not a number are
//! refused.

use std::fmt;

use crate::error::{Error, Result};

/// Bytes of a score.
pub const SCORE_BYTES: usize = 8;

const SIGN: u64 = 1 << 63;

/// A number that orders members; not NaN. Orders as its encoding does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(u64);

impl Score {
    /// Less than every other.
    pub const NEG_INFINITY: Self = Self(!f64::NEG_INFINITY.to_bits());
    /// 0, and -0.
    pub const ZERO: Self = Self(SIGN);
    /// Greater than every other.
    pub const INFINITY: Self = Self(f64::INFINITY.to_bits() | SIGN);

    /// The score `number`; `None` if it is none. -0 becomes 0.
    #[inline]
    pub fn new(number: f64) -> Option<Self> {
        // Adding 0 turns -0 into 0 and changes nothing else.
        let bits = (number + 0.0).to_bits();
        let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        (!number.is_nan()).then_some(Self(ordered))
    }

    /// The number.
    #[inline]
    pub fn get(self) -> f64 {
        f64::from_bits(if self.0 & SIGN == 0 { !self.0 } else { self.0 ^ SIGN })
    }

    /// Its encoding.
    #[inline]
    pub fn to_bytes(self) -> [u8; SCORE_BYTES] {
        self.0.to_be_bytes()
    }

    /// Appends its encoding.
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// What orders after every key of this score and before any of a greater one.
    pub(super) fn successor(self) -> [u8; SCORE_BYTES] {
        self.0.saturating_add(1).to_be_bytes()
    }

    /// The score that is all of `bytes`.
    ///
    /// # Errors
    /// Not [`SCORE_BYTES`] bytes, no number, or -0.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let expected = "a score in 8 bytes, not -0";
        let Ok(bytes) = <[u8; SCORE_BYTES]>::try_from(bytes) else {
            return Err(Error::new(0, expected, format!("{} bytes", bytes.len())));
        };
        let score = Self(u64::from_be_bytes(bytes));
        if Self::new(score.get()) != Some(score) {
            return Err(Error::new(0, expected, format!("{bytes:02x?}")));
        }
        Ok(score)
    }
}

impl fmt::Debug for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Score({:?})", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rising.
    const NUMBERS: [f64; 13] = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1.5,
        -1.0,
        -f64::MIN_POSITIVE,
        -5e-324,
        0.0,
        5e-324,
        f64::MIN_POSITIVE,
        1.0,
        1.0000000000000002,
        f64::MAX,
        f64::INFINITY,
    ];

    #[test]
    fn bytes_order_as_numbers_do() {
        let scores = NUMBERS.map(|number| Score::new(number).unwrap());
        for (score, number) in scores.iter().zip(NUMBERS) {
            assert_eq!(score.get().to_bits(), number.to_bits());
            assert_eq!(Score::decode(&score.to_bytes()), Ok(*score));
        }
        for (lower, higher) in scores.iter().zip(&scores[1..]) {
            assert!(lower < higher && lower.to_bytes() < higher.to_bytes(), "{lower:?} {higher:?}");
            assert!(lower.successor() > lower.to_bytes() && lower.successor() <= higher.to_bytes());
        }
    }

    #[test]
    fn known_bytes() {
        assert_eq!(Score::NEG_INFINITY.to_bytes(), [0, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(Score::new(-1.0).unwrap().to_bytes(), [0x40, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(Score::ZERO.to_bytes(), [0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Score::new(1.0).unwrap().to_bytes(), [0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Score::INFINITY.to_bytes(), [0xff, 0xf0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn zero_has_one_encoding_and_nan_none() {
        assert_eq!(Score::new(-0.0), Some(Score::ZERO));
        assert_eq!(Score::ZERO.get().to_bits(), 0);
        for bad in [f64::NAN, -f64::NAN] {
            assert_eq!(Score::new(bad), None);
        }
        for ordered in [0, Score::NEG_INFINITY.0 - 1, SIGN - 1, Score::INFINITY.0 + 1, u64::MAX] {
            assert!(Score::decode(&ordered.to_be_bytes()).is_err(), "{ordered:#x}");
        }
        for length in [0, 7, 9] {
            assert!(Score::decode(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0][..length]).is_err());
        }
    }
}
