//! From the arenas and the value segments to the pieces of a group.

use firn_engine::{Error, Result};
use firn_format::group::{GroupKind, Piece, PieceOf};
use firn_format::log::{Frame, FrameKind, scan_frames};
use firn_format::value::segment::VALUE_HEADER_BYTES;
use firn_format::value::{Reference, SegmentNumber};
use firn_format::{Kind, Position};

use super::Pending;
use crate::blobs::{Active, Home, ValueMap};
use crate::database::Database;
use crate::error::from_storage;
use crate::log::Segment;

/// Bytes at which a group ends with the frame that it is in.
const GROUP_BYTES: usize = 8 << 20;

/// Pieces of one group, in bytes; what is more goes in several, so that none takes longer than a
/// request may.
const PART_BYTES: usize = 2 * GROUP_BYTES;

/// What a group is made of, or several if it is much.
pub(super) struct Gathered {
    parts: Parts,
    /// Everything below is in it, in a group before, or in tables.
    pub(super) through: Position,
    /// Behind the span of the last segment that it has a part of.
    span_end: Position,
}

/// Encoded pieces, cut where a group is full.
#[derive(Default)]
struct Parts {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

/// Value records of one group, those that follow one another together.
#[derive(Default)]
struct Values {
    runs: Vec<Run>,
    bytes: usize,
}

struct Run {
    number: SegmentNumber,
    offset: u64,
    records: Vec<u8>,
}

impl Database {
    /// Frames from `from` on, which were published below `through`, and the values that they refer
    /// to; `None` if there is nothing new. Reads values from their files.
    ///
    /// What is in no segment any more is in tables.
    pub(super) fn gather(&self, from: Position, through: Position) -> Result<Option<Gathered>> {
        // After `through` was read, so that every segment below it is known.
        let version = self.catalog.version.load_full();
        let map = self.values.map();
        let (mut log, mut log_bytes, mut values) = (Vec::new(), 0, Values::default());
        let mut last = None;
        for segment in version.segments.segments().iter().take_while(|segment| segment.base() < through) {
            if log_bytes + values.bytes >= GROUP_BYTES {
                break;
            }
            let room = GROUP_BYTES - log_bytes - values.bytes;
            if let Some((piece, end)) = gather_frames(segment, (from, through), room, &map, &mut values)? {
                log_bytes += piece.bytes.len();
                log.push(piece);
                last = Some((end, segment.span_end()));
            }
        }
        let Some((end, span_end)) = last.filter(|(end, _)| *end > from) else { return Ok(None) };
        let mut parts = Parts::default();
        for Run { number, offset, records } in &values.runs {
            let segment = PieceOf::Values(self.values.written_header(*number));
            parts.add(Piece { segment, offset: *offset, bytes: records });
        }
        log.into_iter().for_each(|piece| parts.add(piece));
        Ok(Some(Gathered { parts, through: end, span_end }))
    }
}

impl Gathered {
    /// The groups that it goes in, one after another.
    pub(super) fn into_pending(self) -> impl Iterator<Item = Pending> {
        let Self { parts: Parts { full, last }, through, span_end } = self;
        let part = move |pieces| Pending { kind: GroupKind::Part, pieces, through: Position(0), span_end };
        let whole = Pending { kind: GroupKind::Whole, pieces: last, through, span_end };
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
/// them and of their values; where they end. `None` if there are none.
fn gather_frames<'s>(
    segment: &'s Segment,
    (from, through): (Position, Position),
    room: usize,
    map: &ValueMap,
    values: &mut Values,
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
    let (mut end, before) = (0, values.bytes);
    for (offset, frame) in scan_frames(bytes, segment.position(start), 0, segment.header().generation) {
        values.gather(map, &frame)?;
        end = offset + frame.bytes();
        if end + values.bytes - before >= room {
            break;
        }
    }
    let is_cut = end < bytes.len() && end + values.bytes - before < room;
    let taken = bytes.get(..end).filter(|taken| !taken.is_empty() && !is_cut);
    let Some(taken) = taken else {
        let position = segment.position(start + end);
        return Err(Error::bug(format!("the published log has no frame at position {position}")));
    };
    Ok(Some((piece(taken), segment.position(start + end))))
}

impl Values {
    /// Adds the values that records of `frame` refer to, as far as their segments are in no edit.
    fn gather(&mut self, map: &ValueMap, frame: &Frame<'_>) -> Result<()> {
        if frame.kind != FrameKind::Batch {
            return Ok(());
        }
        for (_, record) in frame.records() {
            let record =
                record.map_err(|error| Error::bug(format!("a published record is none: {error}")))?;
            if record.kind != Kind::PutReference {
                continue;
            }
            let reference = Reference::decode(record.value)
                .map_err(|error| Error::bug(format!("a record's reference is none: {error}")))?;
            if let Some(active) = open_segment(map, reference.segment) {
                self.add(active, &reference, record.key.len())?;
            }
        }
        Ok(())
    }

    fn add(&mut self, active: &Active, reference: &Reference, key_bytes: usize) -> Result<()> {
        let (number, offset) = (reference.segment, reference.offset);
        debug_assert!(offset >= VALUE_HEADER_BYTES as u64, "{reference} lies in its segment's header");
        let follows =
            |run: &&mut Run| run.number == number && run.offset + run.records.len() as u64 == offset;
        if self.runs.last_mut().as_ref().is_none_or(|run| !follows(run)) {
            self.runs.push(Run { number, offset, records: Vec::new() });
        }
        let Some(run) = self.runs.last_mut() else { return Ok(()) };
        let before = run.records.len();
        active.open.read_record(reference, key_bytes, &mut run.records).map_err(from_storage)?;
        self.bytes += run.records.len() - before;
        Ok(())
    }
}

/// The segment `number` if no edit names it: all machines find the values of sealed segments.
fn open_segment(map: &ValueMap, number: SegmentNumber) -> Option<&Active> {
    match map.known(number) {
        Some(Home::Open(active)) => Some(active),
        Some(Home::Unsealed(_) | Home::Sealed(_) | Home::Moved(..)) => None,
        None => map.begun_since(number).map(|active| &**active),
    }
}
