//! From a position to the live segment that holds it.

use std::sync::Arc;

use firn_format::{Position, log::Record};

use super::segment::Segment;
use crate::backend::prefetch;

/// The live segments as of one version; immutable.
#[derive(Debug)]
pub struct SegmentMap<C> {
    /// Oldest first.
    segments: Vec<Arc<Segment<C>>>,
    /// Granule of the first segment's base.
    first_granule: u64,
    /// For each granule from the first: index into `segments`, or `HOLE`.
    granules: Vec<u32>,
}

const HOLE: u32 = u32::MAX;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Most bytes of a record that are prefetched. Once they are read, the processor prefetches what
/// follows by itself.
const LOADED_BYTES_MAX: usize = 1024;

impl<C> Default for SegmentMap<C> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<C> SegmentMap<C> {
    /// A map over `segments`, oldest first.
    pub fn new(segments: Vec<Arc<Segment<C>>>) -> Self {
        let first_granule = segments.first().map_or(0, |segment| segment.base().granule());
        let mut granules = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            granules.resize((segment.base().granule() - first_granule) as usize, HOLE);
            granules.resize((segment.span_end().granule() - first_granule) as usize, index as u32);
        }
        Self { segments, first_granule, granules }
    }

    /// The live segments, oldest first.
    pub fn segments(&self) -> &[Arc<Segment<C>>] {
        &self.segments
    }

    /// First position after every live segment's span.
    pub fn end(&self) -> Position {
        self.segments.last().map_or(Position(0), |segment| segment.span_end())
    }

    /// Begins to load the record at `position`, if it lies in a live segment.
    #[inline]
    pub fn prefetch(&self, position: Position) {
        self.bytes_at(position).and_then(<[u8]>::first).into_iter().for_each(prefetch);
    }

    /// The published record at `position`; `None` if no live segment holds one there.
    #[inline]
    pub fn record(&self, position: Position) -> Option<Record<'_>> {
        Record::at(self.bytes_at(position)?)
    }

    /// Begins to load the record at `position`, which will be asked for soon and has perhaps so
    /// many `bytes`.
    #[inline]
    pub fn begin_load(&self, position: Position, bytes: usize) {
        let there = self.bytes_at(position).unwrap_or_default();
        let front = there.get(..bytes.min(LOADED_BYTES_MAX)).unwrap_or(there);
        front.iter().step_by(LINE_BYTES).for_each(prefetch);
        front.last().into_iter().for_each(prefetch);
    }

    /// The record at `position` and what is published behind it, if that lies in a live segment.
    #[inline]
    fn bytes_at(&self, position: Position) -> Option<&[u8]> {
        let segment = self.segment_of(position)?;
        Some(segment.region().read_from(segment.region_offset(position)?))
    }

    #[inline]
    fn segment_of(&self, position: Position) -> Option<&Segment<C>> {
        let granule = position.granule().checked_sub(self.first_granule)?;
        let index = *self.granules.get(usize::try_from(granule).ok()?)?;
        self.segments.get(index as usize).map(|segment| &**segment)
    }
}
