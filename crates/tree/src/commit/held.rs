//! A place in the log that is held: no reader sees what lies behind it.

use firn_arena::Reservation;
use firn_engine::Result;
use firn_format::Position;
use firn_format::log::frame_bytes;

use super::CommitPipeline;
use crate::error::from_storage;
use crate::log::Segment;

/// A frame without records that has its place in the log and is not published yet.
///
/// Readers and snapshots see nothing from there on, and writers are not acknowledged. So it is held
/// for what has to lie between all that was written before and all that is written after. The
/// holder MUST wait for nothing that waits for the published watermark; it may sync what lies
/// before. Dropped, it is published.
pub(crate) struct HeldFrame<'s> {
    pipeline: &'s CommitPipeline,
    segment: &'s Segment,
    start: Position,
    end: Position,
    reservation: Option<Reservation<'s>>,
}

impl<'s> HeldFrame<'s> {
    /// Takes the next place in `segment`, the active one of `pipeline`; `None` if it has no room:
    /// the caller rolls.
    pub(crate) fn take(pipeline: &'s CommitPipeline, segment: &'s Segment) -> Option<Self> {
        let reservation = segment.region().reserve(frame_bytes(0)).ok()?;
        let start = segment.position(reservation.offset());
        let end = Position(start.0 + reservation.len() as u64);
        Some(Self { pipeline, segment, start, end, reservation: Some(reservation) })
    }

    /// Where it begins. No record has the sequence of this position.
    pub(crate) fn start(&self) -> Position {
        self.start
    }

    /// Where it ends: what is written later lies behind.
    pub(crate) fn end(&self) -> Position {
        self.end
    }

    /// Returns when everything before it is published.
    pub(crate) fn wait_for_earlier(&self) -> Result<()> {
        self.pipeline.log.wait_published(self.start).map_err(from_storage)
    }

    /// Readers see what lies behind from now on.
    pub(crate) fn publish(self) {
        drop(self);
    }
}

impl Drop for HeldFrame<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            // It is published; what the log failed with the next writer is told.
            let _reported = self.pipeline.publish_void(self.segment, reservation);
        }
    }
}
