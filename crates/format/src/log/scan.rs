//! Walking the frames of a segment at recovery.

use std::fmt;

use crate::error::Error;
use crate::key::Position;
use crate::log::frame::{FRAME_HEADER_BYTES, Frame, FrameKind};
use crate::log::record::RECORD_HEADER_BYTES;

/// The frames of `segment` from `start_offset` on, until one is missing or bad.
///
/// - `segment`: all bytes of the segment, its header included; `base`: log position of its byte 0.
/// - `start_offset`: where a frame begins, normally
///   [`SEGMENT_HEADER_BYTES`](super::SEGMENT_HEADER_BYTES).
/// - `generation`: that of the segment's header.
pub fn scan_frames(segment: &[u8], base: Position, start_offset: usize, generation: u64) -> FrameScan<'_> {
    FrameScan { segment, base, generation, next: start_offset, end: None }
}

/// Offset of the first whole frame of `segment` at or behind `start_offset`, whatever lies around
/// it; other arguments as for [`scan_frames`].
///
/// For what lies behind the end of a scan. A frame counts where another whole frame, zeros or the
/// end of the bytes follow it. So what an earlier use of the file left there does not pass by
/// chance. No allocation; time in proportion to `segment`.
pub fn find_frame(segment: &[u8], base: Position, start_offset: usize, generation: u64) -> Option<usize> {
    // Bytes may look like many long frames, one within the other.
    let mut checksummed_bytes_left = segment.len().saturating_mul(4);
    let mut at = start_offset.next_multiple_of(8);
    loop {
        let rest = segment.get(at..).filter(|rest| rest.len() >= FRAME_HEADER_BYTES)?;
        if rest.starts_with(&ZEROS) {
            at += ZEROS.len();
            continue;
        }
        if let Some(bytes) = plausible_frame_bytes(rest) {
            checksummed_bytes_left = checksummed_bytes_left.checked_sub(bytes)?;
            let mut scan = scan_frames(segment, base, at, generation);
            if scan.next().is_some() {
                let is_followed = scan.next().is_some();
                if is_followed || matches!(scan.end()?.reason, EndReason::Zero | EndReason::EndOfBytes) {
                    return Some(at);
                }
            }
        }
        at += 8;
    }
}

/// What is compared at once: most of a segment that is not full.
const ZEROS: [u8; 4096] = [0; 4096];

/// The length of the frame at the front of `rest` if its header may be one, apart from the
/// checksum.
fn plausible_frame_bytes(rest: &[u8]) -> Option<usize> {
    let header = rest.first_chunk::<FRAME_HEADER_BYTES>()?;
    let [word, _durable, counts] = header.as_chunks::<8>().0 else { return None };
    let (bytes, counts) = (u64::from_le_bytes(*word) as u32 as usize, u64::from_le_bytes(*counts));
    let records = counts as u32 as usize;
    let has_kind = FrameKind::from_u8((counts >> 32) as u8).is_some() && counts >> 40 == 0;
    let has_length = bytes.is_multiple_of(8) && (FRAME_HEADER_BYTES..=rest.len()).contains(&bytes);
    let has_room = records.saturating_mul(RECORD_HEADER_BYTES) <= bytes;
    (has_kind && has_length && has_room).then_some(bytes)
}

/// Iterator over the good frames of a segment with their offsets; afterwards [`end`](Self::end)
/// says why it stopped.
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

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::Zero => f.write_str("nothing was published there"),
            EndReason::Torn(error) => write!(f, "{error}"),
            EndReason::EndOfBytes => f.write_str("the file ends there"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::log::{Record, encode_single, single_frame_bytes};

    const BASE: Position = Position(4 << 20);
    const START: usize = 64;

    /// A segment with room behind frames of `values`, and where each begins.
    fn segment(values: &[usize], generation: u64) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut begins) = (vec![0xee; START], Vec::new());
        for value in values {
            let value = vec![7; *value];
            let record =
                Record { keyspace: 1, kind: Kind::Put, expires_at_ms: 0, key: b"key", value: &value };
            let (at, length) = (bytes.len(), single_frame_bytes(3, value.len(), false));
            bytes.resize(at + length, 0);
            let position = Position(BASE.0 + at as u64);
            let word = encode_single(&mut bytes[at + 8..], &record, Position(0), position, generation);
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            begins.push(at);
        }
        bytes.resize(bytes.len() + 20_000, 0);
        (bytes, begins)
    }

    #[test]
    fn whole_frames_behind_a_gap_are_found() {
        let (good, begins) = segment(&[10, 5000, 1, 900], 3);
        for (gap, next) in begins.iter().zip(&begins[1..]) {
            for at in *gap..*next {
                let mut bytes = good.clone();
                bytes[at] ^= 0x10;
                let end = scan_frames(&bytes, BASE, START, 3).into_end().offset;
                assert_eq!(end, *gap, "byte {at}");
                assert_eq!(find_frame(&bytes, BASE, end + 8, 3), Some(*next), "byte {at}");
            }
            let mut bytes = good.clone();
            bytes[*gap..*next].fill(0);
            assert_eq!(find_frame(&bytes, BASE, *gap + 8, 3), Some(*next), "zeros");
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let (good, begins) = segment(&[10, 5000, 1, 900], 3);
        let last = *begins.last().unwrap();
        let mut torn = good.clone();
        torn[last + 40] ^= 1;
        assert_eq!(find_frame(&torn, BASE, last + 8, 3), None, "a torn tail");
        assert_eq!(find_frame(&good, BASE, START, 4), None, "frames of another generation");
        assert_eq!(find_frame(&good, Position(8 << 20), START, 3), None, "frames of another place");
        assert_eq!(find_frame(&[], BASE, START, 3), None);
    }
}
