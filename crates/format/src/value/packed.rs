//! A value, compressed.

use super::record::{CHUNK_BYTES, Chunk, head_bytes, plain_record_bytes};
use crate::checksum::xxh3;
use crate::error::Result;
use crate::table::{Compression, Compressor, Shrunk};

/// A value's chunks as a record stores them, at least one of them compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// By what; chunks that it does not shrink by an eighth are stored as they are.
    pub codec: Compression,
    /// As many as the value has.
    pub chunks: Vec<Chunk>,
    /// Stored bytes of all chunks.
    pub stored: Vec<u8>,
}

impl Packed {
    /// `value`, compressed by `codec`; `None` if its record is no shorter then. What Zstd shrinks more than a reader allows is
    /// compressed by LZ4, which does not.
    ///
    /// # Errors
    /// The codec's own.
    pub fn of(value: &[u8], codec: Compression, compressor: &mut Compressor) -> Result<Option<Self>> {
        if codec == Compression::None {
            return Ok(None);
        }
        let mut packed = Self { codec, chunks: Vec::new(), stored: Vec::new() };
        for raw in value.chunks(CHUNK_BYTES) {
            let stored = match compressor.compress(codec, raw, 0)? {
                Shrunk::To(stored) => stored,
                Shrunk::TooMuch if codec != Compression::Lz4 => {
                    return Self::of(value, Compression::Lz4, compressor);
                }
                Shrunk::TooLittle | Shrunk::TooMuch => raw,
            };
            packed.chunks.push(Chunk { checksum: xxh3(stored), stored_bytes: stored.len() as u32 });
            packed.stored.extend_from_slice(stored);
        }
        // Without a key: it takes as much either way.
        let is_shorter = packed.record_bytes(0, value.len()) < plain_record_bytes(0, value.len());
        Ok(is_shorter.then_some(packed))
    }

    /// Bytes of its record, padding included, where the key has `key_bytes` and the value `value_bytes`.
    pub fn record_bytes(&self, key_bytes: usize, value_bytes: usize) -> usize {
        (head_bytes(value_bytes, true) + key_bytes + self.stored.len()).next_multiple_of(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{SegmentNumber, ValueHead, ValueRecord};

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

    fn there_and_back(value: &[u8], packed: &Packed) {
        let head = ValueHead {
            segment: SegmentNumber(1),
            ordinal: 2,
            value_bytes: value.len() as u32,
            keyspace: 0,
            key_bytes: 3,
            codec: packed.codec,
        };
        let mut bytes = Vec::new();
        head.encode(packed.chunks.iter().copied(), b"key", &mut bytes);
        bytes.extend_from_slice(&packed.stored);
        let record = ValueRecord::decode(&bytes).unwrap();
        assert_eq!(record.bytes(), packed.record_bytes(3, value.len()));
        let mut out = Vec::new();
        for index in 0..record.chunk_count() {
            record.decode_chunk(index, &bytes[record.chunk_span(index)], &mut out).unwrap();
        }
        assert!(out == value);
    }

    #[test]
    fn what_shrinks_is_compressed_chunk_by_chunk() {
        let compressor = &mut Compressor::default();
        let (long, mixed) = (text(3 * CHUNK_BYTES + 5), [text(CHUNK_BYTES), noise(CHUNK_BYTES)].concat());
        for codec in [Compression::Lz4, Compression::Zstd] {
            for value in [&long[..100], &long[..CHUNK_BYTES], &long, &mixed, &vec![0; CHUNK_BYTES]] {
                let packed = Packed::of(value, codec, compressor).unwrap().unwrap();
                let is_constant = value.iter().all(|byte| *byte == 0);
                assert_eq!(packed.codec, if is_constant { Compression::Lz4 } else { codec });
                assert!(packed.stored.len() < value.len() - value.len() / 16);
                there_and_back(value, &packed);
            }
        }
        let packed = Packed::of(&mixed, Compression::Zstd, compressor).unwrap().unwrap();
        assert!((packed.chunks[0].stored_bytes as usize) < CHUNK_BYTES / 2);
        assert_eq!(packed.chunks[1].stored_bytes as usize, CHUNK_BYTES);
    }

    #[test]
    fn what_does_not_shrink_is_not() {
        let compressor = &mut Compressor::default();
        for codec in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let end = [noise(4 * CHUNK_BYTES), vec![7; 24]].concat();
            for value in [&noise(5000)[..], b"", b"short", &end] {
                assert_eq!(Packed::of(value, codec, compressor), Ok(None), "{codec:?}");
            }
        }
        assert_eq!(Packed::of(&text(100), Compression::None, compressor), Ok(None));
    }
}
