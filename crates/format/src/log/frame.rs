//! One batch in a log segment.
//!
//! ```text
//! offset size  field            meaning
//!      0    4  bytes            u32 LE, length of the frame, this header included: a multiple of 8, at least 24
//!      4    4  checksum         u32 LE, crc32c over bytes 8..end, salted with length, position and generation
//!      8    8  durable_through  u64 LE, the log was known to be synced below this position
//!     16    4  records          u32 LE, number of records; 0 unless kind is 1
//!     20    1  kind             see `FrameKind`; frozen
//!     21    3  reserved         zero
//!     24       by kind
//!                1 batch        records, one after another (see `record`), up to the end of the frame
//!                2 void         anything: the place of a batch that was given up; means nothing
//!                3 large batch  names the segment that holds the batch (see `LargeBatch`)
//! ```
//! The first 8 bytes are stored last: while they are zero the frame does not exist. The salt keeps
//! the frame of an earlier generation, or of another place, from passing (see `checksum`). Frames
//! lie at multiples of 8. Since: FormatVersion::V1. Golden: golden/log-frame-v1-*.{bin,txt}.

use crate::checksum;
use crate::error::{Error, Result};
use crate::key::Position;
use crate::log::large_batch::{LARGE_BATCH_BYTES, LargeBatch};
use crate::log::record::{Record, record_bytes};

/// Bytes before the first record of a frame.
pub const FRAME_HEADER_BYTES: usize = 24;

/// Longest frame: what its length field holds, rounded down to a multiple of 8.
pub const FRAME_BYTES_MAX: usize = u32::MAX as usize & !7;

/// Bytes of a frame that are stored last and that publish it.
const PUBLISH_BYTES: usize = 8;

/// Bytes of a frame's header that lie in its body.
const BODY_HEADER_BYTES: usize = FRAME_HEADER_BYTES - PUBLISH_BYTES;

/// What a frame holds. Numbers are frozen (see `golden/enums.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Records.
    Batch = 1,
    /// Nothing: its writer gave up after it had reserved the place.
    Void = 2,
    /// The name of a segment that holds one large batch.
    LargeBatch = 3,
}

impl FrameKind {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => FrameKind::Batch,
            2 => FrameKind::Void,
            3 => FrameKind::LargeBatch,
            _ => return None,
        })
    }
}

/// Bytes of a frame whose records take `record_bytes_sum` bytes; a multiple of 8 if that is.
#[inline]
pub const fn frame_bytes(record_bytes_sum: usize) -> usize {
    FRAME_HEADER_BYTES + record_bytes_sum
}

/// Bytes of a frame with one record.
#[inline]
pub const fn single_frame_bytes(key_bytes: usize, value_bytes: usize, has_expiry: bool) -> usize {
    frame_bytes(record_bytes(key_bytes, value_bytes, has_expiry))
}

/// Writes a frame with one record into `body` and returns its first word; the record is at
/// [`FRAME_HEADER_BYTES`].
///
/// `body` is the frame without its first 8 bytes, of [`single_frame_bytes`] less 8. No allocation.
///
/// # Panics
/// As [`FrameWriter`].
#[inline]
pub fn encode_single(
    body: &mut [u8],
    record: &Record<'_>,
    durable_through: Position,
    position: Position,
    generation: u64,
) -> u64 {
    let mut writer = FrameWriter::new(body);
    writer.put(record);
    writer.finish(durable_through, FrameKind::Batch, position, generation)
}

/// Writes one frame straight into the place it was given: one copy of each key and value, no
/// allocation.
///
/// The place is the frame without its first 8 bytes (what a reservation hands out); the word that
/// [`finish`](Self::finish) returns goes there, stored last. All offsets are from the frame's
/// start.
///
/// # Panics
/// Every method, if the caller broke the contract: the body is not 16 bytes or more in a multiple
/// of 8, a key or value is longer than a record can hold, a record does not fit, or a batch leaves
/// room at its end.
#[derive(Debug)]
pub struct FrameWriter<'b> {
    body: &'b mut [u8],
    /// Where the next record goes, in `body`.
    next: usize,
    records: u32,
}

impl<'b> FrameWriter<'b> {
    /// A frame of `body.len() + 8` bytes, without records so far.
    #[inline]
    pub fn new(body: &'b mut [u8]) -> Self {
        assert!(body.len() >= BODY_HEADER_BYTES, "a frame has at least {FRAME_HEADER_BYTES} bytes");
        assert!(body.len().is_multiple_of(8), "a frame is a multiple of 8 bytes");
        assert!(body.len() <= FRAME_BYTES_MAX - PUBLISH_BYTES, "a frame has at most {FRAME_BYTES_MAX} bytes");
        Self { body, next: BODY_HEADER_BYTES, records: 0 }
    }

    /// Adds a record and returns its offset from the frame's start; its sequence is (position +
    /// offset) / 8.
    #[inline]
    pub fn put(&mut self, record: &Record<'_>) -> usize {
        let place = self.body.get_mut(self.next..).unwrap_or_default();
        let Some(bytes) = record.encode(place) else {
            does_not_fit(record, place.len());
        };
        let offset = self.next + PUBLISH_BYTES;
        self.next += bytes;
        self.records += 1;
        offset
    }

    /// Makes this the frame that names the segment of a large batch; its kind is then `LargeBatch`.
    ///
    /// The body must have [`LARGE_BATCH_BYTES`] after the header and no records.
    pub fn name_large_batch(&mut self, large: &LargeBatch) {
        assert!(self.records == 0, "a frame that names a large batch has no records");
        let place =
            self.body.get_mut(self.next..).and_then(|place| place.first_chunk_mut::<LARGE_BATCH_BYTES>());
        let Some(place) = place else {
            panic!("a frame that names a large batch has {LARGE_BATCH_BYTES} bytes after its header");
        };
        *place = large.encode();
        self.next += LARGE_BATCH_BYTES;
    }

    /// Ends the frame and returns its first word (length, then checksum in the upper half).
    ///
    /// - `durable_through`: the log is known to be synced below this position.
    /// - `kind`: `Batch`; `Void` turns whatever is in the body into nothing; `LargeBatch` after
    ///   [`name_large_batch`](Self::name_large_batch).
    /// - `position`: log position of the frame's first byte; `generation`: that of its segment.
    #[inline]
    pub fn finish(
        self,
        durable_through: Position,
        kind: FrameKind,
        position: Position,
        generation: u64,
    ) -> u64 {
        let bytes = self.body.len() + PUBLISH_BYTES;
        assert!(kind == FrameKind::Void || self.next == self.body.len(), "a frame is filled to its end");
        let records = if kind == FrameKind::Batch { self.records } else { 0 };
        let counts = u64::from(records) | (kind as u64) << 32;
        if let Some(header) = self.body.first_chunk_mut::<BODY_HEADER_BYTES>() {
            *header = (u128::from(durable_through.0) | u128::from(counts) << 64).to_le_bytes();
        }
        let checksum = checksum::frame_checksum(self.body, bytes as u32, position, generation);
        bytes as u64 | u64::from(checksum) << 32
    }
}

#[cold]
#[inline(never)]
fn does_not_fit(record: &Record<'_>, room: usize) -> ! {
    panic!("a record of {} bytes does not fit: {room} are left in its frame", record.bytes());
}

/// A frame whose checksum matches, borrowed from its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it holds.
    pub kind: FrameKind,
    /// The log was known to be synced below this position when the frame's place was reserved.
    pub durable_through: Position,
    /// Number of records; 0 unless it is a batch.
    pub record_count: u32,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at the front of `bytes`, which may go on behind it; it lies at `position` in a log
    /// of `generation`. Reads each byte of the frame once; records are looked at by
    /// [`records`](Self::records).
    ///
    /// # Errors
    /// A length that cannot be or reaches past `bytes`, a checksum that does not match (torn,
    /// damaged, or a leftover of an earlier use), an unknown kind.
    pub fn decode(bytes: &'a [u8], position: Position, generation: u64) -> Result<Self> {
        let Some(word) = bytes.first_chunk::<PUBLISH_BYTES>() else {
            let expected = format!("a frame's header of {FRAME_HEADER_BYTES} bytes");
            return Err(Error::new(bytes.len(), expected, format!("{} bytes", bytes.len())));
        };
        let word = u64::from_le_bytes(*word);
        let length = word as u32 as usize;
        if length < FRAME_HEADER_BYTES || !length.is_multiple_of(8) {
            let expected = format!("a frame's length: a multiple of 8, at least {FRAME_HEADER_BYTES}");
            return Err(Error::new(0, expected, format!("{length}")));
        }
        let Some((frame, body)) = bytes.get(..length).and_then(|f| Some((f, f.get(PUBLISH_BYTES..)?))) else {
            let expected = format!("a frame's length of at most {} bytes", bytes.len());
            return Err(Error::new(0, expected, format!("{length}")));
        };
        let expected = checksum::frame_checksum(body, length as u32, position, generation);
        let found = (word >> 32) as u32;
        if expected != found {
            return Err(Error::new(4, format!("frame checksum {expected:08x}"), format!("{found:08x}")));
        }
        Self::from_body(frame, body)
    }

    /// The fields of a frame whose checksum has matched.
    fn from_body(bytes: &'a [u8], body: &[u8]) -> Result<Self> {
        let header = body.first_chunk::<BODY_HEADER_BYTES>().copied().unwrap_or_default();
        let header = u128::from_le_bytes(header);
        let number = (header >> 96) as u8;
        let Some(kind) = FrameKind::from_u8(number) else {
            let found = format!("kind {number} (written by a newer Firn: upgrade to read it)");
            return Err(Error::new(20, "a kind of frame (1 to 3)", found));
        };
        let reserved = (header >> 104) as u32;
        if reserved != 0 {
            return Err(Error::new(21, "a reserved field of zero", format!("{reserved:06x}")));
        }
        let record_count = (header >> 64) as u32;
        if kind != FrameKind::Batch && record_count != 0 {
            return Err(Error::new(
                16,
                "no records in a frame that is not a batch",
                format!("{record_count}"),
            ));
        }
        Ok(Self { kind, durable_through: Position(header as u64), record_count, bytes })
    }

    /// Length of the frame; a multiple of 8.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The frame's checksum, as it stands in its header.
    pub fn checksum(&self) -> u32 {
        self.bytes
            .get(4..)
            .and_then(|bytes| bytes.first_chunk::<4>())
            .map_or(0, |&bytes| u32::from_le_bytes(bytes))
    }

    /// The records of a batch with their offsets from the frame's start, in order; none for other
    /// kinds.
    ///
    /// Errors carry the offset from the frame's start; the first ends the iteration.
    pub fn records(&self) -> Records<'a> {
        let bytes = if self.kind == FrameKind::Batch { self.bytes } else { &[] };
        Records { bytes, next: FRAME_HEADER_BYTES, left: self.record_count }
    }

    /// The segment that this frame names.
    ///
    /// # Errors
    /// The frame is of another kind, or its bytes are not a large batch's name.
    pub fn large_batch(&self) -> Result<LargeBatch> {
        if self.kind != FrameKind::LargeBatch {
            return Err(Error::new(20, "a frame that names a large batch", format!("{:?}", self.kind)));
        }
        let payload = self.bytes.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        LargeBatch::decode(payload).map_err(|error| error.based(FRAME_HEADER_BYTES))
    }
}

/// The records of one frame; see [`Frame::records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    /// The frame; emptied after its last record or first error.
    bytes: &'a [u8],
    next: usize,
    left: u32,
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, Result<Record<'a>>);

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.next;
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let record = match (self.left, rest.is_empty()) {
            (0, true) => return None,
            (0, false) => Err(Error::new(0, "the end of the frame after its last record", "more bytes")),
            (left, true) => Err(Error::new(0, format!("{left} more records"), "the end of the frame")),
            (_, false) => Record::decode(rest),
        };
        match record {
            Ok(record) => {
                self.next += record.bytes();
                self.left -= 1;
                Some((offset, Ok(record)))
            }
            Err(error) => {
                (self.bytes, self.left) = (&[], 0);
                Some((offset, Err(error.based(offset))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
