//! Writing a data block.

use std::cmp::Ordering;

use super::{KEY_BYTES_MAX, RESTART_INTERVAL, TRAILER_LENGTH_SHIFT, VALUE_BYTES_MAX};
use crate::error::{Error, Result};
use crate::key::{Entry, Kind, Sequence, Trailer};
use crate::varint;

/// Gathers entries into one block after another; values go straight to the output.
#[derive(Debug, Default)]
pub struct DataBlockBuilder {
    keys: Vec<u8>,
    restarts: Vec<u8>,
    since_restart: usize,
    entry_count: usize,
    value_bytes: usize,
    /// Outlives the block, so that order is checked across blocks.
    last_key: Vec<u8>,
    last_sequence: Option<Sequence>,
}

/// What [`DataBlockBuilder::add`] learnt about the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its key is the previous entry's.
    pub same_key: bool,
}

impl DataBlockBuilder {
    /// Adds `entry`; its value is appended to `out`, the rest is kept until
    /// [`finish`](Self::finish).
    ///
    /// # Errors
    /// Out of order, beyond a limit, or of a kind that tables do not hold; nothing is changed then.
    pub fn add(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<Added> {
        let common = common_bytes(&self.last_key, entry.key);
        let same_key = self.check(entry, common)?;
        let shared = if self.since_restart == 0 { 0 } else { common };
        if self.since_restart == 0 {
            self.restarts.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
            self.restarts.extend_from_slice(&(self.value_bytes as u32).to_le_bytes());
        }
        self.since_restart = (self.since_restart + 1) % RESTART_INTERVAL;
        let suffix = entry.key.get(shared..).unwrap_or_default();
        let expires = entry.expires_at_ms != 0;
        varint::encode(shared as u64, &mut self.keys);
        varint::encode(suffix.len() as u64, &mut self.keys);
        varint::encode((entry.value.len() as u64) << 1 | u64::from(expires), &mut self.keys);
        self.keys.extend_from_slice(suffix);
        let (trailer, bytes) = short_trailer(Trailer::new(entry.sequence, entry.kind));
        self.keys.extend_from_slice(trailer.get(..bytes).unwrap_or_default());
        if expires {
            self.keys.extend_from_slice(&entry.expires_at_ms.to_le_bytes());
        }
        out.extend_from_slice(entry.value);
        self.value_bytes += entry.value.len();
        self.entry_count += 1;
        if !same_key {
            self.last_key.truncate(common);
            self.last_key.extend_from_slice(entry.key.get(common..).unwrap_or_default());
        }
        self.last_sequence = Some(entry.sequence);
        Ok(Added { same_key })
    }

    /// Whether `entry` may follow; and if so, whether it has the previous key.
    fn check(&self, entry: &Entry<'_>, common: usize) -> Result<bool> {
        if entry.key.len() > KEY_BYTES_MAX || entry.value.len() > VALUE_BYTES_MAX {
            let found = format!("{} and {}", entry.key.len(), entry.value.len());
            return Err(Error::new(0, "a key up to 65535 bytes and a value up to 4 GiB - 1 MiB", found));
        }
        if !matches!(entry.kind, Kind::Put | Kind::Delete | Kind::Merge | Kind::PutReference)
            || entry.sequence > Sequence::MAX
        {
            return Err(Error::new(
                0,
                "a put, delete or merge",
                format!("{:?} @ {}", entry.kind, entry.sequence),
            ));
        }
        let Some(last) = self.last_sequence else { return Ok(false) };
        let rest = |key: &[u8]| key.get(common).copied();
        match rest(&self.last_key).cmp(&rest(entry.key)) {
            Ordering::Less => Ok(false),
            Ordering::Equal if entry.sequence < last => Ok(true),
            _ => Err(Error::new(
                0,
                format!("an entry after {} @ {last}", self.last_key.escape_ascii()),
                format!("{} @ {}", entry.key.escape_ascii(), entry.sequence),
            )),
        }
    }

    /// Appends keys, restarts and tail to `out` behind the values and begins the next block.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&self.restarts);
        out.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
        out.extend_from_slice(&((self.restarts.len() / 8) as u32).to_le_bytes());
        self.keys.clear();
        self.restarts.clear();
        self.since_restart = 0;
        self.entry_count = 0;
        self.value_bytes = 0;
    }

    /// Bytes the payload would have if finished now.
    pub fn payload_bytes(&self) -> usize {
        self.value_bytes + self.keys.len() + self.restarts.len() + 8
    }

    /// Entries in the block so far.
    pub fn len(&self) -> usize {
        self.entry_count
    }

    /// Whether the block has no entry yet.
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// The last key added, to this block or an earlier one.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }
}

/// A trailer as it is stored, and how many bytes of it.
#[inline]
fn short_trailer(trailer: Trailer) -> ([u8; 8], usize) {
    let bytes = (64 - trailer.0.leading_zeros() as usize).div_ceil(8);
    // The length has three bits: 8 is 0.
    let length = if bytes == 8 { 0 } else { bytes as u64 };
    ((trailer.0 | length << TRAILER_LENGTH_SHIFT).to_le_bytes(), bytes)
}

/// Bytes `a` and `b` have in common at the front.
pub(crate) fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let mut common = 0;
    let words = |bytes: &[u8]| bytes.first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
    loop {
        let (left, right) = (a.get(common..).unwrap_or_default(), b.get(common..).unwrap_or_default());
        match (words(left), words(right)) {
            (Some(left), Some(right)) if left == right => common += 8,
            (Some(left), Some(right)) => return common + (left ^ right).trailing_zeros() as usize / 8,
            _ => return common + left.iter().zip(right).take_while(|(left, right)| left == right).count(),
        }
    }
}
