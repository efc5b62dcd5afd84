//! `Log` of `firn_storage` step by step, over the real segments.

use std::collections::VecDeque;
use std::sync::Arc;

use firn_arena::Region;
use firn_format::key::GRANULE_BYTES;
use firn_format::log::{SegmentHeader, single_frame_bytes};
use firn_format::{FormatVersion, Position};
use firn_storage::file::obsolete::ObsoleteFiles;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Mutex, MutexGuard};

use super::swap::Swap;
use crate::log::{MemtableSet, Segment};
use crate::memtable::Memtable;

/// A frame with one record of a one-byte key.
pub(crate) const FRAME_BYTES: usize = single_frame_bytes(1, 0, false);

/// `Log`, without files.
pub(crate) struct Log {
    pub(crate) active: Swap<Segment>,
    publishing: Swap<Segment>,
    watermark: AtomicU64,
    open: Mutex<VecDeque<Arc<Segment>>>,
    /// Base of the next segment.
    roll: Mutex<Position>,
}

/// A segment for `frames` frames, whose records go to `memtable`.
pub(crate) fn segment(
    base: Position,
    frames: usize,
    memtable: &Arc<Memtable>,
    obsolete: &Arc<ObsoleteFiles>,
) -> Arc<Segment> {
    let header = SegmentHeader {
        version: FormatVersion::CURRENT,
        database: 0,
        base,
        previous_end: Position(0),
        generation: 0,
        capacity: GRANULE_BYTES,
    };
    let region = Region::anonymous(frames * FRAME_BYTES).unwrap();
    let mut memtables = MemtableSet::default();
    memtables.insert(0, Arc::clone(memtable));
    Arc::new(Segment::new(header, region, None, memtables, Arc::clone(obsolete)))
}

impl Log {
    pub(crate) fn start(first: &Arc<Segment>) -> Self {
        Self {
            active: Swap::new(Arc::clone(first)),
            publishing: Swap::new(Arc::clone(first)),
            watermark: AtomicU64::new(first.position(0).0),
            open: Mutex::new(VecDeque::from([Arc::clone(first)])),
            roll: Mutex::new(first.span_end()),
        }
    }

    pub(crate) fn watermark(&self) -> Position {
        Position(self.watermark.load(Ordering::Acquire))
    }

    pub(crate) fn unpublished_from(&self) -> Position {
        self.publishing.load().base()
    }

    /// `Log::advance`.
    pub(crate) fn advance(&self) -> Position {
        loop {
            let segment = self.publishing.load();
            let end = segment.region().advance();
            let position = segment.position(end).0;
            let seen = self.watermark.fetch_max(position, Ordering::AcqRel).max(position);
            if segment.region().sealed_end() != Some(end) {
                return Position(seen);
            }
            let Some(next) = self.successor(segment.base()) else { return Position(seen) };
            self.watermark.fetch_max(next.position(0).0, Ordering::AcqRel);
            self.publishing.compare_and_swap(&segment, next);
        }
    }

    fn successor(&self, base: Position) -> Option<Arc<Segment>> {
        self.open.lock().unwrap().iter().find(|segment| segment.base() > base).cloned()
    }

    /// The end of `Log::write_group`: lets go of what is published and followed by another segment.
    pub(crate) fn forget_written(&self) {
        self.advance();
        let publishing = self.publishing.load().base();
        self.open.lock().unwrap().retain(|segment| segment.base() >= publishing);
    }

    /// `Log::lock_roll`.
    pub(crate) fn lock_roll(&self, base: Position) -> Option<MutexGuard<'_, Position>> {
        let next = self.roll.lock().unwrap();
        (self.active.load().base() == base).then_some(next)
    }

    /// `Log::settled_base`.
    pub(crate) fn settled_base(&self) -> Position {
        let _nobody_rolls = self.roll.lock().unwrap();
        self.active.load().base()
    }

    /// `Log::activate`.
    pub(crate) fn activate(&self, segment: &Arc<Segment>) {
        self.open.lock().unwrap().push_back(Arc::clone(segment));
        self.active.store(Arc::clone(segment));
    }
}
