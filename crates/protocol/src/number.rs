//! Numbers as text, by the rules that Redis clients rely on.

mod extended;
mod hexadecimal;

pub use extended::Extended;
use hexadecimal::Hexadecimal;

/// The integer that `text` is, if [`append_integer`] would write it so: no spaces, no plus, no
/// leading zeros, no `-0`, within 64 bits.
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    let (first, rest) = digits.split_first()?;
    match first {
        b'0' => return (rest.is_empty() && !is_negative).then_some(0),
        b'1'..=b'9' => {}
        _ => return None,
    }
    if digits.len() > 19 {
        return None;
    }
    let mut magnitude = u64::from(first - b'0');
    for byte in rest {
        if !byte.is_ascii_digit() {
            return None;
        }
        // 19 digits are below 2^64.
        magnitude = magnitude * 10 + u64::from(byte - b'0');
    }
    match is_negative {
        false => i64::try_from(magnitude).ok(),
        true => 0_i64.checked_sub_unsigned(magnitude),
    }
}

/// Appends `number` in decimal.
#[inline]
pub fn append_integer(out: &mut Vec<u8>, number: i64) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(number).as_bytes());
}

/// The number that `text` is: decimal with or without fraction and exponent, hexadecimal, or
/// infinity. Hexadecimal (`0x1.8p3`) has at most 5119 bytes; infinity is `inf`, `+inf`, `-inf` or
/// `infinity` in any case. `None` for anything else, for NaN, and for what is too large or too near
/// to 0 for a double.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let Ok(number) = text.parse::<f64>() else {
        return Hexadecimal::parse(text.as_bytes())?.nearest_double();
    };
    let is_in_range = match number {
        _ if number.is_nan() => false,
        _ if number.is_infinite() => text.contains(['i', 'I']),
        0.0 => !text.split(['e', 'E']).next()?.contains(|digit: char| ('1'..='9').contains(&digit)),
        _ => true,
    };
    is_in_range.then_some(number)
}

/// Digits beyond which a number is written with an exponent.
const PLAIN_DIGITS_MAX: i32 = 17;

/// Appends `number` as `%.17g` writes it, in 17 digits without zeros at the end: `3`,
/// `0.10000000000000001`, `1e+22`, `inf`, `-inf`, `nan`. It reads back as the same number.
///
/// Exponents are written from 10^17 up and below 10^-4.
pub fn append_double(out: &mut Vec<u8>, number: f64) {
    if !number.is_finite() {
        let word: &[u8] = match number {
            _ if number.is_nan() => b"nan",
            _ if number > 0.0 => b"inf",
            _ => b"-inf",
        };
        out.extend_from_slice(word);
        return;
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    // Whole numbers that a double tells apart have a short way.
    if number.abs() < 9_007_199_254_740_992.0 && number.fract() == 0.0 {
        return append_integer(out, number.abs() as i64);
    }
    // One digit before the point, 16 behind it.
    let scientific = format!("{:.16e}", number.abs());
    let Some((digits, exponent)) = scientific.split_once('e') else { return };
    let digits = digits.trim_end_matches('0').replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (point, is_plain) = match exponent {
        0..PLAIN_DIGITS_MAX => (exponent as usize + 1, true),
        -4..0 => (0, true),
        _ => (1, false),
    };
    if point == 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
    }
    let (whole, fraction) = digits.split_at(point.min(digits.len()));
    out.extend_from_slice(whole.as_bytes());
    // Zeros before the point are digits of the number.
    out.extend(std::iter::repeat_n(b'0', point - whole.len()));
    if point > 0 && !fraction.is_empty() {
        out.push(b'.');
    }
    out.extend_from_slice(fraction.as_bytes());
    if !is_plain {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    }
}

#[cfg(test)]
mod tests;
