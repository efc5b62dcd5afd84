//! The next segment, for a frame that the active one has no room for.

use std::sync::{Arc, MutexGuard};

use firn_engine::{ErrorKind, Result};
use firn_format::Position;
use firn_storage::file::log::{NextSegment, capacity_for};

use super::roll::{Freeze, Rolled};
use super::{CommitEnv, CommitPipeline};
use crate::error::from_storage;
use crate::log::Segment;

/// A segment that is not active yet, and the right to make it so.
pub(crate) struct LargeSegment<'l> {
    pub(crate) segment: Arc<Segment>,
    pub(crate) roll: MutexGuard<'l, NextSegment>,
}

impl CommitPipeline {
    /// Whether a frame would be refused for want of room, before anything of it is written.
    pub(super) fn is_stopped(&self) -> bool {
        let bytes = self.settings.engine.log_segment_bytes;
        // A writer was stopped for want of an ordinary segment, and there is none yet.
        self.admission.wanted() == bytes
            && (!self.has_memory_for(bytes) || self.is_disk_wanted())
            && self.is_anything_to_flush()
    }

    /// Rolls from the segment at `base`, which has no room for a frame of `bytes`, to the next one.
    ///
    /// # Errors
    /// `Retry` when the disk is full. A frame that `removes` more than it brings may also take the
    /// bytes that are kept for removals.
    pub(super) fn begin_next(
        &self,
        base: Position,
        bytes: usize,
        removes: impl Fn() -> bool,
    ) -> Result<Rolled> {
        match self.roll(base, Freeze::Full) {
            Err(error) if error.kind() == ErrorKind::Retry && removes() => {
                self.roll(base, Freeze::Removal(bytes))
            }
            // Other frames wait for a flush of the buffer, and leave it the room that it takes.
            Ok(Rolled::Stopped)
                if self.has_memory_for(self.settings.engine.log_segment_bytes) && removes() =>
            {
                self.roll(base, Freeze::Removal(bytes))
            }
            rolled => rolled,
        }
    }

    /// A segment for one frame of `bytes`, which no other thread sees; `None` if the buffer is
    /// full.
    ///
    /// # Errors
    /// As [`begin_next`](Self::begin_next).
    pub(super) fn begin_large(
        &self,
        env: &impl CommitEnv,
        bytes: usize,
        removes: bool,
    ) -> Result<Option<LargeSegment<'_>>> {
        loop {
            self.log.check().map_err(from_storage)?;
            let base = self.log.active().base();
            if self.must_write_out(base)? || removes && !self.may_remove(env, base, bytes)? {
                return Ok(None);
            }
            let Some(mut roll) = self.log.lock_roll(base).map_err(from_storage)? else { continue };
            let capacity = capacity_for(bytes);
            let wanted = if removes { 0 } else { capacity };
            let has_disk = self.has_disk_or_recycled_for(wanted);
            let may_begin = self.may_begin(bytes as u64, (wanted, has_disk), Freeze::Full);
            let Some(freeze) = may_begin else { return Ok(None) };
            if !removes {
                self.leave_room(capacity).inspect_err(|_| self.room.note_refused(capacity))?;
                self.room.note_refused(0);
            }
            let reserved = if has_disk { capacity } else { 0 };
            let segment = self.begin_segment(&mut roll, (capacity, reserved), freeze)?;
            return Ok(Some(LargeSegment { segment, roll }));
        }
    }

    /// Whether a frame that gets a segment of its own waits until the buffer has been written out;
    /// what it holds is frozen then.
    ///
    /// Such a frame may be longer than the buffer's limit. Two of them at once would exceed it
    /// twice, and so on.
    fn must_write_out(&self, base: Position) -> Result<bool> {
        if self.buffer_bytes() <= self.settings.engine.buffer_bytes_max {
            return Ok(false);
        }
        if self.is_anything_to_flush() {
            return Ok(true);
        }
        let is_empty = self.catalog.version.load().live().all(|keyspace| keyspace.memtable.is_empty());
        if !is_empty {
            self.roll(base, Freeze::All)?;
        }
        Ok(!is_empty)
    }
}
