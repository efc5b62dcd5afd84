//! Numbers in hexadecimal, `0x1.8p3`: what the C library reads as a number, Redis's commands take
//! for one.

use num_bigint::BigUint;

use super::extended::{TEXT_BYTES_MAX, parse_exponent, shifted_down};

/// magnitude × 2^exponent, not rounded.
pub(super) struct Hexadecimal {
    pub(super) is_negative: bool,
    pub(super) magnitude: BigUint,
    pub(super) exponent: i64,
}

/// Exponents that the parts of a double have: of its first bit at most, of its last one at least.
const DOUBLE_TOP_MAX: i64 = 1023;
const DOUBLE_LAST_MIN: i64 = -1074;
const DOUBLE_BITS: i64 = 53;

impl Hexadecimal {
    /// What `text` says: `0x`, hexadecimal digits with or without a point, and perhaps `p` and a
    /// decimal power of 2; with or without a sign. `None` for anything else, and for what is too
    /// long.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, rest) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let [b'0', b'x' | b'X', rest @ ..] = rest else { return None };
        let end = rest.iter().position(|byte| matches!(byte, b'p' | b'P')).unwrap_or(rest.len());
        let (number, power) = rest.split_at(end);
        let power = match power.split_first() {
            None => 0,
            Some((_, power)) => parse_exponent(power)?,
        };
        let point = number.iter().position(|byte| *byte == b'.');
        let behind = point.map_or(0, |point| number.len() - point - 1);
        let digits = number.iter().enumerate().filter(|(at, _)| Some(*at) != point);
        let digits: Option<Vec<u8>> =
            digits.map(|(_, byte)| Some(char::from(*byte).to_digit(16)? as u8)).collect();
        let magnitude = BigUint::from_radix_be(&digits.filter(|digits| !digits.is_empty())?, 16)?;
        Some(Self { is_negative, magnitude, exponent: power - 4 * behind as i64 })
    }

    /// The double nearest to it, of two the even one; `None` if that is infinite, or 0 where this
    /// is not.
    pub(super) fn nearest_double(&self) -> Option<f64> {
        let sign = if self.is_negative { -1.0 } else { 1.0 };
        let bits = self.magnitude.bits() as i64;
        if bits == 0 {
            return Some(0.0 * sign);
        }
        let top = self.exponent + bits - 1;
        let kept = DOUBLE_BITS.min(top - DOUBLE_LAST_MIN + 1);
        if top > DOUBLE_TOP_MAX || kept < 0 {
            return None;
        }
        let excess = (bits - kept).max(0);
        let mantissa = u64::try_from(shifted_down(self.magnitude.clone(), excess as u64)).ok()? as f64;
        // Exact, since the number is a double: in two steps, because the power alone may be none.
        let power = (self.exponent + excess) as i32;
        let number = mantissa * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2);
        (number.is_finite() && number != 0.0).then_some(number * sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(text: &str) -> Option<f64> {
        Hexadecimal::parse(text.as_bytes())?.nearest_double()
    }

    #[test]
    fn doubles_are_the_nearest() {
        // What strtod of the GNU C library says.
        for (text, number) in [
            ("0x10", 16.0),
            ("-0X1.8p+1", -3.0),
            ("+0x.8P1", 1.0),
            ("0x1.", 1.0),
            ("0x1p-1074", 5e-324),
            ("0x1.8p-1075", 5e-324),
            ("0x1.8p-1074", 1e-323),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000003", 9_007_199_254_740_996.0),
            ("0x20000000000001.0001", 9_007_199_254_740_994.0),
            ("0x0p99999999999999999999", 0.0),
            ("0x1.23456789abcdep-1022", 2.531_639_590_123_748_6e-308),
        ] {
            assert_eq!(double(text), Some(number), "{text}");
        }
        assert!(double("-0x0").is_some_and(|zero| zero == 0.0 && zero.is_sign_negative()));
    }

    #[test]
    fn what_is_no_double_is_refused() {
        for text in [
            "",
            "0x",
            "0x.",
            "0xp1",
            "0x1p",
            "0x1p+",
            "0xg",
            "x1",
            "10",
            "0x1.1.1",
            "0x 1",
            "--0x1",
            "0x1p1.0",
            "0x1p1024",
            "0x1.fffffffffffff8p1023",
            "0x1p-1075",
            "0x1p-99999999999",
            "0x1p999999999999",
        ] {
            assert_eq!(double(text), None, "{text}");
        }
        assert_eq!(double(&format!("0x{}1", "0".repeat(TEXT_BYTES_MAX - 3))), Some(1.0));
        assert_eq!(double(&format!("0x{}1", "0".repeat(TEXT_BYTES_MAX - 2))), None);
    }
}
