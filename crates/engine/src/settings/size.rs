//! Sizes in bytes as people write them: the one reader of them, for files, options and the
//! environment.

use crate::{Error, Result};

/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;

const UNITS: [(&str, u32); 7] =
    [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50), ("EiB", 60)];

/// The number of bytes in `64 MiB`, `64MiB`, `64M`, `1.5 GB`, `4096` or `512 B`.
///
/// Units are powers of 1024, whether they are written `M`, `MB` or `MiB`; their case does not
/// matter. A part of a byte is left out.
///
/// # Errors
/// `Invalid` for anything else and beyond 2^64, with what to write.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let refused = || Error::invalid(format!("`{text}` is not a size such as 4096, 512M or 4 GiB"));
    let trimmed = text.trim();
    let number_end =
        trimmed.find(|c: char| !c.is_ascii_digit() && !matches!(c, '_' | '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(number_end);
    let scale = 1_u64 << shift_of(unit.trim()).ok_or_else(refused)?;
    let number = number.replace('_', "");
    let bytes = match number.split_once('.') {
        None => number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)),
        Some((whole, part)) => scaled(whole, part, scale),
    };
    bytes.ok_or_else(refused)
}

/// How often a unit doubles a byte.
fn shift_of(unit: &str) -> Option<u32> {
    // KiB as K and KB too.
    let is_named = |name: &str| {
        let short = name.strip_suffix("iB").unwrap_or(name);
        unit.eq_ignore_ascii_case(name)
            || unit.eq_ignore_ascii_case(short)
            || (short != name && unit.eq_ignore_ascii_case(&format!("{short}B")))
    };
    match unit {
        "" => Some(0),
        _ => UNITS.iter().find(|(name, _)| is_named(name)).map(|(_, shift)| *shift),
    }
}

/// `whole.part` times `scale`; `None` where that is no number, or too large.
fn scaled(whole: &str, part: &str, scale: u64) -> Option<u64> {
    /// Digits behind the point that count.
    const DIGITS: usize = 9;
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || scale == 1 {
        return None;
    }
    let part = part.get(..DIGITS).unwrap_or(part);
    let fraction = u128::from(part.parse::<u64>().ok()?) * u128::from(scale) / 10_u128.pow(part.len() as u32);
    let bytes = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    bytes.checked_add(u64::try_from(fraction).ok()?)
}

/// `bytes` in the largest unit that divides it: `64 MiB`, `100 B`.
pub fn show_bytes(bytes: u64) -> String {
    let fitting =
        UNITS.iter().rev().find(|(_, shift)| bytes.is_multiple_of(1 << shift) && bytes >> shift > 0);
    let (unit, shift) = fitting.unwrap_or(&UNITS[0]);
    format!("{} {unit}", bytes >> shift)
}
