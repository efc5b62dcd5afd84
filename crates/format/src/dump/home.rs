//! Identities of directories as text.

use crate::dump::{Dumped, Lines, Shown};
use crate::home::{HOME_BYTES, Home};

/// Writes a directory's identity field by field.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let error = Home::decode(bytes).err();
    let Some(fields) = bytes.first_chunk::<HOME_BYTES>() else { return Ok(error) };
    let (words, _) = fields.as_chunks::<8>();
    let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
    lines.line(0, 8, "magic", format_args!("{}", Shown(&word(0).to_le_bytes())))?;
    lines.line(8, 4, "version", format_args!("{}", word(1) as u32))?;
    lines.line(12, 4, "reserved", format_args!("{}", word(1) >> 32))?;
    lines.line(16, 16, "id", format_args!("{:016x}{:016x}", word(3), word(2)))?;
    lines.line(32, 8, "checksum", format_args!("{:016x}", word(4)))?;
    Ok(error)
}
