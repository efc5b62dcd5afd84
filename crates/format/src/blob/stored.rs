//! A value as its record stores it.

use super::record::{BlobHead, CHUNK_BYTES, Chunk, long_head_bytes, plain_chunks, plain_record_bytes};
use super::reference::SegmentNumber;
use crate::checksum::xxh3;
use crate::compression::{Compression, Compressor, Shrunk};
use crate::error::Result;

/// A value as its record stores it: compressed where the record is shorter then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<'v> {
    value: &'v [u8],
    packed: Option<Packed>,
}

/// Chunks, at least one of them compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packed {
    codec: Compression,
    /// As many as the value has.
    chunks: Vec<Chunk>,
    /// Stored bytes of all chunks.
    bytes: Vec<u8>,
}

impl<'v> Stored<'v> {
    /// `value`, compressed by `codec` where that pays. What Zstd shrinks more than a reader allows
    /// is compressed by LZ4, which does not. Without a codec no allocation.
    ///
    /// # Errors
    /// The codec's own.
    pub fn new(value: &'v [u8], codec: Compression, compressor: &mut Compressor) -> Result<Self> {
        let plain = Self::plain(value);
        let packed = match codec {
            Compression::None => return Ok(plain),
            codec => Self { value, packed: Some(Packed::of(value, codec, compressor)?) },
        };
        // Without a key: it takes as much either way, unless it is a long one.
        Ok(if packed.record_bytes(0, 0) < plain.record_bytes(0, 0) { packed } else { plain })
    }

    /// `value` as it is.
    pub fn plain(value: &'v [u8]) -> Self {
        Self { value, packed: None }
    }

    /// Length of the value.
    pub fn value_bytes(&self) -> u32 {
        self.value.len() as u32
    }

    /// What is stored behind the key.
    pub fn bytes(&self) -> &[u8] {
        self.packed.as_ref().map_or(self.value, |packed| &packed.bytes)
    }

    /// Bytes of its record, padding included, where the key, of `keyspace`, has `key_bytes`.
    pub fn record_bytes(&self, keyspace: u32, key_bytes: usize) -> usize {
        match &self.packed {
            None => plain_record_bytes(keyspace, key_bytes, self.value.len()),
            Some(packed) => {
                (long_head_bytes(self.value.len(), true) + key_bytes + packed.bytes.len()).next_multiple_of(8)
            }
        }
    }

    /// Appends the head of its record as value `ordinal` of `segment`, and `key`, and returns the
    /// checksum that references have. Reads a plain value once.
    pub fn encode_head(
        &self,
        (segment, ordinal): (SegmentNumber, u32),
        (keyspace, key): (u32, &[u8]),
        out: &mut Vec<u8>,
    ) -> u32 {
        let head = BlobHead {
            segment,
            ordinal,
            value_bytes: self.value_bytes(),
            keyspace,
            key_bytes: key.len() as u16,
            codec: self.packed.as_ref().map_or(Compression::None, |packed| packed.codec),
        };
        match &self.packed {
            None => head.encode(plain_chunks(self.value), key, out),
            Some(packed) => head.encode(packed.chunks.iter().copied(), key, out),
        }
    }
}

impl Packed {
    fn of(value: &[u8], codec: Compression, compressor: &mut Compressor) -> Result<Self> {
        let mut packed = Self { codec, chunks: Vec::new(), bytes: Vec::new() };
        for raw in value.chunks(CHUNK_BYTES) {
            let stored = match compressor.compress(codec, raw, 0)? {
                Shrunk::To(stored) => stored,
                Shrunk::TooMuch if codec != Compression::Lz4 => {
                    return Self::of(value, Compression::Lz4, compressor);
                }
                Shrunk::TooLittle | Shrunk::TooMuch => raw,
            };
            packed.chunks.push(Chunk { checksum: xxh3(stored), stored_bytes: stored.len() as u32 });
            packed.bytes.extend_from_slice(stored);
        }
        Ok(packed)
    }
}

/// A chunk as a record stores it whose `codec` is settled, whatever its other chunks are like: for
/// values that come in pieces.
///
/// # Errors
/// The codec's own.
pub fn stored_chunk<'c>(
    raw: &'c [u8],
    codec: Compression,
    compressor: &'c mut Compressor,
) -> Result<(Chunk, &'c [u8])> {
    let stored = compressor.compress_padded(codec, raw)?.unwrap_or(raw);
    Ok((Chunk { checksum: xxh3(stored), stored_bytes: stored.len() as u32 }, stored))
}

#[cfg(test)]
mod tests;
