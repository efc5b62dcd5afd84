//! Walking the frames of a segment at recovery.

use crate::error::Error;
use crate::key::Position;
use crate::log::frame::{FRAME_HEADER_BYTES, Frame};

/// The frames of `segment` from `start_offset` on, until one is missing or bad.
///
/// - `segment`: all bytes of the segment, its header included; `base`: log position of its byte 0.
/// - `start_offset`: where a frame begins, normally [`SEGMENT_HEADER_BYTES`](super::SEGMENT_HEADER_BYTES).
/// - `generation`: that of the segment's header.
pub fn scan_frames(segment: &[u8], base: Position, start_offset: usize, generation: u64) -> FrameScan<'_> {
    FrameScan { segment, base, generation, next: start_offset, end: None }
}

/// Iterator over the good frames of a segment with their offsets; afterwards [`end`](Self::end) says why it stopped.
#[derive(Clone, Debug)]
pub struct FrameScan<'a> {
    segment: &'a [u8],
    base: Position,
    generation: u64,
    next: usize,
    end: Option<ScanEnd>,
}

/// Where and why a scan of frames stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// Offset in the segment of the first byte that belongs to no good frame.
    pub offset: usize,
    /// What is there.
    pub reason: EndReason,
}

/// What lies behind the last good frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// A zero word: nothing was published here. What follows may be anything.
    Zero,
    /// Bytes that are no frame of this place and generation. The error's offset is in the segment.
    Torn(Error),
    /// Nothing, or zeros too few for a frame's header.
    EndOfBytes,
}

impl FrameScan<'_> {
    /// Where and why the scan stopped; `None` before the iterator has returned `None`.
    pub fn end(&self) -> Option<&ScanEnd> {
        self.end.as_ref()
    }

    /// Skips the frames that are left and returns where and why the scan stopped.
    pub fn into_end(mut self) -> ScanEnd {
        while self.next().is_some() {}
        let offset = self.next;
        self.end.unwrap_or(ScanEnd { offset, reason: EndReason::EndOfBytes })
    }
}

impl<'a> Iterator for FrameScan<'a> {
    type Item = (usize, Frame<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let offset = self.next;
        let rest = self.segment.get(offset..).unwrap_or_default();
        let reason = if rest.len() < FRAME_HEADER_BYTES && rest.iter().all(|&byte| byte == 0) {
            EndReason::EndOfBytes
        } else if rest.first_chunk() == Some(&[0; 8]) {
            EndReason::Zero
        } else {
            let position = Position(self.base.0.saturating_add(offset as u64));
            match Frame::decode(rest, position, self.generation) {
                Ok(frame) => {
                    self.next += frame.bytes();
                    return Some((offset, frame));
                }
                Err(error) => EndReason::Torn(error.based(offset)),
            }
        };
        self.end = Some(ScanEnd { offset, reason });
        None
    }
}
