//! Records as they lie on a device: words, little end first, each record under a checksum.
//!
//! The checksum takes the place of the count of changes, which nothing changes there any more. It
//! is crc32c over the record's words, with this half of word 1 as zero, exclusive-or a mix of the
//! record's address: a record that is not where it belongs does not match. Words between records
//! are zero.

use std::ops::Range;

use crate::checksum::{crc32c, mix};
use crate::error::{Error, Result};
use crate::hybrid::record::{Link, Shape, State};

/// Bytes that are enough to know how long a record is.
pub const PREFIX_BYTES: usize = 24;

/// Bytes of the checksum in a record.
const CHECKSUM: Range<usize> = 8..12;

/// Makes of a record as it lies in memory, at `address`, one for a device: all of `bytes`, and no
/// more. Takes out what holds in memory alone, and puts the checksum in.
pub fn seal_record(address: u64, bytes: &mut [u8]) {
    let state = State(word(bytes, 1).unwrap_or_default()).unsealed().with_sequence(0);
    if let Some(to) = bytes.get_mut(8..16) {
        to.copy_from_slice(&state.0.to_le_bytes());
    }
    let checksum = checksum_of(address, bytes);
    if let Some(to) = bytes.get_mut(CHECKSUM) {
        to.copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Makes of a record on a device, at `address`, one as it lies in memory, which was never changed:
/// all of `bytes`, and no more.
///
/// # Errors
/// The checksum does not match; `bytes` have no checksum then.
pub fn open_record(address: u64, bytes: &mut [u8]) -> Result<()> {
    let found = State(word(bytes, 1).ok_or_else(|| too_short(bytes))?).sequence();
    if let Some(checksum) = bytes.get_mut(CHECKSUM) {
        checksum.fill(0);
    }
    let expected = checksum_of(address, bytes);
    if found == expected {
        return Ok(());
    }
    Err(Error::new(8, format!("a record's checksum {expected:08x}"), format!("{found:08x}")))
}

/// Bytes of the shortest record.
pub const RECORD_BYTES_MIN: usize = 16;

/// The checksum of a record whose own is zero.
fn checksum_of(address: u64, bytes: &[u8]) -> u32 {
    crc32c(bytes) ^ (mix(address) >> 32) as u32
}

/// The shape of the record that `bytes` begin with; `None` for a word that is zero, between
/// records.
///
/// # Errors
/// What lies there is neither, or `bytes` end before the shape is known.
pub fn shape_at(bytes: &[u8]) -> Result<Option<(Link, Shape)>> {
    let link = Link(word(bytes, 0).ok_or_else(|| too_short(bytes))?);
    if link.0 == 0 {
        return Ok(None);
    }
    if !link.is_record() {
        return Err(Error::new(0, "the first word of a record, or zero", format!("{:016x}", link.0)));
    }
    let state = State(word(bytes, 1).ok_or_else(|| too_short(bytes))?);
    let lengths = match state.is_long() {
        true => word(bytes, 2).ok_or_else(|| too_short(bytes))?,
        false => 0,
    };
    Ok(Some((link, Shape::decode(state, || lengths))))
}

/// Word `index` of `bytes`.
fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(index * 8..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn too_short(bytes: &[u8]) -> Error {
    Error::new(bytes.len(), "a record's head", format!("the end after {} bytes", bytes.len()))
}
