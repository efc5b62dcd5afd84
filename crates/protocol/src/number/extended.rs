//! Numbers with a fraction as users add them up: results of `INCRBYFLOAT` and `HINCRBYFLOAT`.
//!
//! Redis counts with the 80-bit numbers of its usual machine, whose mantissas have 64 bits, and
//! answers 17 decimals. So 0.1 and 0.2 make 0.3, which doubles do not. Here the same numbers are
//! made of integers. Every step is computed exactly, then rounded once, to the nearest and of two
//! to the even one.

use num_bigint::{BigInt, BigUint, Sign};

use super::hexadecimal::Hexadecimal;

/// Bits of a mantissa.
const MANTISSA_BITS: u64 = 64;

/// What is as great as 2 to this power is no finite number.
const EXPONENT_END: i64 = 16_384;

/// 2 to this power is the smallest number.
const EXPONENT_MIN: i64 = -16_445;

/// The decimal place of a text's first significant digit: from this place on, the text is too great
/// to be a number. Below [`DECIMAL_PLACE_MIN`] it is nearer to 0 than any number.
const DECIMAL_PLACE_MAX: i64 = 4_933;
const DECIMAL_PLACE_MIN: i64 = -4_950;

/// Longest text that is read as a number.
pub(super) const TEXT_BYTES_MAX: usize = 5_119;

/// Decimals of a result.
const DECIMALS: usize = 17;

/// A number of 64 significant bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extended {
    /// mantissa × 2^exponent.
    Finite {
        /// Not more than 64 bits, sign aside.
        mantissa: BigInt,
        /// Of 2.
        exponent: i64,
    },
    /// Greater or less than all others.
    Infinite,
}

impl Extended {
    /// The number 0.
    pub const ZERO: Self = Self::Finite { mantissa: BigInt::ZERO, exponent: 0 };

    /// The number nearest to what `text` says, with or without a sign. A decimal number may have a
    /// fraction and an exponent, a hexadecimal one (`0x1.8p3`) a fraction and a power of 2. `inf`
    /// and `infinity` are read in any case. `None` for anything else, for what is too great, and
    /// for what is nearer to 0 than to any other number without being 0.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (sign, rest) = match text.split_first()? {
            (b'-', rest) => (Sign::Minus, rest),
            (b'+', rest) => (Sign::Plus, rest),
            _ => (Sign::Plus, text),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite);
        }
        if let Some(number) = Hexadecimal::parse(text) {
            return Self::of_hexadecimal(number);
        }
        let end = rest.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(rest.len());
        let (number, exponent) = rest.split_at(end);
        let (digits, point) = split_digits(number)?;
        let place = match exponent.split_first() {
            None => point,
            Some((_, exponent)) => point.checked_add(parse_exponent(exponent)?)?,
        };
        let Some(first) = digits.iter().position(|digit| *digit != b'0') else { return Some(Self::ZERO) };
        let digits = &digits[first..];
        let first_place = place + digits.len() as i64;
        if !(DECIMAL_PLACE_MIN..=DECIMAL_PLACE_MAX).contains(&first_place) {
            return None;
        }
        let digits = BigUint::parse_bytes(digits, 10)?;
        let number = nearest(sign, digits, place);
        number.is_finite().then_some(number)
    }

    fn of_hexadecimal(Hexadecimal { is_negative, magnitude, exponent }: Hexadecimal) -> Option<Self> {
        let bits = magnitude.bits() as i64;
        if bits == 0 {
            return Some(Self::ZERO);
        }
        // Half the smallest number, and what is less, is nearest to 0.
        let is_power = magnitude.trailing_zeros() == Some(bits as u64 - 1);
        if exponent + bits < EXPONENT_MIN || exponent + bits == EXPONENT_MIN && is_power {
            return None;
        }
        let sign = if is_negative { Sign::Minus } else { Sign::Plus };
        let number = rounded(BigInt::from_biguint(sign, magnitude), exponent);
        number.is_finite().then_some(number)
    }

    /// Whether it is not infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self, Self::Finite { .. })
    }

    /// The number nearest to the sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (Self::Finite { mantissa: a, exponent: i }, Self::Finite { mantissa: b, exponent: j }) =
            (self, other)
        else {
            return Self::Infinite;
        };
        let exponent = *i.min(j);
        rounded((a << (i - exponent)) + (b << (j - exponent)), exponent)
    }

    /// Appends it with at most 17 decimals, rounded, without zeros behind the last one that counts,
    /// and without an exponent, however long that is.
    ///
    /// The number must be finite.
    pub fn append_plain(&self, out: &mut Vec<u8>) {
        let Self::Finite { mantissa, exponent } = self else { return };
        let scaled = mantissa.magnitude() * BigUint::from(10_u8).pow(DECIMALS as u32);
        let scaled = match u64::try_from(*exponent) {
            Ok(up) => scaled << up,
            Err(_) => shifted_down(scaled, exponent.unsigned_abs()),
        };
        if scaled == BigUint::ZERO {
            return out.push(b'0');
        }
        if mantissa.sign() == Sign::Minus {
            out.push(b'-');
        }
        let digits = format!("{scaled:0>width$}", width = DECIMALS + 1);
        let (whole, fraction) = digits.split_at(digits.len() - DECIMALS);
        out.extend_from_slice(whole.as_bytes());
        let fraction = fraction.trim_end_matches('0');
        if !fraction.is_empty() {
            out.push(b'.');
            out.extend_from_slice(fraction.as_bytes());
        }
    }
}

/// The digits of `number` without its point, and 10 to which power the last one counts.
fn split_digits(number: &[u8]) -> Option<(Vec<u8>, i64)> {
    let point = number.iter().position(|byte| *byte == b'.');
    let decimals = point.map_or(0, |point| number.len() - point - 1);
    let digits: Vec<u8> =
        number.iter().enumerate().filter(|(at, _)| Some(*at) != point).map(|(_, byte)| *byte).collect();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| (digits, -(decimals as i64)))
}

/// An exponent; one that no number can have stays out of reach.
pub(super) fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    const FAR: i64 = 1_000_000;
    let magnitude = digits.iter().fold(0, |sum: i64, digit| (sum * 10 + i64::from(digit - b'0')).min(FAR));
    Some(if is_negative { -magnitude } else { magnitude })
}

/// The number nearest to digits × 10^place.
fn nearest(sign: Sign, digits: BigUint, place: i64) -> Extended {
    let ten = BigUint::from(10_u8);
    let power = ten.pow(place.unsigned_abs() as u32);
    if place >= 0 {
        return rounded(BigInt::from_biguint(sign, digits * power), 0);
    }
    // A quotient of more bits than count, and a last one that says whether there is more.
    let shift = (MANTISSA_BITS + 2 + power.bits()).saturating_sub(digits.bits());
    let dividend = digits << shift;
    let quotient = &dividend / &power;
    let is_exact = &quotient * &power == dividend;
    let mantissa = (quotient << 1_u8) + u8::from(!is_exact);
    rounded(BigInt::from_biguint(sign, mantissa), -(shift as i64) - 1)
}

/// mantissa × 2^exponent with as many bits as a mantissa has.
fn rounded(mantissa: BigInt, exponent: i64) -> Extended {
    let (sign, magnitude) = mantissa.into_parts();
    let excess = magnitude.bits().saturating_sub(MANTISSA_BITS);
    let magnitude = shifted_down(magnitude, excess);
    let exponent = exponent + excess as i64;
    if magnitude.bits() as i64 + exponent > EXPONENT_END {
        return Extended::Infinite;
    }
    Extended::Finite { mantissa: BigInt::from_biguint(sign, magnitude), exponent }
}

/// number ÷ 2^bits, to the nearest, of two to the even one.
pub(super) fn shifted_down(number: BigUint, bits: u64) -> BigUint {
    if bits == 0 {
        return number;
    }
    let half = number.bit(bits - 1);
    let is_more = number.trailing_zeros().is_some_and(|zeros| zeros < bits - 1);
    let down = number >> bits;
    let is_up = half && (is_more || down.bit(0));
    down + u8::from(is_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let number = |text: &str| Extended::parse(text.as_bytes()).unwrap();
        let mut out = Vec::new();
        number(a).plus(&number(b)).append_plain(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sums_have_64_bits_and_17_decimals() {
        // What redis-server 7.0.15 answers on x86-64.
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("0.3", "-0.3", "0"),
            ("0", "1000.1", "1000.09999999999999998"),
            ("0", "-1e-30", "0"),
            ("10", "0.5", "10.5"),
            ("3.0e3", "200", "3200"),
            (".5", "1.", "1.5"),
            ("0", "1e19", "10000000000000000000"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551615", "2", "18446744073709551616"),
            ("18446744073709551616", "3", "18446744073709551620"),
            ("-2.5", "1e-17", "-2.49999999999999999"),
            ("0x10", "-0x.8p1", "15"),
            ("0x1.8", "0", "1.5"),
            ("0x10000000000000001", "0", "18446744073709551616"),
            ("0x1p-16445", "3", "3"),
        ] {
            assert_eq!(sum(a, b), expected, "{a} + {b}");
        }
        assert!(sum("0", "1e400").starts_with("10000000000000000000281880683947586514586453433629052"));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let decimal = [
            "", "+", "-", ".", "1e", "e5", "1e+", " 1", "1 ", "1.2.3", "nan", "--1", "1e5000", "1e-5000",
            "\0",
        ];
        let hexadecimal = ["0x", "0x1p", "0x1e+1", "0x1p16384", "0x1p-16446"];
        for text in decimal.into_iter().chain(hexadecimal) {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Extended::parse(&[b'1'; TEXT_BYTES_MAX + 1]), None);
        assert_eq!(Extended::parse(b"0e99999999999999999999"), Some(Extended::ZERO));
        assert_eq!(Extended::parse(b"-InFinity"), Some(Extended::Infinite));
        let most = Extended::parse(b"1.18e4932").unwrap();
        assert!(most.is_finite() && !most.plus(&most).is_finite());
    }
}
