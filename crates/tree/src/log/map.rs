//! From a position to the live segment that holds it.

use std::sync::Arc;

use firn_format::{Position, log::Record};
use firn_storage::place::prefetch;

use super::Segment;
use crate::Records;

/// The live segments as of one version; immutable.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentMap {
    /// Oldest first.
    segments: Vec<Arc<Segment>>,
    /// Granule of the first segment's base.
    first_granule: u64,
    /// For each granule from the first: index into `segments`, or `HOLE`.
    granules: Vec<u32>,
}

const HOLE: u32 = u32::MAX;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Lines of a record that are loaded ahead of those who walk.
const LINES_LOADED: usize = 4;

impl SegmentMap {
    /// A map over `segments`, oldest first.
    pub(crate) fn new(segments: Vec<Arc<Segment>>) -> Self {
        let first_granule = segments.first().map_or(0, |segment| segment.base().granule());
        let mut granules = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            granules.resize((segment.base().granule() - first_granule) as usize, HOLE);
            granules.resize((segment.span_end().granule() - first_granule) as usize, index as u32);
        }
        Self { segments, first_granule, granules }
    }

    /// The live segments, oldest first.
    pub(crate) fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// First position after every live segment's span.
    pub(crate) fn end(&self) -> Position {
        self.segments.last().map_or(Position(0), |segment| segment.span_end())
    }

    /// Begins to load the record at `position`, if it lies in a live segment.
    #[inline]
    pub(crate) fn prefetch(&self, position: Position) {
        self.load_lines(position, 1);
    }

    #[inline]
    fn load_lines(&self, position: Position, lines: usize) {
        let Some(segment) = self.segment_of(position) else { return };
        let Some(offset) = segment.region_offset(position) else { return };
        segment.region().read_from(offset).iter().step_by(LINE_BYTES).take(lines).for_each(prefetch);
    }

    #[inline]
    fn segment_of(&self, position: Position) -> Option<&Segment> {
        let granule = position.granule().checked_sub(self.first_granule)?;
        let index = *self.granules.get(usize::try_from(granule).ok()?)?;
        self.segments.get(index as usize).map(|segment| &**segment)
    }
}

impl Records for SegmentMap {
    #[inline]
    fn record(&self, position: Position) -> Option<Record<'_>> {
        let segment = self.segment_of(position)?;
        let offset = segment.region_offset(position)?;
        Record::at(segment.region().read_from(offset))
    }

    /// Its first lines: by the time they are read, the processor has understood that the rest follows.
    #[inline]
    fn begin_load(&self, position: Position) {
        self.load_lines(position, LINES_LOADED);
    }
}
