//! From the arenas to the pieces of a log object.

use crate::file::log::Segment;
use crate::{Error, Result};
use firn_format::Position;
use firn_format::log::scan_frames;
use firn_format::log_object::{LogObjectKind, Piece, PieceOf};

use super::Pending;
use super::env::{Collector, SendEnv};

/// Bytes at which a log object ends with the frame that it is in.
const OBJECT_BYTES: usize = 8 << 20;

/// Pieces of one log object, in bytes; what is more goes in several, so that none takes longer than
/// a request may.
const PART_BYTES: usize = 2 * OBJECT_BYTES;

/// What a log object is made of, or several if it is much.
pub(super) struct Gathered {
    parts: Parts,
    /// Everything below is in it, in a log object before, or in tables.
    pub(super) through: Position,
    /// Behind the span of the last segment that it has a part of.
    span_end: Position,
}

/// Encoded pieces, cut where a log object is full.
#[derive(Default)]
struct Parts {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

/// Frames from `from` on, which were published below `through`, and what they refer to; `None` if
/// there is nothing new. Reads files.
///
/// What is in no segment any more is in tables.
pub(super) fn gather<E: SendEnv>(env: &E, from: Position, through: Position) -> Result<Option<Gathered>> {
    // After `through` was read, so that every segment below it is known.
    let segments = env.segments();
    let mut collector = env.collector();
    let (mut log, mut log_bytes) = (Vec::new(), 0);
    let mut last = None;
    for segment in segments.segments().iter().take_while(|segment| segment.base() < through) {
        if log_bytes + collector.bytes() >= OBJECT_BYTES {
            break;
        }
        let room = OBJECT_BYTES - log_bytes - collector.bytes();
        if let Some((piece, end)) = gather_frames(segment, (from, through), room, &mut collector)? {
            log_bytes += piece.bytes.len();
            log.push(piece);
            last = Some((end, segment.span_end()));
        }
    }
    let Some((end, span_end)) = last.filter(|(end, _)| *end > from) else { return Ok(None) };
    let mut parts = Parts::default();
    collector.pieces().for_each(|piece| parts.add(piece));
    log.into_iter().for_each(|piece| parts.add(piece));
    Ok(Some(Gathered { parts, through: end, span_end }))
}

impl Gathered {
    /// The log objects that it goes in, one after another.
    pub(super) fn into_pending(self) -> impl Iterator<Item = Pending> {
        let Self { parts: Parts { full, last }, through, span_end } = self;
        let part =
            move |pieces| Pending { kind: LogObjectKind::Part, pieces, through: Position(0), span_end };
        let whole = Pending { kind: LogObjectKind::Whole, pieces: last, through, span_end };
        full.into_iter().map(part).chain([whole])
    }
}

impl Parts {
    fn add(&mut self, piece: Piece<'_>) {
        let Piece { segment, mut offset, mut bytes } = piece;
        loop {
            let room = PART_BYTES.saturating_sub(self.last.len());
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            Piece { segment, offset, bytes: now }.encode(&mut self.last);
            if later.is_empty() {
                return;
            }
            self.full.push(std::mem::take(&mut self.last));
            (offset, bytes) = (offset + now.len() as u64, later);
        }
    }
}

/// The frames of `segment` between two positions, as one piece, until there are `room` bytes of
/// them and of what they refer to; where they end. `None` if there are none.
fn gather_frames<'s, C>(
    segment: &'s Segment<C>,
    (from, through): (Position, Position),
    room: usize,
    collector: &mut impl Collector,
) -> Result<Option<(Piece<'s>, Position)>> {
    let region = segment.region();
    let start = segment.region_offset(from).unwrap_or(0);
    let published = region.published().min(segment.region_offset(through).unwrap_or(0));
    let bytes = published.checked_sub(start).and_then(|bytes| region.read(start, bytes)).unwrap_or_default();
    let piece = |bytes| {
        let offset = segment.position(start).0 - segment.base().0;
        Piece { segment: PieceOf::Log(*segment.header()), offset, bytes }
    };
    if bytes.is_empty() {
        // A segment that ended without a frame is a link of the chain, too.
        let is_link = region.sealed_end() == Some(0) && from <= segment.position(0);
        // Nothing more of it will come.
        return Ok(is_link.then(|| (piece(&[]), segment.span_end())));
    }
    let (mut end, before) = (0, collector.bytes());
    for (offset, frame) in scan_frames(bytes, segment.position(start), 0, segment.header().generation) {
        collector.collect(&frame)?;
        end = offset + frame.bytes();
        if end + collector.bytes() - before >= room {
            break;
        }
    }
    let is_cut = end < bytes.len() && end + collector.bytes() - before < room;
    let taken = bytes.get(..end).filter(|taken| !taken.is_empty() && !is_cut);
    let Some(taken) = taken else {
        let position = segment.position(start + end);
        return Err(Error::bug(format!("the published log has no frame at position {position}")));
    };
    Ok(Some((piece(taken), segment.position(start + end))))
}
