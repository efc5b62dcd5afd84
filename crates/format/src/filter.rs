//! Bloom filter in cache lines: one look at one line tells that a key is not there.
//!
//! ```text
//! offset      size  field         meaning
//! 0        64 x n   lines         line i: 8 words of 64 bits, little-endian; one bit of each word per hash
//! 64n            1  version       1
//! 64n+1          1  bits_per_key  what the builder was asked for, 1 to 64 (for people, not for readers)
//! 64n+2          2  reserved      zero
//! 64n+4          4  hash_count    u32 LE, how many hashes went in (stops at the greatest u32)
//! ```
//! The line of a hash `h` is `h * n >> 32`; its bit in word `w` is bits 26..32 of `remix(h) *
//! SALT[w]`. `n` follows from the length. A length that leaves 8 bytes over says "version 1" to
//! [`contains`], so that a look touches nothing but the line. No checksum of its own: the file
//! around it has one.
//!
//! Since: `FormatVersion::V1`. Hashes are [`filter_hash`]es, 32 bits. Some keys share one, which at
//! 10^7 keys adds 0.2 % of false positives to the 1.1 % of 10 bits a key.
//!
//! Source: split block Bloom filters (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient
//! Bloom Filters").

use crate::error::{Error, Result};
use crate::key::key_hash;

/// Bits per key unless settings say otherwise: about 1.1 % false positives.
pub const BITS_PER_KEY_DEFAULT: u32 = 10;
/// Greatest bits per key a filter is built with; more are cut to this.
pub const BITS_PER_KEY_MAX: u32 = 64;
/// One cache line.
pub const LINE_BYTES: usize = 64;

const VERSION: u8 = 1;
const TRAILER_BYTES: usize = 8;
const LINE_BITS: u64 = 8 * LINE_BYTES as u64;

/// Odd numbers without structure, one for each word of a line.
const SALT: [u32; 8] =
    [0x9e37_79b1, 0x85eb_ca6b, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1, 0xd3a2_646d, 0xfd70_46c5, 0xb55a_4f09];

/// The hash of a user key that goes into filters: the upper half of its [`key_hash`]. Frozen.
#[inline]
pub fn filter_hash(key: &[u8]) -> u32 {
    (key_hash(key) >> 32) as u32
}

/// The bytes of a filter over `hashes`; empty, which means "may contain anything", when `hashes` is
/// empty.
///
/// `bits_per_key` from 1 to [`BITS_PER_KEY_MAX`] (others are brought into that range). About 5 ns a
/// hash.
pub fn build(hashes: &[u32], bits_per_key: u32) -> Vec<u8> {
    let mut filter = Filter::with_room(hashes.len(), bits_per_key);
    filter.add(hashes);
    filter.encode()
}

/// Whether a key with `hash` may be in the set; `false` is certain.
///
/// `true` for bytes that are no filter of this version, the empty slice included. Any alignment.
#[inline]
pub fn contains(filter: &[u8], hash: u32) -> bool {
    let (lines, rest) = filter.as_chunks::<LINE_BYTES>();
    if rest.len() != TRAILER_BYTES {
        return true;
    }
    let Some(bytes) = lines.get(line_index(hash, lines.len())) else { return true };
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Line(words).contains(hash)
}

/// The line that [`contains`] looks at, to be loaded ahead; `None` where it looks at none.
#[inline]
pub fn line(filter: &[u8], hash: u32) -> Option<&[u8; LINE_BYTES]> {
    let (lines, _) = filter.as_chunks::<LINE_BYTES>();
    lines.get(line_index(hash, lines.len()))
}

/// Whether `filter` is something [`contains`] can use. To be called once where bytes come in.
///
/// # Errors
/// A length or a trailer that no builder writes.
pub fn check(filter: &[u8]) -> Result<()> {
    let (_, rest) = filter.as_chunks::<LINE_BYTES>();
    if filter.is_empty() {
        return Ok(());
    }
    let at = filter.len() - rest.len();
    let Ok([version, bits_per_key, zero_0, zero_1, ..]) = <[u8; TRAILER_BYTES]>::try_from(rest) else {
        return Err(Error::new(at, "a filter trailer of 8 bytes", format!("{} bytes", rest.len())));
    };
    if version != VERSION {
        return Err(Error::new(at, format!("filter version {VERSION}"), format!("version {version}")));
    }
    if at == 0 {
        return Err(Error::new(0, "at least one line", "a filter of no lines"));
    }
    if bits_per_key == 0 || u32::from(bits_per_key) > BITS_PER_KEY_MAX {
        return Err(Error::new(at + 1, "1 to 64 bits per key", format!("{bits_per_key}")));
    }
    if (zero_0, zero_1) != (0, 0) {
        return Err(Error::new(at + 2, "two zero bytes", format!("{zero_0:#04x} {zero_1:#04x}")));
    }
    Ok(())
}

/// A filter in memory that starts at a cache line: what runs hold and what [`build`] encodes.
///
/// Grows no further than the room it was made with: more hashes than that only raise its false
/// positives. A filter with no lines answers "may contain".
#[derive(Clone, Debug, Default)]
pub struct Filter {
    lines: Vec<Line>,
    bits_per_key: u8,
    hash_count: u64,
}

impl Filter {
    /// An empty filter with lines for `keys` keys of `bits_per_key` bits (brought into 1..=64). No
    /// keys, no lines.
    pub fn with_room(keys: usize, bits_per_key: u32) -> Self {
        let bits_per_key = bits_per_key.clamp(1, BITS_PER_KEY_MAX);
        let bits = (keys as u64).saturating_mul(u64::from(bits_per_key));
        let line_count = bits.div_ceil(LINE_BITS).min(u64::from(u32::MAX)) as usize;
        Self { lines: vec![Line([0; 8]); line_count], bits_per_key: bits_per_key as u8, hash_count: 0 }
    }

    /// Puts `hashes` in. May be called again and again.
    pub fn add(&mut self, hashes: &[u32]) {
        self.hash_count += hashes.len() as u64;
        let line_count = self.lines.len();
        for &hash in hashes {
            if let Some(line) = self.lines.get_mut(line_index(hash, line_count)) {
                line.insert(hash);
            }
        }
    }

    /// Whether a key with `hash` may have been added; `false` is certain.
    #[inline]
    pub fn contains(&self, hash: u32) -> bool {
        match self.lines.get(line_index(hash, self.lines.len())) {
            Some(line) => line.contains(hash),
            None => true,
        }
    }

    /// The word at which the line begins that [`contains`](Self::contains) looks at, to be loaded
    /// ahead.
    #[inline]
    pub fn line(&self, hash: u32) -> Option<&u64> {
        self.lines.get(line_index(hash, self.lines.len())).and_then(|line| line.0.first())
    }

    /// The bytes [`contains`] reads. Empty for a filter without lines.
    pub fn encode(&self) -> Vec<u8> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(self.memory_bytes() + TRAILER_BYTES);
        for word in self.lines.iter().flat_map(|line| line.0) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[VERSION, self.bits_per_key, 0, 0]);
        bytes.extend_from_slice(&u32::try_from(self.hash_count).unwrap_or(u32::MAX).to_le_bytes());
        bytes
    }

    /// Bytes its lines take.
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; 8]);

impl Line {
    #[inline]
    fn insert(&mut self, hash: u32) {
        for (word, bit) in self.0.iter_mut().zip(bits(hash)) {
            *word |= bit;
        }
    }

    #[inline]
    fn contains(&self, hash: u32) -> bool {
        let missing = self.0.iter().zip(bits(hash)).fold(0, |missing, (word, bit)| missing | (bit & !word));
        missing == 0
    }
}

/// One bit for each word of a line.
#[inline]
fn bits(hash: u32) -> [u64; 8] {
    let mixed = remix(hash);
    SALT.map(|salt| 1 << (mixed.wrapping_mul(salt) >> 26))
}

/// Spreads the low bits, which the choice of the line leaves unused, over all others.
#[inline]
fn remix(hash: u32) -> u32 {
    let mixed = (hash ^ (hash >> 16)).wrapping_mul(0x7feb_352d);
    mixed ^ (mixed >> 15)
}

/// Below `line_count`, or 0 if that is 0: all 32 bits take part.
#[inline]
fn line_index(hash: u32, line_count: usize) -> usize {
    ((u64::from(hash) * line_count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests;
