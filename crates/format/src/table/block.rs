//! What surrounds every block of a table: codec and checksum.
//!
//! ```text
//! offset    size  field       meaning
//!      0       n  stored      the payload, or its compressed form
//!      n       8  raw_bytes   u64 LE: length of the payload; only if codec is not 0
//!  end-9       1  codec       0 = none, 1 = LZ4 block, 2 = Zstd frame; frozen
//!  end-8       8  checksum    xxh3-64 LE over everything before it
//! ```
//! A payload that compression shrinks by less than an eighth, or more than [`RATIO_MAX`] times, is
//! stored raw. So a reader never allocates more than `RATIO_MAX` times what it was given. Since:
//! FormatVersion::V1.

use std::fmt;

use crate::checksum::xxh3;
use crate::compression::{Compression, Compressor, RATIO_MAX, Shrunk};
use crate::error::{Error, Result};

/// Bytes after the stored payload of an uncompressed block.
pub const BLOCK_TRAILER_BYTES: usize = 9;
/// Seals blocks; keeps the codec's memory from block to block.
#[derive(Default)]
pub struct Sealer {
    compression: Compression,
    compressor: Compressor,
}

impl Sealer {
    /// Seals with `compression` wherever it pays.
    pub fn new(compression: Compression) -> Self {
        Self { compression, ..Self::default() }
    }

    /// Turns the payload `out[start..]` into a whole block in place.
    ///
    /// # Errors
    /// Zstd cannot be set up or refuses the payload.
    pub fn seal(&mut self, out: &mut Vec<u8>, start: usize) -> Result<()> {
        let payload = out.get(start..).unwrap_or_default();
        let raw_bytes = payload.len() as u64;
        let shrunk = self.compressor.compress(self.compression, payload, size_of::<u64>())?;
        let mut codec = Compression::None;
        if let Shrunk::To(stored) = shrunk {
            codec = self.compression;
            out.truncate(start);
            out.extend_from_slice(stored);
            out.extend_from_slice(&raw_bytes.to_le_bytes());
        }
        close(out, start, codec);
        Ok(())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("compression", &self.compression).finish_non_exhaustive()
    }
}

/// Turns the payload `out[start..]` into an uncompressed block.
pub fn seal_raw(out: &mut Vec<u8>, start: usize) {
    close(out, start, Compression::None);
}

fn close(out: &mut Vec<u8>, start: usize, codec: Compression) {
    out.push(codec as u8);
    let checksum = xxh3(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// A block whose checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked<'a> {
    /// The payload itself.
    Raw(&'a [u8]),
    /// To be decompressed with [`crate::compression::decompress`].
    Compressed {
        /// By what.
        codec: Compression,
        /// The compressed payload.
        stored: &'a [u8],
        /// The payload's length; at most [`RATIO_MAX`] times the block's.
        raw_bytes: usize,
    },
}

/// The payload of a whole block, its checksum compared.
///
/// # Errors
/// Too short, wrong checksum, unknown codec or a payload length out of proportion; offsets are in
/// `block`.
pub fn check(block: &[u8]) -> Result<Checked<'_>> {
    let Some((body, checksum)) = block.split_last_chunk::<8>() else {
        return Err(Error::new(0, "a block of at least 9 bytes", format!("{} bytes", block.len())));
    };
    let (found, expected) = (xxh3(body), u64::from_le_bytes(*checksum));
    if found != expected {
        let found = format!("bytes with checksum {found:#018x}");
        return Err(Error::new(0, format!("a block with checksum {expected:#018x}"), found));
    }
    parts(body)
}

/// As [`check`] for a block whose checksum was compared before.
///
/// # Errors
/// As for [`check`], the checksum apart.
#[inline]
pub fn trusted(block: &[u8]) -> Result<Checked<'_>> {
    match block.len().checked_sub(8).and_then(|bytes| block.get(..bytes)) {
        Some(body) => parts(body),
        None => Err(Error::new(0, "a block of at least 9 bytes", format!("{} bytes", block.len()))),
    }
}

#[inline]
fn parts(body: &[u8]) -> Result<Checked<'_>> {
    match body.split_last() {
        Some((0, payload)) => Ok(Checked::Raw(payload)),
        Some((codec, stored)) => compressed_parts(*codec, stored),
        None => Err(Error::new(0, "a codec", "nothing")),
    }
}

fn compressed_parts(number: u8, stored: &[u8]) -> Result<Checked<'_>> {
    let Some(codec) = Compression::from_u8(number) else {
        return Err(Error::new(stored.len(), "codec 0, 1 or 2", format!("{number}")));
    };
    let Some((stored, raw_bytes)) = stored.split_last_chunk::<8>() else {
        return Err(Error::new(0, "8 bytes of payload length", format!("{}", stored.len())));
    };
    let raw_bytes = u64::from_le_bytes(*raw_bytes);
    let limit = (stored.len() as u64 + 8).saturating_mul(RATIO_MAX);
    match usize::try_from(raw_bytes) {
        Ok(raw_bytes) if raw_bytes as u64 <= limit => Ok(Checked::Compressed { codec, stored, raw_bytes }),
        _ => Err(Error::new(
            stored.len(),
            format!("a payload of at most {limit} bytes"),
            format!("{raw_bytes}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::decompress;

    fn sealed(payload: &[u8], compression: Compression) -> Vec<u8> {
        let mut out = vec![0xee; 3];
        out.extend_from_slice(payload);
        Sealer::new(compression).seal(&mut out, 3).unwrap();
        out.split_off(3)
    }

    fn opened(block: &[u8]) -> Result<Vec<u8>> {
        Ok(match check(block)? {
            Checked::Raw(payload) => payload.to_vec(),
            Checked::Compressed { codec, stored, raw_bytes } => {
                let mut out = vec![1, 2, 3];
                decompress(codec, stored, raw_bytes, &mut out)?;
                out
            }
        })
    }

    #[test]
    fn what_was_compressed_before_does_not_show() {
        let [small, large] = [100_u32, 30_000]
            .map(|count| (0..count).flat_map(|n| format!("value {n} ").into_bytes()).collect::<Vec<u8>>());
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut sealer = Sealer::new(compression);
            for payload in [&small, &large, &small] {
                let mut out = payload.clone();
                sealer.seal(&mut out, 0).unwrap();
                assert_eq!(out, sealed(payload, compression), "{compression:?}, {} bytes", payload.len());
            }
        }
    }

    #[test]
    fn a_block_that_cannot_be_decompressed_says_nothing_of_the_next() {
        let text = b"one two one two one two one two one two".repeat(50);
        let block = sealed(&text, Compression::Zstd);
        let Ok(Checked::Compressed { codec, stored, raw_bytes }) = check(&block) else { panic!("{block:?}") };
        let mut out = Vec::new();
        for cut in 0..stored.len() {
            assert!(decompress(codec, &stored[..cut], raw_bytes, &mut out).is_err(), "{cut} bytes");
            decompress(codec, stored, raw_bytes, &mut out).unwrap();
            assert_eq!(out, text, "after {cut} bytes");
        }
    }

    #[test]
    fn payloads_come_back_and_every_flip_is_noticed() {
        let text: Vec<u8> = (0..600_u32).flat_map(|n| format!("value {n} ").into_bytes()).collect();
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            for payload in [&text[..], b"", b"x", &[0; 100_000]] {
                let mut block = sealed(payload, compression);
                assert_eq!(opened(&block), Ok(payload.to_vec()), "{compression:?}");
                assert_eq!(trusted(&block), check(&block));
                for at in (0..block.len()).step_by(block.len() / 50 + 1) {
                    block[at] ^= 0x10;
                    assert!(opened(&block).is_err(), "{compression:?} byte {at}");
                    block[at] ^= 0x10;
                }
            }
            let small = sealed(&text, compression).len() < text.len() * 3 / 4;
            assert_eq!(small, compression != Compression::None);
        }
    }

    #[test]
    fn a_length_out_of_proportion_is_refused_before_it_is_allocated() {
        let mut block = vec![1, 2, 3];
        block.extend_from_slice(&u64::MAX.to_le_bytes());
        close(&mut block, 0, Compression::Lz4);
        assert!(check(&block).is_err());
    }
}
