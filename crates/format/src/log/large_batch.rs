//! The name of a segment that holds one batch too large for the common segments.
//!
//! ```text
//! offset size  field     meaning (offsets from the end of the frame's header)
//!      0    8  base      u64 LE, base of the segment that holds the batch
//!      8    8  bytes     u64 LE, length of the frame there, below 2^32
//!     16    4  checksum  u32 LE, checksum of the frame there, as in its header
//!     20    4  reserved  zero
//! ```
//! The segment is an ordinary one with an ordinary frame of kind 1 right after its header and
//! nothing behind it. That frame counts only through a frame that names it here: without one the
//! segment is a leftover. Since: FormatVersion::V1. Golden:
//! golden/log-frame-v1-large-batch.{bin,txt}.

use crate::error::{Error, Result};
use crate::key::{GRANULE_BYTES, POSITION_END, Position};
use crate::log::frame::{FRAME_HEADER_BYTES, Frame, FrameKind};
use crate::log::segment::SEGMENT_HEADER_BYTES;

/// Bytes of the name.
pub const LARGE_BATCH_BYTES: usize = 24;

/// Where a large batch lies and how to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeBatch {
    /// Base of the segment that holds it.
    pub base: Position,
    /// Length of its frame.
    pub bytes: u32,
    /// Checksum of its frame.
    pub checksum: u32,
}

impl LargeBatch {
    /// The name of the frame in the segment at `base` whose first word is `first_word`.
    pub fn new(base: Position, first_word: u64) -> Self {
        Self { base, bytes: first_word as u32, checksum: (first_word >> 32) as u32 }
    }

    /// Log position of the frame's first byte.
    pub fn frame_position(&self) -> Position {
        Position(self.base.0 + SEGMENT_HEADER_BYTES as u64)
    }

    /// The batch's frame at the front of `bytes`, which begin behind the segment's header.
    ///
    /// # Errors
    /// As [`Frame::decode`]; or it is a good frame, but not the one named.
    pub fn frame<'a>(&self, bytes: &'a [u8], generation: u64) -> Result<Frame<'a>> {
        let frame = Frame::decode(bytes, self.frame_position(), generation)?;
        if (frame.bytes(), frame.checksum()) != (self.bytes as usize, self.checksum) {
            let found = format!("{} bytes, checksum {:08x}", frame.bytes(), frame.checksum());
            return Err(Error::new(
                0,
                format!("a frame of {} bytes, checksum {:08x}", self.bytes, self.checksum),
                found,
            ));
        }
        if frame.kind != FrameKind::Batch {
            return Err(Error::new(20, "a batch", format!("{:?}", frame.kind)));
        }
        Ok(frame)
    }

    pub(crate) fn encode(&self) -> [u8; LARGE_BATCH_BYTES] {
        let mut out = [0; LARGE_BATCH_BYTES];
        let fields: [&[u8]; 3] =
            [&self.base.0.to_le_bytes(), &u64::from(self.bytes).to_le_bytes(), &self.checksum.to_le_bytes()];
        for (to, from) in out.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        out
    }

    /// The name that is all of `payload`.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self> {
        let &[base, bytes, checksum] = payload.as_chunks::<8>().0 else {
            let expected = format!("the name of a large batch in {LARGE_BATCH_BYTES} bytes");
            return Err(Error::new(0, expected, format!("{} bytes", payload.len())));
        };
        let base = u64::from_le_bytes(base);
        if !base.is_multiple_of(GRANULE_BYTES) || base >= POSITION_END.0 {
            return Err(Error::new(0, "a base that begins a granule of 4 MiB", format!("{base}")));
        }
        let bytes = u64::from_le_bytes(bytes);
        let length =
            u32::try_from(bytes).ok().filter(|&b| b.is_multiple_of(8) && b as usize >= FRAME_HEADER_BYTES);
        let Some(length) = length else {
            return Err(Error::new(8, "the length of a frame", format!("{bytes}")));
        };
        let checksum = u64::from_le_bytes(checksum);
        if checksum >> 32 != 0 {
            return Err(Error::new(20, "a reserved field of zero", format!("{:08x}", checksum >> 32)));
        }
        Ok(Self { base: Position(base), bytes: length, checksum: checksum as u32 })
    }
}
