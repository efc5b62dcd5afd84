//! A table copied byte for byte.

use firn_format::table::FileChecksum;

use crate::{ReadFile, Result, WriteFile};

/// Bytes read at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// Writes what `from` holds to the beginning of `to`; the checksum of it, as the manifest has it of
/// tables. Syncs nothing.
///
/// # Errors
/// What reading and writing say.
pub fn copy_table(from: &dyn ReadFile, to: &dyn WriteFile) -> Result<u64> {
    let mut checksum = FileChecksum::default();
    let mut chunk = vec![0; from.len().min(CHUNK_BYTES) as usize];
    let mut offset = 0;
    while offset < from.len() {
        let bytes = (from.len() - offset).min(CHUNK_BYTES) as usize;
        let Some(part) = chunk.get_mut(..bytes) else { break };
        from.read_at(offset, part)?;
        to.write_at(offset, part)?;
        checksum.update(part);
        offset += bytes as u64;
    }
    Ok(checksum.finish())
}
