//! From the arena to the file, one call for all threads that wait.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};

use firn_format::Position;
use firn_format::log::SEGMENT_HEADER_BYTES;

use super::order::{Log, Referred};
use super::segment::Segment;
use crate::{Error, ErrorKind, Result};

/// How far the file has the log; held by the leader of a group.
#[derive(Debug)]
pub(super) struct GroupCommit<C> {
    segment: Arc<Segment<C>>,
    /// Arena bytes of `segment` that are written.
    offset: usize,
}

impl<C> GroupCommit<C> {
    pub(super) fn new(segment: Arc<Segment<C>>) -> Self {
        Self { segment, offset: 0 }
    }
}

/// Pauses before a waiter gives its core away.
pub(super) const SPINS_MAX: u32 = 200;

impl<C, R: Referred> Log<C, R> {
    /// Returns when everything below `end` survives the process.
    ///
    /// Concurrent callers share one write. The caller that finds the group free leads it and writes
    /// the arena's own bytes up to the watermark; the others find their bytes written. Blocks for
    /// one write of the group.
    ///
    /// # Errors
    /// `Full` when the disk is full (the bytes are kept and written by a later group); any other
    /// failure of the file poisons the log.
    pub fn write_through(&self, end: Position) -> Result<()> {
        let mut spins = 0;
        loop {
            if self.written.load(Ordering::Acquire) >= end.0 {
                return Ok(());
            }
            self.check()?;
            let mut group = match self.group.try_lock() {
                Ok(group) => group,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    spins += 1;
                    if spins < SPINS_MAX {
                        std::hint::spin_loop();
                        continue;
                    }
                    self.group.lock().unwrap_or_else(PoisonError::into_inner)
                }
            };
            if self.watermark() >= end {
                self.write_group(&mut group)?;
                continue;
            }
            // An earlier frame is still being copied by another thread; it needs no lock to finish.
            drop(group);
            self.advance()?;
            spins += 1;
            if spins < SPINS_MAX { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Writes every published byte that is not written.
    fn write_group(&self, group: &mut GroupCommit<C>) -> Result<()> {
        loop {
            let region = group.segment.region();
            let published = region.published();
            if let Some(bytes) =
                region.read(group.offset, published - group.offset).filter(|bytes| !bytes.is_empty())
            {
                let file =
                    group.segment.file().ok_or_else(|| Error::bug("the active log segment has no file"))?;
                let offset = (SEGMENT_HEADER_BYTES + group.offset) as u64;
                file.write_combined(offset, bytes).map_err(|error| self.not_written(error))?;
                self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                group.offset = published;
                let position = group.segment.position(published).0;
                // A caller that finds its bytes written is answered, so readers must see them: the
                // thread that published them may not have come to say so.
                self.watermark.fetch_max(position, Ordering::AcqRel);
                self.written.fetch_max(position, Ordering::AcqRel);
            }
            if region.sealed_end() != Some(group.offset) {
                return Ok(());
            }
            let Some(next) = self.successor(group.segment.base()) else { return Ok(()) };
            if let Some(file) = group.segment.file() {
                file.hand_over().map_err(|error| self.not_written(error))?;
            }
            group.segment.cut();
            self.lock_open().retain(|open| open.base() >= next.base());
            self.written.fetch_max(next.position(0).0, Ordering::AcqRel);
            *group = GroupCommit::new(next);
        }
    }

    /// Lets go of a segment that is sealed and wholly written, so that its arena can be freed. A
    /// write does that too, but the next one may be far off. Does nothing while a writer leads the
    /// group.
    pub fn leave_written(&self) {
        let Ok(mut group) = self.group.try_lock() else { return };
        let region = group.segment.region();
        if region.sealed_end() == Some(group.offset) && region.published() == group.offset {
            // An error here is met by the next writer too, which reports it.
            let _reported_later = self.advance().and_then(|_| self.write_group(&mut group));
        }
    }

    /// The error of a writer whose bytes the backend did not take: a full disk passes, anything
    /// else ends writing.
    pub(super) fn not_written(&self, error: Error) -> Error {
        if error.kind != ErrorKind::Full {
            self.fail(&error);
        }
        error
    }
}
