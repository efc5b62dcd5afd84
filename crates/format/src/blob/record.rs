//! One value in a blob segment.
//!
//! A head is long or short; its byte 23 tells which. Long:
//!
//! ```text
//! offset size  field        meaning
//!      0    4  checksum     u32 LE, crc32c of the head's other bytes and of the key
//!      4    4  segment      u32 LE, the segment it was first written to
//!      8    4  ordinal      u32 LE, which value of that segment
//!     12    4  value_bytes  u32 LE, length of the value
//!     16    4  keyspace     u32 LE
//!     20    2  key_bytes    u16 LE
//!     22    1  codec        how chunks are stored: 0 = as they are, 1 = LZ4 block, 2 = Zstd frame
//!     23    1  form         zero
//!     24       for each chunk: checksum of its stored bytes, u64 LE, xxh3
//!              for each chunk, only if codec is not 0: how many stored bytes, u32 LE
//! ```
//!
//! Short, where the value is stored as it is and each field has room:
//!
//! ```text
//!      0    4  checksum     as above
//!      4    4  segment      as above
//!      8    4  ordinal      as above
//!     12    2  value_bytes  u16 LE
//!     14    1  key_bytes
//!     15    8  checksum of the one chunk, u64 LE, xxh3
//!     23    1  keyspace + 1
//! ```
//!
//! Behind either:
//!
//! ```text
//!     key      of the record that refers to it when it was written; for repair
//!     chunks   one after another
//!     zero padding to a multiple of 8
//! ```
//! A value of `value_bytes` has a chunk for each 1 MiB begun, and one if it is empty. A part of a
//! value is read and checked without the rest. The head is everything before the key. A chunk may
//! be stored as it is by any codec, with as many stored bytes as it has. A Zstd frame may have a
//! skippable one behind it. Since: FormatVersion::V1. Golden: golden/blob-segment-v1-*.{bin,txt}.

use std::ops::Range;

use super::reference::{Reference, SegmentNumber};
use crate::bytes::Reader;
use crate::checksum::{crc32c, xxh3};
use crate::compression::Compression;
use crate::compression::{RATIO_MAX, decompress};
use crate::error::{Error, Result};

/// Bytes of a value that are stored and checked together.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of a short head, and of a long one before the chunks' checksums.
pub const HEAD_BYTES_MIN: usize = 24;

/// Where a long head has a zero, and a short one something else.
const FORM_AT: usize = 23;

/// What is known of a value before its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHead {
    /// The segment it was first written to.
    pub segment: SegmentNumber,
    /// Which value of that segment.
    pub ordinal: u32,
    /// Length of the value.
    pub value_bytes: u32,
    /// The keyspace of its key.
    pub keyspace: u32,
    /// Length of its key.
    pub key_bytes: u16,
    /// How chunks are stored.
    pub codec: Compression,
}

/// How a chunk is stored, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// xxh3 of its stored bytes.
    pub checksum: u64,
    /// How many stored bytes.
    pub stored_bytes: u32,
}

/// How many chunks a value of `value_bytes` has.
#[inline]
pub const fn chunk_count(value_bytes: usize) -> usize {
    if value_bytes == 0 { 1 } else { value_bytes.div_ceil(CHUNK_BYTES) }
}

/// Bytes of a long head: of the longest that there may be, if `is_compressed`.
#[inline]
pub const fn long_head_bytes(value_bytes: usize, is_compressed: bool) -> usize {
    HEAD_BYTES_MIN + chunk_count(value_bytes) * if is_compressed { 12 } else { 8 }
}

/// Whether a head whose chunks are stored as they are is short.
#[inline]
const fn is_short(keyspace: u32, key_bytes: usize, value_bytes: usize) -> bool {
    keyspace < u8::MAX as u32 && key_bytes <= u8::MAX as usize && value_bytes <= u16::MAX as usize
}

/// Bytes of a record, written now, whose chunks are stored as they are, padding included.
#[inline]
pub const fn plain_record_bytes(keyspace: u32, key_bytes: usize, value_bytes: usize) -> usize {
    let head_bytes = match is_short(keyspace, key_bytes, value_bytes) {
        true => HEAD_BYTES_MIN,
        false => long_head_bytes(value_bytes, false),
    };
    (head_bytes + key_bytes + value_bytes).next_multiple_of(8)
}

impl BlobHead {
    /// Bytes of the head that [`encode`](Self::encode) makes.
    #[inline]
    pub fn encoded_bytes(&self) -> usize {
        match self.is_short() {
            true => HEAD_BYTES_MIN,
            false => long_head_bytes(self.value_bytes as usize, self.codec != Compression::None),
        }
    }

    fn is_short(&self) -> bool {
        let is_plain = self.codec == Compression::None;
        is_plain && is_short(self.keyspace, usize::from(self.key_bytes), self.value_bytes as usize)
    }

    /// Appends the head's bytes and those of `key`, which has `key_bytes`, and returns the checksum
    /// that references to the record have.
    ///
    /// `chunks` are as many as the value has; without a codec each has all of its bytes.
    pub fn encode(&self, chunks: impl Iterator<Item = Chunk> + Clone, key: &[u8], out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.segment.0.to_le_bytes());
        out.extend_from_slice(&self.ordinal.to_le_bytes());
        let put_checksums = |out: &mut Vec<u8>| {
            chunks.clone().for_each(|chunk| out.extend_from_slice(&chunk.checksum.to_le_bytes()))
        };
        if self.is_short() {
            out.extend_from_slice(&(self.value_bytes as u16).to_le_bytes());
            out.push(self.key_bytes as u8);
            put_checksums(out);
            out.push(self.keyspace as u8 + 1);
        } else {
            out.extend_from_slice(&self.value_bytes.to_le_bytes());
            out.extend_from_slice(&self.keyspace.to_le_bytes());
            out.extend_from_slice(&self.key_bytes.to_le_bytes());
            out.push(self.codec as u8);
            out.push(0);
            put_checksums(out);
            if self.codec != Compression::None {
                chunks.for_each(|chunk| out.extend_from_slice(&chunk.stored_bytes.to_le_bytes()));
            }
        }
        let end = out.len();
        out.extend_from_slice(key);
        let checksum = crc32c(out.get(start + 4..).unwrap_or_default());
        if let Some(place) = out.get_mut(start..).and_then(|head| head.first_chunk_mut::<4>()) {
            *place = checksum.to_le_bytes();
        }
        xxh3(out.get(start..end).unwrap_or_default()) as u32
    }
}

/// The chunks of a value that is stored as it is; reads the value once. An empty one has an empty
/// chunk.
pub fn plain_chunks(value: &[u8]) -> impl Iterator<Item = Chunk> + Clone {
    (0..chunk_count(value.len())).map(|index| {
        let rest = value.get(index * CHUNK_BYTES..).unwrap_or_default();
        let bytes = rest.get(..CHUNK_BYTES).unwrap_or(rest);
        Chunk { checksum: xxh3(bytes), stored_bytes: bytes.len() as u32 }
    })
}

/// Zeros behind a record of `unpadded_bytes` bytes.
pub fn padding(unpadded_bytes: usize) -> &'static [u8] {
    const ZEROS: [u8; 7] = [0; 7];
    ZEROS.get(..unpadded_bytes.next_multiple_of(8) - unpadded_bytes).unwrap_or_default()
}

/// A record whose head and key have been checked, borrowed from the segment it lies in. Its chunks
/// have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRecord<'a> {
    /// Its head.
    pub head: BlobHead,
    /// Bytes of the head.
    head_bytes: usize,
    /// Of its head, and so of its key's and chunks' checksums.
    pub checksum: u64,
    /// The key it was written for.
    pub key: &'a [u8],
    /// Eight bytes for each chunk.
    checksums: &'a [[u8; 8]],
    /// Four bytes for each chunk; empty without a codec.
    stored: &'a [[u8; 4]],
}

impl<'a> BlobRecord<'a> {
    /// The head and key at the front of `bytes`, which may end before the chunks, or go on behind
    /// the record.
    ///
    /// No allocation.
    ///
    /// # Errors
    /// Too short, a checksum that does not match, a field that cannot be.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let found = input.u32()?;
        let (segment, ordinal) = (SegmentNumber(input.u32()?), input.u32()?);
        let is_short = bytes.get(FORM_AT).is_some_and(|form| *form != 0);
        let (value_bytes, keyspace, key_bytes, codec_number, checksums, stored);
        if is_short {
            value_bytes = u32::from(u16::from_le_bytes([input.u8()?, input.u8()?]));
            key_bytes = u16::from(input.u8()?);
            (checksums, _) = input.take(8)?.as_chunks::<8>();
            keyspace = u32::from(input.u8()?) - 1;
            (codec_number, stored) = (0, &[][..]);
        } else {
            (value_bytes, keyspace) = (input.u32()?, input.u32()?);
            key_bytes = u16::from_le_bytes([input.u8()?, input.u8()?]);
            codec_number = input.u8()?;
            // The form.
            input.take(1)?;
            let count = chunk_count(value_bytes as usize);
            (checksums, _) = input.take(count * 8)?.as_chunks::<8>();
            (stored, _) = input.take(if codec_number == 0 { 0 } else { count * 4 })?.as_chunks::<4>();
        }
        let head_bytes = input.offset();
        let head = bytes.get(..head_bytes).unwrap_or_default();
        let key = input.take(usize::from(key_bytes))?;
        let expected = crc32c(bytes.get(4..input.offset()).unwrap_or_default());
        if found != expected {
            let expected = format!("checksum {expected:08x} of a value's head");
            return Err(Error::new(0, expected, format!("{found:08x}")));
        }
        let Some(codec) = Compression::from_u8(codec_number) else {
            return Err(Error::newer(22, "codec 0, 1 or 2", format!("{codec_number}")));
        };
        let checksum = xxh3(head);
        let head = BlobHead { segment, ordinal, value_bytes, keyspace, key_bytes, codec };
        let record = Self { head, head_bytes, checksum, key, checksums, stored };
        record.check_lengths()?;
        Ok(record)
    }

    fn check_lengths(&self) -> Result<()> {
        for (index, stored) in self.stored.iter().enumerate() {
            let (stored, raw) = (u32::from_le_bytes(*stored) as usize, self.raw_bytes(index));
            if stored > raw || (stored as u64).saturating_mul(RATIO_MAX) < raw as u64 {
                let at = HEAD_BYTES_MIN + self.checksums.len() * 8 + index * 4;
                let expected = format!("at most {raw} stored bytes, and a {RATIO_MAX}th of that at least");
                return Err(Error::new(at, expected, format!("{stored}")));
            }
        }
        Ok(())
    }

    /// How many chunks it has; at least one.
    pub fn chunk_count(&self) -> usize {
        self.checksums.len()
    }

    /// How chunk `index` is stored; one beyond the last has no bytes.
    #[inline]
    pub fn chunk(&self, index: usize) -> Chunk {
        let stored_bytes = match self.stored.get(index) {
            Some(bytes) => u32::from_le_bytes(*bytes),
            None => self.raw_bytes(index) as u32,
        };
        let checksum = self.checksums.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Chunk { checksum, stored_bytes }
    }

    /// Bytes of the value that chunk `index` holds.
    #[inline]
    fn raw_bytes(&self, index: usize) -> usize {
        (self.head.value_bytes as usize).saturating_sub(index * CHUNK_BYTES).min(CHUNK_BYTES)
    }

    /// Where the stored bytes of chunk `index` lie, from the record's start.
    #[inline]
    pub fn chunk_span(&self, index: usize) -> Range<usize> {
        let before: usize = match self.stored {
            [] => index * CHUNK_BYTES,
            stored => stored.iter().take(index).map(|bytes| u32::from_le_bytes(*bytes) as usize).sum(),
        };
        let start = self.head_bytes + self.key.len() + before;
        start..start + self.chunk(index).stored_bytes as usize
    }

    /// Bytes of the whole record, padding included.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.chunk_span(self.chunk_count() - 1).end.next_multiple_of(8)
    }

    /// What references to it have: the lower half of the checksum.
    #[inline]
    pub fn reference_checksum(&self) -> u32 {
        self.checksum as u32
    }

    /// Whether this is the record that `reference` names.
    ///
    /// # Errors
    /// Says what is there instead.
    #[inline]
    pub fn check(&self, reference: &Reference) -> Result<()> {
        let head = &self.head;
        let is_named = (head.segment, head.ordinal) == (reference.segment, reference.ordinal);
        let checksum = self.reference_checksum();
        if is_named && (checksum, head.value_bytes) == (reference.checksum, reference.value_bytes) {
            return Ok(());
        }
        let BlobHead { segment, ordinal, value_bytes, .. } = head;
        let found =
            format!("value {ordinal} of segment {segment}, {value_bytes} bytes, checksum {checksum:08x}");
        Err(Error::new(4, format!("{reference}"), found))
    }

    /// Whether `stored` are the stored bytes of chunk `index`.
    ///
    /// # Errors
    /// The checksum does not match.
    #[inline]
    pub fn check_chunk(&self, index: usize, stored: &[u8]) -> Result<()> {
        let (expected, found) = (self.chunk(index).checksum, xxh3(stored));
        if expected == found {
            return Ok(());
        }
        Err(Error::new(0, format!("checksum {expected:016x} of chunk {index}"), format!("{found:016x}")))
    }

    /// Appends to `out` what chunk `index` holds; `stored` are its stored bytes, which are checked.
    ///
    /// # Errors
    /// The checksum does not match, or the codec refuses them. Offsets are in `stored`.
    #[inline]
    pub fn decode_chunk(&self, index: usize, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.check_chunk(index, stored)?;
        let raw_bytes = self.raw_bytes(index);
        if stored.len() == raw_bytes {
            out.extend_from_slice(stored);
            return Ok(());
        }
        let mut raw = Vec::new();
        decompress(self.head.codec, stored, raw_bytes, &mut raw)?;
        out.append(&mut raw);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
