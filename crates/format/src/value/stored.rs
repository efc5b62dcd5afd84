//! A value as its record stores it.

use super::record::{CHUNK_BYTES, Chunk, ValueHead, head_bytes, plain_chunks, plain_record_bytes};
use super::reference::SegmentNumber;
use crate::checksum::xxh3;
use crate::error::Result;
use crate::table::{Compression, Compressor, Shrunk};

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
    /// `value`, compressed by `codec` where that pays. What Zstd shrinks more than a reader allows is compressed by LZ4, which does
    /// not. Without a codec no allocation.
    ///
    /// # Errors
    /// The codec's own.
    pub fn new(value: &'v [u8], codec: Compression, compressor: &mut Compressor) -> Result<Self> {
        let plain = Self::plain(value);
        let packed = match codec {
            Compression::None => return Ok(plain),
            codec => Self { value, packed: Some(Packed::of(value, codec, compressor)?) },
        };
        // Without a key: it takes as much either way.
        Ok(if packed.record_bytes(0) < plain.record_bytes(0) { packed } else { plain })
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

    /// Bytes of its record, padding included, where the key has `key_bytes`.
    pub fn record_bytes(&self, key_bytes: usize) -> usize {
        match &self.packed {
            None => plain_record_bytes(key_bytes, self.value.len()),
            Some(packed) => {
                (head_bytes(self.value.len(), true) + key_bytes + packed.bytes.len()).next_multiple_of(8)
            }
        }
    }

    /// Appends the head of its record as value `ordinal` of `segment`, and `key`, and returns the checksum that references have.
    /// Reads a plain value once.
    pub fn encode_head(
        &self,
        (segment, ordinal): (SegmentNumber, u32),
        (keyspace, key): (u32, &[u8]),
        out: &mut Vec<u8>,
    ) -> u64 {
        let head = ValueHead {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ValueRecord;

    fn text(bytes: usize) -> Vec<u8> {
        (0_u32..).flat_map(|n| format!("line {n} ").into_bytes()).take(bytes).collect()
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    /// The codec of its record, once that was decoded again.
    fn there_and_back(value: &[u8], stored: &Stored<'_>) -> Compression {
        let mut bytes = Vec::new();
        stored.encode_head((SegmentNumber(1), 2), (0, b"key"), &mut bytes);
        bytes.extend_from_slice(stored.bytes());
        let record = ValueRecord::decode(&bytes).unwrap();
        assert_eq!(record.bytes(), stored.record_bytes(3));
        let mut out = Vec::new();
        for index in 0..record.chunk_count() {
            record.decode_chunk(index, &bytes[record.chunk_span(index)], &mut out).unwrap();
        }
        assert!(out == value);
        record.head.codec
    }

    #[test]
    fn what_shrinks_is_compressed_chunk_by_chunk() {
        let compressor = &mut Compressor::default();
        let (long, mixed) = (text(3 * CHUNK_BYTES + 5), [text(CHUNK_BYTES), noise(CHUNK_BYTES)].concat());
        for codec in [Compression::Lz4, Compression::Zstd] {
            for value in [&long[..100], &long[..CHUNK_BYTES], &long, &mixed, &vec![0; CHUNK_BYTES]] {
                let stored = Stored::new(value, codec, compressor).unwrap();
                let is_constant = value.iter().all(|byte| *byte == 0);
                let expected = if is_constant { Compression::Lz4 } else { codec };
                assert_eq!(there_and_back(value, &stored), expected);
                assert!(stored.bytes().len() < value.len() - value.len() / 16);
            }
        }
        let stored = Stored::new(&mixed, Compression::Zstd, compressor).unwrap();
        let packed = stored.packed.unwrap();
        assert!((packed.chunks[0].stored_bytes as usize) < CHUNK_BYTES / 2);
        assert_eq!(packed.chunks[1].stored_bytes as usize, CHUNK_BYTES);
    }

    #[test]
    fn what_does_not_shrink_is_not() {
        let compressor = &mut Compressor::default();
        for codec in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let end = [noise(4 * CHUNK_BYTES), vec![7; 24]].concat();
            for value in [&noise(5000)[..], b"", b"short", &end] {
                let stored = Stored::new(value, codec, compressor).unwrap();
                assert!(stored == Stored::plain(value), "{codec:?}");
                assert_eq!(there_and_back(value, &stored), Compression::None);
            }
        }
        let text = text(100);
        assert_eq!(Stored::new(&text, Compression::None, compressor), Ok(Stored::plain(&text)));
    }
}
