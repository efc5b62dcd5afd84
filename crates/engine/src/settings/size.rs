//! Sizes in bytes as people write them.

/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;

const UNITS: [(&str, u32); 7] =
    [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50), ("EiB", 60)];

/// The number of bytes in `64 MiB`, `64MiB`, `4096` or `512 B`; `None` for anything else and beyond
/// 2^64.
///
/// Units are powers of 1024 and their case does not matter.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    let number: u64 = digits.replace('_', "").parse().ok()?;
    let unit = unit.trim();
    let shift = match unit {
        "" => 0,
        _ => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    number.checked_mul(1 << shift)
}

/// `bytes` in the largest unit that divides it: `64 MiB`, `100 B`.
pub fn show_bytes(bytes: u64) -> String {
    let fitting =
        UNITS.iter().rev().find(|(_, shift)| bytes.is_multiple_of(1 << shift) && bytes >> shift > 0);
    let (unit, shift) = fitting.unwrap_or(&UNITS[0]);
    format!("{} {unit}", bytes >> shift)
}
